"""Relu, Clip, Max and Min in chains."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import clamp_rules
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

DROP_UNBOUNDED_CLIP = rule_pass(clamp_rules, "drop-unbounded-clips")
MERGE_CLAMPS = rule_pass(clamp_rules, "merge-clamps")

PASSES = (MERGE_CLAMPS,)
NUMBERS = "<{0} m = {{-1}}, {0} z = {{0}}, {0} p = {{1}}, {0} q = {{2}}, {0} s = {{6}}, {0}[1] v = {{3}}>"


def model(body: str, dtype: str = "float", shape: str = "2,3") -> str:
    return f"g ({dtype}[{shape}] x) => ({dtype}[{shape}] y) {NUMBERS.format(dtype)} {{ {body} }}"


bounds = Rewrites(
    "g ({x}) => (float[] y)", *PASSES, weights={"least": np.int32(-2147483648), "n": np.nan}, x="float[a,b] x"
)

test_becomes = bounds.all_become("""
    relu of relu: t = Relu(x) y = Relu(t) => y = Relu(x)
    relu of clip that is not negative: t = Clip(x, 0.0, 6.0) y = Relu(t) => y = Clip(x, z, s)
    relu of clip: t = Clip(x, -1.0, 6.0) y = Relu(t) => y = Clip(x, z, s)
    clip of relu: t = Relu(x) y = Clip(t, -1.0, 6.0) => y = Clip(x, z, s)
    clip of relu, higher bound: t = Relu(x) y = Clip(t, 1.0, 6.0) => y = Clip(x, p, s)
    relu of clip without max: t = Clip(x, -1.0) y = Relu(t) => y = Clip(x, z)
    relu of clip without min: t = Clip(x, , 2.0) y = Relu(t) => y = Clip(x, z, q)
    clip without min of relu: t = Relu(x) y = Clip(t, , 2.0) => y = Clip(x, z, q)
    relu of clip without bounds: t = Clip(x) y = Relu(t) => y = Clip(x, z)
    clips that overlap: t = Clip(x, -1.0, 2.0) y = Clip(t, 0.0, 6.0) => y = Clip(x, z, q)
    clips that do not meet, up: t = Clip(x, -1.0, 0.0) y = Clip(t, 2.0, 6.0) => y = Clip(x, q, q)
    clips that do not meet, down: t = Clip(x, 2.0, 6.0) y = Clip(t, -1.0, 1.0) => y = Clip(x, p, p)
    inner bounds upside down: t = Clip(x, 6.0, 1.0) y = Clip(t, -1.0, 2.0) => y = Clip(x, p, p)
    outer bounds upside down: t = Clip(x, -1.0, 1.0) y = Clip(t, 6.0, 2.0) => y = Clip(x, q, q)
    relu of negative values: t = Clip(x, , -1.0) y = Relu(t) => y = Clip(x, z, z)
    a negative max of relu: t = Relu(x) y = Clip(t, , -1.0) => y = Clip(x, m, m)
    min of max: t = Max(x, -1.0) y = Min(t, 6.0) => y = Clip(x, m, s)
    min of max, numbers first: t = Max(-1.0, x) y = Min(6.0, t) => y = Clip(x, m, s)
    max of min: t = Min(x, 6.0) y = Max(t, 1.0) => y = Clip(x, p, s)
    max of min, upside down: t = Min(x, 1.0) y = Max(t, 6.0) => y = Clip(x, s, s)
    max of max: t = Max(x, 1.0) y = Max(t, 2.0) => y = Max(x, q)
    min of min: t = Min(x, 1.0) y = Min(t, 2.0) => y = Min(x, p)
    a vector of one number: t = Max(x, [3.0]) y = Min(t, 6.0) => y = Clip(x, v, s)
    relu of max: t = Max(x, -1.0) y = Relu(t) => y = Relu(x)
    max of relu: t = Relu(x) y = Max(t, 1.0) => y = Max(x, p)
    max of relu below it: t = Relu(x) y = Max(t, -1.0) => y = Relu(x)
    min of relu: t = Relu(x) y = Min(t, 6.0) => y = Clip(x, z, s)
    relu of min: t = Min(x, 6.0) y = Relu(t) => y = Clip(x, z, s)
    min of clip: t = Clip(x, -1.0, 6.0) y = Min(t, 2.0) => y = Clip(x, m, q)
    max with 0: y = Max(x, 0.0) => y = Relu(x)
    min of max with 0: t = Max(x, 0.0) y = Min(t, 6.0) => y = Clip(x, z, s)
    max of min with 0: t = Min(x, 0.0) y = Max(t, -1.0) => y = Clip(x, m, z)
    clip of min with 0: t = Min(x, 0.0) y = Clip(t, -1.0, 1.0) => y = Clip(x, m, z)
    a chain: a = Relu(x) b = Clip(a, -1.0, 6.0) c = Min(b, 2.0) y = Max(c, 1.0) => y = Clip(x, p, q)
    exp is not negative: t = Exp(x) y = Relu(t) => y = Exp(x)
    a root is not negative: t = Sqrt(x) y = Relu(t) => y = Sqrt(x)
    abs is not negative: t = Abs(x) y = Relu(t) => y = Abs(x)
    sigmoid is not negative: t = Sigmoid(x) y = Relu(t) => y = Sigmoid(x)
    hard sigmoid is not above 1: t = HardSigmoid(x) y = Clip(t, 0.0, 1.0) => y = HardSigmoid(x)
    clip without bounds of finite values: t = Sigmoid(x) y = Clip(t) => y = Sigmoid(x)
    max below the range: t = Sigmoid(x) y = Max(t, -1.0) => y = Sigmoid(x)
    min above the range: t = HardSigmoid(x) y = Min(t, 2.0) => y = HardSigmoid(x)
    softmax is not negative: t = Softmax(x) y = Relu(t) => y = Softmax(x)
    softplus is not negative: t = Softplus(x) y = Relu(t) => y = Softplus(x)
    a norm is not negative: t = ReduceL2<axes=[1]>(x) y = Relu(t) => y = ReduceL2<axes=[1]>(x)
    a square is not negative: t = Mul(x, x) y = Relu(t) => y = Mul(x, x)
    an even power is not negative: t = Pow(x, 2.0) y = Relu(t) => y = Pow(x, q)
    sums and products of nonnegative values: a = Exp(x) b = Mul(x, x) c = Add(a, b) d = Mul(c, 6.0) y = Relu(d)
        => a = Exp(x) b = Mul(x, x) c = Add(a, b) y = Mul(c, s)
    moved, and its mean: a = Relu(x) b = Transpose(a) c = ReduceMean<axes=[0]>(b) y = Relu(c)
        => a = Relu(x) b = Transpose(a) y = ReduceMean<axes=[0]>(b)
    range of captured value is known [x=bool c, float[2,3] x]: t = Exp(x)
        y = If(c) <then_branch = a () => (float[n,m] r) { u = Relu(t) r = Neg(u) },
        else_branch = b () => (float[n,m] s) { s = Neg(x) }> => t = Exp(x)
        y = If(c) <then_branch = a () => (float[n,m] r) { r = Neg(t) }, else_branch = b () => (float[n,m] s) {
        s = Neg(x) }>
