"""Summands before and behind products of matrices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import gemm
from rewrite_tables import Rewrites
from tiers import in_turn
from weights import matrix

FOLD_BIAS = rule_pass(gemm, "fold-bias")

WEIGHTS = {
    "w": matrix(3, 4),
    "wt": matrix(4, 3),
    "w2": matrix(2, 3, 4),
    "row": [1.0, -2.0, 3.0, 0.5],
    "col": [[1.0], [2.0]],
    "all": matrix(2, 4),
    "v": [1.0, 2.0, -3.0],
    "zeros": [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
}
gemms = Rewrites(
    "g (float[{a}] a, float[{b}] b, float[{c}] c, float[4] d) => (float[] y)",
    FOLD_BIAS,
    weights=WEIGHTS,
    a="2,3",
    b="3,4",
    c="4",
)
test_becomes = gemms.all_become("""
    computed bias: m = Gemm(a, b) y = Add(m, c) => y = Gemm(a, b, c)
    by a Sum: m = Gemm(a, b) y = Sum(c, m) => y = Gemm(a, b, c)
    matrix [c=2,4]: m = Gemm<alpha=0.5,beta=3.0>(a, b) y = Add(m, c) => y = Gemm<alpha=0.5>(a, b, c)
    transposed factors [a=3,2; b=4,3; c=1]: m = Gemm<transA=1,transB=1>(a, b) y = Add(c, m)
        => y = Gemm<transA=1,transB=1>(a, b, c)
    two constants: m = Gemm(a, b, row) y = Add(m, [[4.0,3.0,2.0,1.0]]) => y = Gemm(a, b, k)
    a matrix and a row: m = Gemm(a, b, all) y = Add(m, row) => y = Gemm(a, b, k)
    beta goes into the constant: m = Gemm<beta=2.0>(a, b, row) y = Sub(m, 0.5) => y = Gemm(a, b, k)
    a bias of no weight: m = Gemm<beta=0.0>(a, b, row) y = Add(m, c) => y = Gemm(a, b, c)
    minus a computed bias: m = Gemm(a, b) y = Sub(m, c) => y = Gemm<beta=-1.0>(a, b, c)
    minus a constant: m = Gemm(a, b) y = Sub(m, row) => y = Gemm(a, b, k)
    minus a Gemm: m = Gemm(a, b) y = Sub(c, m) => y = Gemm<alpha=-1.0>(a, b, c)
    constant minus a Gemm with bias: m = Gemm<alpha=2.0,beta=3.0>(a, b, row) y = Sub([[4.0,3.0,2.0,1.0]], m)
        => y = Gemm<alpha=-2.0>(a, b, k)
    product - computed: m = MatMul(a, b) y = Sub(m, c) => y = Gemm<beta=-1.0>(a, b, c)
    product - constant: m = MatMul(a, b) y = Sub(m, row) => y = Gemm(a, b, k)
    something - product: m = MatMul(a, b) y = Sub(c, m) => y = Gemm<alpha=-1.0>(a, b, c)
    shift of the operand: s = Add(a, v) y = MatMul(s, w) => y = Gemm(a, k, l)
    by minus a number: s = Sub(a, 0.5) y = MatMul(s, w) => y = Gemm(a, k, l)
    before a Gemm [a=N,3]: s = Add(v, a) y = Gemm<alpha=0.5,beta=2.0,transB=1>(s, wt, row)
        => y = Gemm<alpha=0.5,transB=1>(a, k, l)
    before transA [a=3,2]: s = Add(a, 0.5) y = Gemm<transA=1>(s, w) => y = Gemm<transA=1>(a, k, l)
    no bias: y = Gemm<alpha=2.0,beta=3.0>(a, w, [0.0,0.0,0.0,0.0]) => y = Gemm<alpha=2.0>(a, k)
    a matrix of zeros: y = Gemm(a, b, zeros) => y = Gemm(a, b)
    all of it: s = Sub(a, v) m = MatMul(s, w) n = Sub(m, row) y = Add(n, 0.5) => y = Gemm(a, k, l)
    no rows [a=0,3]: m = Gemm(a, b) y = Add(m, c) => y = Gemm(a, b, c)
    symbolic [a=N,K; b=K,M; c=M]: m = Gemm(a, b) y = Add(m, c) => y = Gemm(a, b, c)
""")
test_a_shift_moves_behind = gemms.all_become("""
    batches of matrices [a=5,2,3]: s = Add(a, v) m = MatMul(s, w) y = Add(m, row) => m = MatMul(a, k) y = Add(m, l)
    numbers, symbolic batch [a=B,T,3]: s = Add(0.5, a) m = MatMul(s, w) y = Add([[[0.5]]], m)
        => m = MatMul(a, k) y = Add(m, l)
