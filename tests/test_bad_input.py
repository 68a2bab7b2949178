"""User mistakes: a one-line error, the exit code, and no file written."""

import errno
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from commands import invoke
from onnx import numpy_helper
from passwright.app.cli.exit_codes import one_line_errors
from passwright.core import PassesError
from rewriting import cases, load
from tiers import slow_unless

from passwright import optimize

TEXT = "g (float[N,3] x) => (float[N,3] y) { a = Identity(x) r = Relu(a) y = Add(r, w) }"
WEIGHTS = {"w": np.arange(3, dtype=np.float32)}
WHOLE = load(TEXT, weights=WEIGHTS).SerializeToString()
BAD, USAGE = 1, 2
Make = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a valid model, m.onnx."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "m.onnx").write_bytes(WHOLE)
    return folder


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The contents of all files below a folder; None for folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def error(*options: str, code: int = BAD) -> str:
    """The error line of `passes run m.onnx -o out.onnx` with more options, which change no file of this folder."""
    before = snapshot(Path())
    result = invoke("run", "m.onnx", *([] if "-o" in options else ["-o", "out.onnx"]), *options, code=code)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert snapshot(Path()) == before
    return result.stderr


def save_external(path: Path, **entries: str) -> None:
    """Save a model with weights in `w.bin`; `entries` overrides its external data fields."""
    model = load(TEXT.replace("[N,3]", "[N,512]"), weights={"w": np.arange(512, dtype=np.float32)})
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    raw = onnx.load(path, load_external_data=False)
    for entry in raw.graph.initializer[0].external_data:
        entry.value = entries.get(entry.key, entry.value)
    path.write_bytes(raw.SerializeToString())


def writer(content: bytes) -> Make:
    return lambda path: path.write_bytes(content)


def keep(_: Path) -> None:
    """Change nothing."""


@cases(
    ("make", "message"),
    {
        "missing": (keep, "does not exist"),
        "folder": (Path.mkdir, "is a folder"),
        "empty": (writer(b""), "is empty"),
        "text": (writer(b"hello, I am no model\n"), "m.onnx: "),
        "JSON": (writer(b"{}\n"), "m.onnx: "),
        "blank lines": (writer(b"\n" * 64), "m.onnx: "),
        "zeros": (writer(b"\0" * 64), "m.onnx: "),
        "ones": (writer(b"\xff" * 64), "m.onnx: "),
        "archive": (writer(b"PK\x03\x04" + b"\0" * 60), "m.onnx: "),
        "no graph": (writer(onnx.ModelProto(ir_version=10).SerializeToString()), "it has no graph"),
        "a tensor": (writer(onnx.TensorProto(data_type=1).SerializeToString()), "m.onnx: "),
        "broken link": (lambda p: p.symlink_to("nowhere"), "does not exist"),
    },
)
def test_file_without_model(folder: Path, make: Make, message: str) -> None:
    (folder / "m.onnx").unlink()
    make(folder / "m.onnx")
    assert message in error()


def test_truncated_models(folder: Path) -> None:
    golden = (Path(__file__).parent.parent / "golden_models" / "resnet_dynamo.onnx").read_bytes()
    parts = [WHOLE[:cut] for cut in range(1, len(WHOLE), 11)]
    parts += [golden[: int(len(golden) * share)] for share in (0.01, 0.25, 0.5, 0.75, 0.99)]
    for part in parts:
        (folder / "m.onnx").write_bytes(part)
        assert "m.onnx: " in error(), len(part)


@pytest.mark.parametrize("step", slow_unless({7}, (7, 1)))
def test_damaged_bytes(folder: Path, step: int) -> None:
    """Each byte replaced by each of three, or each seventh of these changes."""
    crashes: dict[tuple[int, int], str] = {}
    for at, byte in [*product(range(len(WHOLE)), (0, 0x7F, 0xFF))][::step]:
        (folder / "m.onnx").write_bytes(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])
        try:
            optimize("m.onnx", verify=False)
        except PassesError:
            continue
        except Exception as e:  # noqa: BLE001 - all are collected
            crashes[at, byte] = repr(e)
    assert crashes == {}


