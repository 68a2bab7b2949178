"""Fusion of attention."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.core.proof.rule_condition import condition_of
from passwright.core.run.pipeline import Pipeline
from passwright.passes.fusion import attention
from passwright.passes.fusion.attention import FUSE_CACHE_INTO_ATTENTION, fuse_attention
from passwright.passes.movement import reshapes
from passwright.passes.movement.layout_propagation import move_transposes
from passwright.passes.targets import ORT
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, require_equivalent, run

FUSE_IN_BASIC = rule_pass(attention, "fuse-attention")
FUSE_ATTENTION = Pipeline("attention", (FUSE_IN_BASIC,), costs=ORT.costs)
FUSE_INTO_ATTENTION = rule_pass(attention, "fuse-into-attention")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")
MERGE_RESHAPES = rule_pass(reshapes, "merge-reshapes")

Q = "float[b,2,5,4] q, float[b,2,7,4] k, float[b,2,7,3] v"
WEIGHTS = {
    "s": 0.5,
    "row": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    "zero": 0.0,
    "inf": -np.inf,
    "third": 1 / 3,
    "fill": -3.4e38,
    "m": 1.5 * 2**23,
    "split": [0, 0, 2, -1],
    "eights": [0, 0, -1, 8],
}
attentions = Rewrites(
    f"g ({Q}{{more}}) => (float[] y)", FUSE_ATTENTION, FUSE_INTO_ATTENTION, weights=WEIGHTS, opset=23, more=""
)
KT = "t = Transpose<perm=[0,1,3,2]>(k)"
SCORES = f"{KT} a = MatMul(q, t)"
LAST = "e = Softmax<axis=-1>(z) y = MatMul(e, v)"
PRODUCTS = "z = MatMul(p, t) e = Softmax(z) y = MatMul(e, v)"
ONE = "g (float[b,2,5,4] x) => (float[] y)"
TURNED = "g (float[b,2,5,4] q, float[b,2,4,7] k, float[b,2,7,3] v) => (float[] y)"
GROWING = "float[2,2,5,4] q, float[2,2,N,4] k, float[2,2,1,4] n, float[2,2,N,3] v, float[2,2,1,3] u"
DEFAULT = "y = Attention<scale=0.5>(q, k, v)"
PLAIN = "y = Attention<scale=1.0>(q, k, v)"

in_basic = attentions.using(FUSE_IN_BASIC, FUSE_INTO_ATTENTION)
test_sizes_that_may_be_0_stay_in_basic = in_basic.all_stay(f"""
    batch: {SCORES} z = Mul(a, s) {LAST}
    queries [graph=g ({Q.replace("b,2,5", "2,2,N")}) => (float[] y)]: {SCORES} z = Mul(a, s) {LAST}
    keys [graph=g ({Q.replace("b", "2").replace("7", "N")}) => (float[] y)]: {SCORES} z = Mul(a, s) {LAST}
""")
test_sizes_that_are_positive_become_in_basic = in_basic.all_become(f"""
    numbers [graph=g ({Q.replace("b", "2")}) => (float[] y)]: {SCORES} z = Mul(a, s) {LAST} => {DEFAULT}
    one more key than N [graph=g ({GROWING}) => (float[] y)]: l = Concat<axis=2>(k, n) w = Concat<axis=2>(v, u)
        t = Transpose<perm=[0,1,3,2]>(l) {PRODUCTS.replace("p, t", "q, t").replace("v)", "w)")}
        => l = Concat<axis=2>(k, n) w = Concat<axis=2>(v, u) y = Attention<scale=1.0>(q, l, w)
