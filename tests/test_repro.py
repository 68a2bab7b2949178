"""Repro folders of wrong changes: small models, and a command that fails."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import parser
from pass_loading import passes_from_file
from passwright.app.cli.entry import app
from passwright.app.optimize import repro
from passwright.app.optimize.repro import CommandOptions
from passwright.core import RulePass
from passwright.core.errors import ModelError
from passwright.core.io.writer import encode_text
from passwright.core.plugins.pass_registry import ENTRY_POINT_GROUP
from passwright.core.plugins.pass_spec import PassSpec
from rewriting import cases, load, op_types
from typer.testing import CliRunner, Result

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

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


@rule(lambda g, x: g.Erf(x), contract=EXACT)
def foreign(g, x):
    """Erf(x) => what no backend has"""
    return g.domain("nobody.knows").Erf(x)


@rule(lambda g, x, r: g.Erf(x) @ r, contract=EXACT)
def ring(g, x, r):
    """Erf(x) => what is made of it"""
    return next(iter(r.outputs[0].consumers)).outputs[0]


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def unwritable(g, x):
    """Relu(x) => Elu(x), of no number"""
    return g.Elu(x, alpha="a")


@dataclass(frozen=True)
class FoldsWrongly:
    """Add of constants, one too much."""

    name: str = "folds-wrongly"

    def run(self, graph, change_log):
        count = 0
        for op in graph.ops("Add"):
            a, b = op.inputs
            if a.is_const and b.is_const and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.make_constant(op.outputs[0], Tensor.from_array(a.const + b.const + 1))
                graph.prune([op])
                count += 1
        return count


@dataclass(frozen=True)
class Unasked:
    """Swap the operands of Sub without a change log entry."""

    name: str = "unasked"

    def run(self, graph, change_log):
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


def repros(model: onnx.ModelProto, rules: Path, to: Path, only: str) -> list[str]:
    """The places of wrong changes, and the ops of their repro models before and after, where the command fails."""
    found: list[str] = []
    for entry in optimize(model, plugin=[rules], only=[only], repro=to).report.rejected:
        files = [Path(entry.repro) / name for name in ("before.onnx", "after.onnx")]
        ops = [" ".join(op_types(onnx.load(file))) if file.exists() else "" for file in files]
        found.append(f"{entry.place}: {ops[0]} => {ops[1]}")
        shown = shows(Path(entry.repro))
        assert shown.exit_code == 3, shown.output
    return found


def shows(folder: Path) -> Result:
    """The results of the two commands of the README."""
    text = (folder / "README.md").read_text(errors="surrogateescape")
    lines = re.search(r"\n    cd (.*)\n    passes (.*)\n", text)
    assert lines, text
    here = Path.cwd()
    os.chdir(shlex.split(lines[1])[0])
    try:
        return CliRunner().invoke(app, shlex.split(lines[2]))
    finally:
        os.chdir(here)


LONG = "a = Exp(x) b = Softmax(a) c = Sub(x, b) d = MatMul(c, w) e = Relu(d) f = Erf(e) h = Softmax(f)"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "w2": np.ones(4, np.float32)}
RELU = load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
CONSTANTS = """g (float[4] x) => (float[4] y) <float[4] u = {1,2,3,4}, float[4] v = {1,1,1,1}> {
    c = Add(u, v) y = Mul(x, c)
}"""
LOOP = """g (float[2,4] x, int64 n) => (float[2,4] y) <bool t = {1}> {
    h = Sin(x)
    y = Loop(n, t, h) <body = b (int64 i, bool c, float[2,4] v) => (bool d, float[2,4] o) {
        d = Identity(c) s = Sub(v, x) r = Relu(s) o = Sub(r, x)
    }>
}"""

CONSTANT_OP = f"k = Constant<value_float=2.0>() {LONG}"
CONSTANT_AROUND = LOOP.replace("Sin(x)", "Sin(x) k = Constant<value_float=2.0>()").replace("Sub(v, x)", "Sub(v, k)")


N4 = "g (float[N,4] x) => (float[N,4] y)"
LONG_GRAPH = f"{N4} {{ {LONG} y = Exp(h) }}"


@cases(
    ("text", "only", "expected"),
    {
        "in the middle": (LONG_GRAPH, "drop_relu", ["e: Relu Erf => Erf"]),
        "an output": (f"{N4} {{ a = Sin(x) y = Relu(a) }}", "drop_relu", ["y: Sin Relu => Sin"]),
        "input to output": (f"{N4} {{ y = Relu(x) }}", "drop_relu", ["y: Relu => Identity"]),
        "a constant": (CONSTANTS, "folds-wrongly", ["c: Add => Identity"]),
        "in a body": (LOOP, "drop_relu", ["r: Loop => Loop"]),
        "a pass that does not ask": (LONG_GRAPH, "unasked", [": Sub => Sub"]),
        "an exception": (f"{N4} {{ {LONG} y = Mul(h, w2) }}", "raises", ["y: Mul => "]),
        "an input called file, of 16 bits": (
            "g (float16[N,4] file) => (float16[N,4] y) { a = Sin(file) b = Relu(a) y = Neg(b) }",
            "drop_relu",
            ["b: Relu Neg => Neg"],
        ),
        "beside a Constant": (
            f"{N4} {{ {CONSTANT_OP} i = Sub(h, k) j = Relu(i) y = Sub(j, k) }}",
            "drop_relu",
            ["e: Relu Erf => Erf", "j: Relu Sub => Sub"],
        ),
        "an exception about a Constant": (f"{N4} {{ {CONSTANT_OP} y = Mul(h, k) }}", "raises", ["y: Mul => "]),
        "a body that reads a Constant": (CONSTANT_AROUND, "drop_relu", ["r: Loop => Loop"]),
        "an exception in a body": (CONSTANT_AROUND.replace("Relu(s)", "Mul(s, k)"), "raises", ["r: Loop => "]),
        "refused": (LONG_GRAPH, "foreign", ["f: Erf => Erf"]),
        "a cycle": (LONG_GRAPH, "ring", ["f: Relu Erf Softmax => "]),
        "unserializable": (LONG_GRAPH, "unwritable", ["e: Relu => "]),
    },
)
def test_repro_models_are_small(tmp_path: Path, rules: Path, text: str, only: str, expected: list[str]) -> None:
    weights = {name: array for name, array in WEIGHTS.items() if f" {name})" in text}
    assert repros(load(text, weights=weights), rules, tmp_path / "r", only) == expected


def test_content_of_a_folder(tmp_path: Path, rules: Path) -> None:
    repros(load(LONG_GRAPH, weights={"w": WEIGHTS["w"]}), rules, tmp_path / "r", "drop_relu")
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
    for _ in range(2):
        repros(RELU, rules, tmp_path / "r", "drop_relu")
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["01-drop_relu-y", "02-drop_relu-y"]


def test_names_are_made_valid_file_names(tmp_path: Path, rules: Path) -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { a = Sin(x) b = Relu(a) y = Neg(b) }")
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["/a/../b c\n" if n == "b" else n for n in names]
    optimize(model, plugin=[rules], only=["drop_relu"], repro=tmp_path / "r")
    (folder,) = (tmp_path / "r").iterdir()
    assert folder.name == "01-drop_relu-_a_.._b_c_"


def test_strict_run_writes_a_repro(tmp_path: Path, rules: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(RELU, model)
    arguments = ["run", model, "--strict", "--plugin", rules, "--repro", tmp_path / "r", "-o", tmp_path / "o.onnx"]
    invoke(*arguments, code=3)
    assert not (tmp_path / "o.onnx").exists()
    assert [p.name for p in (tmp_path / "r").iterdir()] == ["01-drop_relu-y"]


def test_correct_run_writes_no_repro(tmp_path: Path) -> None:
    optimize(RELU, repro=tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["file/below", "file"])
def test_bad_folders_are_rejected(tmp_path: Path, rules: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="is not a folder"):
        optimize(RELU, plugin=[rules], repro=tmp_path / name)


HEAD = """
from dataclasses import dataclass

