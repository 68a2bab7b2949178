"""Folders that show a wrong change: small, and their own command fails."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core.errors import ModelError
from passwright.passes import optimize
from passwright.passes.app.cli import app
from rewriting import load, op_types
from typer.testing import CliRunner, Result

RULES = '''
from dataclasses import dataclass

import numpy as np
from passwright.core import EXACT, Tensor, rule


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g, x):
    """Relu(x) => x"""
    return x


@rule(lambda g, x, y: g.Mul(x, y), contract=EXACT)
def raises(g, x, y):
    """Mul(x, y) => an exception"""
    return y.const[7]


@dataclass(frozen=True)
class FoldsWrongly:
    """Add of constants, one too much."""

    name: str = "folds-wrongly"

    def run(self, graph, ledger):
        count = 0
        for op in graph.ops("Add"):
            a, b = op.inputs
            if a.is_const and b.is_const and ledger.permits(self.name, op.outputs[0].name, (op,)):
                graph.make_constant(op.outputs[0], Tensor.from_array(a.const + b.const + 1))
                graph.prune([op])
                count += 1
        return count


@dataclass(frozen=True)
class Unasked:
    """Swaps what is subtracted, and says nothing."""

    name: str = "unasked"

    def run(self, graph, ledger):
        for op in graph.ops("Sub"):
            if op.inputs[0] in graph.inputs:
                graph.set_inputs(op, op.inputs[::-1])
        return 0


folds_wrongly = FoldsWrongly()
unasked = Unasked()
'''


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "my_rules.py").write_text(RULES)
    return tmp_path / "my_rules.py"


def repros(
    model: onnx.ModelProto | Path, rules: Path, to: Path, only: str, **options: Any
) -> list[tuple[str, list[str], list[str]]]:
    """Who was wrong, and the ops of the models that show it."""
    report = optimize(model, plugins=[rules], only=[only], repro_to=to, **options).report
    found: list[tuple[str, list[str], list[str]]] = []
    for entry in report.quarantined:
        after = Path(entry.repro) / "after.onnx"
        ops = op_types(onnx.load(after)) if after.exists() else []
        found.append((entry.place, op_types(onnx.load(Path(entry.repro) / "before.onnx")), ops))
        shown = shows(Path(entry.repro))
        assert shown.exit_code == 3, shown.output
    return found


def shows(folder: Path) -> Result:
    """What the two lines of the README come to."""
    text = (folder / "README.md").read_text()
    lines = re.search(r"\n    cd (.*)\n    passes (.*)\n", text)
    assert lines
    here = Path.cwd()
    os.chdir(shlex.split(lines[1])[0])
    try:
        return CliRunner().invoke(app, shlex.split(lines[2]))
    finally:
        os.chdir(here)


LONG = "a = Exp(x) b = Softmax(a) c = Sub(x, b) d = MatMul(c, w) e = Relu(d) f = Erf(e) h = Softmax(f)"
W = {"w": np.eye(4, dtype=np.float32)}
CONSTANTS = """g (float[4] x) => (float[4] y) <float[4] u = {1,2,3,4}, float[4] v = {1,1,1,1}> {
    c = Add(u, v) y = Mul(x, c)
}"""
LOOP = """g (float[2,4] x, int64 n) => (float[2,4] y) <bool t = {1}> {
    h = Sin(x)
    y = Loop(n, t, h) <body = b (int64 i, bool c, float[2,4] v) => (bool d, float[2,4] o) {
        d = Identity(c) s = Sub(v, x) r = Relu(s) o = Sub(r, x)
    }>
}"""


@pytest.mark.parametrize(
    ("text", "only", "weights", "expected"),
    [
        pytest.param(
            f"g (float[N,4] x) => (float[N,4] y) {{ {LONG} y = Exp(h) }}",
            "drop_relu",
            W,
            [("e", ["Relu", "Erf"], ["Erf"])],
            id="in the middle",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,4] y) { a = Sin(x) y = Relu(a) }",
            "drop_relu",
            {},
            [("y", ["Sin", "Relu"], ["Sin"])],
            id="an output",
        ),
        pytest.param(
            "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }",
            "drop_relu",
            {},
            [("y", ["Relu"], ["Identity"])],
            id="input to output",
        ),
        pytest.param(
            CONSTANTS,
            "folds-wrongly",
            {},
            [("c", ["Add"], ["Identity"])],
            id="a constant",
        ),
        pytest.param(LOOP, "drop_relu", {}, [("r", ["Loop"], ["Loop"])], id="in a body"),
        pytest.param(
            f"g (float[N,4] x) => (float[N,4] y) {{ {LONG} y = Exp(h) }}",
            "unasked",
            W,
            [("", ["Sub"], ["Sub"])],
            id="a pass that does not ask",
        ),
        pytest.param(
            f"g (float[N,4] x) => (float[N,4] y) {{ {LONG} y = Mul(h, w2) }}",
            "raises",
            {**W, "w2": np.ones(4, np.float32)},
            [("y", ["Mul"], [])],
            id="an exception",
        ),
        pytest.param(
            "g (float16[N,4] file) => (float16[N,4] y) { a = Sin(file) b = Relu(a) y = Neg(b) }",
            "drop_relu",
            {},
            [("b", ["Relu", "Neg"], ["Neg"])],
            id="an input called file, of 16 bits",
        ),
    ],
)
def test_small_models_that_show_it(
    tmp_path: Path,
    rules: Path,
    text: str,
    only: str,
    weights: Mapping[str, Any],
    expected: list[tuple[str, list[str], list[str]]],
) -> None:
    assert repros(load(text, weights=weights), rules, tmp_path / "r", only) == expected


def test_what_is_in_a_folder(tmp_path: Path, rules: Path) -> None:
    model = load(f"g (float[N,4] x) => (float[N,4] y) {{ {LONG} y = Exp(h) }}", weights=W)
    repros(model, rules, tmp_path / "r", "drop_relu")
    (folder,) = (tmp_path / "r").iterdir()
    assert folder.name == "01-drop_relu-e"
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "after.onnx", "before.onnx", "inputs.npz"]
    text = (folder / "README.md").read_text()
    assert text.startswith("# my-rules/drop_relu #0 at e\n\nwrong: y: ")
    assert "- Relu e\n" in text
    assert f"- onnx {onnx.__version__}\n" in text
    with np.load(folder / "inputs.npz") as arrays:
        assert list(arrays.files) == ["d"]


def test_folders_are_never_replaced(tmp_path: Path, rules: Path) -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    for _ in range(2):
        repros(model, rules, tmp_path / "r", "drop_relu")
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["01-drop_relu-y", "02-drop_relu-y"]


def test_names_that_are_no_file_names(tmp_path: Path, rules: Path) -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { a = Sin(x) b = Relu(a) y = Neg(b) }")
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["/a/../b c\n" if n == "b" else n for n in names]
    optimize(model, plugins=[rules], only=["drop_relu"], repro_to=tmp_path / "r")
    (folder,) = (tmp_path / "r").iterdir()
    assert folder.name == "01-drop_relu-_a_.._b_c_"


def test_strict_leaves_a_repro_too(tmp_path: Path, rules: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"), model)
    arguments = ["run", model, "--strict", "--plugin", rules, "--repro", tmp_path / "r", "-o", tmp_path / "o.onnx"]
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 3
    assert not (tmp_path / "o.onnx").exists()
    assert [p.name for p in (tmp_path / "r").iterdir()] == ["01-drop_relu-y"]


def test_a_right_run_leaves_nothing(tmp_path: Path) -> None:
    optimize(load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"), repro_to=tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["file/below", "file"])
def test_places_that_cannot_be(tmp_path: Path, rules: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    model = load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    with pytest.raises(ModelError, match="is not a folder"):
        optimize(model, plugins=[rules], repro_to=tmp_path / name)