""")
test_becomes = attentions.all_become(f"""
    scaled: {SCORES} z = Mul(a, s) {LAST} => {DEFAULT}
    scaled from the left [opset=24]: {SCORES} z = Mul(s, a) {LAST} => {DEFAULT}
    divided [opset=25]: {SCORES} z = Div(a, 2.0) {LAST} => {DEFAULT}
    plain [opset=26]: {KT} z = MatMul(q, t) {LAST} => {PLAIN}
    the last axis by number: {KT} z = MatMul(q, t) e = Softmax<axis=3>(z) y = MatMul(e, v) => {PLAIN}
    scaled queries: p = Mul(q, s) {KT} {PRODUCTS} => {DEFAULT}
    scaled queries and keys: p = Mul(q, s) l = Mul(k, 2.0) t = Transpose<perm=[0,1,3,2]>(l) {PRODUCTS} => {PLAIN}
    scaled everywhere: p = Mul(q, 2.0) {KT} l = Mul(2.0, t) a = MatMul(p, l) z = Div(a, 2.0) {LAST}
        => y = Attention<scale=2.0>(q, k, v)
    scaled keys: l = Mul(k, s) y = Attention<scale=2.0>(q, l, v) => {PLAIN}
    shifted queries: p = Add(q, 2.0) {KT} {PRODUCTS} => p = Add(q, j) y = Attention<scale=1.0>(p, k, v)
    rounded queries: o = Add(q, m) p = Sub(o, m) {KT} {PRODUCTS}
        => o = Add(q, m) p = Sub(o, m) y = Attention<scale=1.0>(p, k, v)
    from a default scale: p = Mul(q, 2.0) y = Attention(p, k, v) => {PLAIN}
    keys turned in one go [graph=g (float[b,5,2,4] q, float[b,7,2,4] k, float[b,2,7,3] v) => (float[] y)]:
        p = Transpose<perm=[0,2,1,3]>(q) t = Transpose<perm=[0,2,3,1]>(k) {PRODUCTS}
        => p = Transpose<perm=[0,2,1,3]>(q) t = Transpose<perm=[0,2,1,3]>(k) y = Attention<scale=1.0>(p, t, v)
    keys turned already [graph={TURNED}]: z = MatMul(q, k) {LAST}
        => t = Transpose<perm=[0,1,3,2]>(k) y = Attention<scale=1.0>(q, t, v)
    of one value [graph={ONE}]: t = Transpose<perm=[0,1,3,2]>(x) a = MatMul(x, t) z = Mul(a, s) e = Softmax(z)
        y = MatMul(e, x) => y = Attention<scale=0.5>(x, x, x)
    half precision [dtype=float16]: p = Tanh(q) {KT} {PRODUCTS} => p = Tanh(q) y = Attention<scale=1.0>(p, k, v)
    inside an If body [graph={ONE}; in_if]: t = Transpose<perm=[0,1,3,2]>(x) z = MatMul(x, t) e = Softmax(z)
        y = MatMul(e, x) => y = Attention<scale=1.0>(x, x, x)
    softcap [graph=g ({Q.replace("b", "1")}) => (float[] y)]: {SCORES} l = Mul(a, third) h = Tanh(l) z = Mul(h, 3.0)
        {LAST} => y = Attention<scale=1.0, softcap=3.0>(q, k, v)
    replaced scores [more=, bool[b,1,5,7] c]: {SCORES} z = Where(c, a, fill) {LAST}
        => m = Where(c, zero, low) y = Attention<scale=1.0>(q, k, v, m)
    two masks [more=, bool[5,7] c, bool[b,1,1,7] d]: {SCORES} h = Where(c, zero, fill) i = Where(d, fill, zero)
        j = Add(a, h) z = Add(i, j) {LAST}
        => m = Where(c, zero, low) n = Where(d, low, zero) s = Add(m, n) y = Attention<scale=1.0>(q, k, v, s)
""")
MASK = f"{SCORES} c = Mul(a, s) z = Add(c, m) {LAST}"
test_masked_becomes = attentions.all_become(
    {
        f"{dims} {add}": (
            f"{MASK.replace('Add(c, m)', add)} => n = Max(m, low) y = Attention<scale=0.5>(q, k, v, n)",
            {"more": f", float[{dims}] m"},
        )
        for dims in ("5,7", "2,5,7", "1,1,5,7", "b,1,5,7", "1,2,5,7", "b,2,5,7")
        for add in ("Add(c, m)", "Add(m, c)")
    }
)
EXPANDED = f"{MASK} => n = Max(m, low) w = Expand(n, shape) y = Attention<scale=0.5>(q, k, v, w)"
DIMS = ("7", "1,7", "5,1", "b,1,1,7", "1,1,1,1", "2,1,7")
test_mask_is_expanded = attentions.all_become({dims: (EXPANDED, {"more": f", float[{dims}] m"}) for dims in DIMS})

GUARD = "n = IsNaN(e) w = Where(n, zero, e) y = MatMul(w, v)"
BOUNDED = "p = Tanh(q) l = Tanh(k) t = Transpose<perm=[0,1,3,2]>(l) a = MatMul(p, t)"
MASKED = "h = Where(c, zero, inf) f = Add(a, h) e = Softmax(f)"
GUARDED = "p = Tanh(q) l = Tanh(k) h = Where(c, zero, inf) y = Attention<scale=1.0>(p, l, v, h)"
test_guarded_becomes = attentions.using(more=", bool[b,1,5,7] c").all_become(f"""
    mask second: {BOUNDED} {MASKED} {GUARD} => {GUARDED}
    mask first: {BOUNDED} {MASKED.replace("a, h", "h, a")} {GUARD} => {GUARDED}
    scaled: {BOUNDED} z = Mul(a, s) {MASKED.replace("a, h", "z, h")} {GUARD} => {GUARDED.replace("1.0", "0.5")}
