"""Scales moved from keys to queries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewrite_tables import Rewrites
from rewriting import initializers

MOVE_SCALES = rule_pass(weight_scale, "move-scales")


PAST = "g (float[B,2,S,3] q, float[B,2,P,3] past, float[B,2,S,3] new) => (float[] y)"
KEYS = "k = Concat<axis=2>(past, new)"
HEADS = "g (float[B,4,S,3] q, float[B,2,T,3] k) => (float[] y)"
MOVED = "v = Expand(u, [1,1,2,1,1]) w = Reshape(v, [0,4,-1,3]) t = Transpose<perm=[0,1,3,2]>(w)"
scales = Rewrites(
    "g (float[{q}] q, float[{k}] k) => (float[] y)", MOVE_SCALES, weights={"r": 0.5, "s": 0.25}, q="S,3", k="3,T"
)
T = "t = Transpose<perm=[0,1,3,2]>(k)"
U = "u = Transpose<perm=[1,0,2,3]>(i) w = Transpose<perm=[1,0,2,3]>(u)"
test_becomes = scales.all_become(f"""
    both are scaled [graph={PAST}]: {KEYS} i = Mul(q, r) j = Mul(k, s) t = Transpose<perm=[0,1,3,2]>(j) y = MatMul(i, t)
        => {KEYS} i = Mul(q, 0.125) {T} y = MatMul(i, t)
    keys with a past [graph={PAST}]: {KEYS} {T} j = Mul(s, t) y = MatMul(q, j)
        => {KEYS} {T} i = Mul(q, s) y = MatMul(i, t)
    divided [graph={PAST}]: {KEYS} {T} j = Div(t, 4.0) i = Div(q, 2.0) y = MatMul(i, j)
        => {KEYS} {T} i = Mul(q, 0.125) y = MatMul(i, t)
    moved behind the scale [graph={PAST}]: {KEYS} {T} j = Mul(t, s) i = Mul(new, r) {U} y = MatMul(w, j)
        => {KEYS} {T} i = Mul(new, 0.125) {U} y = MatMul(w, t)
    inside an If body, and half precision [in_if; dtype=float16]: i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j)
        => i = Mul(q, 0.125) y = MatMul(i, k)
    no elements [q=0,3]: i = Mul(q, r) j = Mul(k, s) y = MatMul(i, j) => i = Mul(q, 0.125) y = MatMul(i, k)
""")


def test_repeated_heads() -> None:
    out = scales.becomes(
        f"i = Mul(q, r) j = Mul(k, r) u = Unsqueeze(j, [2]) {MOVED} y = MatMul(i, t)",
        f"i = Mul(q, r) u = Unsqueeze(k, [2]) {MOVED} y = MatMul(i, t)",
        graph=HEADS,
    )
    assert 0.25 in [float(a) for a in initializers(out).values() if a.ndim == 0]


FIXED = "j = Mul(k, r) y = MatMul(q, j) => i = Mul(q, r) y = MatMul(i, k)"
test_every_opset = scales.using(q="2,3", k="3,9").all_become({str(o): (FIXED, {"opset": o}) for o in (7, 9, 13, 21)})
BOTH = "i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j)"
test_stays = scales.all_stay(f"""
    of any size: j = Mul(k, r) y = MatMul(q, j)
    at the first factor: i = Mul(q, r) y = MatMul(i, k)
    larger than 1: i = Mul(q, r) j = Mul(k, 2.0) y = MatMul(i, j)
    the first is larger than 1: i = Mul(q, 2.0) j = Mul(k, r) y = MatMul(i, j)
    zero: i = Mul(q, 0.0) j = Mul(k, 0.0) y = MatMul(i, j)
    underflow: i = Mul(q, 1e-30) j = Mul(k, 1e-30) y = MatMul(i, j)
    a scale for each column: i = Mul(q, [0.5,0.5,0.25]) j = Transpose(k) l = Mul(j, [0.5,0.5,0.25]) t = Transpose(l)
        y = MatMul(i, t)
    the scaled factor is an output [graph=g (float[S,3] q, float[3,T] k) => (float[a,b] y, float[c,d] j)]: {BOTH}
    read elsewhere [graph=g (float[S,3] q, float[3,T] k) => (float[a,b] y, float[c,d] n)]: {BOTH} n = Neg(j)
    computed scale [graph=g (float[S,3] q, float[3,T] k, float r) => (float[] y)]: {BOTH}
    overridable initializer [graph=g (float[S,3] q, float[3,T] k, float r = {{0.5}}) => (float[] y)]: {BOTH}
    something between: i = Mul(q, r) j = Mul(k, r) n = Relu(j) y = MatMul(i, n)
    one value twice [q=3,3]: i = Mul(q, r) y = MatMul(i, i)
    integers [graph=g (int32[2,3] q, int32[3,9] k) => (int32[] y) <int32 r = {{1}}>]: j = Mul(k, r) y = MatMul(q, j)
""")


@given(first=st.floats(2**-10, 1, width=32), second=st.floats(2**-10, 1, width=32), negative=st.booleans())
def test_any_scales(first: float, second: float, negative: bool) -> None:
    weights = {"r": np.float32(-first if negative else first), "s": np.float32(second)}
    before = "i = Mul(q, r) j = Mul(k, s) y = MatMul(i, j)"
    out = scales.becomes(before, "i = Mul(q, 0.125) y = MatMul(i, k)", weights=weights, q="2,3", k="3,4")
    (scale,) = initializers(out).values()
    assert np.isclose(scale, float(weights["r"]) * float(weights["s"]), rtol=1e-6)
