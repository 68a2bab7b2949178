"""Inputs given by the user, and sizes given by `--shape`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from passwright.core import from_onnx
from passwright.core.errors import ModelError
from passwright.core.verify.given_inputs import fitting_inputs, read_inputs, sizes_from_shapes
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.input_specs import InputSpec, input_specs
from rewriting import cases, each, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TWO = "g (float[N,3] x, int64[M] i) => (float[N,k] y) { y = Gather<axis=1>(x, i) }"
DEFAULTED = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add(x, w) }"
SEQUENCE = "g (seq(float[2]) s, int64[1] n) => (int64 y) { y = SequenceLength(s) }"
STRINGS = "g (string[N] s) => (string[N] y) { y = Identity(s) }"
X = np.ones((2, 3), np.float32)
I = np.array([0, 2])  # noqa: E741 - the input's name


def inputs_of(text: str) -> list[InputSpec]:
    return input_specs(from_onnx(load(text)))


def write_folder(path: Path, *arrays: Any) -> None:
    path.mkdir(parents=True)
    for n, a in enumerate(arrays):
        proto = numpy_helper.from_list(a) if isinstance(a, list) else numpy_helper.from_array(a)
        (path / f"input_{n}.pb").write_bytes(proto.SerializeToString())


def as_npz(path: Path) -> Path:
    np.savez(path / "in.npz", x=X, i=I)
    return path / "in.npz"


def as_folder(path: Path) -> Path:
    write_folder(path / "data", X, I)
    return path / "data"


def as_sets(path: Path) -> Path:
    write_folder(path / "test_data_set_0", X, I)
    write_folder(path / "test_data_set_1", X * 2, I)
    return path


@cases(
    ("make", "kinds"),
    {
        "npz": (as_npz, ["given (in.npz)"]),
        "one folder": (as_folder, ["given (data)"]),
        "every test_data_set": (as_sets, ["given (test_data_set_0)", "given (test_data_set_1)"]),
    },
)
def test_inputs_are_read(tmp_path: Path, make: Callable[[Path], Path], kinds: list[str]) -> None:
    input_sets, notes = read_inputs(make(tmp_path), inputs_of(TWO))
    assert not notes
    assert [d.kind for d in input_sets] == kinds
    for n, input_set in enumerate(input_sets):
        np.testing.assert_array_equal(input_set.feeds["x"], X * (n + 1))
        np.testing.assert_array_equal(input_set.feeds["i"], I)


def test_files_are_in_numeric_order(tmp_path: Path) -> None:
    names = [f"x{n}" for n in range(11)]
    text = f"g ({', '.join(f'float[1] {n}' for n in names)}) => (float[1] y) {{ y = Sum({', '.join(names)}) }}"
    write_folder(tmp_path / "d", *(np.array([n], np.float32) for n in range(11)))
    (input_set,), _ = read_inputs(tmp_path / "d", inputs_of(text))
    assert [input_set.feeds[n][0] for n in names] == list(range(11))


def test_sequence_messages_are_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "d", [np.ones(2, np.float32), np.zeros(2, np.float32)], np.array([1]))
    (input_set,), _ = read_inputs(tmp_path / "d", inputs_of(SEQUENCE))
    assert [a.tolist() for a in input_set.feeds["s"]] == [[1, 1], [0, 0]]


@pytest.mark.parametrize("strings", [np.array(["a", "bc"]), np.array(["a", "bc"], object)], ids=["unicode", "objects"])
def test_strings(strings: np.ndarray[Any, Any]) -> None:
    assert fitting_inputs(InputSet("given", {}, {"s": strings}), inputs_of(STRINGS)).feeds["s"].tolist() == ["a", "bc"]


def test_inputs_with_defaults_are_optional() -> None:
    x = np.ones(2, np.float32)
    for feeds in ({"x": x}, {"x": x, "w": x}):
        assert fitting_inputs(InputSet("given", {}, dict(feeds)), inputs_of(DEFAULTED)).feeds.keys() == feeds.keys()


@each(
    ("feeds", "message"),
    {
        "one missing": ({"x": X}, "lack i"),
        "one too many": ({"x": X, "i": I, "z": X}, "z, which is not an input"),
        "other type": ({"x": X.astype(np.float64), "i": I}, "x of the given inputs is float64"),
        "other integer": ({"x": X, "i": I.astype(np.int32)}, "i of the given inputs is int32"),
    },
)
def test_mismatched_inputs_are_refused(feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fitting_inputs(InputSet("given", {}, feeds), inputs_of(TWO))


HALF = ml_dtypes.bfloat16


@each(
    ("value", "dtype", "want"),
    {
        "a list of integers": ([[1, 2, 3]], "float", np.array([[1, 2, 3]], np.float32)),
        "a list of floats": ([[1.5, 2, 3]], "float16", np.array([[1.5, 2, 3]], np.float16)),
        "a number": (2, "int64", np.array(2)),
        "a NumPy number": (np.float32(2), "float", np.float32(2)),
        "other byte order": (np.array([1, 2], ">f4"), "float", np.array([1, 2], np.float32)),
        "bfloat16 from .npz": (np.array([1, 2], HALF).view("V2"), "bfloat16", np.array([1, 2], HALF)),
        "a list of text": (["a", "b"], "string", np.array(["a", "b"], object)),
    },
)
def test_values_are_converted_to_arrays(value: Any, dtype: str, want: Any) -> None:
    text = f"g ({dtype}[{','.join('abc'[: np.ndim(want)])}] x) => ({dtype}[n] y) {{ y = Identity(x) }}"
    if not np.ndim(want):
        text = f"g ({dtype} x) => ({dtype} y) {{ y = Identity(x) }}"
    found = fitting_inputs(InputSet("given", {}, {"x": value}), inputs_of(text)).feeds["x"]
    assert found.dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(found, want)


@each(
    ("value", "kind"),
    {
        "None": (None, "NoneType"),
        "text": ("x", "str"),
        "ragged": ([[1], [2, 3]], "not an array"),
        "a map": ({"a": 1}, "dict"),
        "complex numbers": ([1j], "complex128"),
        "floats for integers": ([1.5], "float64"),
    },
)
def test_unconvertible_values_are_refused(value: Any, kind: str) -> None:
    with pytest.raises(ModelError, match=f"x of the given inputs is {kind}"):
        fitting_inputs(InputSet("given", {}, {"x": value}), inputs_of("g (int64[N] x) => (int64[N] y) { y = Neg(x) }"))


def test_sequence_must_be_a_list() -> None:
    x = np.ones(2, np.float32)
    feeds = fitting_inputs(InputSet("given", {}, {"s": (x, x), "n": [1]}), inputs_of(SEQUENCE)).feeds
    assert len(feeds["s"]) == 2
    with pytest.raises(ModelError, match="s of the given inputs is not a list"):
        fitting_inputs(InputSet("given", {}, {"s": x, "n": [1]}), inputs_of(SEQUENCE))


def bad_file(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        (path / name).write_bytes(content)
        return path / name

    return make


def array_file(path: Path) -> Path:
    np.save(path / "in.npy", X)
    return path / "in.npy"


def objects_file(path: Path) -> Path:
    np.savez(path / "in.npz", x=np.array([object()], object), i=I)
    return path / "in.npz"


def damaged(path: Path) -> Path:
    (path / "d").mkdir()
    (path / "d" / "input_0.pb").write_bytes(b"\xff\xff")
    return path / "d"


def truncated(path: Path) -> Path:
    write_folder(path / "d", X, I)
    whole = numpy_helper.from_array(X).SerializeToString()
    tensor = onnx.TensorProto.FromString(whole)
    tensor.raw_data = tensor.raw_data[:5]
    (path / "d" / "input_0.pb").write_bytes(tensor.SerializeToString())
    return path / "d"


def as_npz_of(**arrays: Any) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        np.savez(path / "in.npz", **arrays)
        return path / "in.npz"

    return make


def as_test_data(*arrays: Any) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        write_folder(path / "d", *arrays)
        return path / "d"

    return make


@cases(
    ("make", "message"),
    {
        "missing": (lambda p: p / "none.npz", "does not exist"),
        "broken archive": (bad_file("in.npz", b"PK"), "is not an .npz"),
        "text": (bad_file("in.txt", b"1 2 3"), "is not an .npz"),
        "empty file": (bad_file("in.npz", b""), "is not an .npz"),
        "one array": (array_file, "is not an .npz"),
        "pickled objects": (objects_file, "in.npz: x.npy contains pickled objects, which are never read"),
        "empty folder": (lambda p: p, "holds no input_"),
        "damaged tensor": (damaged, "input_0.pb"),
        "tensor with too few elements": (truncated, "input_0.pb"),
        "name with a folder": (as_npz_of(**{"../x": X}), r"given \(in.npz: ..\) inputs lack i"),
        "type of a header": (as_npz_of(x=X.astype(np.float64)), "in.npz. inputs is float64"),
        "rank of a header": (as_npz_of(x=X[0]), r"x of the given \(in.npz\) inputs has shape \[3\]"),
        "dim of a header": (as_npz_of(x=X[:, :2]), r"has shape \[2,2\]; the model needs \[N,3\]"),
        "rank of a tensor": (as_test_data(X[0]), r"input_0.pb: x of the given .* has shape \[3\]"),
        "type of a tensor": (as_test_data(I), "input_0.pb: x of the given .* is int64"),
        "long name": (lambda p: p / ("x" * 300), "File name too long"),
    },
)
def test_unreadable_inputs_are_refused(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read_inputs(make(tmp_path), inputs_of(TWO))
    assert "\n" not in str(caught.value)


@cases(
    ("shapes", "sizes"),
    {"none": ({}, {}), "symbol": ({"x": (5, 3)}, {"N": 5}), "two inputs": ({"x": (5, 3), "i": (4,)}, {"N": 5, "M": 4})},
)
def test_sizes_from_shapes(shapes: dict[str, tuple[int, ...]], sizes: dict[str, int]) -> None:
    assert sizes_from_shapes(shapes, inputs_of(TWO)) == sizes


@cases(
    ("shapes", "message"),
    {
        "unknown input": ({"z": (1,)}, "no such input"),
        "rank": ({"x": (1,)}, "1 dims given, the input has 2"),
        "fixed dim": ({"x": (1, 4)}, "fixed at 3 cannot be 4"),
        "second input": ({"x": (1, 3), "z": (1, 2)}, "z"),
        "negative": ({"x": (-1, 3)}, "-1 is not a size"),
    },
)
def test_impossible_shapes(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        sizes_from_shapes(shapes, inputs_of(TWO))


def test_one_symbol_cannot_have_two_sizes() -> None:
    text = "g (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }"
    with pytest.raises(ModelError, match="N cannot be both 2 and 3"):
        sizes_from_shapes({"a": (2,), "b": (3,)}, inputs_of(text))
