"""User mistakes: a one-line error, the exit code, and no file written."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from onnx import helper, numpy_helper
from passwright.app.cli.entry import app
from passwright.app.cli.exit_codes import one_line_errors
from passwright.core import PassesError
from rewriting import cases, load
from typer.testing import CliRunner

from passwright import optimize

TEXT = "g (float[N,3] x) => (float[N,3] y) { a = Identity(x) r = Relu(a) y = Add(r, w) }"
WEIGHTS = {"w": np.arange(3, dtype=np.float32)}
OK, BAD, USAGE = 0, 1, 2
Make = Callable[[Path], None]


def leave_unchanged(_: Path) -> None:
    """Change nothing."""


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The contents of all files below a folder; None for folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def require_error(folder: Path, *arguments: str, code: int = BAD) -> str:
    """Run the command, require a one-line error and an unchanged folder, and return the line."""
    before = snapshot(folder)
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert snapshot(folder) == before
    return result.stderr


def valid_model(folder: Path, name: str = "m.onnx") -> Path:
    onnx.save(load(TEXT, weights=WEIGHTS), folder / name)
    return folder / name


def external_model(folder: Path, **entries: str) -> Path:
    """A model with weights in `w.bin`; `entries` overrides its external data fields."""
    model = load(TEXT.replace("[N,3]", "[N,512]"), weights={"w": np.arange(512, dtype=np.float32)})
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    if entries:
        raw = onnx.load(path, load_external_data=False)
        for entry in raw.graph.initializer[0].external_data:
            entry.value = entries.get(entry.key, entry.value)
        path.write_bytes(raw.SerializeToString())
    return path


def writer(content: bytes | str) -> Make:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


@cases(
    ("make", "message"),
    {
        "missing": (leave_unchanged, "does not exist"),
        "folder": (lambda p: p.mkdir(), "is a folder"),
        "empty": (writer(b""), "is empty"),
        "text": (writer("hello, I am no model\n"), "m.onnx: "),
        "JSON": (writer("{}\n"), "m.onnx: "),
        "blank lines": (writer("\n" * 64), "m.onnx: "),
        "zeros": (writer(b"\0" * 64), "m.onnx: "),
        "ones": (writer(b"\xff" * 64), "m.onnx: "),
        "archive": (writer(b"PK\x03\x04" + b"\0" * 60), "m.onnx: "),
        "no graph": (writer(onnx.ModelProto(ir_version=10).SerializeToString()), "it has no graph"),
        "a tensor": (writer(onnx.TensorProto(data_type=1).SerializeToString()), "m.onnx: "),
        "broken link": (lambda p: p.symlink_to("nowhere"), "does not exist"),
    },
)
def test_file_without_model(tmp_path: Path, make: Make, message: str) -> None:
    make(tmp_path / "m.onnx")
    assert message in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


WHOLE = load(TEXT, weights=WEIGHTS).SerializeToString()


@pytest.mark.parametrize("cut", range(1, len(WHOLE), 11))
def test_truncated_model(tmp_path: Path, cut: int) -> None:
    (tmp_path / "m.onnx").write_bytes(WHOLE[:cut])
    assert "m.onnx: " in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.75, 0.99])
def test_truncated_golden_model(tmp_path: Path, share: float) -> None:
    whole = (Path(__file__).parent.parent / "golden_models" / "resnet_dynamo.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(whole[: int(len(whole) * share)])
    assert "m.onnx: " in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


@pytest.mark.parametrize("byte", [0, 0x7F, 0xFF])
def test_damaged_bytes(tmp_path: Path, byte: int) -> None:
    crashes: dict[int, str] = {}
    for at in range(len(WHOLE)):
        (tmp_path / "m.onnx").write_bytes(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])
        try:
            optimize(tmp_path / "m.onnx", verify=False)
        except PassesError:
            continue
        except Exception as e:  # noqa: BLE001 - all are collected
            crashes[at] = repr(e)
    assert crashes == {}


def changed_model(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = load(TEXT, weights=WEIGHTS)
    change(model)
    return model


def node(*args: Any, **kwargs: Any) -> onnx.NodeProto:
    return helper.make_node(*args, **kwargs)


def refer(node: onnx.NodeProto, name: str, referred: str) -> None:
    """Give a node an attribute that is that of the function in which it is."""
    node.attribute.add(name=name, type=onnx.AttributeProto.INT, ref_attr_name=referred)


def weight(name: str, **fields: Any) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, **fields)


@cases(
    ("change", "message"),
    {
        "cycle": (lambda m: m.graph.node.extend([node("Relu", ["p"], ["q"]), node("Relu", ["q"], ["p"])]), "cycle"),
        "self-cycle": (lambda m: m.graph.node.append(node("Relu", ["p"], ["p"])), "cycle"),
        "two producers": (lambda m: m.graph.node.append(node("Abs", ["x"], ["r"])), "r is produced by both"),
        "duplicate output of one op": (
            lambda m: m.graph.node.append(node("Split", ["x"], ["s", "s"])),
            "s is produced by both",
        ),
        "input produced": (lambda m: m.graph.node.append(node("Abs", ["x"], ["x"])), "x is produced by"),
        "initializer produced": (lambda m: m.graph.node.append(node("Abs", ["x"], ["w"])), "w is produced by"),
        "two inputs": (lambda m: m.graph.input.append(m.graph.input[0]), "two inputs are named x"),
        "two initializers": (
            lambda m: m.graph.initializer.append(m.graph.initializer[0]),
            "two initializers are named w",
        ),
        "attribute of another type": (
            lambda m: m.graph.node.append(node("Cast", ["x"], ["c"], to=1.0)),
            "Cast c: its attribute to has the type FLOAT; the operator declares INT",
        ),
        "attribute of no operator": (
            lambda m: m.graph.node.append(node("Shape", ["x"], ["c"], power=1)),
            "Shape c: its attribute power is none of the operator at opset 17",
        ),
        "attribute of a function outside of functions": (
            lambda m: refer(m.graph.node.add(op_type="Cast", input=["x"], output=["c"]), "to", "wanted"),
            "Cast c: its attribute to is that of a function, wanted; it is in none",
        ),
        "too many inputs": (
            lambda m: m.graph.node.append(node("Abs", ["x", "x"], ["c"])),
            "Abs c: number of inputs 2; the operator has at most 1",
        ),
        "too many outputs": (
            lambda m: m.graph.node.append(node("Abs", ["x"], ["c", "d"])),
            "Abs c: number of outputs 2; the operator has at most 1",
        ),
        "too few inputs": (
            lambda m: m.graph.node.append(node("Concat", [], ["c"], axis=0)),
            "Concat c: number of inputs 0; the operator has at least 1",
        ),
        "required attribute": (
            lambda m: m.graph.node.append(node("Concat", ["x"], ["c"])),
            "Concat c: its attribute axis is missing",
        ),
        "element type of an output": (
            lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 29),
            "y has the unknown element type 29",
        ),
        "constant of another type": (
            lambda m: m.graph.node.append(node("Constant", [], ["c"], value_ints="text")),
            "Constant c: its attribute value_ints has the type STRING; the operator declares INTS",
        ),
        "missing initializer": (lambda m: m.graph.initializer.pop(), "Add y reads w"),
        "missing node": (lambda m: m.graph.node.pop(0), "Relu r reads a"),
        "missing output": (lambda m: m.graph.node.pop(), "output y is provided by no"),
        "initializer without elements": (lambda m: m.graph.initializer[0].ClearField("raw_data"), "w"),
        "initializer with too few elements": (lambda m: m.graph.initializer[0].dims.append(2), "w"),
        "negative dim": (lambda m: m.graph.initializer[0].dims.__setitem__(0, -3), "w"),
        "unknown element type": (lambda m: setattr(m.graph.initializer[0], "data_type", 99), "w"),
        "no element type": (lambda m: setattr(m.graph.initializer[0], "data_type", 0), "w"),
        "segment of a tensor": (
            lambda m: setattr(m.graph.initializer[0].segment, "end", 1),
            "initializer w is a segment of a tensor",
        ),
        "initializer without a name": (lambda m: setattr(m.graph.initializer[0], "name", ""), "w"),
        "unreleased opset": (lambda m: setattr(m.opset_import[0], "version", 999), "opset 999"),
        "opset 0": (lambda m: setattr(m.opset_import[0], "version", 0), "opset 0"),
        "no opset": (lambda m: m.opset_import.pop(), "imports no opset"),
        "opset of another domain": (
            lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99)),
            "opset 99 of domain 'ai.onnx.ml'",
        ),
        "newer IR version": (lambda m: setattr(m, "ir_version", 99), "IR version 99 is newer"),
        "no IR version": (lambda m: m.ClearField("ir_version"), "IR version"),
    },
)
def test_invalid_graph(tmp_path: Path, change: Callable[[onnx.ModelProto], object], message: str) -> None:
    (tmp_path / "m.onnx").write_bytes(changed_model(change).SerializeToString())
    assert message in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


TEXTS = {
    "producer_name": lambda m: setattr(m, "producer_name", "MARK"),
    "opset": lambda m: m.opset_import.add(domain="MARK", version=1),
    "input": lambda m: m.graph.input.add(name="MARK"),
    "initializer": lambda m: m.graph.initializer.add(name="MARK", data_type=1, dims=[0]),
    "output": lambda m: (m.graph.node.append(node("Abs", ["x"], ["MARK"])), m.graph.output.add(name="MARK")),
    "node": lambda m: m.graph.node.append(node("Abs", ["x"], ["c"], name="MARK")),
    "operator": lambda m: m.graph.node.append(node("MARK", ["x"], ["c"])),
    "function": lambda m: m.functions.add(name="MARK", domain="f").opset_import.add(version=17),
}


@pytest.mark.parametrize("place", TEXTS)
def test_text_that_is_not_utf8(tmp_path: Path, place: str) -> None:
    data = changed_model(TEXTS[place]).SerializeToString()
    assert b"MARK" in data
    (tmp_path / "m.onnx").write_bytes(data.replace(b"MARK", b"\x80ARK"))
    message = require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))
    assert "m.onnx: it is damaged: " in message
    assert "is not UTF-8 text" in message
    with pytest.raises(PassesError, match="is not UTF-8 text"):
        optimize(onnx.ModelProto.FromString((tmp_path / "m.onnx").read_bytes()), verify=False)


LOOP = """g (int64 n, bool c, float[2] x) => (float[2] y) {
    y = Loop (n, c, x) <body = b (%s) => (%s) { d = Identity(c) a = Neg(x) }>
}"""


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ("int64 i, bool e", "bool d, float[2] a", "Loop y: number of inputs of a body 2; it needs 3"),
        ("int64 i, bool e, float[2] z", "bool d", "Loop y: number of outputs of a body 1; it needs 2"),
    ],
)
def test_body_with_other_operands(tmp_path: Path, inputs: str, outputs: str, message: str) -> None:
    onnx.save(load(LOOP % (inputs, outputs)), tmp_path / "m.onnx")
    assert message in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


BRANCH = """g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] a) { %s }, else_branch = e () => (float[2] b) { b = Neg(x) }>
}"""


@cases(
    ("body", "message"),
    {
        "missing name": ("a = Relu(nowhere)", "nowhere"),
        "cycle": ("q = Relu(p) p = Relu(q) a = Relu(q)", "cycle"),
        "two producers": ("q = Relu(x) q = Abs(x) a = Neg(q)", "q is produced by both"),
        "missing output": ("q = Relu(x)", "a"),
    },
)
def test_invalid_branch_body(tmp_path: Path, body: str, message: str) -> None:
    onnx.save(load(BRANCH % body), tmp_path / "m.onnx")
    assert message in require_error(tmp_path, str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx"))


def link_to_outside(folder: Path) -> None:
    secret = folder.parent / "secret.bin"
    secret.write_bytes((folder / "w.bin").read_bytes())
    (folder / "w.bin").unlink()
    (folder / "w.bin").symlink_to(secret)


@cases(
    ("entries", "spoil", "message"),
    {
        "missing": ({}, lambda f: (f / "w.bin").unlink(), "w.bin, is missing"),
        "too short": ({}, lambda f: (f / "w.bin").write_bytes(b"\0" * 2047), "does not hold its 2048 bytes"),
        "empty": ({}, lambda f: (f / "w.bin").write_bytes(b""), "does not hold its 2048 bytes"),
        "parent": (
            {"location": "../w.bin"},
            lambda f: shutil.copy(f / "w.bin", f.parent),
            "outside the model's folder",
        ),
        "parent in the middle": (
            {"location": "a/../../w.bin"},
            lambda f: shutil.copy(f / "w.bin", f.parent),
            "outside",
        ),
        "absolute": ({"location": "/etc/passwd"}, leave_unchanged, "outside the model's folder"),
        "link to outside": ({}, link_to_outside, "outside the model's folder"),
        "no location": ({"location": ""}, leave_unchanged, "external data"),
        "a folder": ({"location": "."}, leave_unchanged, "w"),
        "NUL in the name": ({"location": "w\0.bin"}, leave_unchanged, "w"),
        "overlong name": ({"location": "w" * 300}, leave_unchanged, "File name too long"),
        "negative offset": ({"offset": "-1"}, leave_unchanged, "w: "),
        "offset behind the end": ({"offset": "4096"}, leave_unchanged, "does not hold"),
        "non-numeric offset": ({"offset": "many"}, leave_unchanged, "not a number"),
        "length of another tensor": ({"length": "12"}, leave_unchanged, "w: "),
        "negative length": ({"length": "-2048"}, leave_unchanged, "w: "),
    },
)
@pytest.mark.parametrize("verified", [(), ("--no-verify",)], ids=["verified", "not verified"])
def test_bad_external_data(
    tmp_path: Path, entries: dict[str, str], spoil: Callable[[Path], object], message: str, verified: tuple[str, ...]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = external_model(folder, **entries)
    spoil(folder)
    assert message in require_error(tmp_path, str(path), "-o", str(tmp_path / "out.onnx"), *verified)


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
def test_bad_shape_option(tmp_path: Path, shape: str, message: str, code: int) -> None:
    out = str(tmp_path / "out.onnx")
    assert message in require_error(tmp_path, str(valid_model(tmp_path)), "-o", out, "--shape", shape, code=code)


@cases(
    ("arrays", "message"),
    {
        "missing input": ({}, "lack x"),
        "type": ({"x": np.ones((1, 3))}, "x of the given"),
        "unknown name": ({"x": np.ones((1, 3), np.float32), "z": np.ones(1)}, "name z"),
        "extent": ({"x": np.ones((1, 4), np.float32)}, "has shape [1,4]; the model needs [N,3]"),
        "rank": ({"x": np.ones(3, np.float32)}, "has shape [3]; the model needs [N,3]"),
    },
)
def test_bad_npz_inputs(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    arguments = ("-o", str(tmp_path / "out.onnx"), "--inputs", str(tmp_path / "in.npz"))
    assert message in require_error(tmp_path, str(valid_model(tmp_path)), *arguments)


@cases(
    ("make", "message"),
    {
        "missing": (leave_unchanged, "does not exist"),
        "text": (lambda p: p.write_bytes(b"nothing"), "not an .npz"),
        "empty": (lambda p: p.write_bytes(b""), "not an .npz"),
        "empty folder": (lambda p: p.mkdir(), "holds no input_"),
        "loop of links": (lambda p: (p.mkdir(), (p / "input_0.pb").symlink_to("input_0.pb")), "input_0.pb"),
    },
)
def test_unreadable_inputs(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / "in.npz")
    arguments = ("-o", str(tmp_path / "out.onnx"), "--inputs", str(tmp_path / "in.npz"))
    assert message in require_error(tmp_path, str(valid_model(tmp_path)), *arguments)


def test_test_data_of_other_model(tmp_path: Path) -> None:
    (tmp_path / "test_data_set_0").mkdir()
    wrong = numpy_helper.from_array(np.ones((1, 3), np.int32), "x")
    (tmp_path / "test_data_set_0" / "input_0.pb").write_bytes(wrong.SerializeToString())
    assert "int32" in require_error(tmp_path, str(valid_model(tmp_path)), "--inputs", str(tmp_path))


@pytest.mark.parametrize("verified", [(), ("--no-verify",)], ids=["verified", "not verified"])
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
def test_bad_output_path(tmp_path: Path, out: str, message: str, verified: tuple[str, ...]) -> None:
    path = external_model(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link.onnx").symlink_to(path)
    assert message in require_error(tmp_path, str(path), "-o", str(tmp_path / out), *verified)


@pytest.mark.parametrize("verified", [(), ("--no-verify",)], ids=["verified", "not verified"])
def test_output_weights_do_not_overwrite_input_weights(tmp_path: Path, verified: tuple[str, ...]) -> None:
    data = "out.onnx.0123456789abcdef.data"
    path = external_model(tmp_path, location=data)
    (tmp_path / "w.bin").rename(tmp_path / data)
    assert "could overwrite" in require_error(tmp_path, str(path), "-o", str(tmp_path / "out.onnx"), *verified)


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
def test_bad_report_path(tmp_path: Path, report: str) -> None:
    path = external_model(tmp_path)
    (tmp_path / "sub").mkdir()
    require_error(tmp_path, str(path), "-o", str(tmp_path / "out.onnx"), "--json", str(tmp_path / report))


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("name", ["in.npz", "rules.py"])
def test_input_files_are_not_overwritten(tmp_path: Path, option: str, name: str) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 3), np.float32))
    (tmp_path / "rules.py").write_text("")
    reads = {"in.npz": "--inputs", "rules.py": "--plugin"}[name]
    path = str(tmp_path / name)
    assert "would overwrite" in require_error(tmp_path, str(valid_model(tmp_path)), reads, path, option, path)


@cases(
    ("options", "message"),
    {
        "shape": (("--shape", "x:1"), "the input has 2"),
        "inputs": (("--inputs", "nowhere.npz"), "does not exist"),
        "two shapes": (("--shape", "x:1,3", "--shape", "x:2,3"), "given twice"),
    },
)
def test_options_are_checked_without_verification(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    arguments = (str(valid_model(tmp_path)), "-o", str(tmp_path / "out.onnx"), "--no-verify", *options)
    assert message in require_error(tmp_path, *arguments, code=USAGE if "twice" in message else BAD)


@pytest.mark.parametrize("options", [(), ("--json", "-")], ids=["text", "JSON"])
def test_full_standard_output(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The message says what became of the model, which is written before."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    command = [sys.executable, "-m", "passwright", "run", str(valid_model(tmp_path)), "--no-verify", *options]
    with full.open("w") as stdout:
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "out.onnx")], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: cannot write to standard output: No space left on device; the output files are written\n",
    )
    assert (tmp_path / "out.onnx").is_file()


def test_full_temporary_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "error: cannot write a temporary file: No space left on device\n"