""")
test_guarded_stays = attentions.using(more=", bool[b,1,5,7] c", runs=False).all_stay(f"""
    another number: {BOUNDED} {MASKED} {GUARD.replace("zero", "s")}
    else: {BOUNDED} {MASKED} n = IsNaN(e) w = Where(n, e, zero) y = MatMul(w, v)
    of a: {BOUNDED} {MASKED} n = IsNaN(a) w = Where(n, zero, e) y = MatMul(w, v)
    no mask: {BOUNDED} e = Softmax(a) {GUARD}
    no scores: {BOUNDED} {MASKED.replace("a, h", "h, h")} {GUARD}
""")

HEADS = " ".join(f"{i}1 = Reshape({i}, split) {i}2 = Transpose<perm=[0,2,1,3]>({i}1)" for i in "qkv")
EIGHTS = HEADS.replace("q, split", "q, eights").replace("Reshape(k, split", "Reshape<allowzero=0>(k, eights")
JOIN = "b = Transpose<perm=[0,2,1,3]>(a) y = Reshape(b, [0,0,12])"
COUNTS = "q_num_heads=2, kv_num_heads=2"
heads = Rewrites(
    "g (float[b,5,16] q, float[b,7,16] k, float[b,7,12] v) => (float[] y)",
    FUSE_CACHE_INTO_ATTENTION,
    FUSE_INTO_ATTENTION,
    MERGE_TRANSPOSES,
    MERGE_RESHAPES,
    weights=WEIGHTS,
    opset=23,
)
test_heads_become_attributes = heads.all_become(f"""
    scaled: {HEADS} a = Attention<scale=0.25>(q2, k2, v2) {JOIN} => y = Attention<scale=0.25, {COUNTS}>(q, k, v)
    by default: {HEADS} a = Attention(q2, k2, v2) {JOIN} => y = Attention<scale=0.3535533905932738, {COUNTS}>(q, k, v)
    by their size: {EIGHTS} a = Attention<scale=0.25>(q2, k2, v2) {JOIN.replace("12", "-1")}
        => y = Attention<scale=0.25, {COUNTS}>(q, k, v)
    causal: {HEADS} a = Attention<scale=0.25, is_causal=1>(q2, k2, v2) {JOIN}
        => y = Attention<scale=0.25, is_causal=1, {COUNTS}>(q, k, v)
    the result apart: {HEADS} a = Attention<scale=0.25>(q2, k2, v2) c = Transpose<perm=[0,2,1,3]>(a) y = Relu(c)
        => a = Attention<scale=0.25, {COUNTS}>(q, k, v) r = Reshape(a, split) y = Relu(r)
    behind a cache [graph=g (float[b,5,16] q, float[b,7,16] k, float[b,7,12] v, float[b,2,p,8] kp, float[b,2,p,6] vp)
        => (float[b,5,d] y, float[b,2,t,8] kt, float[b,2,t,6] vt)]:
        {HEADS} kt = Concat<axis=2>(kp, k2) vt = Concat<axis=-2>(vp, v2) a = Attention<scale=0.25>(q2, kt, vt) {JOIN}
        => y, kt, vt = Attention<scale=0.25, {COUNTS}>(q, k, v, , kp, vp)