def changed_model(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = load(TEXT, weights=WEIGHTS)
    change(model)
    return model


def adds(*nodes: str) -> Callable[[onnx.ModelProto], object]:
    """Add nodes in ONNX text, which are not checked."""
    return lambda m: m.graph.node.extend([onnx.parser.parse_node(node) for node in nodes])


def refer(node: onnx.NodeProto, name: str, referred: str) -> None:
    """Give a node an attribute that refers to an attribute of the function around it."""
    node.attribute.add(name=name, type=onnx.AttributeProto.INT, ref_attr_name=referred)


def sets(name: str, value: object) -> Callable[[onnx.ModelProto], object]:
    """Set a field of the initializer."""
    return lambda m: setattr(m.graph.initializer[0], name, value)


@cases(
    ("change", "message"),
    {
        "cycle": (adds("q = Relu(p)", "p = Relu(q)"), "cycle"),
        "self-cycle": (adds("p = Relu(p)"), "cycle"),
        "two producers": (adds("r = Abs(x)"), "r is produced by both"),
        "duplicate output of one op": (adds("s, s = Split(x)"), "s is produced by both"),
        "input produced": (adds("x = Abs(x)"), "x is produced by"),
        "initializer produced": (adds("w = Abs(x)"), "w is produced by"),
        "two inputs": (lambda m: m.graph.input.append(m.graph.input[0]), "two inputs are named x"),
        "two initializers": (
            lambda m: m.graph.initializer.append(m.graph.initializer[0]), "two initializers are named w"),
        "attribute of another type": (
            adds("c = Cast <to = 1.0> (x)"), "Cast c: its attribute to has the type FLOAT; the operator declares INT"),
        "attribute of no operator": (
            adds("c = Shape <power = 1> (x)"), "Shape c: its attribute power is none of the operator at opset 17"),
        "attribute of a function outside of functions": (
            lambda m: refer(m.graph.node.add(op_type="Cast", input=["x"], output=["c"]), "to", "wanted"),
            "Cast c: its attribute to refers to wanted, which is an attribute of no function around it"),
        "too many inputs": (adds("c = Abs(x, x)"), "Abs c: number of inputs 2; the operator has at most 1"),
        "too many outputs": (adds("c, d = Abs(x)"), "Abs c: number of outputs 2; the operator has at most 1"),
        "too few inputs": (
            adds("c = Concat <axis = 0> ()"), "Concat c: number of inputs 0; the operator has at least 1"),
        "required attribute": (adds("c = Concat(x)"), "Concat c: its attribute axis is missing"),
        "element type of an output": (
            lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 29),
            "y has the unknown element type 29"),
        "constant of another type": (
            adds('c = Constant <value_ints = "text"> ()'),
            "Constant c: its attribute value_ints has the type STRING; the operator declares INTS"),
        "missing initializer": (lambda m: m.graph.initializer.pop(), "Add y reads w"),
        "missing node": (lambda m: m.graph.node.pop(0), "Relu r reads a"),
        "missing output": (lambda m: m.graph.node.pop(), "output y is provided by no"),
        "initializer without elements": (lambda m: m.graph.initializer[0].ClearField("raw_data"), "w"),
        "initializer with too few elements": (lambda m: m.graph.initializer[0].dims.append(2), "w"),
        "negative dim": (lambda m: m.graph.initializer[0].dims.__setitem__(0, -3), "w"),
        "unknown element type": (sets("data_type", 99), "w"),
        "no element type": (sets("data_type", 0), "w"),
        "segment of a tensor": (
            lambda m: setattr(m.graph.initializer[0].segment, "end", 1), "initializer w is a segment of a tensor"),
        "initializer without a name": (sets("name", ""), "w"),
        "unreleased opset": (lambda m: setattr(m.opset_import[0], "version", 999), "opset 999"),
        "opset 0": (lambda m: setattr(m.opset_import[0], "version", 0), "opset 0"),
        "no opset": (lambda m: m.opset_import.pop(), "imports no opset"),
        "opset of another domain": (
            lambda m: m.opset_import.add(domain="ai.onnx.ml", version=99), "opset 99 of domain 'ai.onnx.ml'"),
        "newer IR version": (lambda m: setattr(m, "ir_version", 99), "IR version 99 is newer"),
        "no IR version": (lambda m: m.ClearField("ir_version"), "IR version"),
    },
)  # fmt: skip
def test_invalid_graph(folder: Path, change: Callable[[onnx.ModelProto], object], message: str) -> None:
    (folder / "m.onnx").write_bytes(changed_model(change).SerializeToString())
    assert message in error()