""")


@each(
    ("low", "high", "want"),
    {
        "inside": (("z", "s"), ("p", "q"), (1, 2)),
        "above": (("z", "p"), ("q", "s"), (2, 2)),
        "below": (("q", "s"), ("m", "p"), (1, 1)),
        "inner upside down": (("s", "m"), ("z", "p"), (0, 0)),
    },
)
def test_merged_bounds(low: tuple[str, str], high: tuple[str, str], want: tuple[float, float]) -> None:
    before = f"t = Clip(x, {low[0]}, {low[1]}) y = Clip(t, {high[0]}, {high[1]})"
    out = becomes(model(before), model("y = Clip(x, z, s)"), *PASSES)
    known = initializers(out)
    assert tuple(known[i] for i in out.graph.node[0].input[1:]) == want


@each("dtype", ["int8", "uint8", "int32", "int64", "uint64", "double", "float16"])
@each(
    ("before", "after"),
    {
        "clips": ("t = Clip(x, z, s) y = Clip(t, p, q)", "y = Clip(x, p, q)"),
        "min of max": ("t = Max(x, p) y = Min(t, s)", "y = Clip(x, p, s)"),
    },
)
def test_every_type(before: str, after: str, dtype: str) -> None:
    numbers = NUMBERS.format(dtype).replace("-1", "1")
    g = f"g ({dtype}[2,3] x) => ({dtype}[2,3] y) {numbers}"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", *PASSES, opset=13)


test_integers = bounds.all_become("""
    a clip without bounds [x=float[2,3] x; dtype=int32]: t = Clip(x) y = Abs(t) => y = Abs(x)
    max with the least number [x=float[2,3] x; dtype=int32]: t = Max(x, least) y = Abs(t) => y = Abs(x)
    zeros have no sign [graph=g (int32[2,3] x) => (int32[] y) <int32 z = {0}>]: t = Min(x, z) y = Max(t, z)
        => y = Clip(x, z, z)
    a half is a clip too [graph=g (int32[2,3] x) => (int32[] y) <int32 z = {0}, int32 p = {1}>]:
        t = Max(x, z) y = Max(t, p) => y = Clip(x, p)
    clip of relu [graph=g (int32[2,3] x) => (int32[] y) <int32 p = {1}>]: t = Relu(x) y = Clip(t, p) => y = Clip(x, p)
