"""Transposes before and behind products."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import gemm
from rewrite_tables import Rewrites
from tiers import in_turn
from weights import matrix

FOLD_TRANSPOSE_INTO_GEMM = rule_pass(gemm, "fold-transpose-into-gemm")

WEIGHTS = {
    "w": matrix(3, 4),
    "w43": matrix(4, 3),
    "w3": matrix(2, 3, 4),
    "all": matrix(2, 4),
    "deep": np.ones((1, 1, 1, 4), np.float32),
}
T = "Transpose<perm=[1,0]>"
T3 = "Transpose<perm=[0,2,1]>"
transposes = Rewrites(
    "g (float[{a}] a, float[{b}] b, float[{c}] c) => (float[] y)",
    FOLD_TRANSPOSE_INTO_GEMM,
    weights=WEIGHTS,
    a="3,2",
    b="3,4",
    c="4",
)
test_becomes = transposes.all_become(f"""
    left: t = {T}(a) y = MatMul(t, b) => y = Gemm<transA=1>(a, b)
    right [a=2,3; b=4,3]: t = Transpose(b) y = MatMul(a, t) => y = Gemm<transB=1>(a, b)
    both [b=4,3]: t = {T}(a) u = {T}(b) y = MatMul(t, u) => y = Gemm<transA=1,transB=1>(a, b)
    open [a=K,N; b=M,K]: t = {T}(b) u = {T}(a) y = MatMul(u, t) => y = Gemm<transA=1,transB=1>(a, b)
    the same twice [a=3,3]: t = {T}(a) y = MatMul(t, t) => y = Gemm<transA=1,transB=1>(a, a)
    a Gram matrix: t = {T}(a) y = MatMul(t, a) => y = Gemm<transA=1>(a, a)
    left of a Gemm: t = {T}(a) y = Gemm<alpha=2.0,beta=0.5>(t, b, c) => y = Gemm<alpha=2.0,beta=0.5,transA=1>(a, b, c)
    left, transposed already [a=2,3]: t = {T}(a) y = Gemm<transA=1>(t, b) => y = Gemm(a, b)
    right of a Gemm [a=2,3; b=4,3; c=1]: t = {T}(b) y = Gemm(a, t, c) => y = Gemm<transB=1>(a, b, c)
    transpose of a Gemm [a=2,3; b=4,3]: m = Gemm<alpha=2.0,transB=1>(a, b) y = Transpose(m)
        => y = Gemm<alpha=2.0,transB=1>(b, a)
    its bias a row [a=2,3]: m = Gemm(a, b, [1.0,-2.0,3.0,0.5]) y = Transpose(m) => y = Gemm<transA=1,transB=1>(b, a, k)
    its bias a column [a=2,3]: m = Gemm(a, b, [[1.0],[-2.0]]) y = Transpose(m) => y = Gemm<transA=1,transB=1>(b, a, k)
    its bias a matrix: m = Gemm<transA=1>(a, b, all) y = Transpose(m) => y = Gemm<transA=1>(b, a, k)
    its bias one number [a=2,3]: m = Gemm(a, b, 0.5) y = Transpose(m) => y = Gemm<transA=1,transB=1>(b, a, k)
    of a product [a=2,3]: m = MatMul(a, b) y = {T}(m) => y = Gemm<transA=1,transB=1>(b, a)
    around it: t = {T}(a) m = MatMul(t, w) y = {T}(m) => y = Gemm<transA=1>(k, a)
    no rows [a=3,0]: t = {T}(a) y = MatMul(t, b) => y = Gemm<transA=1>(a, b)
    for two products [a=4,4; b=4,4]: t = Transpose(a) p = MatMul(t, b) q = MatMul(b, p) r = MatMul(a, t)
        y = Concat<axis=1>(q, r)
        => p = Gemm<transA=1>(a, b) q = MatMul(b, p) r = Gemm<transB=1>(a, a) y = Concat<axis=1>(q, r)
""")
test_becomes_in_batches = transposes.using(a="5,3,2").all_become(f"""
    both factors of batches [a=B,K,N; b=B,4,K]: t = {T3}(a) u = {T3}(b) y = MatMul(t, u) => m = MatMul(b, a) y = {T3}(m)
    of unequal rank [b=4,3]: t = {T3}(a) u = {T}(b) y = MatMul(t, u) => m = MatMul(b, a) y = {T3}(m)
    around a product: t = {T3}(a) m = MatMul(t, w) y = {T3}(m) => y = MatMul(k, a)
    in batches [a=2,3,5]: t = {T3}(a) m = MatMul(t, w3) y = {T3}(m) => y = MatMul(k, a)
    around a product of two: t = {T3}(a) m = MatMul(t, b) y = {T3}(m) => t = {T}(b) y = MatMul(t, a)
    around a product and a sum [a=6,3,2]: t = {T3}(a) m = MatMul(t, w) s = Add(m, [1.0,-2.0,3.0,0.5]) y = {T3}(s)
        => m = MatMul(k, a) y = Add(m, l)
    around a product and a sum with a matrix: t = {T3}(a) m = MatMul(t, w) s = Add(all, m) y = {T3}(s)
        => m = MatMul(k, a) y = Add(m, l)