""")
SUM = f"{SCORES} z = Mul(a, s) e = Softmax(z) f = MatMul(e, v)"
test_stays = attentions.all_stay(f"""
    older opset [opset=22]: {SCORES} z = Mul(a, s) {LAST}
    another axis: {SCORES} z = Mul(a, s) e = Softmax<axis=2>(z) y = MatMul(e, v)
    shifted: {SCORES} z = Add(a, s) {LAST}
    scaled below 0: {SCORES} z = Mul(a, -2.0) {LAST}
    scaled by several numbers: {SCORES} z = Mul(a, row) {LAST}
    upside down: {SCORES} z = Div(2.0, a) {LAST}
    not scores: {SCORES} n = Neg(a) z = Mul(n, s) {LAST}
    a scaled mask: {SCORES} c = Add(a, row) z = Mul(c, s) {LAST}
    shared weights: {SUM} r = ReduceMax(e) y = Add(f, r)
    shared scaled scores: {SUM} r = ReduceMax(z) y = Add(f, r)
    shared scores: {SUM} r = ReduceMax(a) y = Add(f, r)
    a negative scale: p = Mul(q, -2.0) y = Attention(p, k, v)
    scaled values: p = Mul(v, 2.0) y = Attention(q, k, p)
    shifted queries: p = Add(q, 2.0) y = Attention(p, k, v)
    heads broadcast [graph={TURNED.replace("2,4,7", "1,4,7")}]: z = MatMul(q, k) {LAST}
    batches broadcast [graph={TURNED.replace("b", "1", 1)}]: z = MatMul(q, k) {LAST}
    doubles [dtype=double]: {SCORES.replace("a =", "z =")} {LAST}
    the weights are a graph output [graph={TURNED.replace("float[] y", "float[b,h,s,d] y, float[b,h,s,t] e")}]:
        z = MatMul(q, k) {LAST}
    regrouped [graph=g (float[2,6,8] x) => (float[] y)]: r = Reshape(x, [6,2,2,4]) t = Transpose<perm=[0,2,1,3]>(r)
        a = Attention(t, t, t) c = Transpose<perm=[0,2,1,3]>(a) y = Reshape(c, [0,0,-1])
    a mask that stretches the scores [more=, float[x,1,5,7] m; runs=False]: {MASK}
    doubles keep the scale of queries [dtype=double]: p = Mul(q, 2.0) y = Attention(p, k, v)
    doubles keep the scale of keys [dtype=double]: p = Mul(k, 2.0) y = Attention(q, p, v)
    without features [graph=g (float[1,2,5,0] q, float[1,2,7,0] k, float[1,2,7,3] v) => (float[] y); runs=False]:
        r = Mul(q, 2.0) y = Attention(r, k, v)
""")
test_other_scores_stay = attentions.using(more=", bool[5,7] c, float[5,7] n").all_stay(f"""
    scaled cap: {SCORES} l = Mul(a, third) h = Tanh(l) i = Mul(h, 3.0) z = Mul(i, 3.0) {LAST}
    a mask added to replaced scores: {SCORES} h = Where(c, a, -10000.0) z = Add(h, n) {LAST}
    two softcaps: {SCORES} h = Tanh(a) i = Tanh(h) z = Mul(i, 3.0) {LAST}
    replaced by a number that does not mask: {SCORES} z = Where(c, a, zero) {LAST}
    capped mask: {SCORES} h = Add(a, n) l = Mul(h, third) i = Tanh(l) z = Mul(i, 3.0) {LAST}
    many scores with a softcap: {SCORES} l = Mul(a, third) h = Tanh(l) z = Mul(h, 3.0) {LAST}