@cases(
    "change",
    {
        "producer_name": lambda m: setattr(m, "producer_name", "MARK"),
        "opset": lambda m: m.opset_import.add(domain="MARK", version=1),
        "input": lambda m: m.graph.input.add(name="MARK"),
        "initializer": lambda m: m.graph.initializer.add(name="MARK", data_type=1, dims=[0]),
        "output": lambda m: (adds("MARK = Abs(x)")(m), m.graph.output.add(name="MARK")),
        "node": lambda m: m.graph.node.add(op_type="Abs", input=["x"], output=["c"], name="MARK"),
        "operator": adds("c = MARK(x)"),
        "function": lambda m: m.functions.add(name="MARK", domain="f").opset_import.add(version=17),
    },
)
def test_text_that_is_not_utf8(folder: Path, change: Callable[[onnx.ModelProto], object]) -> None:
    data = changed_model(change).SerializeToString()
    assert b"MARK" in data
    (folder / "m.onnx").write_bytes(data.replace(b"MARK", b"\x80ARK"))
    message = error()
    assert "m.onnx: it is damaged: " in message
    assert "is not UTF-8 text" in message
    with pytest.raises(PassesError, match="is not UTF-8 text"):
        optimize(onnx.ModelProto.FromString((folder / "m.onnx").read_bytes()), verify=False)


LOOP = """g (int64 n, bool c, float[2] x) => (float[2] y) {
    y = Loop (n, c, x) <body = b (int64 i, bool e%s) => (%s) { d = Identity(c) a = Neg(x) }>
}"""
BRANCH = """g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] a) { %s }, else_branch = e () => (float[2] b) { b = Neg(x) }>
}"""


@cases(
    ("text", "message"),
    {
        "inputs of a loop": (
            LOOP % ("", "bool d, float[2] a"), "Loop y: number of inputs of a body 2; it needs 3"),
        "outputs of a loop": (
            LOOP % (", float[2] z", "bool d"), "Loop y: number of outputs of a body 1; it needs 2"),
        "missing name": (BRANCH % "a = Relu(nowhere)", "nowhere"),
        "cycle": (BRANCH % "q = Relu(p) p = Relu(q) a = Relu(q)", "cycle"),
        "two producers": (BRANCH % "q = Relu(x) q = Abs(x) a = Neg(q)", "q is produced by both"),
        "missing output": (BRANCH % "q = Relu(x)", "a"),
    },
)  # fmt: skip
def test_invalid_body(folder: Path, text: str, message: str) -> None:
    onnx.save(load(text), folder / "m.onnx")
    assert message in error()


def link_to_outside(folder: Path) -> None:
    (folder / "w.bin").rename(folder.parent / "secret.bin")
    (folder / "w.bin").symlink_to(folder.parent / "secret.bin")


def copy_to_parent(folder: Path) -> None:
    shutil.copy(folder / "w.bin", folder.parent)


VERIFIED_OR_NOT = cases("verified", {"verified": (), "not verified": ("--no-verify",)})


@cases(
    ("entries", "spoil", "message"),
    {
        "missing": ({}, lambda f: (f / "w.bin").unlink(), "w.bin is missing"),
        "too short": ({}, lambda f: (f / "w.bin").write_bytes(b"\0" * 2047), "does not hold its 2048 bytes"),
        "empty": ({}, lambda f: (f / "w.bin").write_bytes(b""), "does not hold its 2048 bytes"),
        "parent": ({"location": "../w.bin"}, copy_to_parent, "outside the model's folder"),
        "parent in the middle": ({"location": "a/../../w.bin"}, copy_to_parent, "outside"),
        "absolute": ({"location": "/etc/passwd"}, keep, "outside the model's folder"),
        "link to outside": ({}, link_to_outside, "outside the model's folder"),
        "no location": ({"location": ""}, keep, "external data"),
        "a folder": ({"location": "."}, keep, "w"),
        "NUL in the name": ({"location": "w\0.bin"}, keep, "w"),
        "overlong name": ({"location": "w" * 300}, keep, "File name too long"),
        "negative offset": ({"offset": "-1"}, keep, "w: "),
        "offset behind the end": ({"offset": "4096"}, keep, "does not hold"),
        "non-numeric offset": ({"offset": "many"}, keep, "not a number"),
        "length of another tensor": ({"length": "12"}, keep, "w: "),
        "negative length": ({"length": "-2048"}, keep, "w: "),
    },
)
@VERIFIED_OR_NOT
def test_bad_external_data(
    folder: Path, entries: dict[str, str], spoil: Make, message: str, verified: tuple[str, ...]
) -> None:
    save_external(folder / "m.onnx", **entries)
    spoil(folder)
    assert message in error(*verified)


@cases(
    ("shape", "message", "code"),
    {
        "unknown input": ("z:1,3", "no such input", BAD),
        "rank": ("x:1", "the input has 2", BAD),
        "higher rank": ("x:1,3,3", "the input has 2", BAD),
        "fixed dim": ("x:2,4", "fixed at 3 cannot be 4", BAD),
        "negative": ("x:-1,3", "x:-1,3", USAGE),
        "symbol": ("x:N,3", "x:N,3", USAGE),
        "no name": ("1,3", "1,3", USAGE),
        "no dims": ("x", "x", USAGE),
    },
)
def test_bad_shape_option(folder: Path, shape: str, message: str, code: int) -> None:
    assert message in error("--shape", shape, code=code)


