"""Removal of quantization that changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.cleanup import quantization
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.cleanup.quantization import cancel_quantization, drop_clamp_before_quantization, move_integers
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

SIMPLIFY_QUANTIZATION = rule_pass(quantization, "simplify-quantization")

INTEGERS = "g (int8[N,4] x) => (int8[n,m] y)"
P = "<float s = {0.1}, int8 z = {3}>"
VECTORS = "<float[4] s = {0.1, 2, 0.003, 5}, int8[4] z = {3, 0, -128, 127}>"
OPSETS = [10, 13, 19, 21, 23]


@pytest.mark.parametrize("opset", OPSETS)
def test_pair_becomes(opset: int) -> None:
    becomes(
        f"{INTEGERS} {P} {{ d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }}",
        f"{INTEGERS} {{ y = Identity(x) }}",
        cancel_quantization,
        opset=opset,
    )


@cases(
    ("before", "after"),
    {
        "twice": (
            (
                f"g (float[N,4] x) => (float[N,4] y) {P} {{ a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)"
                " c = QuantizeLinear(b, s, z) y = DequantizeLinear(c, s, z) }"
            ),
            f"g (float[N,4] x) => (float[N,4] y) {P} {{ a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z) }}",
        ),
        "a vector of one scale, and a zero point left out": (
            (
                f"{INTEGERS} <float s = {{0.1}}, float[1] t = {{0.1}}, int8 z = {{0}}>"
                " { d = DequantizeLinear(x, s) y = QuantizeLinear(d, t, z) }"
            ),
            f"{INTEGERS} {{ y = Identity(x) }}",
        ),
        "no zero points": (
            (
                "g (uint8[N,4] x) => (uint8[N,4] y) <float s = {0.1}>"
                " { d = DequantizeLinear(x, s) y = QuantizeLinear(d, s) }"
            ),
            "g (uint8[N,4] x) => (uint8[N,4] y) { y = Identity(x) }",
        ),
        "by axis": (
            f"{INTEGERS} {VECTORS} {{ d = DequantizeLinear<axis = -1>(x, s, z) y = QuantizeLinear(d, s, z) }}",
            f"{INTEGERS} {{ y = Identity(x) }}",
        ),
        "the floats are an output as well": (
            (
                "g (int8[N,4] x) => (int8[N,4] y, float[N,4] d)"
                f" {P} {{ d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }}"
            ),
            f"g (int8[N,4] x) => (int8[N,4] y, float[N,4] d) {P} {{ d = DequantizeLinear(x, s, z) y = Identity(x) }}",
        ),
        "no elements": (
            f"g (int8[0,4] x) => (int8[0,4] y) {P} {{ d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }}",
            "g (int8[0,4] x) => (int8[0,4] y) { y = Identity(x) }",
        ),
        "inside an If body": (
            (
                f"g (bool b, int8[N] x) => (int8[N] y) {P} {{ y = If (b) <then_branch = t () => (int8[N] u)"
                " { d = DequantizeLinear(x, s, z) u = QuantizeLinear(d, s, z) },"
                " else_branch = f () => (int8[N] w) { w = Concat<axis = 0>(x) }> }"
            ),
            (
                "g (bool b, int8[N] x) => (int8[N] y) { y = If (b) <then_branch = t () => (int8[N] u) { u ="
                " Identity(x) },"
                " else_branch = f () => (int8[N] w) { w = Concat<axis = 0>(x) }> }"
            ),
        ),
    },
)
def test_cancels(before: str, after: str) -> None:
    becomes(before, after, cancel_quantization)


@pytest.mark.parametrize(
    ("kind", "floats"),
    [
        ("int8", "float"),
        ("uint8", "float"),
        ("int16", "float"),
        ("uint16", "float"),
        ("int4", "float"),
        ("uint4", "float"),
        ("int8", "float16"),
        ("uint8", "float16"),
        ("int4", "float16"),
    ],
)
def test_every_type(kind: str, floats: str) -> None:
    text = f"g ({floats}[N,4] x) => ({floats}[N,4] y) <{kind} z = {{3}}"
    pair = "d = DequantizeLinear(a, s, z) e = QuantizeLinear(d, s, z)"
    weights = {"s": np.array(0.37, "float32" if floats == "float" else floats)}
    becomes(
        f"{text}> {{ a = QuantizeLinear(x, s, z) {pair} y = DequantizeLinear(e, s, z) }}",
        f"{text}, {floats} s = {{1}}> {{ a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z) }}",
        cancel_quantization,
        opset=21,
        weights=weights,
    )


@cases(
    ("text", "opset"),
    {
        "other scale": (
            (
                f"{INTEGERS} <float s = {{0.1}}, float t = {{0.2}}, int8 z = {{3}}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, t, z) }"
            ),
            17,
        ),
        "other zero point": (
            (
                f"{INTEGERS} <float s = {{0.1}}, int8 z = {{3}}, int8 w = {{4}}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, w) }"
            ),
            17,
        ),
        "other type": (
            (
                "g (int8[N,4] x) => (uint8[N,4] y) <float s = {0.1}>"
                " { d = DequantizeLinear(x, s) y = QuantizeLinear(d, s) }"
            ),
            17,
        ),
        "other axis": (
            (
                f"g (int8[4,4] x) => (int8[4,4] y) {VECTORS}"
                " { d = DequantizeLinear<axis = 0>(x, s, z) y = QuantizeLinear<axis = 1>(d, s, z) }"
            ),
            17,
        ),
        "computed scale": (
            (
                "g (int8[N,4] x, float s) => (int8[N,4] y) <int8 z = {3}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            17,
        ),
        "overridable initializer": (
            (
                "g (int8[N,4] x, float s = {0.1}) => (int8[N,4] y) <int8 z = {3}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            17,
        ),
        "scale 0": (
            (
                f"{INTEGERS} <float s = {{0}}, int8 z = {{3}}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            17,
        ),
        "overflow": (
            (
                f"{INTEGERS} <float s = {{1e37}}, int8 z = {{3}}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            17,
        ),
        "the other way round": (
            (
                "g (float[N,4] x) => (float[N,4] y) <float s = {0.1}, int8 z = {3}>"
                " { d = QuantizeLinear(x, s, z) y = DequantizeLinear(d, s, z) }"
            ),
            17,
        ),
        "something between": (
            f"{INTEGERS} {P} {{ d = DequantizeLinear(x, s, z) n = Neg(d) y = QuantizeLinear(n, s, z) }}",
            17,
        ),
        "onnxruntime has no Identity of 4 bits": (
            (
                "g (int4[N,4] x) => (int4[N,4] y) <float s = {0.1}, int4 z = {3}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            21,
        ),
        "8-bit floats": (
            (
                "g (float8e4m3fn[N,4] x) => (float8e4m3fn[N,4] y) <float s = {0.1}, float8e4m3fn z = {0}>"
                " { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
            ),
            19,
        ),
    },
)
def test_stays(text: str, opset: int) -> None:
    stays(text, SIMPLIFY_QUANTIZATION, opset=opset)


def test_more_digits_than_the_floats_have_stay() -> None:
    text = "g (uint16[N,4] x) => (uint16[N,4] y) { d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }"
    stays(text, SIMPLIFY_QUANTIZATION, opset=21, weights={"s": np.float16(0.1), "z": np.uint16(3)})


def test_blocks() -> None:
    weights = {"s": np.array([[0.1, 2], [3, 0.4]], np.float32), "z": np.array([[1, 2], [3, 4]], np.int8)}
    text = "g (int8[4,2] x) => (int8[4,2] y)"
    pair = (
        "d = DequantizeLinear<axis = 0, block_size = 2>(x, s, z) y = QuantizeLinear<axis = {}, block_size = 2>(d, s, z)"
    )
    before, after = f"{text} {{ {pair.format(-2)} }}", f"{text} {{ y = Identity(x) }}"
    becomes(before, after, cancel_quantization, opset=21, weights=weights)
    moved = pair.replace("y =", "t = Neg(x) w = Transpose<perm = [0,1]>(d) y =").replace("(d, s, z)", "(w, s, z)")
    stays(f"{text} {{ {moved.format(0)} }}", SIMPLIFY_QUANTIZATION, opset=21, weights=weights)


@given(
    kind=st.sampled_from(["int8", "uint8", "int16", "uint16"]),
    scale=st.floats(np.float32(1e-38), np.float32(3e38), width=32),
    where=st.floats(0, 1),
)
def test_any_parameters(kind: str, scale: float, where: float) -> None:
    limits = np.iinfo(kind)
    zero = round(limits.min + where * (limits.max - limits.min))
    weights: dict[str, Any] = {"s": np.float32(scale), "z": np.array(zero, kind)}
    text = f"g ({kind}[N] x) => ({kind}[N] y) {{ d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z) }}"
    model = load(text, 21, weights)
    out = to_onnx(apply_passes(model, cancel_quantization)[0])
    most = max(limits.max - zero, zero - limits.min) * float(np.float32(scale))
    fits = most <= float(np.finfo(np.float32).max)
    assert op_types(out) == (["Identity"] if fits else ["DequantizeLinear", "QuantizeLinear"])
    require_equivalent(model, out, exact=True)


BETWEEN = {
    "Transpose": (3, "t = Transpose<perm = [1,0,2]>(d)", "y = Transpose<perm = [1,0,2]>(x)"),
    "Reshape": (2, "t = Reshape(d, r)", "y = Reshape(x, r)"),
    "Flatten": (2, "t = Flatten(d)", "y = Flatten(x)"),
    "Unsqueeze": (4, "t = Unsqueeze(d, i)", "y = Unsqueeze(x, i)"),
    "Slice": (3, "t = Slice(d, i, j)", "y = Slice(x, i, j)"),
    "Gather": (3, "t = Gather<axis = 1>(d, i)", "y = Gather<axis = 1>(x, i)"),
    "Expand": (3, "t = Expand(d, e)", "y = Expand(x, e)"),
    "Tile": (3, "t = Tile(d, e)", "y = Tile(x, e)"),
    "GatherND": (2, "t = GatherND(d, i)", "y = GatherND(x, i)"),
    "two": (2, "u = Reshape(d, r) t = Transpose(u)", "u = Reshape(x, r) y = Transpose(u)"),
    "Concat of one value": (3, "t = Concat<axis = 0>(d, d)", "y = Concat<axis = 0>(x, x)"),
}
CONSTANTS = "int64[2] r = {0, 2}, int64[1] i = {0}, int64[1] j = {1}, int64[3] e = {2, 1, 1}"


@pytest.mark.parametrize("kind", ["int8", "uint16"])
@pytest.mark.parametrize(("rank", "between", "moved"), BETWEEN.values(), ids=BETWEEN.keys())
def test_movement_becomes(kind: str, rank: int, between: str, moved: str) -> None:
    dims = ",".join("abcd"[:rank])
    text = f"g ({kind}[N,2,1] x) => ({kind}[{dims}] y) <{CONSTANTS}, float s = {{0.1}}, {kind} z = {{3}}>"
    before = f"{text} {{ d = DequantizeLinear(x, s, z) {between} y = QuantizeLinear(t, s, z) }}"
    becomes(before, f"{text} {{ {moved} }}", move_integers, opset=21)


PAIR = (
    "<float s = {{0.1}}, {0} z = {{3}}> {{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) t = Transpose(d)"
    " p = QuantizeLinear(t, s, z) y = DequantizeLinear(p, s, z) }}"
)


@cases(
    ("before", "after", "opset"),
    {
        "pool": (
            (
                "g (int8[N,2,5,5] x) => (int8[a,b,c,d] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x,"
                " s, z)"
                " t = MaxPool<kernel_shape = [3,3], pads = [1,1,0,0], strides = [2,2], ceil_mode = 1>(d)"
                " y = QuantizeLinear(t, s, z) }"
            ),
            (
                "g (int8[N,2,5,5] x) => (int8[a,b,c,d] y)"
                " { y = MaxPool<kernel_shape = [3,3], pads = [1,1,0,0], strides = [2,2], ceil_mode = 1>(x) }"
            ),
            12,
        ),
        "blocks": (
            (
                "g (int8[N,8,1,1] x) => (int8[a,b,c,d] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x,"
                " s, z)"
                " t = DepthToSpace<blocksize = 2>(d) y = QuantizeLinear(t, s, z) }"
            ),
            "g (int8[N,8,1,1] x) => (int8[a,b,c,d] y) { y = DepthToSpace<blocksize = 2>(x) }",
            13,
        ),
        "concat": (
            (
                "g (int8[N,2] x, int8[M,2] w) => (int8[a,b] y) <float s = {0.1}, int8 z = {3}> {"
                " d = DequantizeLinear(x, s, z)"
                " e = DequantizeLinear(w, s, z) t = Concat<axis = 0>(d, e, d) y = QuantizeLinear(t, s, z) }"
            ),
            "g (int8[N,2] x, int8[M,2] w) => (int8[a,b] y) { y = Concat<axis = 0>(x, w, x) }",
            17,
        ),
        "the floats are an output as well": (
            (
                "g (int8[N,2] x) => (int8[a,b] y, float[N,2] d) <float s = {0.1}, int8 z = {3}> {"
                " d = DequantizeLinear(x, s, z)"
                " t = Transpose(d) y = QuantizeLinear(t, s, z) }"
            ),
            (
                "g (int8[N,2] x) => (int8[a,b] y, float[N,2] d) <float s = {0.1}, int8 z = {3}> {"
                " d = DequantizeLinear(x, s, z) y = Transpose(x) }"
            ),
            17,
        ),
        "between pairs": (
            f"g (float[N,2] x) => (float[2,N] y) {PAIR.format('uint8')}",
            (
                "g (float[N,2] x) => (float[2,N] y) <float s = {0.1}, uint8 z = {3}> {"
                " q = QuantizeLinear(x, s, z) t = Transpose(q) y = DequantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "opset 10": (
            (
                "g (int8[N,2] x) => (int8[a,b,c] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x, s, z)"
                " t = Unsqueeze<axes = [0]>(d) y = QuantizeLinear(t, s, z) }"
            ),
            "g (int8[N,2] x) => (int8[a,b,c] y) { y = Unsqueeze<axes = [0]>(x) }",
            10,
        ),
    },
)
def test_movement_becomes_elsewhere(before: str, after: str, opset: int) -> None:
    becomes(before, after, move_integers, opset=opset)


SPLIT = "g (uint8[N,4] x) => (uint8[N,2] y, uint8[N,2] v) <float s = {0.1}, uint8 z = {3}, uint8 w = {4}>"


@pytest.mark.parametrize(
    ("opset", "outputs"), [(10, ""), (13, ""), (18, ", num_outputs = 2"), (23, ", num_outputs = 2")]
)
def test_split_becomes(opset: int, outputs: str) -> None:
    part = f"Split<axis = 1{outputs}>"
    becomes(
        f"{SPLIT} {{ d = DequantizeLinear(x, s, z) t, u = {part}(d)"
        " y = QuantizeLinear(t, s, z) v = QuantizeLinear(u, s, z) }",
        f"{SPLIT} {{ y, v = {part}(x) }}",
        SIMPLIFY_QUANTIZATION,
        RemoveUnused(),
        opset=opset,
    )


def test_split_of_moved_integers_becomes() -> None:
    becomes(
        "g (uint8[4,N] x) => (uint8[a,b] y) <float s = {0.1}, uint8 z = {3}> { d = DequantizeLinear(x, s, z)"
        " r = Transpose(d) t, u = Split<axis = 1>(r) y = QuantizeLinear(t, s, z) }",
        "g (uint8[4,N] x) => (uint8[a,b] y) { r = Transpose(x) y, v = Split<axis = 1>(r) }",
        SIMPLIFY_QUANTIZATION,
        RemoveUnused(),
    )


@cases(
    "body",
    {
        "other zero point": ("y = QuantizeLinear(t, s, z) v = QuantizeLinear(u, s, w)"),
        "one read elsewhere": ("y = QuantizeLinear(t, s, z) n = Neg(u) v = QuantizeLinear(n, s, z)"),
        "others than before": ("y = QuantizeLinear(t, s, w) v = QuantizeLinear(u, s, w)"),
    },
)
def test_split_stays(body: str) -> None:
    stays(f"{SPLIT} {{ d = DequantizeLinear(x, s, z) t, u = Split<axis = 1>(d) {body} }}", SIMPLIFY_QUANTIZATION)


def test_split_stays_where_a_part_is_an_output() -> None:
    text = SPLIT.replace("uint8[N,2] v", "float[N,2] u")
    body = "d = DequantizeLinear(x, s, z) t, u = Split<axis = 1>(d) y = QuantizeLinear(t, s, z)"
    stays(f"{text} {{ {body} }}", SIMPLIFY_QUANTIZATION)


@cases(
    "body",
    {
        "other scale": ("t = Transpose(d) y = QuantizeLinear(t, q, z)"),
        "other zero point": ("t = Transpose(d) y = QuantizeLinear(t, s, w)"),
        "shared inner value": ("t = Transpose(d) n = Relu(t) y = QuantizeLinear(t, s, z)"),
        "something between": ("n = Relu(d) t = Transpose(n) y = QuantizeLinear(t, s, z)"),
        "two": ("e = DequantizeLinear(x, q, z) t = Concat<axis = 0>(d, e) y = QuantizeLinear(t, s, z)"),
        "concat with floats": ("t = Concat<axis = 0>(d, f) y = QuantizeLinear(t, s, z)"),
        "pad": ("t = Pad(d, p, q) y = QuantizeLinear(t, s, z)"),
    },
)
def test_movement_stays(body: str) -> None:
    constants = "<float s = {0.1}, float q = {0.2}, int8 z = {3}, int8 w = {4}, int64[4] p = {0,1,0,1}>"
    text = f"g (int8[N,2] x, float[M,2] f) => (int8[a,b] y) {constants} {{ d = DequantizeLinear(x, s, z) {body} }}"
    stays(text, SIMPLIFY_QUANTIZATION)


@cases(
    ("text", "opset"),
    {
        "pool before opset 12": (
            (
                "g (int8[N,2,5,5] x) => (int8[a,b,c,d] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x,"
                " s, z)"
                " t = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, s, z) }"
            ),
            11,
        ),
        "pool with indices": (
            (
                "g (int8[N,2,5,5] x) => (int8[a,b,c,d] y, int64[e,f,g,h] j) <float s = {0.1}, int8 z = {3}>"
                " { d = DequantizeLinear(x, s, z) t, j = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "pool of 16 bits": (
            (
                "g (uint16[N,2,5,5] x) => (uint16[a,b,c,d] y) <float s = {0.1}, uint16 z = {3}>"
                " { d = DequantizeLinear(x, s, z) t = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, s, z) }"
            ),
            21,
        ),
        "mean": (
            (
                "g (int8[N,2,5,5] x) => (int8[a,b,c,d] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x,"
                " s, z)"
                " t = AveragePool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "between signed pairs": (f"g (float[N,2] x) => (float[2,N] y) {PAIR.format('int8')}", 17),
        "before a signed pair": (
            (
                "g (int8[N,2] x) => (float[2,N] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x, s, z)"
                " t = Transpose(d) p = QuantizeLinear(t, s, z) y = DequantizeLinear(p, s, z) }"
            ),
            17,
        ),
        "behind a signed pair": (
            (
                "g (float[N,2] x) => (int8[2,N] y) <float s = {0.1}, int8 z = {3}> { q = QuantizeLinear(x, s, z)"
                " d = DequantizeLinear(q, s, z) t = Transpose(d) y = QuantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "blocks of 16 bits": (
            (
                "g (int16[N,8,1,1] x) => (int16[a,b,c,d] y) <float s = {0.1}, int16 z = {3}> {"
                " d = DequantizeLinear(x, s, z)"
                " t = DepthToSpace<blocksize = 2>(d) y = QuantizeLinear(t, s, z) }"
            ),
            21,
        ),
        "4 bits": (
            (
                "g (int4[N,2] x) => (int4[a] y) <float s = {0.1}, int4 z = {3}, int64[1] r = {-1}>"
                " { d = DequantizeLinear(x, s, z) t = Reshape(d, r) y = QuantizeLinear(t, s, z) }"
            ),
            21,
        ),
        "by axis": (
            (
                f"g (int8[4,4] x) => (int8[4,4] y) {VECTORS}"
                " { d = DequantizeLinear(x, s, z) t = Transpose(d) y = QuantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "the moved floats are an output": (
            (
                "g (int8[N,2] x) => (int8[a,b] y, float[c,d] t) <float s = {0.1}, int8 z = {3}> {"
                " d = DequantizeLinear(x, s, z)"
                " t = Transpose(d) y = QuantizeLinear(t, s, z) }"
            ),
            17,
        ),
        "moved outside of the body": (
            (
                "g (bool b, int8[N,2] x) => (int8[p,q] y) <float s = {0.1}, int8 z = {3}> { d = DequantizeLinear(x,"
                " s, z)"
                " t = Transpose(d) y = If (b) <then_branch = t () => (int8[p,q] u) { u = QuantizeLinear(t, s, z) },"
                " else_branch = f () => (int8[p,q] v) { v = Transpose(x) }> }"
            ),
            17,
        ),
    },
)
def test_movement_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, SIMPLIFY_QUANTIZATION, opset=opset)


FLOATS = "g (float[N,4] x) => ({kind}[N,4] y)"


@cases(
    ("kind", "zero", "body"),
    {
        "relu": ("uint8", 0, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "relu, signed": ("int8", -128, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "relu, 16 bits": ("uint16", 0, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "relu, 4 bits": ("int4", -8, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "relu, no zero point": ("uint8", 0, "c = Relu(x) y = QuantizeLinear(c, s)"),
        "to the last integer": ("uint8", 0, "c = Clip(x, zero, six) y = QuantizeLinear(c, s, z)"),
        "no upper bound": ("uint8", 0, "c = Clip(x, zero) y = QuantizeLinear(c, s, z)"),
        "wide": ("int8", 3, "c = Clip(x, minus, plus) y = QuantizeLinear(c, s, z)"),
        "nothing above zero": ("int8", 127, "c = Min(x, zero) y = QuantizeLinear(c, s, z)"),
        "nothing below zero": ("uint8", 0, "c = Max(x, zero) y = QuantizeLinear(c, s, z)"),
    },
)
def test_clamp_becomes(kind: str, zero: int, body: str) -> None:
    bounds = "float zero = {0}, float six = {6}, float minus = {-50}, float plus = {40}"
    text = f"{FLOATS.format(kind=kind)} <float s = {{0.0235294}}, {kind} z = {{{zero}}}, {bounds}>"
    after = "y = QuantizeLinear(x, s)" if "(c, s)" in body else "y = QuantizeLinear(x, s, z)"
    becomes(f"{text} {{ {body} }}", f"{text} {{ {after} }}", drop_clamp_before_quantization, opset=21)


@pytest.mark.parametrize("opset", OPSETS)
def test_clamp_at_every_opset(opset: int) -> None:
    text = f"{FLOATS.format(kind='uint8')} <float s = {{0.1}}, uint8 z = {{0}}>"
    before = f"{text} {{ c = Relu(x) y = QuantizeLinear(c, s, z) }}"
    becomes(before, f"{text} {{ y = QuantizeLinear(x, s, z) }}", drop_clamp_before_quantization, opset=opset)


def test_clamp_by_axis() -> None:
    text = "g (float[N,2] x) => (uint8[N,2] y) <float[2] s = {0.1, 7}, uint8[2] z = {0, 0}>"
    before = f"{text} {{ c = Relu(x) y = QuantizeLinear(c, s, z) }}"
    becomes(before, f"{text} {{ y = QuantizeLinear(x, s, z) }}", drop_clamp_before_quantization)


def test_clamp_of_infinities_that_do_not_saturate_stays() -> None:
    halves = "g (float16[N,2] x) => (uint8[N,2] y) { c = Relu(x) y = QuantizeLinear(c, s) }"
    stays(halves, SIMPLIFY_QUANTIZATION, opset=19, weights={"s": np.float16(0.1)})
    blocks = "g (float[4,2] x) => (uint8[4,2] y) { c = Relu(x) y = QuantizeLinear<axis = 0, block_size = 2>(c, s) }"
    stays(blocks, SIMPLIFY_QUANTIZATION, opset=21, weights={"s": np.ones((2, 2), np.float32)})


@cases(
    ("kind", "zero", "body"),
    {
        "an integer below zero": ("uint8", 1, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "signed": ("int8", 0, "c = Relu(x) y = QuantizeLinear(c, s, z)"),
        "an integer above": ("uint8", 0, "c = Clip(x, zero, five) y = QuantizeLinear(c, s, z)"),
        "an integer below": ("uint8", 0, "c = Clip(x, one, nine) y = QuantizeLinear(c, s, z)"),
        "computed bound": ("uint8", 0, "c = Clip(x, zero, hi) y = QuantizeLinear(c, s, z)"),
        "shared": ("uint8", 0, "c = Relu(x) n = Neg(c) y = QuantizeLinear(c, s, z)"),
        "something between": ("uint8", 0, "c = Relu(x) n = Neg(c) y = QuantizeLinear(n, s, z)"),
        "computed scale": ("uint8", 0, "c = Relu(x) y = QuantizeLinear(c, hi, z)"),
        "other activation": ("uint8", 0, "c = LeakyRelu(x) y = QuantizeLinear(c, s, z)"),
    },
)
def test_clamp_stays(kind: str, zero: int, body: str) -> None:
    bounds = "float zero = {0}, float one = {1}, float five = {5}, float nine = {9}"
    constants = f"<float s = {{0.0235294}}, {kind} z = {{{zero}}}, {bounds}>"
    stays(f"g (float[N,4] x, float hi) => ({kind}[N,4] y) {constants} {{ {body} }}", SIMPLIFY_QUANTIZATION)


def test_clamp_that_one_channel_needs_stays() -> None:
    text = "g (float[N,2] x) => (uint8[N,2] y) <float[2] s = {0.1, 0.2}, uint8[2] z = {0, 9}>"
    stays(f"{text} {{ c = Relu(x) y = QuantizeLinear(c, s, z) }}", SIMPLIFY_QUANTIZATION)


@given(
    scale=st.floats(2**-10, 2, width=32), zero=st.integers(0, 255), low=st.integers(-5, 260), high=st.integers(-5, 260)
)
def test_any_clamp(scale: float, zero: int, low: int, high: int) -> None:
    # Bounds at the borders between integers, where rounding decides.
    bounds = {"lo": np.float32((low - zero - 0.5) * scale), "hi": np.float32((high - zero - 0.5) * scale)}
    weights: dict[str, Any] = {"s": np.float32(scale), "z": np.uint8(zero), **bounds}
    model = load("g (float[N] x) => (uint8[N] y) { c = Clip(x, lo, hi) y = QuantizeLinear(c, s, z) }", weights=weights)
    out = to_onnx(apply_passes(model, drop_clamp_before_quantization)[0])
    assert (len(out.graph.node) == 1) == (low <= 0 and high > 255)
    require_equivalent(model, out, exact=True)