""")


@given(scale=st.sampled_from([0.1, 0.25, 1.0, 3.0]), heads=st.integers(1, 3), masked=st.booleans())
def test_any_scale(scale: float, heads: int, masked: bool) -> None:
    mask = ("c = Mul(a, s) z = Add(c, m)", "n = Max(m, low) ", ", n") if masked else ("z = Mul(a, s)", "", "")
    attentions.becomes(
        f"{SCORES} {mask[0]} {LAST}",
        f"{mask[1]}y = Attention<scale={scale}>(q, k, v{mask[2]})",
        graph=f"g ({Q.replace('b,2', f'b,{heads}')}, float[5,7] m) => (float[] y)",
        weights={"s": scale},
    )


def same_with_masked_rows(text: str, numbers: dict[str, np.ndarray], low: float = -1e4) -> list[str]:
    """The operators after fusion, whose results are the same where a mask replaces whole rows."""
    before = load(text, 23, numbers)
    after = to_onnx(apply_passes(before, FUSE_ATTENTION)[0])
    rng = np.random.default_rng(0)
    taken = rng.random((2, 1, 5, 7)) < 0.5
    taken[:, :, 1] = False
    feed = {n: rng.normal(size=(2, 2, *s)) for n, s in (("q", (5, 4)), ("k", (7, 4)), ("v", (7, 3)))}
    feed = {name: x.astype(np.float32) for name, x in (feed | {"n": np.where(taken, 0, low)}).items()}
    feed |= {"c": taken, "d": np.array([[True], [False], [True], [True], [False]])}
    feed = {i.name: feed[i.name] for i in before.graph.input}
    np.testing.assert_allclose(run(after, feed)[0], run(before, feed)[0], rtol=1e-5, atol=1e-6)
    return op_types(after)


def test_scores_of_a_mask_that_are_replaced() -> None:
    """A row that is replaced throughout has equal weights, where the mask was -inf too."""
    numbers = {"zero": np.float32(0), "inf": np.float32(-np.inf), "low": np.float32(-1e4)}
    body = f"{SCORES} m = Where(c, zero, inf) h = Add(a, m) z = Where(d, h, low) {LAST}"
    text = f"g ({Q}, bool[b,1,5,7] c, bool[5,1] d) => (float[b,h,s,d] y) {{ {body} }}"
    assert same_with_masked_rows(text, numbers) == ["Where", "Where", "Attention"]


@each("low", [np.finfo(np.float32).min, -np.finfo(np.float32).max / 2, -1e9])
@each(
    "mask",
    {
        "where": "m = Where(c, zero, low)",
        "product": "f = Cast<to=1>(c) i = Sub(one, f) m = Mul(i, low)",
        "input": "m = Add(zero, n)",
        "parts": "l, r = Split<axis=3>(n, parts) m = Concat<axis=3>(l, r)",
        "triangle": (
            "s = Shape(c) f = ConstantOfShape<value=float[1] fill {LOW}>(s) u = Trilu(f, above) m = Where(c, u, low)"
        ),
    },
)
def test_rows_that_are_masked_throughout(mask: str, low: float) -> None:
    numbers = {"zero": np.float32(0), "one": np.float32(1), "low": np.float32(low)}
    numbers |= {"parts": np.array([3, 4]), "above": np.array(0)}
    text = f"g ({Q}, bool[b,1,5,7] c, float[b,1,5,7] n) => (float[b,h,s,d] y)"
    body = f"{SCORES} {mask.replace('LOW', str(low))} z = Add(a, m) {LAST}"
    assert "Attention" in same_with_masked_rows(f"{text} {{ {body} }}", numbers, low)


@each("sums", ["m = Add(p, n) z = Add(a, m)", "m = Add(n, p) w = Unsqueeze(m, one) x = Squeeze(w, one) z = Add(x, a)"])
def test_masks_that_cancel_each_other(sums: str) -> None:
    """A mask of 2 instead of 1 makes the highest number, with which the lowest one of another mask masks nothing."""
    low = np.finfo(np.float32).min
    weights = {"i": np.float32(1), "low": low, "n": np.triu(np.full((5, 7), low, np.float32), 1), "one": [1]}
    body = f"{SCORES} f = Cast<to=1>(c) g1 = Sub(i, f) p = Mul(g1, low) {sums} {LAST}"
    before = load(f"g ({Q}, int64[b,1,1,7] c) => (float[b,h,s,d] y) {{ {body} }}", 23, weights)
    after = to_onnx(apply_passes(before, FUSE_ATTENTION)[0])
    assert "Attention" in op_types(after)
    rng = np.random.default_rng(0)
    shapes = (("q", (5, 4)), ("k", (7, 4)), ("v", (7, 3)))
    feed = {n: rng.normal(size=(1, 2, *s)).astype(np.float32) for n, s in shapes}
    for c in ([2] * 7, [1, 2, 0, 1, 2, 0, 1]):
        feed["c"] = np.array(c).reshape(1, 1, 1, 7)
        np.testing.assert_allclose(run(after, feed)[0], run(before, feed)[0], rtol=1e-5, atol=1e-6)


OVERFLOW = 1e5  # beyond the largest half


@each(
    ("highest", "lowest", "is_promised"),
    {
        "none overflows": (100, -100, True),
        "one overflows to -inf": (100, -OVERFLOW, True),
        "all overflow to -inf": (-OVERFLOW, -OVERFLOW, False),
        "one overflows to inf": (OVERFLOW, 100, False),
        "all overflow to inf": (OVERFLOW, OVERFLOW, False),
    },
)
@each(
    "body",
    [
        "z = MatMul(q, k) e = Softmax(z) y = MatMul(e, v)",
        "a = MatMul(q, k) z = Mul(a, one) e = Softmax(z) y = MatMul(e, v)",
        "a = MatMul(q, k) z = Where(taken, a, low) e = Softmax(z) y = MatMul(e, v)",
        "a = MatMul(q, k) z = Cast<to=1>(a) f = Softmax(z) e = Cast<to=10>(f) y = MatMul(e, v)",
    ],
)
def test_scores_that_overflow_in_half_precision(body: str, highest: float, lowest: float, is_promised: bool) -> None:
    """Attention rounds scores to half before its softmax; onnxruntime's MatMul leaves them in 32 bits."""
    head = "g (float16[1,1,1,4] q, float16[1,1,4,7] k, float16[1,1,7,3] v) => (float16[b,h,s,d] y)"
    model = load(f"{head} {{ {body} }}", 23, {"one": np.float16(1), "low": np.float16(-6e4), "taken": np.ones(7, bool)})
    feed = {"q": np.full((1, 1, 1, 4), 16), "k": np.full((1, 1, 4, 7), highest / 64), "v": np.ones((1, 1, 7, 3))}
    feed["k"][..., 2] = lowest / 64
    feed = {name: x.astype(np.float16) for name, x in feed.items()}
    condition = condition_of(fuse_attention, model)
    assert condition is not None
    assert all(np.all(x) for x in run(condition, feed)) == is_promised
    after = to_onnx(apply_passes(model, FUSE_ATTENTION)[0])
    assert op_types(after)[-1] == "Attention"
    (before,), (fused,) = run(model, feed), run(after, feed)
    assert np.isfinite(before).all()
    assert np.array_equal(before, fused) == is_promised


