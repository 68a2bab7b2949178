"""Removal of quantization that changes nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.cleanup import quantization
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.cleanup.quantization import cancel_quantization, drop_clamp_before_quantization, move_integers
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, op_types, require_equivalent, stays

SIMPLIFY_QUANTIZATION = rule_pass(quantization, "simplify-quantization")

OPSETS = [10, 13, 19, 21, 23]

rewrites = Rewrites("g ({x}) => (int8[] y)", SIMPLIFY_QUANTIZATION, weights={"z": np.int8(3)}, x="int8[N,4] x")

test_pair_becomes = rewrites.using(cancel_quantization).all_become(
    {
        str(n): ("d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, z) => y = Identity(x)", {"opset": n})
        for n in (10, 13, 19, 21, 23)
    }
)

test_cancels = rewrites.using(cancel_quantization).all_become("""
    twice [graph=g (float[N,4] x) => (float[] y)]: a = QuantizeLinear(x, 0.1, z) b = DequantizeLinear(a, 0.1, z)
        c = QuantizeLinear(b, 0.1, z) y = DequantizeLinear(c, 0.1, z)
        => a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z)
    a vector of one scale, and a zero point left out [graph=g (int8[N,4] x) => (int8[] y) <int8 z = {0}>]:
        d = DequantizeLinear(x, 0.1) y = QuantizeLinear(d, [0.1], z) => y = Identity(x)
    no zero points [graph=g (uint8[N,4] x) => (uint8[] y)]: d = DequantizeLinear(x, 0.1) y = QuantizeLinear(d, 0.1)
        => y = Identity(x)
    by axis [graph=g (int8[N,4] x) => (int8[] y) <int8[4] z = {3,0,-128,127}>]:
        d = DequantizeLinear<axis = -1>(x, [0.1,2.0,0.003,5.0], z) y = QuantizeLinear(d, [0.1,2.0,0.003,5.0], z)
        => y = Identity(x)
    the floats are an output as well [graph=g (int8[N,4] x) => (int8[N,4] y, float[N,4] d)]:
        d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, z) => d = DequantizeLinear(x, s, z) y = Identity(x)
    no elements [x=int8[0,4] x]: d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, z) => y = Identity(x)
    inside an If body [x=bool b, int8[N] x]: y = If(b) <then_branch = t () => (int8[N] u) {
        d = DequantizeLinear(x, 0.1, z) u = QuantizeLinear(d, 0.1, z) }, else_branch = f () => (int8[N] w) {
        w = Concat<axis = 0>(x) }> => y = If(b) <then_branch = t () => (int8[N] u) { u = Identity(x) },
        else_branch = f () => (int8[N] w) { w = Concat<axis = 0>(x) }>
""")


@each(
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


test_stays = rewrites.all_stay("""
    other scale: d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.2, z)
    other zero point [graph=g (int8[N,4] x) => (int8[] y) <int8 w = {4}>]:
        d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, w)
    other type [graph=g (int8[N,4] x) => (uint8[] y)]: d = DequantizeLinear(x, 0.1) y = QuantizeLinear(d, 0.1)
    other axis [graph=g (int8[4,4] x) => (int8[] y) <int8[4] z = {3,0,-128,127}>]:
        d = DequantizeLinear<axis = 0>(x, [0.1,2.0,0.003,5.0], z)
        y = QuantizeLinear<axis = 1>(d, [0.1,2.0,0.003,5.0], z)
    computed scale [x=int8[N,4] x, float s]: d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z)
    overridable initializer [x=int8[N,4] x, float s = {0.1}]: d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, s, z)
    scale 0: d = DequantizeLinear(x, 0.0, z) y = QuantizeLinear(d, 0.0, z)
    overflow: d = DequantizeLinear(x, 1e37, z) y = QuantizeLinear(d, 1e37, z)
    the other way round [graph=g (float[N,4] x) => (float[] y)]:
        d = QuantizeLinear(x, 0.1, z) y = DequantizeLinear(d, 0.1, z)
    something between: d = DequantizeLinear(x, 0.1, z) n = Neg(d) y = QuantizeLinear(n, 0.1, z)
    onnxruntime has no Identity of 4 bits [opset=21; graph=g (int4[N,4] x) => (int4[] y) <int4 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, z)
    8-bit floats [opset=19; graph=g (float8e4m3fn[N,4] x) => (float8e4m3fn[] y) <float8e4m3fn z = {0}>]:
        d = DequantizeLinear(x, 0.1, z) y = QuantizeLinear(d, 0.1, z)
    split stays where a part is an output [graph=g (uint8[N,4] x) => (uint8[N,2] y, float[N,2] u) <uint8 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) t, u = Split<axis = 1>(d) y = QuantizeLinear(t, 0.1, z)
    clamp that one channel needs stays [graph=g (float[N,2] x) => (uint8[] y) <uint8[2] z = {0,9}>]:
        c = Relu(x) y = QuantizeLinear(c, [0.1,0.2], z)