def npz(**arrays: Any) -> Make:
    return lambda path: np.savez(path, **arrays)


ROW = np.ones((1, 3), np.float32)


@cases(
    ("make", "message"),
    {
        "missing input": (npz(), "lack x"),
        "type": (npz(x=np.ones((1, 3))), "x of the given"),
        "unknown name": (npz(x=ROW, z=np.ones(1)), "name z"),
        "extent": (npz(x=np.ones((1, 4), np.float32)), "has shape [1,4]; the model needs [N,3]"),
        "rank": (npz(x=ROW[0]), "has shape [3]; the model needs [N,3]"),
        "missing": (keep, "does not exist"),
        "text": (writer(b"nothing"), "not an .npz"),
        "empty": (writer(b""), "not an .npz"),
        "empty folder": (Path.mkdir, "holds no input_"),
        "loop of links": (lambda p: (p.mkdir(), (p / "input_0.pb").symlink_to("input_0.pb")), "input_0.pb"),
    },
)
def test_bad_inputs(folder: Path, make: Make, message: str) -> None:
    make(folder / "in.npz")
    assert message in error("--inputs", "in.npz")


def test_test_data_of_other_model(folder: Path) -> None:
    (folder / "test_data_set_0").mkdir()
    wrong = numpy_helper.from_array(np.ones((1, 3), np.int32), "x")
    (folder / "test_data_set_0" / "input_0.pb").write_bytes(wrong.SerializeToString())
    assert "int32" in error("--inputs", ".")


@cases(
    ("out", "message"),
    {
        "folder missing": ("nowhere/out.onnx", "cannot write to"),
        "is a folder": ("sub", "is a folder"),
        "in a file": ("file/out.onnx", "cannot write to"),
        "the input": ("m.onnx", "would overwrite"),
        "the input by another path": ("sub/../m.onnx", "would overwrite"),
        "a link to the input": ("link.onnx", "would overwrite"),
        "the input's weights": ("w.bin", "would overwrite"),
        "overlong name": ("o" * 251 + ".onnx", "cannot write"),
    },
)
@VERIFIED_OR_NOT
def test_bad_output_path(folder: Path, out: str, message: str, verified: tuple[str, ...]) -> None:
    save_external(folder / "m.onnx")
    (folder / "sub").mkdir()
    (folder / "file").write_text("kept")
    (folder / "link.onnx").symlink_to("m.onnx")
    assert message in error("-o", out, *verified)


@VERIFIED_OR_NOT
def test_output_weights_do_not_overwrite_input_weights(folder: Path, verified: tuple[str, ...]) -> None:
    data = "out.onnx.0123456789abcdef.data"
    save_external(folder / "m.onnx", location=data)
    (folder / "w.bin").rename(data)
    assert "could overwrite" in error(*verified)


@cases(
    "report",
    {
        "folder missing": "nowhere/r.json",
        "a folder": "sub",
        "the input": "m.onnx",
        "the input's weights": "w.bin",
        "the output": "out.onnx",
    },
)
def test_bad_report_path(folder: Path, report: str) -> None:
    save_external(folder / "m.onnx")
    (folder / "sub").mkdir()
    error("--json", report)


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize(("name", "reads"), [("in.npz", "--inputs"), ("rules.py", "--plugin")])
def test_input_files_are_not_overwritten(folder: Path, option: str, name: str, reads: str) -> None:
    np.savez(folder / "in.npz", x=ROW)
    (folder / "rules.py").write_text(
        "from passwright.core import rule\n@rule(lambda g, x: g.Neg(g.Neg(x)))\ndef f(g, x):\n    return x\n"
    )
    assert "would overwrite" in error(reads, name, option, name)


@cases(
    ("options", "message", "code"),
    {
        "shape": (("--shape", "x:1"), "the input has 2", BAD),
        "inputs": (("--inputs", "nowhere.npz"), "does not exist", BAD),
        "two shapes": (("--shape", "x:1,3", "--shape", "x:2,3"), "given twice", USAGE),
    },
)
def test_options_are_checked_without_verification(
    folder: Path, options: tuple[str, ...], message: str, code: int
) -> None:
    assert message in error("--no-verify", *options, code=code)


def test_full_temporary_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "error: cannot write a temporary file: No space left on device\n"