REPEATED = " ".join(
    f"{i}1 = Unsqueeze({i}, on) {i}2 = Expand({i}1, times) {i}3 = Reshape({i}2, [0,4,-1,8])" for i in "kv"
)
repeated = Rewrites(
    "g (float[{b},4,5,8] q, float[{b},2,{t},8] k, float[{b},2,{t},8] v) => (float[] y)",
    FUSE_INTO_ATTENTION,
    opset=23,
    b="b",
    t="t",
    weights={"on": [2], "times": [1, 1, 2, 1, 1]},
)
REPEAT = f"{REPEATED} y = Attention<scale=0.5>(q, k3, v3)"
test_repeated_heads_are_not_repeated = repeated.all_become(f"""
    repeated: {REPEAT} => {DEFAULT}
""")
test_heads_repeated_in_another_order_stay = repeated.using(b="1", t="3").all_stay(
    {
        "heads": (REPEAT, {"weights": {"on": [1], "times": [1, 2, 1, 1, 1]}}),
        "positions": (REPEAT, {"weights": {"on": [3], "times": [1, 1, 1, 2, 1]}, "runs": False}),
    }
)

CACHE = "float[{b},2,p,4] kp, float[{b},2,p,3] vp"
JOINS = "kt = Concat<axis=2>(kp, k) vt = Concat<axis=-2>(vp, v)"
caches = Rewrites(
    f"g (float[{{b}},4,5,4] q, float[{{b}},2,7,4] k, float[{{b}},2,7,3] v, {CACHE}, float[5,t] m)"
    " => (float[b,h,s,d] y{more})",
    FUSE_CACHE_INTO_ATTENTION,
    opset=23,
    b="b",
    more=", float[b,2,t,4] kt, float[b,2,t,3] vt",
)
CACHED = "Attention<scale=0.5>(q, k, v, {}, kp, vp)"
test_cache_becomes = caches.all_become(f"""
    no mask: {JOINS} y = Attention<scale=0.5>(q, kt, vt) => y, kt, vt = {CACHED.format("")}
    a mask [runs=False]: {JOINS} y = Attention<scale=0.5>(q, kt, vt, m) => y, kt, vt = {CACHED.format("m")}
""")
test_other_caches_stay = caches.using(b="1", more="").all_stay(f"""
    causal: {JOINS} y = Attention<scale=0.5, is_causal=1>(q, kt, vt)
    queries of the cache: {JOINS} s = ReduceMax(kt) r = Mul(q, s) y = Attention<scale=0.5>(r, kt, vt)
    more heads: kt = Concat<axis=1>(kp, kp) vt = Concat<axis=1>(vp, vp) y = Attention<scale=0.5>(q, kt, vt)
""")

