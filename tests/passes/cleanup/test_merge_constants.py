"""Equal constants are stored once."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper
from passwright.core import to_onnx
from passwright.passes.cleanup import constants
from passwright.passes.cleanup.constants import MergeConstants
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, initializers, load, require_equivalent

from passwright import optimize

NAN = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
OTHER_NAN = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)


def left(a: Any, b: Any) -> list[str]:
    """The remaining constants of two that are read by one op."""
    model = load("g () => (bool[n] y) { y = Equal(a, b) }", weights={"a": a, "b": b})
    result, _ = apply_passes(model, MergeConstants())
    kept = initializers(to_onnx(result))
    assert [i for n in to_onnx(result).graph.node for i in n.input] == list(kept) * (3 - len(kept))
    return list(kept)


@each(
    "dtype",
    ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64"],
)
@each("shape", [(), (0,), (1,), (2, 3), (40, 40)])
def test_equal_constants_merge(dtype: str, shape: tuple[int, ...]) -> None:
    a = np.ones(shape, dtype)
    assert left(a, a.copy()) == ["a"]


@each("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_equal_constants_of_small_types_merge(dtype: str) -> None:
    a = np.arange(6).astype(getattr(ml_dtypes, dtype))
    assert left(a, a.copy()) == ["a"]
    assert left(a, np.roll(a, 1)) == ["a", "b"]


@each(
    ("a", "b"),
    {
        "strings": (np.array(["a", "b"], object), np.array(["a", "b"], object)),
        "more strings": (np.array(["é", ""], object), np.array(["é", ""], object)),
        "the same NaN": (NAN, NAN.copy()),
        "negative zeros": (np.array([-0.0]), np.array([-0.0])),
    },
)
def test_equal_bits_merge(a: Any, b: Any) -> None:
    assert left(a, b) == ["a"]


@each(
    ("a", "b"),
    {
        "other type": (np.ones(2, np.float32), np.ones(2, np.float64)),
        "other type, same bits": (np.ones(2, np.int32), np.ones(2, np.uint32)),
        "other type, same zeros": (np.zeros(2, np.int32), np.zeros(2, np.float32)),
        "other shape": (np.ones((2, 3)), np.ones((3, 2))),
        "other rank": (np.ones((6,)), np.ones((2, 3))),
        "scalar and vector": (np.ones(()), np.ones((1,))),
        "empty, other shape": (np.ones((0, 2)), np.ones((0, 3))),
        "zeros of other sign": (np.array([0.0]), np.array([-0.0])),
        "NaNs of other payload": (NAN, OTHER_NAN),
        "other strings": (np.array(["a", "b"], object), np.array(["ab", ""], object)),
        "other string": (np.array(["a"], object), np.array(["b"], object)),
        "other content": (np.array([1, 2]), np.array([1, 3])),
    },
)
def test_different_constants_stay(a: Any, b: Any) -> None:
    assert left(a, b) == ["a", "b"]


@each("place", [100, 5_000, 9_999])
def test_one_different_element_counts(place: int) -> None:
    a = np.zeros(10_000, np.float32)
    b = a.copy()
    b[place] = 1
    assert left(a, b) == ["a", "b"]


@each(
    ("kind", "values"),
    [
        (TensorProto.FLOAT, [1.0, 2.0, -0.0]),
        (TensorProto.INT64, [1, 2, -3]),
        (TensorProto.FLOAT16, [1.0, 2.0, 0.5]),
        (TensorProto.INT4, [1, 2, -3]),
        (TensorProto.UINT4, [1, 2, 15]),
    ],
)
def test_two_encodings_of_one_tensor_merge(kind: int, values: list[float]) -> None:
    """Elements are stored in the field of their type or as raw bytes (onnx.proto, TensorProto)."""
    model = load("g () => (bool[n] y) { y = Equal(a, b) }")
    typed = helper.make_tensor("a", kind, [3], values)
    raw = numpy_helper.from_array(numpy_helper.to_array(typed), "b")
    assert raw.raw_data
    assert not typed.raw_data
    model.graph.initializer.extend([typed, raw])
    result, _ = apply_passes(model, MergeConstants())
    assert list(initializers(to_onnx(result))) == ["a"]


merge_constants = Rewrites(
    "g ({x}) => (float[] y)",
    MergeConstants(),
    weights={"v": [1.0, 2.0], "w": [1.0, 2.0], "u": [1.0, 2.0]},
    x="bool c, float[2] x",
)

test_becomes = merge_constants.all_become("""
    three of a kind [x=float[2] x]: a = Add(x, v) b = Mul(a, w) y = Sub(b, u)
        => a = Add(x, v) b = Mul(a, v) y = Sub(b, v)
    the same value twice [x=float[2] x]: a = Sum(v, w, v) y = Add(x, a) => a = Sum(v, v, v) y = Add(x, a)
    one is a graph output [graph=g (float[2] x) => (float[n] y, float[2] v)]: a = Mul(x, w) b = Add(u, v) y = Sub(a, b)
        => a = Mul(x, w) b = Add(w, v) y = Sub(a, b)
    inside an If body, into the outer one: z = Add(x, v)
        y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> { r = Mul(z, w) },
        else_branch = q () => (float[n] s) <float[2] u = {2,2}> { s = Mul(z, u) }> => z = Add(x, v)
        y = If(c) <then_branch = p () => (float[n] r) { r = Mul(z, v) },
        else_branch = q () => (float[n] s) <float[2] u = {2,2}> { s = Mul(z, u) }>
    within an If body: y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}, float[2] u = {1,2}> {
        t = Mul(x, w) r = Sub(t, u) }, else_branch = q () => (float[n] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> { t = Mul(x, w) r = Sub(t, w) },
        else_branch = q () => (float[n] s) { s = Neg(x) }>
    captured by If bodies: z = Add(x, v) y = If(c) <then_branch = p () => (float[n] r) { r = Mul(z, w) },
        else_branch = q () => (float[n] s) { s = Div(w, z) }> => z = Add(x, v)
        y = If(c) <then_branch = p () => (float[n] r) { r = Mul(z, v) }, else_branch = q () => (float[n] s) {
        s = Div(v, z) }>
    in different If bodies: y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> { r = Mul(x, w) },
        else_branch = q () => (float[n] s) <float[2] u = {1,2}> { s = Div(x, u) }> =>
        y = If(c) <then_branch = p () => (float[n] r) { r = Mul(x, w) }, else_branch = q () => (float[n] s) {
        s = Div(x, w) }>
    in different If bodies, under a name that is borne outside [graph=g (bool c, float[2] x) => (float[] y) <float[2] w
        = {3,4}>]: v = Add(x, w) y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> { a = Mul(v, w)
        r = Sub(a, w) }, else_branch = q () => (float[n] s) <float[2] u = {1,2}, float[2] k = {1,2}> { b = Div(v, u)
        s = Add(b, k) }> => v = Add(x, w) y = If(c) <then_branch = p () => (float[n] r) { a = Mul(v, l) r = Sub(a, l) },
        else_branch = q () => (float[n] s) { b = Div(v, l) s = Add(b, l) }>
    in three bodies, at different depths: t = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> {
        r = Mul(x, w) }, else_branch = q () => (float[n] s) { s = Neg(x) }>
        y = If(c) <then_branch = k () => (float[n] l) {
        a = If(c) <then_branch = d () => (float[n] e) <float[2] u = {1,2}> { e = Div(x, u) },
        else_branch = f () => (float[n] h) { h = Exp(t) }> l = Neg(a) },
        else_branch = m () => (float[n] o) <float[2] i = {1,2}> { o = Abs(i) }> =>
        t = If(c) <then_branch = p () => (float[n] r) { r = Mul(x, w) }, else_branch = q () => (float[n] s) {
        s = Neg(x) }> y = If(c) <then_branch = k () => (float[n] l) { a = If(c) <then_branch = d () => (float[n] e) {
        e = Div(x, w) }, else_branch = f () => (float[n] h) { h = Exp(t) }> l = Neg(a) },
        else_branch = m () => (float[n] o) { o = Abs(w) }>
""")

test_stays = merge_constants.all_stay("""
    both are graph outputs [graph=g (float[2] x) => (float[n] y, float[2] v, float[2] w)]: t = Add(x, v) y = Add(t, w)
    one is overridable [x=float[2] x, float[2] v = {1,2}]: t = Add(x, v) y = Add(t, w)
    both are overridable [x=float[2] x, float[2] v = {1,2}, float[2] w = {1,2}]: t = Add(x, v) y = Add(t, w)
    one is returned by a body: y = If(c) <then_branch = p () => (float[2] r) <float[2] r = {1,2}> { },
        else_branch = q () => (float[n] s) <float[2] u = {1,2}> { s = Div(x, u) }>
    in different If bodies, other content: y = If(c) <then_branch = p () => (float[n] r) <float[2] w = {1,2}> {
        r = Mul(x, w) }, else_branch = q () => (float[n] s) <float[2] u = {1,3}> { s = Div(x, u) }>
    a body may not return an outer value itself: z = Add(x, v)
        y = If(c) <then_branch = p () => (float[2] w) <float[2] w = {1,2}> { }, else_branch = q () => (float[n] s) {
        s = Neg(z) }>
""")


def test_constants_of_the_same_bytes_of_a_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w").write_bytes(bytes(8000))
    model = load("g () => (bool[n] y) { y = Equal(a, b) }")
    for name in "ab":
        tensor = TensorProto(name=name, dims=[2000], data_type=1, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="w")
        model.graph.initializer.append(tensor)
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.setattr(constants, "digest", None)
    found = optimize(tmp_path / "m.onnx", pipeline="merge-constants", verify=False).model
    assert [t.name for t in found.graph.initializer] == ["a"]


def test_annotated_constants_stay() -> None:
    """A quantization annotation refers to tensors by name."""
    model = load(
        "g (float[2] x) => (float[n] y) <float[2] v = {1,2}, float[2] w = {1,2}> { t = Add(x, v) y = Mul(t, w) }"
    )
    note = model.graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="v")
    result, change_log = apply_passes(model, MergeConstants())
    assert not change_log.changes
    assert to_onnx(result) == model


def test_an_outer_twin_hidden_by_an_inner_name() -> None:
    """Inside the body `v` is another tensor: the twin outside cannot be reached by its name."""
    text = (
        "g (bool c, float[2] x) => (float[n] y) <float[2] v = {1,2}> { z = Add(x, v) y = If (c) <"
        "then_branch = p () => (float[n] r) <float[2] w = {1,2}, float[2] v = {5,6}> { t = Mul(z, w) r = Add(t, v) }, "
        "else_branch = q () => (float[n] s) { s = Neg(z) }> }"
    )
    model = load(text)
    result, _ = apply_passes(model, MergeConstants())
    require_equivalent(model, to_onnx(result), exact=True)


ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.int64, np.bool_]), st.sampled_from([(), (2,), (1, 2)]), elements=st.integers(0, 1)
)


@given(arrays=st.lists(ARRAYS, min_size=1, max_size=6))
def test_any_constants_become_distinct(arrays: list[np.ndarray]) -> None:
    names = [f"w{i}" for i in range(len(arrays))]
    ops = " ".join(f"t{n} = Cast<to=1>({n}) u{n} = Reshape(t{n}, k)" for n in names)
    ops += f" y = Concat<axis=0>({', '.join(f'u{n}' for n in names)})"
    text = f"g () => (float[n] y) <int64[1] k = {{-1}}> {{ {ops} }}"
    model = load(text, weights=dict(zip(names, arrays, strict=True)))
    result, _ = apply_passes(model, MergeConstants())
    kinds = {(a.dtype.str, a.shape, a.tobytes()) for a in arrays}
    assert len(initializers(to_onnx(result))) == len(kinds) + 1
    require_equivalent(model, to_onnx(result), exact=True)