""")


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


test_movement_becomes_elsewhere = rewrites.using(move_integers).all_become("""
    pool [opset=12; x=int8[N,2,5,5] x]: d = DequantizeLinear(x, 0.1, z)
        t = MaxPool<kernel_shape = [3,3], pads = [1,1,0,0], strides = [2,2], ceil_mode = 1>(d)
        y = QuantizeLinear(t, 0.1, z)
        => y = MaxPool<kernel_shape = [3,3], pads = [1,1,0,0], strides = [2,2], ceil_mode = 1>(x)
    blocks [opset=13; x=int8[N,8,1,1] x]:
        d = DequantizeLinear(x, 0.1, z) t = DepthToSpace<blocksize = 2>(d) y = QuantizeLinear(t, 0.1, z)
        => y = DepthToSpace<blocksize = 2>(x)
    concat [x=int8[N,2] x, int8[M,2] w]: d = DequantizeLinear(x, 0.1, z) e = DequantizeLinear(w, 0.1, z)
        t = Concat<axis = 0>(d, e, d) y = QuantizeLinear(t, 0.1, z) => y = Concat<axis = 0>(x, w, x)
    the floats are an output as well [graph=g (int8[N,2] x) => (int8[a,b] y, float[N,2] d)]:
        d = DequantizeLinear(x, 0.1, z) t = Transpose(d) y = QuantizeLinear(t, 0.1, z)
        => d = DequantizeLinear(x, s, z) y = Transpose(x)
    between pairs [graph=g (float[N,2] x) => (float[] y) <uint8 z = {3}>]: q = QuantizeLinear(x, 0.1, z)
        d = DequantizeLinear(q, 0.1, z) t = Transpose(d) p = QuantizeLinear(t, 0.1, z) y = DequantizeLinear(p, 0.1, z)
        => q = QuantizeLinear(x, s, z) t = Transpose(q) y = DequantizeLinear(t, s, z)
    opset 10 [opset=10; x=int8[N,2] x]:
        d = DequantizeLinear(x, 0.1, z) t = Unsqueeze<axes = [0]>(d) y = QuantizeLinear(t, 0.1, z)
        => y = Unsqueeze<axes = [0]>(x)
""")

SPLIT = "g (uint8[N,4] x) => (uint8[N,2] y, uint8[N,2] v) <float s = {0.1}, uint8 z = {3}, uint8 w = {4}>"


@each(("opset", "outputs"), [(10, ""), (13, ""), (18, ", num_outputs = 2"), (23, ", num_outputs = 2")])
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


test_becomes = rewrites.using(SIMPLIFY_QUANTIZATION, RemoveUnused()).all_become("""
    split of moved integers becomes [graph=g (uint8[4,N] x) => (uint8[] y) <uint8 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) r = Transpose(d) t, u = Split<axis = 1>(r) y = QuantizeLinear(t, 0.1, z)
        => r = Transpose(x) y, v = Split<axis = 1>(r)