""")

test_bounds_as_attributes = bounds.using(x="float[2,3] x").all_become("""
    7 [opset=7]: a = Clip<min=-1.0, max=6.0>(x) b = Relu(a) y = Clip<max=2.5>(b) => y = Clip<min=0.0, max=2.5>(x)
    10 [opset=10]: a = Clip<min=-1.0, max=6.0>(x) b = Relu(a) y = Clip<max=2.5>(b) => y = Clip<min=0.0, max=2.5>(x)
""")


@each("opset", [8, 12, 18, 25])
def test_every_opset(opset: int) -> None:
    low, high = ("<min=-1.0, max=6.0>(x)", "<min=0.0, max=6.0>(x)") if opset < 11 else ("(x, m, s)", "(x, z, s)")
    becomes(model(f"t = Clip{low} y = Relu(t)"), model(f"y = Clip{high}"), *PASSES, opset=opset)


test_stays = bounds.using(x="float[2,3] x").all_stay("""
    one relu: y = Relu(x)
    a clip without bounds takes infinity to the greatest number: y = Clip(x)
    one clip: y = Clip(x, -1.0, 6.0)
    one max: y = Max(x, 1.0)
    min with 0: y = Min(x, 0.0)
    max with another number: y = Max(x, 0.5)
    negative values in between: t = Relu(x) u = Sqrt(t) v1 = Neg(u) y = Relu(v1)
    a difference may be negative: t = Relu(x) u = Sub(t, 1.0) y = Relu(u)
    tanh may be negative: t = Tanh(x) y = Relu(t)
    times a negative number: t = Relu(x) u = Mul(t, -1.0) y = Relu(u)
    an odd power: t = Pow(x, [3.0]) y = Relu(t)
    no second clamp: t = Relu(x) y = Add(t, x)
    the inner one is read elsewhere: t = Clip(x, -1.0, 6.0) u = Clip(t, 0.0, 2.0) y = Add(t, u)
    a bound below the range: t = Sigmoid(x) y = Clip(t, 0.0, 0.5)
    onnxruntime's Sigmoid exceeds 1 by a rounding: t = Sigmoid(x) y = Clip(t, 0.0, 1.0)
    a bound within the range: t = Softplus(x) y = Clip(t, 0.0, 1.0)
    a vector of different numbers: t = Max(x, [1.0,2.0,3.0]) y = Min(t, 6.0)
    not a number: t = Max(x, n) y = Relu(t)
