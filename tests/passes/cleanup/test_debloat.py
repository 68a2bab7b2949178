"""Large constants that repeat themselves."""

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from passwright.core import to_onnx
from passwright.passes.cleanup.constants import Debloat
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

SMALL = Debloat(min_bytes=64)
ROWS = np.tile(np.arange(6, dtype=np.float32), (4, 5, 1))


def reader(array: np.ndarray[Any, Any], *, opset: int = 17) -> Any:
    """A model that returns the shape of a constant, and its elements unchanged."""
    kind = numpy_helper.from_array(array).data_type
    name = {1: "float", 10: "float16", 11: "double", 9: "bool"}.get(kind, str(array.dtype))
    dims = ",".join(f"d{i}" for i in range(array.ndim))
    text = f"g ({name}[m] x) => ({name}[{dims}] y) {{ y = Expand(w, one) }}"
    return load(text, opset, {"w": array, "one": np.array([1], np.int64)})


@each(
    ("array", "op", "left"),
    {
        "ones": (np.ones((5, 7), np.float32), "ConstantOfShape", []),
        "negative zeros": (np.full((100,), -0.0, np.float32), "ConstantOfShape", []),
        "NaNs": (np.full((4, 9), np.nan, np.float32), "ConstantOfShape", []),
        "integers": (np.full((30,), 3, np.int64), "ConstantOfShape", []),
        "booleans": (np.ones((99,), np.bool_), "ConstantOfShape", []),
        "halves": (np.full((99,), 0.5, np.float16), "ConstantOfShape", []),
        "doubles": (np.full((3, 30), 2, np.float64), "ConstantOfShape", []),
        "rows": (ROWS, "Expand", [(6,)]),
        "matrices": (np.tile(np.arange(30).reshape(5, 6), (9, 1, 1)), "Expand", [(5, 6)]),
        "under an axis of 1": (np.tile(np.arange(3, dtype=np.uint8), (1, 99, 1)), "Expand", [(3,)]),
    },
)
def test_becomes(array: np.ndarray[Any, Any], op: str, left: list[tuple[int, ...]]) -> None:
    model = reader(array)
    result, _ = apply_passes(model, SMALL)
    out = to_onnx(result)
    assert op_types(out) == [op, "Expand"]
    shapes = [a.shape for name, a in initializers(out).items() if name.startswith("w_pw")]
    assert shapes == left
    require_equivalent(model, out, exact=True)


ALMOST = np.ones((5, 7), np.float32)
ALMOST[4, 6] = 2


@each(
    ("array", "opset"),
    {
        "all different": (np.arange(64, dtype=np.float32), 17),
        "the last differs": (ALMOST, 17),
        "zeros of both signs": (np.where(np.arange(64) % 2, 0.0, -0.0).astype(np.float32), 17),
        "columns": (ROWS.transpose(2, 0, 1).copy(), 17),
        "too little": (np.ones((3, 3), np.float32), 17),
        "nothing saved": (np.tile(np.arange(60, dtype=np.float32), (1, 1)), 17),
        "empty": (np.ones((0, 99), np.float32), 17),
        "before ConstantOfShape": (np.ones((5, 7), np.float32), 8),
    },
)
def test_stays(array: np.ndarray[Any, Any], opset: int) -> None:
    model = reader(array, opset=opset)
    result, change_log = apply_passes(model, SMALL)
    assert not change_log.changes
    assert to_onnx(result) == model


@each("kind", ["bfloat16", "int4", "float8_e4m3fn"])
def test_unsupported_types_stay(kind: str) -> None:
    model = load("g () => (float[n] y) { y = Cast<to=1>(w) }", 21)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(999, getattr(ml_dtypes, kind)), "w"))
    result, change_log = apply_passes(model, SMALL)
    assert not change_log.changes
    assert to_onnx(result) == model


def test_strings_stay() -> None:
    model = load("g (string[n] x) => (string[m] y) { y = Concat<axis=0>(x, w) }")
    model.graph.initializer.append(helper.make_tensor("w", 8, [99], [b"same"] * 99))
    result, change_log = apply_passes(model, SMALL)
    assert not change_log.changes
    assert to_onnx(result) == model


@each(
    "text",
    {
        "a graph output": ("g (float[64] x) => (float[64] y, float[64] w) { y = Neg(x) z = Add(w, x) }"),
        "overridable": ("g (float[64] x, float[64] w) => (float[64] y) { y = Add(x, w) }"),
        "unused": ("g (float[64] x) => (float[64] y) { y = Neg(x) }"),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, SMALL, weights={"w": np.ones(64, np.float32)})


def test_constants_of_bodies_stay() -> None:
    """They would be computed again in each trip."""
    model = load(
        "g (int64 k, float[64] x) => (float[64] y) <bool t = {1}> { y = Loop (k, t, x) <body = b"
        " (int64 i, bool c, float[64] a) => (bool d, float[64] e) { d = Identity(c) e = Add(a, w) }> }"
    )
    model.graph.node[0].attribute[0].g.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "w"))
    result, change_log = apply_passes(model, SMALL)
    assert not change_log.changes
    assert to_onnx(result) == model


def test_constants_captured_by_bodies() -> None:
    model = load(
        "g (bool c, float[64] x) => (float[64] y) { y = If (c) <"
        "then_branch = p () => (float[64] r) { r = Add(x, w) }, else_branch = q () => (float[64] s) { s = Neg(x) }> }",
        weights={"w": np.ones(64, np.float32)},
    )
    result, _ = apply_passes(model, SMALL)
    assert op_types(to_onnx(result)) == ["ConstantOfShape", "If"]
    require_equivalent(model, to_onnx(result), exact=True)


def test_default_limit_is_a_megabyte() -> None:
    text = "g (float[N,1024] x) => (float[N,1024] y) { y = MatMul(x, w) }"
    weights = {"w": np.zeros((1024, 1024), np.float32)}
    after = "<int64[2] k = {1024,1024}> { v = ConstantOfShape<value=float[1] {0}>(k) y = MatMul(x, v) }"
    becomes(text, f"{text.partition('{')[0]} {after}", Debloat(), weights=weights)
    stays(text.replace("1024", "256"), Debloat(), weights={"w": np.zeros((256, 256), np.float32)})


@given(dims=st.lists(st.integers(1, 4), min_size=1, max_size=4), repeated=st.integers(0, 4))
def test_any_repetition(dims: list[int], repeated: int) -> None:
    repeated = min(repeated, len(dims))
    part = np.arange(np.prod(dims[repeated:], dtype=int), dtype=np.int32).reshape(dims[repeated:])
    array = np.broadcast_to(part, dims).copy()
    model = reader(array)
    result, change_log = apply_passes(model, Debloat(min_bytes=1))
    assert bool(change_log.changes) == (part.size < array.size)
    require_equivalent(model, to_onnx(result), exact=True)