from passwright.core import EXACT, RulePass, rule
"""
UNWRITABLE = f'''{HEAD}
@rule(lambda g, x: g.Elu(x), contract=EXACT)
def unwritable(g, x):
    """Elu(x) => Transpose(x), of no list"""
    return g.Transpose(x, perm=1)
'''
CHASE = f'''{HEAD}
@rule(lambda g, x: g.Neg(x), contract=EXACT)
def neg_to_sub(g, x):
    """Neg(x) => Sub(0, x)"""
    return g.Sub(g.const(0.0, like=x), x)


@rule(lambda g, z, x: g.Sub(z, x), contract=EXACT)
def sub_to_neg(g, z, x):
    """Sub(0, x) => Neg(x)"""
    return g.Neg(x)


there = RulePass("there", (neg_to_sub,))
back = RulePass("back", (sub_to_neg,))
'''
RAISES = f"""{HEAD}
@dataclass(frozen=True)
class Raises:
    name: str = "raises-there"

    def run(self, graph, change_log):
        if CONDITION:
            raise KeyError("\\ud800")
        return 0


raises_there = Raises()
"""
FUNCTION = """<ir_version: 10, opset_import: ["" : 17, "me" : 1]> g (float[N,4] x) => (float[N,4] y) { y = me.F(x) }
<domain: "me", opset_import: ["" : 17]> F (u) => (v) { s = Sin(u) v = Neg(s) }"""
SMALL = "g (float[N,4] x) => (float[N,4] y) { a = Sin(x) y = Neg(a) }"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_unserializable_change_has_no_repro(tmp_path: Path) -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { e = Exp(x) a = Elu(e) y = Transpose(a) }")
    plugin = written(tmp_path / "p.py", UNWRITABLE)
    without = optimize(model, plugin=[plugin])
    result = optimize(model, plugin=[plugin], repro=tmp_path / "r")
    assert result.model == without.model
    assert [q.label for q in result.report.rejected] == [q.label for q in without.report.rejected]
    folders = sorted((tmp_path / "r").iterdir())
    lost = [f for f in folders if not (f / "before.onnx").exists()]
    assert lost
    assert len(lost) < len(folders)
    for folder in lost:
        text = (folder / "README.md").read_text()
        assert "- before.onnx: Transpose a cannot be written: " in text
        assert "Two lines" not in text
    for folder in set(folders) - set(lost):
        assert shows(folder).exit_code == 3


@cases(
    ("text", "model", "options", "command"),
    {
        "no end between two passes": (CHASE, SMALL, {}, ""),
        "no end, with something left out": (CHASE, SMALL, {"skip": ["fuse-gemm"]}, "--skip fuse-gemm"),
        "functions": (
            RAISES.replace("CONDITION", 'any(graph.ops("F"))'), FUNCTION, {"keep_functions": True},
            "--keep-functions --only raises-there",
        ),
        "only for exact rewrites": (
            RAISES.replace("CONDITION", "change_log.exact_only"), SMALL, {"exact": True}, "--exact --only raises-there",
        ),
    },
)  # fmt: skip
def test_command_repeats_relevant_options(
    tmp_path: Path, text: str, model: str, options: Mapping[str, Any], command: str
) -> None:
    plugin = written(tmp_path / "p.py", text)
    proto = parser.parse_model(model) if model is FUNCTION else load(model)
    optimize(proto, plugin=[plugin], repro=tmp_path / "r", **options)
    folder = min((tmp_path / "r").iterdir())
    readme = (folder / "README.md").read_text()
    assert f"\n    passes bisect before.onnx --plugin {plugin} {command}".rstrip() + "\n" in readme
    assert shows(folder).exit_code == 3


def test_command_repeats_another_pipeline(tmp_path: Path) -> None:
    plugin = written(tmp_path / "p.py", RAISES.replace("CONDITION", "True"))
    optimize(load(SMALL), "none", plugin=[plugin], repro=tmp_path / "r")
    (folder,) = (tmp_path / "r").iterdir()
    command = f"passes bisect before.onnx --pipeline none --plugin {plugin} --only raises-there\n"
    assert command in (folder / "README.md").read_text()
    assert shows(folder).exit_code == 3


def test_a_pass_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "raising_package.py", RAISES.replace("CONDITION", "True"))
    info = tmp_path / "raising_package-1.0.dist-info"
    written(info / "METADATA", "Metadata-Version: 2.1\nName: raising-package\nVersion: 1.0\n")
    written(info / "entry_points.txt", f"[{ENTRY_POINT_GROUP}]\nraises = raising_package:raises_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    optimize(load(SMALL), enable=["raises-there"], repro=tmp_path / "r")
    (folder,) = (tmp_path / "r").iterdir()
    assert "before.onnx --enable raises-there --only raises-there\n" in (folder / "README.md").read_text()
    assert shows(folder).exit_code == 3


@cases(
    ("options", "expected"),
    {
        "nothing": (CommandOptions(), ["--only my-rules"]),
        "the pass": (CommandOptions(only=["my-rules", "other"]), ["--only my-rules"]),
        "its rules": (CommandOptions(only=["drop_relu"]), ["--only drop_relu", "--only ring"]),
        "others left out": (CommandOptions(skip=["raises"]), ["--only drop_relu", "--only ring"]),
        "options of the pass": (
            CommandOptions(["--exact"], enable=[PassSpec("my-rules", {"n": "3"}), PassSpec("x")]),
            ["--exact", "--enable 'my-rules{n=3}'", "--only my-rules"],
        ),
    },
)
def test_arguments_for_one_pass(rules: Path, options: CommandOptions, expected: Sequence[str]) -> None:
    found = passes_from_file(rules)["my-rules"].item
    assert isinstance(found, RulePass)
    left = tuple(r for r in found.rules if r.name in {"drop_relu", "ring"})
    assert options.arguments(RulePass(found.name, left)) == expected


def test_path_that_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    plugin = written(folder / "p.py", RAISES.replace("CONDITION", "True"))
    optimize(load(SMALL), plugin=[plugin], repro=folder / "r")
    (kept,) = (folder / "r").iterdir()
    assert shows(kept).exit_code == 3


@pytest.mark.parametrize(
    ("text", "expected"), [("é", b"\xc3\xa9"), ("\udcff", b"\xff"), ("\ud800 é", b"\\ud800 \xc3\xa9")]
)
def test_encode_text(text: str, expected: bytes) -> None:
    assert encode_text(text) == expected


def test_full_disk_does_not_stop_the_run(
    tmp_path: Path, rules: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(text: str) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repro, "encode_text", full)
    (found,) = optimize(RELU, plugin=[rules], only=["drop_relu"], repro=tmp_path / "r").report.rejected
    assert found.repro == ""
    assert "cannot write a repro" in caplog.text
    assert not any((tmp_path / "r").iterdir())