""")

test_stays_elsewhere = bounds.all_stay("""
    overridable initializer [x=float[2,3] x, float lo = {-1}]: t = Clip(x, lo) y = Relu(t)
    a bound that is computed [x=float[2,3] x, float lo]: t = Max(x, lo) y = Relu(t)
    the inner value is an output [graph=g (float[2,3] x) => (float[2,3] t, float[] y)]: t = Clip(x, -1.0) y = Relu(t)
    a number that raises the rank [x=float[3] x]: t = Max(x, [[-1.0]]) y = Min(t, 6.0)
    a 0 that raises the rank [x=float[3] x]: y = Max(x, [[0.0]])
    abs of the least integer [x=float[2,3] x; dtype=int32]: t = Abs(x) y = Relu(t)
    a square wraps around [x=float[2,3] x; dtype=int32]: t = Mul(x, x) y = Relu(t)
    max of integers [graph=g (int32[2,3] x) => (int32[] y) <int32 z = {0}>]: y = Max(x, z)
    max with -0 [x=float[2,3] x]: y = Max(x, -0.0)
    across the border of an If body [x=bool c, float[2,3] x]: t = Relu(x)
        y = If(c) <then_branch = a () => (float[n,m] r) { u = Tanh(t) r = Relu(u) },
        else_branch = b () => (float[n,m] s) { s = Neg(x) }>
""")

test_unit_shaped_bounds_before_opset_8_stay = bounds.using(opset=7, x="float[1,1,1] x").all_stay("""
    max: t = Max(x, [[[-2.0]]]) y = Max(t, [[[0.5]]])
    min: t = Min(x, [[[0.5]]]) y = Min(t, [[[-2.0]]])
    max, numbers first: t = Max([[[-2.0]]], x) y = Max([[[0.5]]], t)
""")


@each("opset", [7, 11, 18])
def test_a_clip_without_bounds(opset: int) -> None:
    before, after = model("t = Tanh(x) y = Clip(t)"), model("y = Tanh(x)")
    becomes(before, after, DROP_UNBOUNDED_CLIP, opset=opset)


# The text form takes the bits of 16-bit floats: 64511 is -65504, 31743 is 65504.
HALF = "g (float16[N,3] x) => (float16[N,3] y) <float16 z = {0}, float16 least = {64511}, float16 most = {31743}>"


@each(
    ("before", "after", "opset"),
    {
        "both are stated": ("t = Clip(x, least, most) y = Relu(t)", "y = Clip(x, z, most)", 11),
        "left out, later": ("t = Clip(x) y = Relu(t)", "y = Clip(x, z)", 12),
    },
)
def test_infinities_of_16_bits(before: str, after: str, opset: int) -> None:
    becomes(f"{HALF} {{ {before} }}", f"{HALF} {{ {after} }}", *PASSES, opset=opset)


@each("body", ["t = Clip(x) y = Relu(t)", "t = Relu(x) y = Clip(t, z)", "t = Clip(x, , z) y = Abs(t)"])
def test_omitted_bounds_of_16_bit_floats(body: str) -> None:
    stays(f"{HALF} {{ {body} }}", *PASSES, opset=11)


@each("body", ["y = Clip(x, m)", "y = Clip(x, , s)", "y = Clip(x, m, s)"])
def test_a_clip_with_bounds_stays(body: str) -> None:
    stays(model(body), DROP_UNBOUNDED_CLIP)


STEPS = st.sampled_from(
    ["Relu({0})", "Clip({0}, {1}, {2})", "Clip({0}, {1})", "Clip({0}, , {2})", "Max({0}, {1})", "Min({0}, {1})"]
)
NAMES = st.sampled_from(["m", "z", "p", "q", "s"])


@given(steps=st.lists(st.tuples(STEPS, NAMES, NAMES), min_size=2, max_size=5))
def test_any_chain_merges_into_one(steps: list[tuple[str, str, str]]) -> None:
    body = " ".join(f"{f't{i}'} = {s.format('x' if not i else f't{i - 1}', a, b)}" for i, (s, a, b) in enumerate(steps))
    before = load(model(f"{body} y = Identity(t{len(steps) - 1})"))
    result, _ = apply_passes(before, MERGE_CLAMPS)
    after = to_onnx(result)
    assert len(op_types(after)) <= 2
    require_equivalent(before, after)