windows = Rewrites(
    "g (float[b,2,s,4] q, float[b,2,s,4] k, float[b,2,s,3] v, float[b,2,p,4] kp, float[b,2,p,3] vp, float[s,{cached}]"
    " mp, float[s,s] ms) => (float[b,2,s,d] y)",
    FUSE_ATTENTION,
    opset=23,
    weights={"start": [-3], "end": [2**63 - 1]},
    cached="p",
)
CUT = "kw = Slice(kp, start, end, [2]) vw = Slice(vp, start, end, [2])"
JOINED = f"{CUT} kt = Concat<axis=2>(kw, k) vt = Concat<axis=2>(vw, v) m = Concat<axis=1>(mp, ms)"
STEP = (
    f"{JOINED} t = Transpose<perm=[0,1,3,2]>(kt) a = MatMul(q, t) z = Add(a, m) e = Softmax(z) y = MatMul(e, vt)"
    f" => {JOINED} n = Max(m, low) y = Attention<scale=1.0>(q, kt, vt, n)"
)
# As in steps that an exporter traced in the window: the sum with the mask fails where something is cut off; or behind
# the window, where steps fail before it is full.
test_cut_cache_becomes = windows.all_become(f"""
    a mask of the whole: {STEP}
    of the window [cached=3]: {STEP}
""")
# One score, of the last key, is added to each number of a longer mask.
test_cut_cache_stays = windows.using(weights={"start": [-1]}).all_stay(f"""
    a longer mask: {JOINED} t = Transpose<perm=[0,1,3,2]>(kw) a = MatMul(q, t) z = Add(a, mp) e = Softmax(z)
        y = MatMul(e, vp)
""")

COLUMNS = "g (float[b,2,5,4] q, float[b,2,t,4] k, float[b,2,{},3] v, float[5,u] m) => (float[b,2,5,3] y)"


def test_mask_with_columns_of_another_name_is_expanded() -> None:
    """It has one column or one for each key, since any other sum does not fit the values."""
    graph, before = COLUMNS.format("t"), f"{SCORES} z = Add(a, m) {LAST}"
    expand = "n = Max(m, low) l = Shape<start=2,end=3>(v) d = Concat<axis=0>(one, l) w = Expand(n, d)"
    result = attentions.becomes(before, f"{expand} y = Attention<scale=1.0>(q, k, v, w)", graph=graph)
    require_equivalent(load(f"{graph} {{ {before} }}", 23), result, u=1)
    attentions.stays(before, graph=COLUMNS.format("u"))


THREE = "g (float[2,5,4] q, float[2,7,4] k, float[2,7,3] v, float[{}] m) => (float[] y)"
HEADLESS = "t = Transpose<perm=[0,2,1]>(k) a = MatMul(q, t) z = Add(a, m) e = Softmax(z) y = MatMul(e, v)"
BATCHED = "y = Attention<scale=1.0, q_num_heads=1, kv_num_heads=1>(q, k, v, w)"
test_three_dims_become = attentions.all_become(f"""
    2,5,7 [graph={THREE.format("2,5,7")}]: {HEADLESS} => n = Max(m, low) w = Unsqueeze(n, one) {BATCHED}
    1,5,7 [graph={THREE.format("1,5,7")}]: {HEADLESS} => n = Max(m, low) w = Unsqueeze(n, one) {BATCHED}
    5,7 [graph={THREE.format("5,7")}]: {HEADLESS} => w = Max(m, low) {BATCHED}
""")
test_half_precision_with_a_softmax_of_single_precision = attentions.all_become(f"""
    masked [graph=g ({Q.replace("float", "float16")}, bool[5,7] c) => (float16[] y)]: {BOUNDED} f = Cast<to=1>(a)
        z = Where(c, f, fill) e = Softmax(z) h = Cast<to=10>(e) y = MatMul(h, v)
        => p = Tanh(q) l = Tanh(k) m = Where(c, zero, masked) y = Attention<scale=1.0, softmax_precision=1>(p, l, v, m)
""")