""")

test_split_stays = rewrites.using(
    graph="g (uint8[N,4] x) => (uint8[N,2] y, uint8[N,2] v) <uint8 z = {3}, uint8 w = {4}>"
).all_stay("""
    other zero point: d = DequantizeLinear(x, 0.1, z) t, u = Split<axis = 1>(d) y = QuantizeLinear(t, 0.1, z)
        v = QuantizeLinear(u, 0.1, w)
    one read elsewhere [graph=g (uint8[N,4] x) => (uint8[N,2] y, uint8[N,2] v) <uint8 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) t, u = Split<axis = 1>(d) y = QuantizeLinear(t, 0.1, z) n = Neg(u)
        v = QuantizeLinear(n, 0.1, z)
    others than before: d = DequantizeLinear(x, 0.1, z) t, u = Split<axis = 1>(d) y = QuantizeLinear(t, 0.1, w)
        v = QuantizeLinear(u, 0.1, w)
""")

test_movement_stays = rewrites.using(x="int8[N,2] x, float[M,2] f").all_stay("""
    other scale: d = DequantizeLinear(x, 0.1, z) t = Transpose(d) y = QuantizeLinear(t, 0.2, z)
    other zero point [graph=g (int8[N,2] x, float[M,2] f) => (int8[] y) <int8 w = {4}>]:
        d = DequantizeLinear(x, 0.1, z) t = Transpose(d) y = QuantizeLinear(t, 0.1, w)
    shared inner value: d = DequantizeLinear(x, 0.1, z) t = Transpose(d) n = Relu(t) y = QuantizeLinear(t, 0.1, z)
    something between: d = DequantizeLinear(x, 0.1, z) n = Relu(d) t = Transpose(n) y = QuantizeLinear(t, 0.1, z)
    two: d = DequantizeLinear(x, 0.1, z) e = DequantizeLinear(x, 0.2, z) t = Concat<axis = 0>(d, e)
        y = QuantizeLinear(t, 0.1, z)
    concat with floats: d = DequantizeLinear(x, 0.1, z) t = Concat<axis = 0>(d, f) y = QuantizeLinear(t, 0.1, z)
    pad: d = DequantizeLinear(x, 0.1, z) t = Pad(d, [0,1,0,1], 0.2) y = QuantizeLinear(t, 0.1, z)
""")

test_movement_stays_elsewhere = rewrites.all_stay("""
    pool before opset 12 [opset=11; x=int8[N,2,5,5] x]:
        d = DequantizeLinear(x, 0.1, z) t = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, 0.1, z)
    pool with indices [graph=g (int8[N,2,5,5] x) => (int8[a,b,c,d] y, int64[e,f,g,h] j)]:
        d = DequantizeLinear(x, 0.1, z) t, j = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, 0.1, z)
    pool of 16 bits [opset=21; graph=g (uint16[N,2,5,5] x) => (uint16[] y) <uint16 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) t = MaxPool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, 0.1, z)
    mean [x=int8[N,2,5,5] x]:
        d = DequantizeLinear(x, 0.1, z) t = AveragePool<kernel_shape = [3,3]>(d) y = QuantizeLinear(t, 0.1, z)
    between signed pairs [graph=g (float[N,2] x) => (float[] y)]: q = QuantizeLinear(x, 0.1, z)
        d = DequantizeLinear(q, 0.1, z) t = Transpose(d) p = QuantizeLinear(t, 0.1, z) y = DequantizeLinear(p, 0.1, z)
    before a signed pair [graph=g (int8[N,2] x) => (float[] y)]: d = DequantizeLinear(x, 0.1, z) t = Transpose(d)
        p = QuantizeLinear(t, 0.1, z) y = DequantizeLinear(p, 0.1, z)
    behind a signed pair [x=float[N,2] x]: q = QuantizeLinear(x, 0.1, z) d = DequantizeLinear(q, 0.1, z)
        t = Transpose(d) y = QuantizeLinear(t, 0.1, z)
    blocks of 16 bits [opset=21; graph=g (int16[N,8,1,1] x) => (int16[] y) <int16 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) t = DepthToSpace<blocksize = 2>(d) y = QuantizeLinear(t, 0.1, z)
    4 bits [opset=21; graph=g (int4[N,2] x) => (int4[] y) <int4 z = {3}>]:
        d = DequantizeLinear(x, 0.1, z) t = Reshape(d, [-1]) y = QuantizeLinear(t, 0.1, z)
    by axis [graph=g (int8[4,4] x) => (int8[] y) <int8[4] z = {3,0,-128,127}>]:
        d = DequantizeLinear(x, [0.1,2.0,0.003,5.0], z) t = Transpose(d) y = QuantizeLinear(t, [0.1,2.0,0.003,5.0], z)
    the moved floats are an output [graph=g (int8[N,2] x) => (int8[a,b] y, float[c,d] t)]:
        d = DequantizeLinear(x, 0.1, z) t = Transpose(d) y = QuantizeLinear(t, 0.1, z)
    moved outside of the body [x=bool b, int8[N,2] x]: d = DequantizeLinear(x, 0.1, z) t = Transpose(d)
        y = If(b) <then_branch = t () => (int8[p,q] u) { u = QuantizeLinear(t, 0.1, z) },
        else_branch = f () => (int8[p,q] v) { v = Transpose(x) }>
