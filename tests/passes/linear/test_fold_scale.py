"""Scalar factors behind a product with constant weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.linear.weight_scale import FOLD_SCALE
from rewrite_tables import Rewrites
from rewriting import initializers
from tiers import in_turn
from weights import matrix

WEIGHTS = {
    "w": matrix(6, 4),
    "v": matrix(6, 4) * 2,
    "w3": matrix(5, 6, 4),
    "w12": matrix(6, 12),
    "b": matrix(4),
    "b12": matrix(12),
    "rows": matrix(3, 1),
    "s": 0.5,
    "deep": np.full((1, 1, 1, 1, 1), 2, np.float32),
    "row": matrix(4) + 3,
}
G = "g (float[2,3,6] x, float[2,2,2,3] z, float[2,2,3,3] z2, float[4] c) => (float[] y)"
SQUARE = "g (float[N,6] x) => (float[n,m] y)"
scales = Rewrites(G, FOLD_SCALE, weights=WEIGHTS)
P = "Transpose<perm=[0,2,1,3]>"
PT = "Transpose<perm=[0,2,3,1]>"
SCORES = (
    f"m = MatMul(x, w) a = Add(m, b) r = Reshape(a, [0,3,2,2]) q = {P}(r)"
    f" n = MatMul(x, v) l = Reshape(n, [0,3,2,2]) k_ = {PT}(l)"
)
WANT = (
    f"n = MatMul(x, j) l = Reshape(n, h) k_ = {PT}(l)"
    f" m = MatMul(x, k) a = Add(m, f) r = Reshape(a, h) q = {P}(r) y = MatMul(q, k_)"
)
WHOLE = (
    f"m = MatMul(x, w12) a = Add(m, b12) q0, k0, v0 = Split<axis=-1>(a, [4,4,4]) l = Reshape(q0, [0,3,2,2]) q = {P}(l)"
)
SCALED = f"m = MatMul(x, k) a = Add(m, f) q0, k0, v0 = Split<axis=-1>(a, p) l = Reshape(q0, h) q = {P}(l)"
T = "m = MatMul(x, w) r = Transpose(m)"
MOVED = f"m = MatMul(x, w) r = Reshape(m, [0,3,2,2]) q = {P}(r)"

test_becomes = scales.all_become(f"""
    queries: {SCORES} u = Mul(q, s) y = MatMul(u, k_) => {WANT}
    scores: {SCORES} u = MatMul(q, k_) y = Div(u, s) => {WANT}
    both: {SCORES} u = Mul([[[4.0]]], k_) i = Mul(q, [[[4.0]]]) y = MatMul(i, u) => {WANT}
    the right factor has weights: {MOVED} u = MatMul(z, q) y = Mul(u, s)
        => m = MatMul(x, k) r = Reshape(m, h) q = {P}(r) y = MatMul(z, q)
    one part of a Split: {WHOLE} u = Mul(q, s) o = Reshape(k0, [0,3,2,2]) i = {PT}(o) e = MatMul(u, i)
        j = Reshape(v0, [0,3,2,2]) d = {P}(j) y = MatMul(e, d)
        => {SCALED} o = Reshape(k0, h) i = {PT}(o) e = MatMul(q, i) j = Reshape(v0, h) d = {P}(j) y = MatMul(e, d)
    one part of a Split, the columns apart from the rows: e = Reshape(x, [-1,6]) m = Gemm(e, w12, b12)
        n = Reshape(m, [1,6,12]) c1, d, i = Split<axis=2>(n, [4,4,4]) q = Transpose<perm=[0,2,1]>(d) u = Mul(q, s)
        o = MatMul(c1, u) y = MatMul(o, i)
        => e = Reshape(x, j) m = Gemm(e, k, f) n = Reshape(m, h) c1, d, i = Split<axis=2>(n, p)
        u = Transpose<perm=[0,2,1]>(d) o = MatMul(c1, u) y = MatMul(o, i)
    a Gemm [graph={SQUARE}]: m = Gemm<alpha=2.0,beta=0.5>(x, w, b) r = Transpose(m) y = Div(r, s)
        => m = Gemm(x, k, f) y = Transpose(m)
    a sum with a number [graph={SQUARE}]: m = MatMul(x, w) a = Add(0.0, m) r = Transpose(a) y = Mul(r, s)
        => m = MatMul(x, k) a = Add(f, m) y = Transpose(a)
    inside an If body [in_if]: {T} y = Mul(r, s) => m = MatMul(x, k) y = Transpose(m)