""")
test_every_type_and_opset = transposes.all_become(
    {
        f"{opset} {dtype}": tier(
            f"t = Transpose(a) y = MatMul(t, b) => y = Gemm<transA=1>(a, b{', k' if opset < 11 else ''})",
            {"opset": opset, "dtype": dtype},
        )
        for opset, dtype, tier in in_turn((7, 9, 11, 13, 22), ("float", "double", "float16"))
    }
)
INTEGERS = ("int32", "int64", "uint32")
test_integers_have_no_gemm = transposes.all_stay(
    {dtype: ("t = Transpose(a) y = MatMul(t, b)", {"dtype": dtype}) for dtype in INTEGERS}
)
BOTH = "t = Transpose(a) u = Transpose(b) y = MatMul(t, u) => m = MatMul(b, a) y = Transpose<perm=[1,0]>(m)"
test_both_factors_of_integers = transposes.all_become(
    {dtype: (BOTH, {"b": "4,3", "dtype": dtype}) for dtype in INTEGERS}
)
test_stays = transposes.all_stay(f"""
    left of batches [a=5,3,2; b=5,3,4]: t = {T3}(a) y = MatMul(t, b)
    right of a batch [a=5,2,3; b=4,3]: t = {T}(b) y = MatMul(a, t)
    of a vector [a=3; b=4,3]: t = {T}(b) y = MatMul(a, t)
    apart: t = {T}(a) r = Relu(t) y = MatMul(r, b)
    read: t = {T}(a) m = MatMul(t, b) s = ReduceSum(t) y = Mul(m, s)
    moves nothing [a=2,3]: t = Transpose<perm=[0,1]>(a) y = MatMul(t, b)
    nothing, for a Gemm [a=2,3]: t = Transpose<perm=[0,1]>(a) y = Gemm(t, b)
    computed bias [a=2,3]: m = Gemm(a, b, c) y = Transpose(m)
    m [a=2,3]: m = Gemm(a, b) t = Transpose(m) s = ReduceSum(m) y = Mul(t, s)
    of a product of batches [a=5,2,3]: m = MatMul(a, b) y = {T3}(m)
    other axes [a=3,2,5; b=3,2,5]: t = Transpose<perm=[1,0,2]>(a) u = Transpose<perm=[1,2,0]>(b) y = MatMul(t, u)
    a batch that may be empty [a=B,3,2; b=4,3]: t = {T3}(a) u = {T}(b) y = MatMul(t, u)
    a batch that may be empty, weights [a=B,3,2]: t = {T3}(a) m = MatMul(t, w) y = {T3}(m)
    other axes behind [a=5,3,2]: t = {T3}(a) m = MatMul(t, w) y = Transpose<perm=[2,0,1]>(m)
    other axes before [a=3,5,2]: t = Transpose<perm=[1,2,0]>(a) m = MatMul(t, w) y = {T3}(m)
    before only [a=5,3,2]: t = {T3}(a) m = MatMul(t, w) y = Sub(m, 0.5)
    weights of higher rank: t = Transpose(a) m = MatMul(t, w3) y = {T3}(m)
    a scale between [a=5,3,2]: t = {T3}(a) m = MatMul(t, w) s = Mul(m, [1.0,-2.0,3.0,0.5]) y = {T3}(s)
    a computed sum between [a=5,3,2]: t = {T3}(a) m = MatMul(t, w) s = Add(m, c) y = {T3}(s)
    shared weights [a=5,3,2]: t = {T3}(a) m = MatMul(t, w) s = ReduceSum(w) u = {T3}(m) y = Mul(s, u)
    alone: y = Transpose(a)
    the transpose is a graph output [graph=g (float[3,2] a, float[3,4] b) => (float[n,m] t, float[n,m] y)]:
        t = Transpose(a) y = MatMul(t, b)
    of a constant [a=2,3]: t = Transpose(w43) y = MatMul(a, t)
    unknown rank [graph=g (float[] a, float[3,4] b) => (float[] y); runs=False]: t = Transpose(a) y = MatMul(t, b)
    older opset [opset=6; runs=False]: t = Transpose(a) y = Gemm<broadcast=1>(t, b, c)
    across the border of an If body [graph=g (bool k, float[3,2] a, float[3,4] b) => (float[n,m] y)]: t = Transpose(a)
        y = If (k) <then_branch = f () => (float[n,m] r) {{ r = MatMul(t, b) }},
        else_branch = e () => (float[n,m] s) {{ n = Neg(t) s = MatMul(n, b) }}>
""")


@given(a=st.booleans(), b=st.booleans(), left=st.booleans(), right=st.booleans(), behind=st.booleans())
def test_any_sides(a: bool, b: bool, left: bool, right: bool, behind: bool) -> None:
    """The Gemm has transA = a and transB = b; its factors and its result may be transposed."""
    dims = {"a": "2,3" if a == left else "3,2", "b": "3,4" if b == right else "4,3"}
    x, y = ("t" if left else "a"), ("u" if right else "b")
    lines = [f"{'t = Transpose(a)' if left else ''} {'u = Transpose(b)' if right else ''}"]
    lines.append(f"m = Gemm<alpha=2.0,transA={int(a)},transB={int(b)}>({x}, {y})")
    lines.append("y = Transpose(m)" if behind else "y = Relu(m)")
    sides = (a != left, b != right)
    written = ",".join(
        f"{name}=1"
        for name, side in zip(("transA", "transB"), (not sides[1], not sides[0]) if behind else sides, strict=True)
        if side
    )
    attrs = f"<alpha=2.0{',' if written else ''}{written}>"
    after = f"y = Gemm{attrs}(b, a)" if behind else f"m = Gemm{attrs}(a, b) y = Relu(m)"
    if left or right or behind:
        transposes.becomes(" ".join(lines), after, **dims)
    else:
        transposes.stays(" ".join(lines), **dims)
