"""Several samples of inputs given by the user."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import numpy_helper
from passwright.app.cli.entry import app
from passwright.app.measure.feeds import make_feeds
from passwright.app.optimize.optimize import optimize
from passwright.app.registry.python_data import with_python_data
from passwright.core import from_onnx
from passwright.core.errors import ModelError
from passwright.core.processes.watchdog import time_limit
from passwright.core.verify import given_inputs
from passwright.core.verify.given_inputs import member_names, read_inputs, read_samples
from passwright.core.verify.input_specs import InputSpec, input_specs
from passwright.core.verify.kept_values import FileValues
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from rewriting import cases, each, load
from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]
TEXT = "g (float[N,3] x, int64[1] i) => (float[N,k] y) { a = Relu(x) b = Identity(a) y = Gather<axis=1>(b, i) }"
READER = """
import numpy as np
def reader():
    for n in range(3):
        yield {"x": np.full((n + 1, 3), n, np.float32), "i": np.array([n])}
class Reader:
    left = 3
    def get_next(self):
        self.left -= 1
        n = 2 - self.left
        return {"x": np.full((n + 1, 3), n, np.float32), "i": np.array([n])} if n < 3 else None
def broken():
    yield from list(reader())[:1]
    raise ValueError("no more files")
"""


def inputs_of(text: str) -> list[InputSpec]:
    return input_specs(from_onnx(load(text)))


def samples() -> list[dict[str, Array]]:
    return [{"x": np.full((n + 1, 3), n, np.float32), "i": np.array([n])} for n in range(3)]


def write_test_data(folder: Path, sample: dict[str, Array]) -> None:
    folder.mkdir(parents=True)
    for n, array in enumerate(sample.values()):
        (folder / f"input_{n}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Path:
    """The same three samples in all forms."""
    np.savez(tmp_path / "all.npz", **{f"s{n}/{k}": v for n, s in enumerate(samples()) for k, v in s.items()})
    (tmp_path / "each").mkdir()
    (tmp_path / "data.py").write_text(READER)
    for n, sample in enumerate(samples()):
        write_test_data(tmp_path / "cases" / f"test_data_set_{9 + n}", sample)  # 10 comes after 9
        np.savez(tmp_path / "each" / f"{n}.npz", **sample)
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    return tmp_path


@cases(
    ("given", "labels"),
    {
        ".npz with names of samples": ("all.npz", ["all.npz: s0", "all.npz: s1", "all.npz: s2"]),
        "folder of .npz": ("each", ["0.npz", "1.npz", "2.npz"]),
        "test data": ("cases", ["test_data_set_9", "test_data_set_10", "test_data_set_11"]),
        "several": (
            ["cases/test_data_set_9", "each/1.npz", "each/2.npz"],
            ["{}/cases/test_data_set_9", "{}/each/1.npz", "{}/each/2.npz"],
        ),
        "generator": ("data.py", [f"data.py:reader: sample {n}" for n in (1, 2, 3)]),
        "reader": ("data.py:Reader", [f"data.py:Reader: sample {n}" for n in (1, 2, 3)]),
    },
)
def test_sources(folder: Path, given: str | list[str], labels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    named = str(folder / given) if isinstance(given, str) else [str(folder / g) for g in given]
    for kept in (given_inputs.KEPT_BYTES, 0):
        monkeypatch.setattr(given_inputs, "KEPT_BYTES", kept)
        found, notes = read_inputs(with_python_data(named, "--inputs"), inputs_of(TEXT))
        assert [f.kind for f in found] == [f"given ({label.format(folder)})" for label in labels]
        assert {isinstance(f.feeds, FileValues) for f in found} == {not kept}
        for input_set, sample in zip(found, samples(), strict=True):
            assert input_set.feeds.keys() == sample.keys()
            assert all(np.array_equal(input_set.feeds[name], sample[name]) for name in sample)
        assert notes == ()


@each(
    ("inputs", "members", "expected"),
    {
        "no names of samples": ("x i", "x i", {"": "x i"}),
        "two samples": ("x i", "a/x a/i b/x b/i", {"a": "a/x a/i", "b": "b/x b/i"}),
        "one without a name": ("x i", "x i a/x a/i", {"": "x i", "a": "a/x a/i"}),
        "name with a slash": ("x i", "2024/1/x 2024/1/i", {"2024/1": "2024/1/x 2024/1/i"}),
        "inputs with slashes": ("e/x e/i", "e/x e/i", {"": "e/x e/i"}),
        "alike names": ("e/x e/i", "e/e/x e/e/i e/x e/i", {"e": "e/e/x e/e/i", "": "e/x e/i"}),
        "input that ends in another": ("x a/x", "s/x s/a/x", {"s": "s/x s/a/x"}),
        "two splits, one complete": ("x a/x", "s/a/x s/a/a/x", {"s/a": "s/a/x s/a/a/x"}),
        "one lacks an input": ("x i", "a/x a/i b/x", {"a": "a/x a/i", "b": "b/x"}),
        "unknown input": ("x i", "x i z", {"": "x i z"}),
    },
)
def test_names_of_samples(inputs: str, members: str, expected: dict[str, str]) -> None:
    names = inputs.split()
    declared = ", ".join(f'float[1] "{n}"' for n in names).replace('"', "")
    model = load(
        f"g ({declared.replace('/', '_')}) => (float[1] y) {{ y = Sum({', '.join(names).replace('/', '_')}) }}"
    )
    for value, name in zip(model.graph.input, names, strict=True):
        value.name = name
    model.graph.node[0].input[:] = names
    found = member_names(members.split(), input_specs(from_onnx(model)))
    assert {sample: " ".join(m.values()) for sample, m in found.items()} == expected


@cases(
    ("change", "message"),
    {
        "missing": ({"s1/x": None}, "the given (all.npz: s1) inputs lack x"),
        "unknown": (
            {"s1/z": np.zeros(1)},
            "the given (all.npz) inputs name s1/z, which is not an input of the model (x, i)",
        ),
        "shape": (
            {"s2/x": np.zeros((2, 4), np.float32)},
            "x of the given (all.npz: s2) inputs has shape [2,4]; the model needs [N,3]",
        ),
        "type": (
            {"s2/i": np.zeros(1, np.int32)},
            "i of the given (all.npz: s2) inputs is int32; the model needs int64",
        ),
    },
)
def test_samples_that_do_not_fit_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    arrays = {f"s{n}/{k}": v for n, s in enumerate(samples()) for k, v in s.items()} | change
    np.savez(tmp_path / "all.npz", **{k: v for k, v in arrays.items() if v is not None})
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["run", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "all.npz")])
    assert (result.exit_code, result.stderr) == (1, f"error: {message}\n")


@cases(
    ("given", "message"),
    {
        "function that raises": ("data.py:broken", "data.py:broken: ValueError: no more files"),
        "no such function": ("data.py:other", "data.py has no function other"),
        "no such file": ("none", "none does not exist"),
        "empty folder": ("empty", "empty holds no input_*.pb, no test_data_set_* and no .npz"),
    },
)
def test_sources_that_cannot_be_read(folder: Path, given: str, message: str) -> None:
    (folder / "empty").mkdir()
    result = CliRunner().invoke(app, ["run", str(folder / "m.onnx"), "--inputs", str(folder / given)])
    assert result.exit_code in {1, 2}
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith(f"{message}\n")


ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)
BATCHES_OF_2 = [f"rows {n} to {n + 1}" for n in range(0, 10, 2)]
LAST_ROWS = "the last 2 of 10 rows were skipped: they do not fill a batch of 4"


@cases(
    ("inputs", "arrays", "labels", "notes"),
    {
        "batch of 1": ("float[1,2] x", {"x": ROWS}, [f"row {n}" for n in range(10)], ()),
        "batch of 4": ("float[4,2] x", {"x": ROWS}, ["rows 0 to 3", "rows 4 to 7"], (LAST_ROWS,)),
        "one batch": ("float[10,2] x", {"x": ROWS}, [""], ()),
        "symbolic batch": ("float[N,2] x", {"x": ROWS}, [""], ()),
        "shared input": ("float[5,2] x, float[1] z", {"x": ROWS, "z": ROWS[0, :1]}, ["rows 0 to 4", "rows 5 to 9"], ()),
        "other fixed dims": ("float[10,1] z, float[2,2] x", {"x": ROWS, "z": ROWS[:, :1]}, BATCHES_OF_2, ()),
    },
)
@pytest.mark.parametrize("kept", [given_inputs.KEPT_BYTES, 0], ids=["in memory", "in files"])
def test_rows_fill_fixed_batches(
    tmp_path: Path,
    inputs: str,
    arrays: dict[str, Array],
    labels: list[str],
    notes: tuple[str, ...],
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(given_inputs, "KEPT_BYTES", kept)
    np.savez(tmp_path / "t.npz", **arrays)
    specs = inputs_of(f"g ({inputs}) => (float[k,2] y) {{ y = Neg(x) }}")
    for given, prefix in ((arrays, ""), (tmp_path / "t.npz", "t.npz")):
        found, noted = read_inputs(given, specs)
        names = [": ".join(filter(None, (prefix, label))) for label in labels]
        assert [f.kind for f in found] == [f"given ({name})" if name else "given" for name in names]
        assert noted == tuple(f"{prefix}: {n}" if prefix else n for n in notes)
        rows = np.concatenate([input_set.feeds["x"] for input_set in found])
        assert np.array_equal(rows, ROWS[: len(rows)])
        assert len(rows) + 2 * len(notes) == len(ROWS)


def test_rows_are_chosen_at_random() -> None:
    found = read_samples({"x": ROWS}, inputs_of("g (float[1,2] x) => (float[1,2] y) { y = Neg(x) }"), limit=4)
    assert found.notes == ("of 10 batches of rows, 4 were chosen at random",)
    assert len(found.samples) == 4


@each(
    ("arrays", "message"),
    {
        "too few": ({"x": ROWS[:3]}, "x of the given inputs has shape [3,2]; the model needs [4,2]"),
        "rank": ({"x": ROWS[0]}, "x of the given inputs has shape [2]; the model needs [4,2]"),
        "other dim": ({"x": ROWS.T}, "x of the given inputs has shape [2,10]; the model needs [4,2]"),
        "other dim of rows": ({"x": ROWS.reshape(5, 4)}, "x of the given (rows 0 to 3) inputs has shape [4,4]"),
        "counts": ({"x": ROWS, "z": np.zeros((9, 1), np.float32)}, "the given inputs: 10 rows of x and 9 rows of z"),
    },
)
def test_rows_that_do_not_fit(arrays: dict[str, Array], message: str) -> None:
    inputs = inputs_of("g (float[4,2] x, float[4,1] z) => (float[4,2] y) { y = Mul(x, z) }")
    with pytest.raises(ModelError, match=f"^{re.escape(message)}"):
        read_inputs({"z": ROWS[:4, :1]} | arrays, inputs)


WRONG_RULE = '''
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g, x):
    """Relu(x) => x"""
    return x
'''


@pytest.fixture(name="signs")
def make_signs(tmp_path: Path) -> Path:
    """A model with a Relu, one without, a rule that drops it, and samples of which one shows that."""
    onnx.save(load("g (float[N,3] x) => (float[N,3] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    onnx.save(load("g (float[N,3] x) => (float[N,3] y) { y = Identity(x) }"), tmp_path / "wrong.onnx")
    (tmp_path / "rule.py").write_text(WRONG_RULE)
    values = {"first": [1, 2, 3], "second": [1, -2, 3], "third": [0, 0, 0]}
    np.savez(tmp_path / "in.npz", **{f"{n}/x": np.array([v], np.float32) for n, v in values.items()})
    return tmp_path


@pytest.mark.parametrize("kept", [given_inputs.KEPT_BYTES, 0], ids=["in memory", "in files"])
def test_the_sample_that_differs_is_named(signs: Path, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_inputs, "KEPT_BYTES", kept)
    model, wrong, rule, data = (str(signs / n) for n in ("m.onnx", "wrong.onnx", "rule.py", "in.npz"))
    for command, code in (
        (["run", model, "--strict", "--plugin", rule, "--inputs", data], 3),
        (["verify", model, wrong, "--inputs", data], 3),
        (["bisect", model, "--plugin", rule, "--inputs", data], 3),
        (["run", model, "--plugin", rule, "--inputs", data], 0),
    ):
        result = invoke(*command, code=code)
        assert "on given (in.npz: second) inputs" in result.output
    assert "verified: bit-identical, on 3 given samples\n" in result.stdout


def test_counts_and_names_are_in_the_report(signs: Path) -> None:
    arguments = [
        "verify",
        str(signs / "m.onnx"),
        str(signs / "m.onnx"),
        "--inputs",
        str(signs / "in.npz"),
        "--json",
        "-",
    ]
    verdict = json.loads(CliRunner().invoke(app, arguments).stdout)["verdict"]
    assert verdict["input_sets"] == [f"given (in.npz: {n}) inputs" for n in ("first", "second", "third")]


def test_optimize_takes_any_source(folder: Path) -> None:
    for given, count in (
        (samples(), 3),
        (iter(samples()), 3),
        ([folder / "each" / "0.npz", str(folder / "cases")], 4),
        (str(folder / "data.py"), 3),
    ):
        report = optimize(folder / "m.onnx", inputs=given).report
        assert report.verification is not None
        assert len(report.verification.input_sets) == count


def endless(pause: float = 0.0) -> Iterator[dict[str, Array]]:
    while True:
        sleep(pause)
        yield samples()[0]


def test_sources_without_an_end_are_cut() -> None:
    found = read_samples(endless(), inputs_of(TEXT), limit=5)
    assert len(found.samples) == 5
    assert found.notes == ("only the first 5 samples of the given inputs were read",)
    with time_limit(2.0, lambda: "it"):
        found = read_samples(endless(0.05), inputs_of(TEXT))
    assert 1 <= len(found.samples) <= 20
    assert found.notes == (
        f"of the given inputs, {len(found.samples)} samples were read in time; the others were skipped",
    )


def test_samples_are_left_out_without_time_for_them() -> None:
    model = load(TEXT)
    spec = VerificationSpec.of(from_onnx(model), samples())
    oracle = Oracle(model.SerializeToString(), spec, deadline=monotonic())
    assert len(oracle.runs) == 1
    assert oracle.compare(model.SerializeToString()).notes == ("2 of 3 samples were skipped: runs took 0 s",)


def test_one_sample_is_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_inputs, "KEPT_BYTES", 0)
    read: list[str] = []
    archive = given_inputs.open_arrays
    monkeypatch.setattr(given_inputs, "open_arrays", lambda path: read.append(path.name) or archive(path))
    found, _ = read_inputs(str(folder / "each"), inputs_of(TEXT))
    read.clear()
    for input_set in found:
        assert [input_set.feeds[name].dtype for name in ("x", "i", "x")] == [np.float32, np.int64, np.float32]
    assert read == ["0.npz", "1.npz", "2.npz"]  # once for all inputs of a sample
    del input_set
    (folder / "each" / "1.npz").unlink()
    with pytest.raises(ModelError, match=r"1\.npz does not exist"):
        _ = found[1].feeds["x"]


def test_first_sample_is_measured(folder: Path) -> None:
    feeds = make_feeds(folder / "m.onnx", str(folder / "data.py"), (1,))
    assert feeds.note == "measured on the first of 3 samples, data.py:reader: sample 1"
    assert np.array_equal(feeds.by_batch[1]["x"], samples()[0]["x"])
