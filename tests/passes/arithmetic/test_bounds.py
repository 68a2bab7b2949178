"""Relu, Clip, Max and Min in chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import clamp_rules
from rewriting import apply_passes, becomes, cases, initializers, load, op_types, require_equivalent, stays

DROP_UNBOUNDED_CLIP = rule_pass(clamp_rules, "drop-unbounded-clips")
MERGE_CLAMPS = rule_pass(clamp_rules, "merge-clamps")

PASSES = (MERGE_CLAMPS,)
NUMBERS = "<{0} m = {{-1}}, {0} z = {{0}}, {0} p = {{1}}, {0} q = {{2}}, {0} s = {{6}}, {0}[1] v = {{3}}>"


def model(body: str, dtype: str = "float", shape: str = "2,3") -> str:
    return f"g ({dtype}[{shape}] x) => ({dtype}[{shape}] y) {NUMBERS.format(dtype)} {{ {body} }}"


@cases(
    ("before", "after"),
    {
        "relu of relu": ("t = Relu(x) y = Relu(t)", "y = Relu(x)"),
        "relu of clip that is not negative": ("t = Clip(x, z, s) y = Relu(t)", "y = Clip(x, z, s)"),
        "relu of clip": ("t = Clip(x, m, s) y = Relu(t)", "y = Clip(x, z, s)"),
        "clip of relu": ("t = Relu(x) y = Clip(t, m, s)", "y = Clip(x, z, s)"),
        "clip of relu, higher bound": ("t = Relu(x) y = Clip(t, p, s)", "y = Clip(x, p, s)"),
        "relu of clip without max": ("t = Clip(x, m) y = Relu(t)", "y = Clip(x, z)"),
        "relu of clip without min": ("t = Clip(x, , q) y = Relu(t)", "y = Clip(x, z, q)"),
        "clip without min of relu": ("t = Relu(x) y = Clip(t, , q)", "y = Clip(x, z, q)"),
        "relu of clip without bounds": ("t = Clip(x) y = Relu(t)", "y = Clip(x, z)"),
        "clips that overlap": ("t = Clip(x, m, q) y = Clip(t, z, s)", "y = Clip(x, z, q)"),
        "clips that do not meet, up": ("t = Clip(x, m, z) y = Clip(t, q, s)", "y = Clip(x, q, q)"),
        "clips that do not meet, down": ("t = Clip(x, q, s) y = Clip(t, m, p)", "y = Clip(x, p, p)"),
        "inner bounds upside down": ("t = Clip(x, s, p) y = Clip(t, m, q)", "y = Clip(x, p, p)"),
        "outer bounds upside down": ("t = Clip(x, m, p) y = Clip(t, s, q)", "y = Clip(x, q, q)"),
        "relu of negative values": ("t = Clip(x, , m) y = Relu(t)", "y = Clip(x, z, z)"),
        "a negative max of relu": ("t = Relu(x) y = Clip(t, , m)", "y = Clip(x, m, m)"),
        "min of max": ("t = Max(x, m) y = Min(t, s)", "y = Clip(x, m, s)"),
        "min of max, numbers first": ("t = Max(m, x) y = Min(s, t)", "y = Clip(x, m, s)"),
        "max of min": ("t = Min(x, s) y = Max(t, p)", "y = Clip(x, p, s)"),
        "max of min, upside down": ("t = Min(x, p) y = Max(t, s)", "y = Clip(x, s, s)"),
        "max of max": ("t = Max(x, p) y = Max(t, q)", "y = Max(x, q)"),
        "min of min": ("t = Min(x, p) y = Min(t, q)", "y = Min(x, p)"),
        "a vector of one number": ("t = Max(x, v) y = Min(t, s)", "y = Clip(x, v, s)"),
        "relu of max": ("t = Max(x, m) y = Relu(t)", "y = Relu(x)"),
        "max of relu": ("t = Relu(x) y = Max(t, p)", "y = Max(x, p)"),
        "max of relu below it": ("t = Relu(x) y = Max(t, m)", "y = Relu(x)"),
        "min of relu": ("t = Relu(x) y = Min(t, s)", "y = Clip(x, z, s)"),
        "relu of min": ("t = Min(x, s) y = Relu(t)", "y = Clip(x, z, s)"),
        "min of clip": ("t = Clip(x, m, s) y = Min(t, q)", "y = Clip(x, m, q)"),
        "max with 0": ("y = Max(x, z)", "y = Relu(x)"),
        "min of max with 0": ("t = Max(x, z) y = Min(t, s)", "y = Clip(x, z, s)"),
        "max of min with 0": ("t = Min(x, z) y = Max(t, m)", "y = Clip(x, m, z)"),
        "clip of min with 0": ("t = Min(x, z) y = Clip(t, m, p)", "y = Clip(x, m, z)"),
        "a chain": ("a = Relu(x) b = Clip(a, m, s) c = Min(b, q) y = Max(c, p)", "y = Clip(x, p, q)"),
        "exp is not negative": ("t = Exp(x) y = Relu(t)", "y = Exp(x)"),
        "a root is not negative": ("t = Sqrt(x) y = Relu(t)", "y = Sqrt(x)"),
        "abs is not negative": ("t = Abs(x) y = Relu(t)", "y = Abs(x)"),
        "sigmoid is not negative": ("t = Sigmoid(x) y = Relu(t)", "y = Sigmoid(x)"),
        "hard sigmoid is not above 1": ("t = HardSigmoid(x) y = Clip(t, z, p)", "y = HardSigmoid(x)"),
        "clip without bounds of finite values": ("t = Sigmoid(x) y = Clip(t)", "y = Sigmoid(x)"),
        "max below the range": ("t = Sigmoid(x) y = Max(t, m)", "y = Sigmoid(x)"),
        "min above the range": ("t = HardSigmoid(x) y = Min(t, q)", "y = HardSigmoid(x)"),
        "softmax is not negative": ("t = Softmax(x) y = Relu(t)", "y = Softmax(x)"),
        "softplus is not negative": ("t = Softplus(x) y = Relu(t)", "y = Softplus(x)"),
        "a norm is not negative": ("t = ReduceL2<axes=[1]>(x) y = Relu(t)", "y = ReduceL2<axes=[1]>(x)"),
        "a square is not negative": ("t = Mul(x, x) y = Relu(t)", "y = Mul(x, x)"),
        "an even power is not negative": ("t = Pow(x, q) y = Relu(t)", "y = Pow(x, q)"),
        "sums and products of nonnegative values": (
            "a = Exp(x) b = Mul(x, x) c = Add(a, b) d = Mul(c, s) y = Relu(d)",
            "a = Exp(x) b = Mul(x, x) c = Add(a, b) y = Mul(c, s)",
        ),
        "moved, and its mean": (
            "a = Relu(x) b = Transpose(a) c = ReduceMean<axes=[0]>(b) y = Relu(c)",
            "a = Relu(x) b = Transpose(a) y = ReduceMean<axes=[0]>(b)",
        ),
    },
)
def test_becomes(before: str, after: str) -> None:
    becomes(model(before, shape="a,b"), model(after, shape="a,b"), *PASSES)


@cases(
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


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "double", "float16"])
@cases(
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


@cases(
    ("before", "after"),
    {
        "a clip without bounds": ("t = Clip(x) y = Abs(t)", "y = Abs(x)"),
        "max with the least number": ("t = Max(x, least) y = Abs(t)", "y = Abs(x)"),
        "zeros have no sign": ("t = Min(x, z) y = Max(t, z)", "y = Clip(x, z, z)"),
        "a half is a clip too": ("t = Max(x, z) y = Max(t, p)", "y = Clip(x, p)"),
        "clip of relu": ("t = Relu(x) y = Clip(t, p)", "y = Clip(x, p)"),
    },
)
def test_integers(before: str, after: str) -> None:
    least = "<int32 least = {-2147483648}, int32 z = {0}, int32 p = {1}>"
    g = f"g (int32[2,3] x) => (int32[2,3] y) {least}"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", *PASSES)


@pytest.mark.parametrize("opset", [7, 10])
def test_bounds_as_attributes(opset: int) -> None:
    g = "g (float[2,3] x) => (float[2,3] y)"
    before = "a = Clip<min=-1.0, max=6.0>(x) b = Relu(a) y = Clip<max=2.5>(b)"
    becomes(f"{g} {{ {before} }}", f"{g} {{ y = Clip<min=0.0, max=2.5>(x) }}", *PASSES, opset=opset)


@pytest.mark.parametrize("opset", [8, 12, 18, 25])
def test_every_opset(opset: int) -> None:
    low, high = ("<min=-1.0, max=6.0>(x)", "<min=0.0, max=6.0>(x)") if opset < 11 else ("(x, m, s)", "(x, z, s)")
    becomes(model(f"t = Clip{low} y = Relu(t)"), model(f"y = Clip{high}"), *PASSES, opset=opset)


@cases(
    "body",
    {
        "one relu": ("y = Relu(x)"),
        "a clip without bounds takes infinity to the greatest number": ("y = Clip(x)"),
        "one clip": ("y = Clip(x, m, s)"),
        "one max": ("y = Max(x, p)"),
        "min with 0": ("y = Min(x, z)"),
        "max with another number": ("y = Max(x, w)"),
        "negative values in between": ("t = Relu(x) u = Sqrt(t) v1 = Neg(u) y = Relu(v1)"),
        "a difference may be negative": ("t = Relu(x) u = Sub(t, p) y = Relu(u)"),
        "tanh may be negative": ("t = Tanh(x) y = Relu(t)"),
        "times a negative number": ("t = Relu(x) u = Mul(t, m) y = Relu(u)"),
        "an odd power": ("t = Pow(x, v) y = Relu(t)"),
        "no second clamp": ("t = Relu(x) y = Add(t, x) "),
        "the inner one is read elsewhere": ("t = Clip(x, m, s) u = Clip(t, z, q) y = Add(t, u)"),
        "a bound below the range": ("t = Sigmoid(x) y = Clip(t, z, w)"),
        "onnxruntime's Sigmoid exceeds 1 by a rounding": ("t = Sigmoid(x) y = Clip(t, z, p)"),
        "a bound within the range": ("t = Softplus(x) y = Clip(t, z, p)"),
        "a vector of different numbers": ("t = Max(x, a) y = Min(t, s)"),
        "not a number": ("t = Max(x, n) y = Relu(t)"),
    },
)
def test_stays(body: str) -> None:
    w = {"w": np.float32(0.5), "a": np.float32([1, 2, 3]), "n": np.float32(np.nan)}
    stays(model(body), *PASSES, weights={k: v for k, v in w.items() if f"{k})" in body})


@cases(
    "text",
    {
        "overridable initializer": (
            "g (float[2,3] x, float lo = {-1}) => (float[2,3] y) { t = Clip(x, lo) y = Relu(t) }"
        ),
        "a bound that is computed": ("g (float[2,3] x, float lo) => (float[2,3] y) { t = Max(x, lo) y = Relu(t) }"),
        "the inner value is an output": (
            "g (float[2,3] x) => (float[2,3] t, float[2,3] y) <float a = {-1}> { t = Clip(x, a) y = Relu(t) }"
        ),
        "a number that raises the rank": (
            "g (float[3] x) => (float[1,3] y) <float[1,1] a = {-1}, float b = {6}> { t = Max(x, a) y = Min(t, b) }"
        ),
        "a 0 that raises the rank": ("g (float[3] x) => (float[1,3] y) <float[1,1] a = {0}> { y = Max(x, a) }"),
        "abs of the least integer": ("g (int32[2,3] x) => (int32[2,3] y) { t = Abs(x) y = Relu(t) }"),
        "a square wraps around": ("g (int32[2,3] x) => (int32[2,3] y) { t = Mul(x, x) y = Relu(t) }"),
        "max of integers": ("g (int32[2,3] x) => (int32[2,3] y) <int32 z = {0}> { y = Max(x, z) }"),
        "max with -0": ("g (float[2,3] x) => (float[2,3] y) <float z = {-0.0}> { y = Max(x, z) }"),
        "across the border of an If body": (
            "g (bool c, float[2,3] x) => (float[n,m] y) { t = Relu(x) y = If (c) <"
            "then_branch = a () => (float[n,m] r) { u = Tanh(t) r = Relu(u) }, "
            "else_branch = b () => (float[n,m] s) { s = Neg(x) }> }"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, *PASSES)


@cases(
    "body",
    {
        "max": ("t = Max(x, b) y = Max(t, a)"),
        "min": ("t = Min(x, a) y = Min(t, b)"),
        "max, numbers first": ("t = Max(b, x) y = Max(a, t)"),
    },
)
def test_unit_shaped_bounds_before_opset_8_stay(body: str) -> None:
    g = "g (float[1,1,1] x) => (float[p,q,r] y) <float[1,1,1] a = {0.5}, float[1,1,1] b = {-2}>"
    stays(f"{g} {{ {body} }}", *PASSES, opset=7)


def test_range_of_captured_value_is_known() -> None:
    text = (
        "g (bool c, float[2,3] x) => (float[n,m] y) {{ t = Exp(x) y = If (c) <"
        "then_branch = a () => (float[n,m] r) {{ {} }}, else_branch = b () => (float[n,m] s) {{ s = Neg(x) }}> }}"
    )
    becomes(text.format("u = Relu(t) r = Neg(u)"), text.format("r = Neg(t)"), *PASSES)


@pytest.mark.parametrize("opset", [7, 11, 18])
def test_a_clip_without_bounds(opset: int) -> None:
    before, after = model("t = Tanh(x) y = Clip(t)"), model("y = Tanh(x)")
    becomes(before, after, DROP_UNBOUNDED_CLIP, opset=opset)


# The text form takes the bits of 16-bit floats: 64511 is -65504, 31743 is 65504.
HALF = "g (float16[N,3] x) => (float16[N,3] y) <float16 z = {0}, float16 least = {64511}, float16 most = {31743}>"


@cases(
    ("before", "after", "opset"),
    {
        "both are stated": ("t = Clip(x, least, most) y = Relu(t)", "y = Clip(x, z, most)", 11),
        "left out, later": ("t = Clip(x) y = Relu(t)", "y = Clip(x, z)", 12),
    },
)
def test_infinities_of_16_bits(before: str, after: str, opset: int) -> None:
    becomes(f"{HALF} {{ {before} }}", f"{HALF} {{ {after} }}", *PASSES, opset=opset)


@pytest.mark.parametrize(
    "body", ["t = Clip(x) y = Relu(t)", "t = Relu(x) y = Clip(t, z)", "t = Clip(x, , z) y = Abs(t)"]
)
def test_omitted_bounds_of_16_bit_floats(body: str) -> None:
    stays(f"{HALF} {{ {body} }}", *PASSES, opset=11)


@pytest.mark.parametrize("body", ["y = Clip(x, m)", "y = Clip(x, , s)", "y = Clip(x, m, s)"])
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
