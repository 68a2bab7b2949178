"""User mistakes with `passes quantize`: a line, the exit code, and no file written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from passwright.app.cli.entry import app
from passwright.app.quantize.excluded_names import excluded_names
from passwright.app.quantize.quantize import QuantizationOptions, model_notes, quantize_model
from passwright.core import PassesError
from passwright.core.errors import UsageError
from passwright.core.io.model_source import model_source
from rewriting import each, load
from typer.testing import CliRunner

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
BAD, USAGE = 1, 2
RNG = np.random.default_rng(0)
WEIGHTS = {"w": RNG.normal(size=(8, 8)).astype(np.float32)}
X = RNG.normal(size=(20, 8)).astype(np.float32)
LABELS = RNG.integers(0, 8, 20)
NET = "g (float[N,8] x) => (float[N,8] y) { h = MatMul(x, w) r = Relu(h) p = MatMul(r, w) y = Softmax(p) }"
CODE = """
import math
def boom(outputs, labels): raise ValueError("kaput")
def nan(outputs, labels): return math.nan
def text(outputs, labels): return "high"
def none(): yield from ()
"""
ARRAYS: Mapping[str, Mapping[str, Any]] = {
    "good": {"x": X},
    "labelled": {"x": X, "labels": LABELS},
    "nan": {"x": np.where(np.arange(20)[:, None] == 3, np.float32("nan"), X)},
    "empty": {"x": X[:0]},
    "wrong_name": {"z": X},
    "wrong_type": {"x": X.astype(np.float64)},
    "wrong_shape": {"x": X[:, :4]},
    "no_labels": {"x": X},
    "few_labels": {"x": X, "labels": LABELS[:19]},
    "one_row": {"x": X[:1], "labels": LABELS[:1]},
    "text_labels": {"x": X, "labels": LABELS.astype(str)},
}
OPTIONS = ["-o", "o.onnx", "--trials", "1", "--time", "1", "--min-time", "0.01"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantize")
    model = load(NET, 17, WEIGHTS)
    onnx.save(model, folder / "m.onnx")
    onnx.save(model, folder / "e.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    for name, arrays in ARRAYS.items():
        np.savez(folder / f"{name}.npz", **arrays)
    (folder / "code.py").write_text(CODE)
    (folder / "garbage").write_text("garbage\n")
    (folder / "folder").mkdir()
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--budget 1", USAGE, "--budget 1: not of the form 1% (relative) or 0.5pt (absolute)"),
        ("--budget=-1%", USAGE, "--budget -1%: not of the form"),
        ("--budget nan%", USAGE, "--budget nan%: not of the form"),
        ("--budget 100%", USAGE, "--budget 100%: it allows any loss; give less than 100%"),
        ("--scheme statik", USAGE, "--scheme statik: choose from auto, static, "),
        ("--scheme static,", USAGE, "--scheme 'static,': choose from auto, static, "),
        ("--scheme static,auto", USAGE, "--scheme static,auto: auto stands for all schemes; give it alone"),
        ("--format onnx", USAGE, "--format onnx: choose from qdq, qoperator"),
        ("--calibrate max", USAGE, "--calibrate max: choose from minmax, "),
        ("--scheme half --calibrate mse", USAGE, "--calibrate mse: it needs the scheme static, which --scheme does"),
        ("--scheme half --format qoperator", USAGE, "--format qoperator: it needs the scheme static, which --scheme"),
        ("--target z80", USAGE, "--target z80: no target has that name"),
        ("--goal speed", USAGE, "--goal speed: choose from latency, size, memory\n"),
        ("--goal openvino", USAGE, "--goal openvino: choose from latency, size, memory; the target"),
        ("--leave Convv", USAGE, "--leave Convv: the model has no such value or operator"),
        ("--metric code.py:nan", USAGE, "--metric code.py:nan needs a labelled set: give --labelled"),
        ("--int8-cache", USAGE, "--int8-cache needs texts to calibrate with: give --labelled or --data"),
        ("--int8-cache --data good.npz", USAGE, "--int8-cache: the optimized model has no Attention"),
        ("--data missing.npz", BAD, "missing.npz does not exist"),
        ("--data garbage", BAD, "garbage is not an .npz file of arrays"),
        ("--data folder", BAD, "folder holds no input_*.pb"),
        ("--data nan.npz --scheme static --time 60", BAD, "x is NaN in sample 1; remove the sample or repair"),
        ("--data empty.npz", BAD, "empty.npz: x has no rows"),
        ("--data wrong_name.npz", BAD, "the given (wrong_name.npz) inputs name z, which is not an input"),
        ("--data wrong_type.npz", BAD, "x of the given (wrong_type.npz) inputs is float64; the model needs float32"),
        ("--data wrong_shape.npz", BAD, "x of the given (wrong_shape.npz: row 0) inputs has shape [1,4]; the model"),
        ("--data code.py:none", BAD, "code.py:none: there are no samples"),
        ("--data code.py:other", USAGE, "--data code.py:other: code.py has no function other"),
        ("--labelled no_labels.npz", BAD, "no_labels.npz: it has no array labels; there are only inputs"),
        ("--labelled few_labels.npz", BAD, "few_labels.npz: x has 20 rows, the labels have 19"),
        ("--labelled one_row.npz", BAD, "one_row.npz: only one row; the search and the report need at least one each"),
        ("--labelled text_labels.npz", BAD, "y names classes by numbers, the labels by strings: give a --metric"),
        ("--labelled labelled.npz --metric code.py:boom", BAD, "code.py:boom: ValueError: kaput"),
        ("--labelled labelled.npz --metric code.py:nan", BAD, "--metric code.py:nan: it returned nan, which is not a"),
        ("--labelled labelled.npz --metric code.py:text", BAD, "code.py:text: ValueError: could not convert"),
        ("--labelled labelled.npz --metric top3", USAGE, "--metric top3: choose from top1, top5, r2, snr, tokens, "),
        ("--metric wer", USAGE, "--metric wer needs a labelled set: give --labelled"),
        ("--data good.npz -o good.npz", BAD, "the model would overwrite good.npz, which is read"),
        ("--data code.py:none --json code.py", BAD, "the report would overwrite code.py, which is read"),
        ("--journal m.onnx", BAD, "the journal would overwrite m.onnx, which is read"),
        ("--journal o.onnx", BAD, "o.onnx cannot hold both the model and the journal"),
        ("--journal folder", BAD, "folder is a folder"),
        ("--journal nowhere/j", BAD, "cannot write to nowhere/j: No such file or directory"),
        ("--journal garbage", BAD, "garbage is not a journal of `passes quantize`; name another file"),
    ],
)  # fmt: skip
def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, code: int, message: str) -> None:
    monkeypatch.chdir(folder)
    before = snapshot(folder)
    result = CliRunner().invoke(app, ["quantize", "m.onnx", *OPTIONS, *arguments.split()])
    assert result.exit_code == code, result.output + repr(result.exception)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1
    assert snapshot(folder) == before


def test_external_weights_are_not_overwritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(PassesError, match=r"^the model would overwrite .*w\.bin, which is read; choose another name$"):
        quantize_model("e.onnx", QuantizationOptions(output="w.bin"))


@each(
    ("changes", "message"),
    [
        ({"trials": 0}, "trials 0: it must be 1 or more"),
        ({"time": float("nan")}, "time nan: it must be a number"),
        ({"threads": -1}, "threads -1: it must be 0 or more"),
        ({"min_time": 0}, "min_time 0: it must be 0.01 or more"),
        ({"seed": -1}, "seed -1: it must be 0 or more"),
        ({"batch": ()}, "batch (): not of the form 1,32, with sizes of at least 1"),
        ({"batch": (0, 1)}, "batch (0, 1): not of the form 1,32, with sizes of at least 1"),
    ],
)
def test_numbers_from_python(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as e:
        QuantizationOptions(**changes)
    assert str(e.value) == message


PARTS = """g (float[N,4,8,8] x) => (float[N,4,8,8] y) {
    i = Identity(x) c = Conv(i, k) n = BatchNormalization(c, o, z, z, o) j = Identity(n) r = Relu(j)
    v = Sqrt(s) a = Mul(r, v) d = Conv(a, k) y = Relu(d) }"""
PART_WEIGHTS = {"k": RNG.normal(size=(4, 4, 1, 1)).astype(np.float32), "o": np.ones(4, np.float32),
                "z": np.zeros(4, np.float32), "s": np.array(4, np.float32)}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[frozenset[str], list[str]]]:
    """The names to leave in float in the optimized form of a model, by a name of the original."""
    folder = tmp_path_factory.mktemp("names")
    model = load(PARTS, 17, PART_WEIGHTS)
    optimize(model, "ort", map=folder / "names.json").save(folder / "float.onnx")
    original = model_source(model, inline=True).load().graph
    floats = model_source(folder / "float.onnx", inline=True).load().graph
    return lambda name: excluded_names([name], original, floats, folder / "names.json")


@pytest.mark.parametrize(
    ("name", "left"),
    [("d", {"d"}), ("Relu", {"Relu"}), ("j", {"n"}), ("BatchNormalization", {"n"}), ("c", {"n"}), ("i", set[str]()),
     ("v", set[str]())],
)  # fmt: skip
def test_names_that_optimization_removed(
    prepared: Callable[[str], tuple[frozenset[str], list[str]]], name: str, left: set[str]
) -> None:
    note = f"--leave {name}: the optimized float model computes no part of it, so it is not quantized"
    assert prepared(name) == (left, [] if left else [note])


QUANTIZED = """g (float[N,8] x) => (float[N,8] y) {
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) h = MatMul(d, w) hq = QuantizeLinear(h, s, z)
    i = QLinearMatMul(hq, s, z, u, s, z, s, z) f = DequantizeLinear(i, s, z) r = Relu(f) y = MatMul(r, w) }"""
BYTES = {"s": np.array(0.1, np.float32), "z": np.array(128, np.uint8), "u": np.full((8, 8), 130, np.uint8)}
HALF = "g (float16[N,8] x) => (float16[N,8] y) { y = MatMul(x, w) }"


@pytest.mark.parametrize(
    ("model", "notes"),
    [
        (load(NET, 17, WEIGHTS), []),
        (
            load(QUANTIZED, 17, WEIGHTS | BYTES),
            ["3 ops of the model are quantized already: only the others are changed"],
        ),
        (
            load(HALF, 17, {"w": WEIGHTS["w"].astype(np.float16)}),
            ["1 op compute in float16: schemes change only ops of float32"],
        ),
    ],
)
def test_notes_of_compressed_models(model: onnx.ModelProto, notes: list[str]) -> None:
    assert model_notes(model_source(model, inline=True).load().graph) == notes


RUN = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from passwright.app.cli.entry import main
sys.argv[0] = "passes"
main()"""  # processes that a background job starts inherit that SIGINT is ignored


@pytest.mark.slow  # test_signals.py sends signals to other commands
def test_sigterm_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, "quantize", "m.onnx", *OPTIONS, "--data", "good.npz"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    try:
        end, below = time.monotonic() + 300, list[psutil.Process]()
        while not below or not list(tmp_path.glob("*/float.onnx")):
            assert time.monotonic() < end
            assert process.poll() is None
            below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert {p.name for p in tmp_path.iterdir()} <= {".ses"}  # which onnxruntime writes
        # One that was being started ends by itself, once its input is closed.
        assert not psutil.wait_procs(below, timeout=30)[1]
        assert not (folder / "o.onnx").exists()
    finally:
        process.kill()
        process.wait()
