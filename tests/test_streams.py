"""`passes run` between standard input and output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.app.cli.outputs import Outputs
from passwright.app.models import single_run
from passwright.app.models.display import Display
from passwright.app.models.model_files import ModelJob
from passwright.app.optimize.optimize import Result
from passwright.app.optimize.run_options import RunOptions
from passwright.core.errors import UsageError
from rewriting import cases, load, op_types

if TYPE_CHECKING:
    from click.testing import Result as Outcome

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
COMMAND = str(Path(sys.executable).with_name("passes"))
OK, BAD, USAGE, WRONG = range(4)
MODEL = load(
    "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Mul(a, w) }", weights={"w": np.full(4, 3, np.float32)}
).SerializeToString()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, model: bytes = MODEL, code: int = OK) -> Outcome:
    return invoke("run", *arguments, input=model, code=code)


def require_error(*arguments: str, model: bytes = MODEL, code: int = BAD) -> str:
    result = run(*arguments, model=model, code=code)
    assert result.stdout_bytes == b""
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("arguments", [["-", "-"], ["-", "-o", "-"]])
def test_model_passes_through(folder: Path, arguments: list[str]) -> None:
    result = run(*arguments)
    assert op_types(onnx.load_from_string(result.stdout_bytes)) == ["Mul"]
    lines = result.stderr.splitlines()
    assert lines[0].startswith("standard input: 2 -> 1 nodes")
    assert lines[2] == "written to standard output"
    (folder / "m.onnx").write_bytes(MODEL)
    run("m.onnx", "-o", "o.onnx")
    assert (folder / "o.onnx").read_bytes() == result.stdout_bytes


def test_one_stream(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(MODEL)
    written = run("m.onnx", "-", "-q", "--no-verify")
    assert written.stderr == ""
    assert run("-", "o.onnx", "--no-verify").stdout.splitlines()[-1] == "written to o.onnx"
    assert (folder / "o.onnx").read_bytes() == written.stdout_bytes
    assert run("-", "--no-verify").stdout.splitlines()[-1] == "not written: give -o FILE to keep it"
    assert "nothing written: this was a check" in run("-", "--check", "--no-verify", code=WRONG).stdout
    assert "nothing written" in run("-", "--dry-run", "--no-verify").stdout
    run("-", "-", "--json", "r.json", "--no-verify")
    report = json.loads((folder / "r.json").read_text())
    assert (report["source"], report["written_to"]) == ("standard input", None)


def test_text_of_rules_is_no_part_of_a_model(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "from passwright.core import EXACT, rule\nprint('loading')\n"
        "@rule(lambda g, x: g.Abs(x), contract=EXACT)\n"
        'def loud(g, x):\n    """Abs(x) => x"""\n    return x\n'
    )
    result = run("-", "-", "--plugin", "loud.py", "--no-verify")
    assert op_types(onnx.load_from_string(result.stdout_bytes)) == ["Mul"]
    assert "loading" in result.stderr


@cases(
    ("model", "message"),
    {
        "empty": (b"", "standard input is empty"),
        "cut": (MODEL[:60], "standard input: the protobuf message is truncated"),
        "text": (b"no model at all", "standard input: not an ONNX model"),
    },
)
def test_bad_input(folder: Path, model: bytes, message: str) -> None:
    assert require_error("-", "-", model=model).startswith(f"error: {message}")
    assert list(folder.iterdir()) == []


def test_external_data_are_not_in_a_stream(folder: Path) -> None:
    onnx.save(onnx.load_from_string(MODEL), "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    message = "standard input: w: its external data 'w.bin' is in a file; the model must also be a file"
    assert require_error("-", "-", model=(folder / "m.onnx").read_bytes()) == f"error: {message}\n"
    inside = onnx.load_from_string(run("m.onnx", "-").stdout_bytes)  # of a file they are written into the model
    assert [t.data_location for t in inside.graph.initializer] == [onnx.TensorProto.DEFAULT]


def test_models_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_run, "MAX_MESSAGE_BYTES", len(MODEL) - 1)
    assert "a model over 2 GB does not fit in one message" in require_error("-", "-")
    monkeypatch.setattr(single_run, "MAX_MESSAGE_BYTES", len(MODEL))
    run("-", "-")
    monkeypatch.setattr("passwright.core.io.model.MAX_MESSAGE_BYTES", 10)
    assert "the model is over 2 GB; it can only be written with external data" in require_error("-", "-", "--no-verify")


@cases(
    ("arguments", "message"),
    {
        "json": (["-", "-", "--json", "-"], "the model goes to standard output"),
        "data": (["-", "-", "--external-data", "always"], "external data cannot go to standard output"),
        "in place": (["-", "--in-place"], "- (standard input) must be"),
        "folder": (["-", "--output-dir", "out"], "- (standard input) must be"),
    },
)
def test_refused_streams(folder: Path, arguments: list[str], message: str) -> None:
    assert require_error(*arguments, code=USAGE).startswith(f"error: {message}")
    assert list(folder.iterdir()) == []


def test_terminal_gets_no_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Screen())
    with pytest.raises(UsageError, match="standard output is a terminal"):
        single_run.run_single(ModelJob(folder / "m.onnx", Path("-")), RunOptions(), Display(Outputs()))


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Result, "write", fail)
    monkeypatch.setattr("passwright.app.cli.report_output.discard_standard_output", lambda: None)
    assert "cannot write to standard output: No space left on device" in require_error("-", "-")


def test_pipes_of_processes(folder: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [COMMAND, "run", "-", "-", "--no-verify"], input=MODEL, capture_output=True, check=True, env=environment
    )
    assert op_types(onnx.load_from_string(done.stdout)) == ["Mul"]
    assert b"\x1b" not in done.stderr
    assert list(folder.iterdir()) == []