""")

FLOATS = "g (float[N,4] x) => ({kind}[N,4] y)"


@each(
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


@each("opset", OPSETS)
def test_clamp_at_every_opset(opset: int) -> None:
    text = f"{FLOATS.format(kind='uint8')} <float s = {{0.1}}, uint8 z = {{0}}>"
    before = f"{text} {{ c = Relu(x) y = QuantizeLinear(c, s, z) }}"
    becomes(before, f"{text} {{ y = QuantizeLinear(x, s, z) }}", drop_clamp_before_quantization, opset=opset)


test_becomes_clamp_by_axis = rewrites.using(drop_clamp_before_quantization).all_become("""
    clamp by axis [graph=g (float[N,2] x) => (uint8[] y) <uint8[2] z = {0,0}>]:
        c = Relu(x) y = QuantizeLinear(c, [0.1,7.0], z) => y = QuantizeLinear(x, s, z)
""")


def test_clamp_of_infinities_that_do_not_saturate_stays() -> None:
    halves = "g (float16[N,2] x) => (uint8[N,2] y) { c = Relu(x) y = QuantizeLinear(c, s) }"
    stays(halves, SIMPLIFY_QUANTIZATION, opset=19, weights={"s": np.float16(0.1)})
    blocks = "g (float[4,2] x) => (uint8[4,2] y) { c = Relu(x) y = QuantizeLinear<axis = 0, block_size = 2>(c, s) }"
    stays(blocks, SIMPLIFY_QUANTIZATION, opset=21, weights={"s": np.ones((2, 2), np.float32)})


test_clamp_stays = rewrites.using(graph="g (float[N,4] x, float hi) => (uint8[] y) <uint8 z = {0}>").all_stay("""
    an integer below zero [graph=g (float[N,4] x, float hi) => (uint8[] y) <uint8 z = {1}>]:
        c = Relu(x) y = QuantizeLinear(c, 0.0235294, z)
    signed [graph=g (float[N,4] x, float hi) => (int8[] y) <int8 z = {0}>]:
        c = Relu(x) y = QuantizeLinear(c, 0.0235294, z)
    an integer above: c = Clip(x, 0.0, 5.0) y = QuantizeLinear(c, 0.0235294, z)
    an integer below: c = Clip(x, 1.0, 9.0) y = QuantizeLinear(c, 0.0235294, z)
    computed bound: c = Clip(x, 0.0, hi) y = QuantizeLinear(c, 0.0235294, z)
    shared: c = Relu(x) n = Neg(c) y = QuantizeLinear(c, 0.0235294, z)
    something between: c = Relu(x) n = Neg(c) y = QuantizeLinear(n, 0.0235294, z)
    computed scale: c = Relu(x) y = QuantizeLinear(c, hi, z)
    other activation: c = LeakyRelu(x) y = QuantizeLinear(c, 0.0235294, z)
""")


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