""")
test_every_type_and_opset = gemms.all_become(
    {
        f"{opset} {dtype}": tier(
            "m = Gemm(a, w, row) y = Sub(m, 0.5) => y = Gemm(a, k, l)", {"opset": opset, "dtype": dtype}
        )
        for opset, dtype, tier in in_turn((7, 9, 11, 13, 22), ("float", "double", "float16"))
    }
)
test_stays = gemms.all_stay("""
    two computed: m = Gemm(a, b, c) y = Add(m, d)
    computed and constant: m = Gemm(a, b, c) y = Add(m, row)
    a row and a column, the sum is larger: m = Gemm(a, b, row) y = Add(m, col)
    adds a dim: m = Gemm(a, b) y = Add(m, [[[0.5]]])
    adds rows [a=1,3]: m = Gemm(a, b) y = Add(m, col)
    adds columns [b=3,1]: m = Gemm(a, b) y = Add(m, row)
    product that gets rows [a=1,3]: m = MatMul(a, b) y = Sub(m, col)
    batches [a=5,2,3]: m = MatMul(a, b) y = Sub(m, row)
    a vector [a=3]: m = MatMul(a, b) y = Sub(m, row)
    a scale: m = Gemm(a, b) y = Mul(m, c)
    apart: m = Gemm(a, b) r = Relu(m) y = Add(r, c)
    shared product: m = Gemm(a, b) s = Add(m, c) y = Mul(s, m)
    the same value twice: m = Gemm(a, b) y = Add(m, m)
    a Sum of three: m = Gemm(a, b) y = Sum(m, c, c)
    the sum overflows [runs=False]: m = Gemm(a, b, 3e38) y = Add(m, 3e38)
    computed shift [c=3]: s = Add(a, c) y = MatMul(s, w)
    computed weights: s = Add(a, v) y = MatMul(s, b)
    a shift for each row: s = Add(a, col) y = MatMul(s, w)
    a shift that adds rows [a=1,3]: s = Add(a, col) y = MatMul(s, w)
    a shift that adds columns [a=2,1]: s = Add(a, v) y = MatMul(s, w)
    batches, and no sum behind [a=5,2,3]: s = Add(a, v) y = MatMul(s, w)
    weights in batches [a=2,5,3]: s = Add(a, v) m = MatMul(s, w2) y = Add(m, row)
    axis not summed over [a=3,2]: s = Add(a, [1.0,2.0]) y = Gemm<transA=1>(s, w)
    shared sum: s = Add(a, v) m = MatMul(s, w) r = ReduceSum(s) y = Mul(m, r)
    a bias: y = Gemm(a, w, row)
    a computed bias alone: y = Gemm(a, b, c)
    sums that may be empty [a=2,K; b=K,4]: m = Gemm(a, b) y = Sub(m, c)
    empty, of a product [a=2,K; b=K,4]: m = MatMul(a, b) y = Sub(m, c)
    a vector as factor [a=3]: m = MatMul(a, b) y = Sub(m, c)
    empty, with beta [a=2,K; b=K,4]: m = Gemm<beta=2.0>(a, b, row) y = Add(m, row)
    a bias that does not fit [graph=g (float[2,3] a, float[3,4] b, float[2,2] c, float[2,4] d) => (float[] y);
        runs=False]: m = Gemm<beta=2.0>(a, b, c) y = Sub(m, d)
    product is a graph output [graph=g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] m, float[n,m] y)]:
        m = Gemm(a, b) y = Add(m, c)
    zero bias that may be overridden [graph=g (float[2,3] a, float[3,4] b, float[4] c = {0,0,0,0}) => (float[] y)]:
        y = Gemm(a, b, c)
    zero bias that the opset demands [opset=9]: y = Gemm(a, b, [0.0,0.0,0.0,0.0])
    unknown rank of the bias [graph=g (float[2,3] a, float[3,4] b, float[] c) => (float[] y)]:
        m = Gemm(a, b) y = Add(m, c)
    integers [dtype=int32]: m = MatMul(a, b) y = Sub(m, c)
    older opset [opset=6; runs=False]: m = MatMul(a, b) y = Sub<axis=1,broadcast=1>(m, c)
    across the border of an If body [graph=g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y)]:
        m = Gemm(a, b) y = If (k) <then_branch = t () => (float[n,m] r) { r = Add(m, c) },
        else_branch = e () => (float[n,m] s) { n = Neg(a) s = Gemm(n, b) }>
""")

NUMBERS = st.sampled_from([-4.0, -0.5, 0.25, 1.0, 2.0])
DIMS = st.sampled_from([(), (1,), (4,), (1, 4), (2, 4)])


@given(alpha=NUMBERS, beta=NUMBERS, c=DIMS, d=DIMS, op=st.sampled_from(["Add(m, k)", "Sub(m, k)", "Sub(k, m)"]))
def test_any_constants(alpha: float, beta: float, c: tuple[int, ...], d: tuple[int, ...], op: str) -> None:
    weights = {"j": np.full(c, 1.5, np.float32), "k": np.full(d, -0.25, np.float32)}
    sign = -1 if op == "Sub(k, m)" else 1
    attrs = f"<alpha={alpha * sign}>" if alpha * sign != 1 else ""
    before = f"m = Gemm<alpha={alpha},beta={beta}>(a, b, j) y = {op}"
    gemms.becomes(before, f"y = Gemm{attrs}(a, b, i)", weights=weights)