""")
test_every_type_and_opset = scales.all_become(
    {
        f"{opset} {dtype}": tier(
            f"{MOVED} y = Mul(q, s) => m = MatMul(x, k) r = Reshape(m, h) y = {P}(r)", {"dtype": dtype, "opset": opset}
        )
        for opset, dtype, tier in in_turn((7, 11, 13, 22), ("float", "double", "float16"))
    }
)


def test_one_output_of_a_split_is_scaled() -> None:
    tail = f"o = Reshape(k0, {{0}}) i = {P}(o) d0 = Reshape(v0, {{0}}) d = {P}(d0)"
    out = scales.becomes(
        f"{WHOLE} u = Mul(q, s) {tail.format('[0,3,2,2]')} y = Sum(u, i, d)",
        f"{SCALED} {tail.format('h')} y = Sum(q, i, d)",
    )
    weights = next(a for a in initializers(out).values() if a.shape == (6, 12))
    assert np.array_equal(weights[:, :4], WEIGHTS["w12"][:, :4] / 2)
    assert np.array_equal(weights[:, 4:], WEIGHTS["w12"][:, 4:])


test_stays = scales.all_stay(f"""
    apart: {MOVED} a = Relu(q) y = Mul(a, s)
    zero: {MOVED} y = Mul(q, 0.0)
    adds a dim: m = MatMul(x, w) r = Reshape(m, [0,3,2,2]) y = Mul(r, deep)
    a row: {T} q = Transpose(r) y = Mul(q, row)
    it divides: {T} y = Div(s, r)
    the same value twice: {T} y = Mul(r, r)
    scaled value is needed: {T} q = Mul(r, s) y = Add(q, r)
    product is needed: {T} q = Mul(r, s) n = Sum(m) o = Transpose(n) y = Add(q, o)
    weights are needed: {T} n = MatMul(x, w) q = Mul(r, s) o = Transpose(n) y = Add(q, o)
    a factor with itself: m = MatMul(x, w) r = Reshape(m, [0,3,2,2]) q = MatMul(r, r) y = Mul(q, s)
    no product: q = {P}(z) y = Mul(q, s)
    no weights: q = MatMul(z, z2) y = Mul(q, s)
    a computed sum: m = MatMul(x, w) a = Add(m, c) r = Transpose(a) y = Mul(r, s)
    a Split of rows: m = MatMul(x, w12) c1, d, e = Split<axis=1>(m) a = Reshape(c1, [0,3,-1]) r = Transpose(a)
        q = Mul(r, s) o = Reshape(d, [0,3,-1]) n = Transpose(o) y = Add(q, n)
    a Split of columns and rows: m = MatMul(x, w12) n = Reshape(m, [1,3,24]) c1, d, e = Split<axis=-1>(n) q = Mul(c1, s)
        y = Sum(q, d, e)
    a Split of something else: m = MatMul(x, w12) n = Relu(m) c1, d, e = Split<axis=-1>(n, [4,4,4]) q = Mul(c1, s)
        y = Sum(q, d, e)
    a Split of a moved value: m = MatMul(x, w12) t_ = Transpose<perm=[0,1,2]>(m) c1, d, e = Split<axis=-1>(t_, [4,4,4])
        q = Mul(c1, s) y = Sum(q, d, e)
    a Split of another product: m = MatMul(x, w) o = Transpose<perm=[0,2,1]>(x) n = MatMul(o, m)
        c1, d = Split<axis=-1>(n) q = Mul(c1, s) y = Add(q, d)
    product is a graph output: g (float[3,6] x) => (float[n,m] y, float[m,n] m) {{ {T} y = Mul(r, s) }}
    overridable scale: g (float[3,6] x, float s = {{2}}) => (float[n,m] y) {{ {T} y = Mul(r, s) }}
    overridable weights [graph=g (float[3,6] x, float[6,1] w = {{1,2,3,4,5,6}}) => (float[] y)]: {T} y = Mul(r, s)
    across the border of an If body: g (bool b1, float[3,6] x) => (float[n,m] y) {{ {T}
        y = If (b1) <then_branch = o () => (float[n,m] i) {{ i = Mul(r, s) }}, else_branch = e () => (float[n,m] j) {{
        j = Relu(x) }}> }}
""")

NUMBERS = st.sampled_from([-2.0, 0.25, 0.5, 3.0])
STEPS = ["Transpose(v)", "Transpose<perm=[1,0]>(v)", "Identity(v)", "Flatten<axis=1>(v)", "Add(v, s)", "MatMul(v, u)"]


@given(steps=st.lists(st.sampled_from(STEPS), max_size=4), s=NUMBERS, op=st.sampled_from(["Mul", "Div"]))
def test_any_path(steps: list[str], s: float, op: str) -> None:
    way = [f"v{i + 1} = {step.replace('v', f'v{i}')}" for i, step in enumerate(steps)]
    g, last = "g (float[3,3] x, float[3,3] u) => (float[n,m] y)", f"v{len(steps)}"
    lines = ["v0 = MatMul(x, k)", *(line.replace("s)", f"c{i})") for i, line in enumerate(way))]
    before = f"v0 = MatMul(x, w) {' '.join(way)} y = {op}({last}, s)"
    scales.becomes(before, " ".join(lines).replace(f"{last} =", "y ="), graph=g, weights={"w": matrix(3, 3), "s": s})
