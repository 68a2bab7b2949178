"""Fusion of attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import attention
from passwright.passes.fusion.attention import FUSE_CACHE_INTO_ATTENTION
from passwright.passes.movement import reshapes
from passwright.passes.movement.layout_propagation import move_transposes
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, run, stays

FUSE_ATTENTION = rule_pass(attention, "fuse-attention")
FUSE_INTO_ATTENTION = rule_pass(attention, "fuse-into-attention")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")
MERGE_RESHAPES = rule_pass(reshapes, "merge-reshapes")

G = "g (float[b,2,5,4] q, float[b,2,7,4] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
LOW = "<float low = {-1e30}, float s = {0.5}>"
M = "g (float[b,2,5,4] q, float[b,2,7,4] k, float[b,2,7,3] v, float[{}] m) => (float[b,h,s,d] y)"
C = "<float s = {0.5}, float two = {2}, float minus = {-2}, float[7] row = {1, 2, 3, 4, 5, 6, 7}>"
SCORES = "t = Transpose<perm=[0,1,3,2]>(k) a = MatMul(q, t)"
LAST = "e = Softmax<axis=-1>(z) y = MatMul(e, v)"
DEFAULT = "y = Attention<scale=0.5>(q, k, v)"


@cases(
    ("before", "after", "opset"),
    {
        "scaled": (f"{SCORES} z = Mul(a, s) {LAST}", DEFAULT, 23),
        "scaled from the left": (f"{SCORES} z = Mul(s, a) {LAST}", DEFAULT, 24),
        "divided": (f"{SCORES} z = Div(a, two) {LAST}", DEFAULT, 25),
        "plain": (f"{SCORES.replace('a =', 'z =')} {LAST}", "y = Attention<scale=1.0>(q, k, v)", 26),
        "the last axis by number": (
            f"{SCORES.replace('a =', 'z =')} e = Softmax<axis=3>(z) y = MatMul(e, v)",
            "y = Attention<scale=1.0>(q, k, v)",
            23,
        ),
        "scaled queries": (
            "p = Mul(q, s) t = Transpose<perm=[0,1,3,2]>(k) z = MatMul(p, t) e = Softmax(z) y = MatMul(e, v)",
            DEFAULT,
            23,
        ),
        "scaled queries and keys": (
            (
                "p = Mul(q, s) l = Mul(k, two) t = Transpose<perm=[0,1,3,2]>(l) z = MatMul(p, t) e = Softmax(z)"
                " y = MatMul(e, v)"
            ),
            "y = Attention<scale=1.0>(q, k, v)",
            23,
        ),
        "scaled everywhere": (
            (
                "p = Mul(q, two) t = Transpose<perm=[0,1,3,2]>(k) l = Mul(two, t) a = MatMul(p, l) z = Div(a, two)"
                " e = Softmax(z) y = MatMul(e, v)"
            ),
            "y = Attention<scale=2.0>(q, k, v)",
            23,
        ),
        "scaled keys": ("l = Mul(k, s) y = Attention<scale=2.0>(q, l, v)", "y = Attention<scale=1.0>(q, k, v)", 23),
        "shifted queries": (
            "p = Add(q, two) t = Transpose<perm=[0,1,3,2]>(k) z = MatMul(p, t) e = Softmax(z) y = MatMul(e, v)",
            "p = Add(q, two) y = Attention<scale=1.0>(p, k, v)",
            23,
        ),
        "from a default scale": ("p = Mul(q, two) y = Attention(p, k, v)", "y = Attention<scale=1.0>(q, k, v)", 23),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_ATTENTION, FUSE_INTO_ATTENTION, opset=opset)


@pytest.mark.parametrize("dims", ["5,7", "2,5,7", "1,1,5,7", "b,1,5,7", "1,2,5,7", "b,2,5,7"])
@pytest.mark.parametrize("add", ["Add(c, m)", "Add(m, c)"])
def test_masked_becomes(dims: str, add: str) -> None:
    before = f"{M.format(dims)} {C} {{ {SCORES} c = Mul(a, s) z = {add} {LAST} }}"
    after = f"{M.format(dims)} {LOW} {{ n = Max(m, low) y = Attention<scale=0.5>(q, k, v, n) }}"
    becomes(before, after, FUSE_ATTENTION, opset=23)


@pytest.mark.parametrize(
    ("dims", "target"),
    [("7", "5, 1"), ("1,7", "5, 1"), ("5,1", "1, 7"), ("b,1,1,7", "5, 1"), ("1,1,1,1", "5, 7"), ("2,1,7", "5, 1")],
)
def test_mask_is_expanded(dims: str, target: str) -> None:
    before = f"{M.format(dims)} {C} {{ {SCORES} c = Mul(a, s) z = Add(c, m) {LAST} }}"
    shape = LOW.replace(">", f", int64[2] shape = {{{target}}}>")
    after = f"{M.format(dims)} {shape} {{ n = Max(m, low) w = Expand(n, shape) y = Attention<scale=0.5>(q, k, v, w) }}"
    becomes(before, after, FUSE_ATTENTION, opset=23)


@cases(
    ("before", "after"),
    {
        "keys turned in one go": (
            (
                "g (float[b,5,2,4] q, float[b,7,2,4] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
                " { p = Transpose<perm=[0,2,1,3]>(q) t = Transpose<perm=[0,2,3,1]>(k) z = MatMul(p, t) e = Softmax(z)"
                " y = MatMul(e, v) }"
            ),
            (
                "g (float[b,5,2,4] q, float[b,7,2,4] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
                " { p = Transpose<perm=[0,2,1,3]>(q) t = Transpose<perm=[0,2,1,3]>(k)"
                " y = Attention<scale=1.0>(p, t, v) }"
            ),
        ),
        "keys turned already": (
            (
                "g (float[b,2,5,4] q, float[b,2,4,7] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
                " { z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v) }"
            ),
            (
                "g (float[b,2,5,4] q, float[b,2,4,7] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
                " { t = Transpose<perm=[0,1,3,2]>(k) y = Attention<scale=1.0>(q, t, v) }"
            ),
        ),
        "of one value": (
            (
                "g (float[b,2,5,4] x) => (float[b,h,s,d] y) <float s = {0.5}> { t = Transpose<perm=[0,1,3,2]>(x)"
                " a = MatMul(x, t) z = Mul(a, s) e = Softmax(z) y = MatMul(e, x) }"
            ),
            "g (float[b,2,5,4] x) => (float[b,h,s,d] y) { y = Attention<scale=0.5>(x, x, x) }",
        ),
        "half precision": (
            (
                "g (float16[b,2,5,4] q, float16[b,2,7,4] k, float16[b,2,7,3] v) => (float16[b,h,s,d] y)"
                " { u = Tanh(q) t = Transpose<perm=[0,1,3,2]>(k) z = MatMul(u, t) e = Softmax(z) y = MatMul(e, v) }"
            ),
            (
                "g (float16[b,2,5,4] q, float16[b,2,7,4] k, float16[b,2,7,3] v) => (float16[b,h,s,d] y)"
                " { u = Tanh(q) y = Attention<scale=1.0>(u, k, v) }"
            ),
        ),
        "inside an If body": (
            (
                "g (bool c, float[b,2,5,4] x) => (float[b,h,s,d] y) { y = If (c) <then_branch = t () =>"
                " (float[b,h,s,d] u)"
                " { t = Transpose<perm=[0,1,3,2]>(x) z = MatMul(x, t) e = Softmax(z) u = MatMul(e, x) },"
                " else_branch = f () => (float[b,h,s,d] w) { w = Neg(x) }> }"
            ),
            (
                "g (bool c, float[b,2,5,4] x) => (float[b,h,s,d] y) { y = If (c) <then_branch = t () =>"
                " (float[b,h,s,d] u)"
                " { u = Attention<scale=1.0>(x, x, x) }, else_branch = f () => (float[b,h,s,d] w) { w = Neg(x) }> }"
            ),
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, FUSE_ATTENTION, opset=23)


GUARD = "n = IsNaN(e) w = Where(n, zero, e) y = MatMul(w, v)"
BOUNDED = "p = Tanh(q) l = Tanh(k) t = Transpose<perm=[0,1,3,2]>(l) a = MatMul(p, t)"
MASKED = "h = Where(c, zero, inf) f = Add({}) e = Softmax(f)"
GUARDED = M.replace("float[{}] m", "bool[b,1,5,7] c")
LIMITS = {"zero": np.float32(0), "inf": np.float32(-np.inf), "s": np.float32(0.5)}
STATED = "<float zero = {0}, float inf = {0}>"


@cases(
    ("before", "scale"),
    {
        "mask second": (f"{BOUNDED} {MASKED.format('a, h')} {GUARD}", 1.0),
        "mask first": (f"{BOUNDED} {MASKED.format('h, a')} {GUARD}", 1.0),
        "scaled": (f"{BOUNDED} z = Mul(a, s) {MASKED.format('z, h')} {GUARD}", 0.5),
    },
)
def test_guarded_becomes(before: str, scale: float) -> None:
    after = f"p = Tanh(q) l = Tanh(k) h = Where(c, zero, inf) y = Attention<scale={scale}>(p, l, v, h)"
    text = f"{GUARDED} {STATED} {{ {after} }}"
    becomes(f"{GUARDED} {{ {before} }}", text, FUSE_ATTENTION, opset=23, weights=LIMITS)


@cases(
    "body",
    {
        "another number": (f"{BOUNDED} {MASKED.format('a, h')} {GUARD.replace('zero', 's')}"),
        "else": (f"{BOUNDED} {MASKED.format('a, h')} n = IsNaN(e) w = Where(n, e, zero) y = MatMul(w, v)"),
        "of a": (f"{BOUNDED} {MASKED.format('a, h')} n = IsNaN(a) w = Where(n, zero, e) y = MatMul(w, v)"),
        "no mask": (f"{BOUNDED} e = Softmax(a) {GUARD}"),
        "no scores": (f"{BOUNDED} {MASKED.format('h, h')} {GUARD}"),
    },
)
def test_guarded_stays(body: str) -> None:
    stays(f"{GUARDED} {{ {body} }}", FUSE_ATTENTION, opset=23, weights=LIMITS, runs=False)


SPLIT = (
    "q1 = Reshape(q, {0}) q2 = Transpose<perm=[0,2,1,3]>(q1) k1 = Reshape(k, {0}) k2 = Transpose<perm=[0,2,1,3]>(k1)"
    " v1 = Reshape(v, {0}) v2 = Transpose<perm=[0,2,1,3]>(v1)"
)
JOIN = "b = Transpose<perm=[0,2,1,3]>(a) y = Reshape(b, join)"
FLAT = "g (float[b,5,16] q, float[b,7,16] k, float[b,7,12] v) => (float[b,5,d] y)"
SHAPES = (
    "<int64[4] split = {0, 0, 2, -1}, int64[3] join = {0, 0, 12}, int64[4] eights = {0, 0, -1, 8},"
    " int64[3] flat = {0, 0, -1}>"
)


@cases(
    ("before", "after"),
    {
        "scaled": (
            f"{SPLIT.format('split')} a = Attention<scale=0.25>(q2, k2, v2) {JOIN}",
            "y = Attention<scale=0.25, q_num_heads=2, kv_num_heads=2>(q, k, v)",
        ),
        "by default": (
            f"{SPLIT.format('split')} a = Attention(q2, k2, v2) {JOIN}",
            "y = Attention<scale=0.3535533905932738, q_num_heads=2, kv_num_heads=2>(q, k, v)",
        ),
        "by their size": (
            (
                "q1 = Reshape(q, eights) q2 = Transpose<perm=[0,2,1,3]>(q1) k1 = Reshape<allowzero=0>(k, eights)"
                " k2 = Transpose<perm=[0,2,1,3]>(k1) v1 = Reshape(v, split) v2 = Transpose<perm=[0,2,1,3]>(v1)"
                " a = Attention<scale=0.25>(q2, k2, v2) b = Transpose<perm=[0,2,1,3]>(a) y = Reshape(b, flat)"
            ),
            "y = Attention<scale=0.25, q_num_heads=2, kv_num_heads=2>(q, k, v)",
        ),
        "causal": (
            f"{SPLIT.format('split')} a = Attention<scale=0.25, is_causal=1>(q2, k2, v2) {JOIN}",
            "y = Attention<scale=0.25, is_causal=1, q_num_heads=2, kv_num_heads=2>(q, k, v)",
        ),
    },
)
def test_heads_become_attributes(before: str, after: str) -> None:
    passes = (FUSE_INTO_ATTENTION, MERGE_TRANSPOSES, MERGE_RESHAPES)
    becomes(f"{FLAT} {SHAPES} {{ {before} }}", f"{FLAT} {SHAPES} {{ {after} }}", *passes, opset=23)


def test_heads_of_the_result_may_stay_apart() -> None:
    becomes(
        f"{FLAT} {SHAPES} {{ {SPLIT.format('split')} a = Attention<scale=0.25>(q2, k2, v2)"
        " c = Transpose<perm=[0,2,1,3]>(a) y = Relu(c) }",
        f"{FLAT} {SHAPES} {{ a = Attention<scale=0.25, q_num_heads=2, kv_num_heads=2>(q, k, v) r = Reshape(a, split)"
        " y = Relu(r) }",
        FUSE_INTO_ATTENTION,
        MERGE_TRANSPOSES,
        opset=23,
    )


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        pytest.param(f"{SCORES} z = Mul(a, s) {LAST}", 22, id="older opset"),
        pytest.param(f"{SCORES} z = Mul(a, s) e = Softmax<axis=2>(z) y = MatMul(e, v)", 23, id="another axis"),
        pytest.param(f"{SCORES} z = Add(a, s) {LAST}", 23, id="shifted"),
        pytest.param(f"{SCORES} z = Mul(a, minus) {LAST}", 23, id="scaled below 0"),
        pytest.param(f"{SCORES} z = Mul(a, row) {LAST}", 23, id="scaled by several numbers"),
        pytest.param(f"{SCORES} z = Div(two, a) {LAST}", 23, id="upside down"),
        pytest.param(f"{SCORES} n = Neg(a) z = Mul(n, s) {LAST}", 23, id="not scores"),
        pytest.param(f"{SCORES} c = Add(a, row) z = Mul(c, s) {LAST}", 23, id="a scaled mask"),
        pytest.param(
            f"{SCORES} z = Mul(a, s) e = Softmax(z) f = MatMul(e, v) r = ReduceMax(e) y = Add(f, r)",
            23,
            id="shared weights",
        ),
        pytest.param(f"{SCORES} z = Mul(a, s) e = Softmax(z) f = MatMul(e, v) r = ReduceMax(z) y = Add(f, r)", 23),
        pytest.param(f"{SCORES} z = Mul(a, s) e = Softmax(z) f = MatMul(e, v) r = ReduceMax(a) y = Add(f, r)", 23),
        pytest.param("p = Mul(q, minus) y = Attention(p, k, v)", 23, id="a negative scale"),
        pytest.param("p = Mul(v, two) y = Attention(q, k, p)", 23, id="scaled values"),
        pytest.param("p = Add(q, two) y = Attention(p, k, v)", 23, id="shifted queries"),
    ],
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_ATTENTION, FUSE_INTO_ATTENTION, opset=opset)


def test_mask_that_stretches_the_scores_stays() -> None:
    stays(
        f"{M.format('x,1,5,7')} {C} {{ {SCORES} c = Mul(a, s) z = Add(c, m) {LAST} }}",
        FUSE_ATTENTION,
        opset=23,
        runs=False,
    )


@cases(
    "text",
    {
        "heads broadcast": (
            "g (float[b,2,5,4] q, float[b,1,4,7] k, float[b,1,7,3] v) => (float[b,h,s,d] y)"
            " { z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v) }"
        ),
        "batches broadcast": (
            "g (float[1,2,5,4] q, float[b,2,4,7] k, float[b,2,7,3] v) => (float[b,h,s,d] y)"
            " { z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v) }"
        ),
        "doubles": (
            "g (double[b,2,5,4] q, double[b,2,4,7] k, double[b,2,7,3] v) => (double[b,h,s,d] y)"
            " { z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v) }"
        ),
        "the weights are a graph output": (
            "g (float[b,2,5,4] q, float[b,2,4,7] k, float[b,2,7,3] v) => (float[b,h,s,d] y, float[b,h,s,t] e)"
            " { z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v) }"
        ),
        "regrouped": (
            "g (float[2,6,8] x) => (float[b,s,d] y) <int64[3] join = {0, 0, -1}, int64[4] split = {6, 2, 2, 4}>"
            " { r = Reshape(x, split) t = Transpose<perm=[0,2,1,3]>(r) a = Attention(t, t, t)"
            " c = Transpose<perm=[0,2,1,3]>(a) y = Reshape(c, join) }"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, FUSE_ATTENTION, FUSE_INTO_ATTENTION, opset=23)


@given(scale=st.sampled_from([0.1, 0.25, 1.0, 3.0]), heads=st.integers(1, 3), masked=st.booleans())
def test_any_scale(scale: float, heads: int, masked: bool) -> None:
    qk = f"float[b,{heads},5,4] q, float[b,{heads},7,4] k"
    g = f"g ({qk}, float[b,{heads},7,3] v, float[5,7] m) => (float[n,h,t,d] y)"
    body = f"{SCORES} c = Mul(a, s) z = {'Add(c, m)' if masked else 'Identity(c)'} {LAST}"
    model = load(
        f"{g} {{ {body.replace('z = Identity(c)', '').replace('(z)', '(z)' if masked else '(c)')} }}",
        23,
        {"s": np.float32(scale)},
    )
    after = to_onnx(apply_passes(model, FUSE_ATTENTION)[0])
    assert op_types(after) == ["Max", "Attention"] if masked else ["Attention"]
    require_equivalent(model, after)


@pytest.mark.parametrize("scaled", ["p = Mul(q, c) y = Attention(p, k, v)", "p = Mul(k, c) y = Attention(q, p, v)"])
def test_doubles_keep_their_scale(scaled: str) -> None:
    text = "g (double[1,2,3,4] q, double[1,2,5,4] k, double[1,2,5,4] v) => (double[a,b,s,h] y) <double c = {2}>"
    stays(f"{text} {{ {scaled} }}", FUSE_INTO_ATTENTION, opset=24)


def test_stays_without_features() -> None:
    text = (
        "g (float[1,2,5,0] q, float[1,2,7,0] k, float[1,2,7,3] v) => (float[b,h,s,d] y) <float c = {2}> "
        "{ r = Mul(q, c) y = Attention(r, k, v) }"
    )
    stays(text, FUSE_ATTENTION, FUSE_INTO_ATTENTION, opset=23, runs=False)


N = (
    "<float low = {-1e30}, float cap = {3}, float third = {0.33333334}, float zero = {0}, float fill = {-3.4e38},"
    " float high = {-1e4}>"
)
Q = "float[b,2,5,4] q, float[b,2,7,4] k, float[b,2,7,3] v"


@cases(
    ("inputs", "before", "after"),
    {
        "softcap": (
            Q.replace("b", "1"),
            f"{SCORES} l = Mul(a, third) h = Tanh(l) z = Mul(h, cap) {LAST}",
            "y = Attention<scale=1.0, softcap=3.0>(q, k, v)",
        ),
        "replaced scores": (
            f"{Q}, bool[b,1,5,7] c",
            f"{SCORES} z = Where(c, a, fill) {LAST}",
            "m = Where(c, zero, low) y = Attention<scale=1.0>(q, k, v, m)",
        ),
        "two masks": (
            f"{Q}, bool[5,7] c, bool[b,1,1,7] d",
            f"{SCORES} h = Where(c, zero, fill) i = Where(d, fill, zero) j = Add(a, h) z = Add(i, j) {LAST}",
            "m = Where(c, zero, low) n = Where(d, low, zero) s = Add(m, n) y = Attention<scale=1.0>(q, k, v, s)",
        ),
    },
)
def test_softcaps_and_masks_become(inputs: str, before: str, after: str) -> None:
    signature = f"g ({inputs}) => (float[b,h,s,d] y)"
    becomes(f"{signature} {N} {{ {before} }}", f"{signature} {N} {{ {after} }}", FUSE_ATTENTION, opset=23)


@cases(
    "body",
    {
        "scaled cap": (f"{SCORES} l = Mul(a, third) h = Tanh(l) i = Mul(h, cap) z = Mul(i, cap) {LAST}"),
        "a mask added to replaced scores": (f"{SCORES} h = Where(c, a, high) z = Add(h, n) {LAST}"),
        "two softcaps": (f"{SCORES} h = Tanh(a) i = Tanh(h) z = Mul(i, cap) {LAST}"),
        "replaced by a number that does not mask": (f"{SCORES} z = Where(c, a, zero) {LAST}"),
        "capped mask": (f"{SCORES} h = Add(a, n) l = Mul(h, third) i = Tanh(l) z = Mul(i, cap) {LAST}"),
        "many scores with a softcap": (f"{SCORES} l = Mul(a, third) h = Tanh(l) z = Mul(h, cap) {LAST}"),
    },
)
def test_other_scores_stay(body: str) -> None:
    text = f"g ({Q}, bool[5,7] c, float[5,7] n) => (float[b,h,s,d] y) {N} {{ {body} }}"
    stays(text, FUSE_ATTENTION, opset=23)


def test_scores_of_a_mask_that_are_replaced() -> None:
    """A row that is replaced throughout has equal weights, where the mask was -inf too."""
    numbers = {"zero": np.float32(0), "inf": np.float32(-np.inf), "low": np.float32(-1e4)}
    text = f"g ({Q}, bool[b,1,5,7] c, bool[5,1] d) => (float[b,h,s,d] y)"
    before = load(
        f"{text} {{ {SCORES} m = Where(c, zero, inf) h = Add(a, m) z = Where(d, h, low) {LAST} }}", 23, numbers
    )
    after = to_onnx(apply_passes(before, FUSE_ATTENTION)[0])
    assert op_types(after) == ["Where", "Where", "Attention"]
    rng = np.random.default_rng(0)
    feed = {n: rng.normal(size=(2, 2, *s)).astype(np.float32) for n, s in (("q", (5, 4)), ("k", (7, 4)), ("v", (7, 3)))}
    feed |= {"c": rng.random((2, 1, 5, 7)) < 0.7, "d": np.array([[True], [False], [True], [True], [False]])}
    np.testing.assert_allclose(run(after, feed)[0], run(before, feed)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("low", [np.finfo(np.float32).min, -np.finfo(np.float32).max / 2, -1e9])
@pytest.mark.parametrize(
    "mask",
    [
        "m = Where(c, zero, low)",
        "f = Cast<to=1>(c) i = Sub(one, f) m = Mul(i, low)",
        "m = Add(zero, n)",
        "l, r = Split<axis=3>(n, parts) m = Concat<axis=3>(l, r)",
        "s = Shape(c) f = ConstantOfShape<value=float[1] fill {LOW}>(s) u = Trilu(f, above) m = Where(c, u, low)",
    ],
    ids=["where", "product", "input", "parts", "triangle"],
)
def test_rows_that_are_masked_throughout(mask: str, low: float) -> None:
    text = f"g ({Q}, bool[b,1,5,7] c, float[b,1,5,7] n) => (float[b,h,s,d] y)"
    numbers = {"zero": np.float32(0), "one": np.float32(1), "low": np.float32(low)}
    numbers |= {"parts": np.array([3, 4]), "above": np.array(0)}
    before = load(f"{text} {{ {SCORES} {mask.replace('LOW', str(low))} z = Add(a, m) {LAST} }}", 23, numbers)
    after = to_onnx(apply_passes(before, FUSE_ATTENTION)[0])
    assert "Attention" in op_types(after)
    rng = np.random.default_rng(0)
    taken = rng.random((2, 1, 5, 7)) < 0.5
    taken[:, :, 1] = False
    feed = {
        "q": rng.normal(size=(2, 2, 5, 4)), "k": rng.normal(size=(2, 2, 7, 4)), "v": rng.normal(size=(2, 2, 7, 3)),
        "n": np.where(taken, 0, low),
    }  # fmt: skip
    feed = {name: x.astype(np.float32) for name, x in feed.items()} | {"c": taken}
    feed = {i.name: feed[i.name] for i in before.graph.input}
    np.testing.assert_allclose(run(after, feed)[0], run(before, feed)[0], rtol=1e-5, atol=1e-6)


GROUPED = "float[b,4,5,8] q, float[b,2,t,8] k, float[b,2,t,8] v"
REPEAT = "<int64[1] two = {2}, int64[5] times = {1, 1, 2, 1, 1}, int64[4] joined = {0, 4, -1, 8}>"
REPEATED = (
    "k1 = Unsqueeze(k, two) k2 = Expand(k1, times) k3 = Reshape(k2, joined)"
    " v1 = Unsqueeze(v, two) v2 = Expand(v1, times) v3 = Reshape(v2, joined)"
)


def test_repeated_heads_are_not_repeated() -> None:
    signature = f"g ({GROUPED}) => (float[b,4,5,8] y)"
    before = f"{REPEATED} y = Attention<scale=0.5>(q, k3, v3)"
    after = "y = Attention<scale=0.5>(q, k, v)"
    becomes(f"{signature} {REPEAT} {{ {before} }}", f"{signature} {{ {after} }}", FUSE_INTO_ATTENTION, opset=23)


@pytest.mark.parametrize("axis", [1, 3])
def test_heads_repeated_in_another_order_stay(axis: int) -> None:
    repeat = REPEAT.replace("two = {2}", f"two = {{{axis}}}").replace(
        "1, 1, 2, 1, 1", "1, 2, 1, 1, 1" if axis == 1 else "1, 1, 1, 2, 1"
    )
    text = f"g ({GROUPED}, float[b,4,t,8] w) => (float[b,4,5,8] y)"
    body = f"{REPEATED.replace('joined)', 'joined)')} y = Attention<scale=0.5>(q, k3, v3)"
    stays(
        f"{text.replace('b,', '1,').replace('t,', '3,')} {repeat} {{ {body} }}",
        FUSE_INTO_ATTENTION,
        opset=23,
        runs=axis == 1,
    )


CACHE = "float[b,2,p,4] kp, float[b,2,p,3] vp"
JOINS = "kt = Concat<axis=2>(kp, k) vt = Concat<axis=-2>(vp, v)"


WINDOW = (
    "g (float[b,2,s,4] q, float[b,2,s,4] k, float[b,2,s,3] v, float[b,2,p,4] kp, float[b,2,p,3] vp,"
    " float[s,p] mp, float[s,s] ms) => (float[b,2,s,d] y)"
)
LAST_THREE = (
    "<float low = {-1e30}, int64[1] start = {-3}, int64[1] end = {9223372036854775807}, int64[1] axis = {2}>"
    " { kw = Slice(kp, start, end, axis) vw = Slice(vp, start, end, axis)"
    " kt = Concat<axis=2>(kw, k) vt = Concat<axis=2>(vw, v) m = Concat<axis=1>(mp, ms)"
)


def test_cut_cache_with_a_mask_of_the_whole_becomes() -> None:
    """As in steps that an exporter traced in the window: the sum with the mask fails where something is cut off."""
    before = f"{WINDOW} {LAST_THREE} t = Transpose<perm=[0,1,3,2]>(kt) a = MatMul(q, t) z = Add(a, m)"
    before += " e = Softmax(z) y = MatMul(e, vt) }"
    after = f"{WINDOW} {LAST_THREE} n = Max(m, low) y = Attention<scale=1.0>(q, kt, vt, n) }}"
    becomes(before, after, FUSE_ATTENTION, opset=23)


def test_cut_cache_with_a_mask_of_the_window_becomes() -> None:
    """As in steps that an exporter traced behind the window, which fail before it is full."""
    window = WINDOW.replace("float[s,p] mp", "float[s,3] mp")
    before = f"{window} {LAST_THREE} t = Transpose<perm=[0,1,3,2]>(kt) a = MatMul(q, t) z = Add(a, m)"
    before += " e = Softmax(z) y = MatMul(e, vt) }"
    after = f"{window} {LAST_THREE} n = Max(m, low) y = Attention<scale=1.0>(q, kt, vt, n) }}"
    becomes(before, after, FUSE_ATTENTION, opset=23)


KEYS_AND_VALUES = "g (float[b,2,5,4] q, float[b,2,t,4] k, float[b,2,{},3] v, float[5,u] m) => (float[b,2,5,3] y)"


def test_mask_with_columns_of_another_name_is_expanded() -> None:
    """It has one column or one for each key, since any other sum does not fit the values."""
    signature = KEYS_AND_VALUES.format("t")
    numbers = "<float low = {-1e30}, int64[1] one = {1}>"
    before = f"{signature} {{ {SCORES} z = Add(a, m) {LAST} }}"
    expand = "n = Max(m, low) l = Shape<start=2,end=3>(v) d = Concat<axis=0>(one, l) w = Expand(n, d)"
    after = f"{signature} {numbers} {{ {expand} y = Attention<scale=1.0>(q, k, v, w) }}"
    result = becomes(before, after, FUSE_ATTENTION, opset=23)
    require_equivalent(load(before, 23), result, u=1)


def test_mask_with_columns_of_other_values_stays() -> None:
    stays(f"{KEYS_AND_VALUES.format('u')} {{ {SCORES} z = Add(a, m) {LAST} }}", FUSE_ATTENTION, opset=23)


def test_cut_cache_that_a_mask_stretches_stays() -> None:
    """One score, of the last key, is added to each number of a longer mask."""
    body = LAST_THREE.replace("{-3}", "{-1}").replace("kt =", "kx =").replace("vt =", "vx =")
    stays(
        f"{WINDOW} {body} t = Transpose<perm=[0,1,3,2]>(kw) a = MatMul(q, t) z = Add(a, mp)"
        " e = Softmax(z) y = MatMul(e, vp) }",
        FUSE_ATTENTION,
        opset=23,
    )


@pytest.mark.parametrize("mask", ["", ", m"])
def test_cache_becomes(mask: str) -> None:
    signature = (
        f"g (float[b,4,5,4] q, float[b,2,7,4] k, float[b,2,7,3] v, {CACHE}, float[5,t] m)"
        " => (float[b,h,s,d] y, float[b,2,t,4] kt, float[b,2,t,3] vt)"
    )
    before = f"{JOINS} y = Attention<scale=0.5>(q, kt, vt{mask})"
    after = f"y, kt, vt = Attention<scale=0.5>(q, k, v, {mask[2:] or 'no'}, kp, vp)".replace("no", "")
    becomes(
        f"{signature} {{ {before} }}", f"{signature} {{ {after} }}", FUSE_CACHE_INTO_ATTENTION, opset=23, runs=not mask
    )


def test_heads_become_attributes_behind_a_cache() -> None:
    signature = (
        "g (float[b,5,16] q, float[b,7,16] k, float[b,7,12] v, float[b,2,p,8] kp, float[b,2,p,6] vp)"
        " => (float[b,5,d] y, float[b,2,t,8] kt, float[b,2,t,6] vt)"
    )
    joins = JOINS.replace("k)", "k2)").replace("v)", "v2)")
    before = f"{SPLIT.format('split')} {joins} a = Attention<scale=0.25>(q2, kt, vt) {JOIN}"
    after = "y, kt, vt = Attention<scale=0.25, q_num_heads=2, kv_num_heads=2>(q, k, v, , kp, vp)"
    passes = (FUSE_CACHE_INTO_ATTENTION, FUSE_INTO_ATTENTION, MERGE_TRANSPOSES, MERGE_RESHAPES)
    becomes(f"{signature} {SHAPES} {{ {before} }}", f"{signature} {{ {after} }}", *passes, opset=23)


@cases(
    "body",
    {
        "causal": (f"{JOINS} y = Attention<scale=0.5, is_causal=1>(q, kt, vt)"),
        "queries of the cache": (f"{JOINS} s = ReduceMax(kt) r = Mul(q, s) y = Attention<scale=0.5>(r, kt, vt)"),
        "more heads": ("kt = Concat<axis=1>(kp, kp) vt = Concat<axis=1>(vp, vp) y = Attention<scale=0.5>(q, kt, vt)"),
    },
)
def test_other_caches_stay(body: str) -> None:
    text = (
        f"g (float[1,4,5,4] q, float[1,2,7,4] k, float[1,2,7,3] v, {CACHE.replace('b,', '1,')}) => (float[b,h,s,d] y)"
    )
    stays(f"{text} {{ {body} }}", FUSE_CACHE_INTO_ATTENTION, opset=23)


@pytest.mark.parametrize(("dims", "one"), [("2,5,7", "1"), ("1,5,7", "1"), ("5,7", "")])
def test_three_dims_become(dims: str, one: str) -> None:
    """Each head is a batch of its own."""
    signature = f"g (float[2,5,4] q, float[2,7,4] k, float[2,7,3] v, float[{dims}] m) => (float[2,5,3] y)"
    before = "t = Transpose<perm=[0,2,1]>(k) a = MatMul(q, t) z = Add(a, m) e = Softmax(z) y = MatMul(e, v)"
    mask = "n = Max(m, low) w = Unsqueeze(n, one)" if one else "w = Max(m, low)"
    after = f"{mask} y = Attention<scale=1.0, q_num_heads=1, kv_num_heads=1>(q, k, v, w)"
    numbers = "<float low = {-1e30}, int64[1] one = {1}>"
    becomes(f"{signature} {{ {before} }}", f"{signature} {numbers} {{ {after} }}", FUSE_ATTENTION, opset=23)


def test_half_precision_with_a_softmax_of_single_precision() -> None:
    signature = "g (float16[b,2,5,4] q, float16[b,2,7,4] k, float16[b,2,7,3] v, bool[5,7] c) => (float16[b,h,s,d] y)"
    numbers = "<float low = {-3.4e38}, float16 zero = {0}, float16 masked = {-40000}>"
    scores = "p = Tanh(q) l = Tanh(k) t = Transpose<perm=[0,1,3,2]>(l) a = MatMul(p, t) f = Cast<to=1>(a)"
    before = f"{scores} z = Where(c, f, low) e = Softmax(z) h = Cast<to=10>(e) y = MatMul(h, v)"
    after = (
        "p = Tanh(q) l = Tanh(k) m = Where(c, zero, masked) y = Attention<scale=1.0, softmax_precision=1>(p, l, v, m)"
    )
    becomes(f"{signature} {numbers} {{ {before} }}", f"{signature} {numbers} {{ {after} }}", FUSE_ATTENTION, opset=23)
