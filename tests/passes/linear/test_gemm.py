"""MatMul + Add => Gemm."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.linear.gemm import matmul_add_to_gemm
from rewrite_tables import Rewrites
from weights import matrix

gemms = Rewrites(
    "g (float[{a}] a, float[{b}] b, float[{c}] c) => (float[] y)",
    matmul_add_to_gemm,
    a="2,3",
    b="3,4",
    c="4",
    weights={"w": matrix(3, 4), "s": 2.5},
)
SUM = "m = MatMul(a, b) y = Add(m, c)"
GEMM = "y = Gemm(a, b, c)"

test_becomes = gemms.all_become(f"""
    a row: {SUM} => {GEMM}
    bias first: m = MatMul(a, b) y = Add(c, m) => {GEMM}
    a matrix [c=2,4]: {SUM} => {GEMM}
    a row of rank 2 [c=1,4]: {SUM} => {GEMM}
    a column [c=2,1]: {SUM} => {GEMM}
    one number of rank 2 [c=1,1]: {SUM} => {GEMM}
    one number of rank 1 [c=1]: {SUM} => {GEMM}
    a product of one number [a=1,3; b=3,1; c=1]: {SUM} => {GEMM}
    symbolic batch [a=N,3]: {SUM} => {GEMM}
    all symbolic [a=N,K; b=K,M; c=N,M]: {SUM} => {GEMM}
    symbolic row [a=N,K; b=K,M; c=M]: {SUM} => {GEMM}
    the same value thrice [a=2,2]: m = MatMul(a, a) y = Add(m, a) => y = Gemm(a, a, a)
    nothing to sum over [a=2,0; b=0,4]: {SUM} => {GEMM}
    no rows [a=0,3]: {SUM} => {GEMM}
    constant weights: m = MatMul(a, w) y = Add(m, c) => y = Gemm(a, w, c)
    a scalar: m = MatMul(a, b) y = Add(m, s) => y = Gemm(a, b, s)
    overridable bias [graph=g (float[2,3] a, float[3,2] b, float[2] c = {{1,2}}) => (float[] y)]: {SUM} => {GEMM}
    two products, one of them is the bias: p = MatMul(a, b) q = MatMul(a, b) y = Add(p, q)
        => q = MatMul(a, b) y = Gemm(a, b, q)
    inside an If body, of captured values [in_if]: {SUM} => {GEMM}
    half precision [dtype=float16]: {SUM} => {GEMM}
    double precision [dtype=double]: {SUM} => {GEMM}
""")
test_every_opset_with_broadcasting = gemms.all_become(
    {str(opset): (f"{SUM} => {GEMM}", {"opset": opset}) for opset in (7, 9, 11, 13, 22)}
)
test_stays = gemms.all_stay(f"""
    batches of matrices [a=5,2,3; b=5,3,4]: {SUM}
    one side of rank 3 [a=5,2,3]: {SUM}
    vector times matrix [a=3]: {SUM}
    matrix times vector [b=3; c=2]: {SUM}
    bias of rank 3 [c=1,2,4]: {SUM}
    bias of rank 3 that stretches the product [c=5,2,4]: {SUM}
    bias with more rows [a=1,3; c=2,4]: {SUM}
    bias with more columns [b=3,1]: {SUM}
    bias with other symbolic rows [a=N,3; c=M,4]: {SUM}
    symbolic rows, bias with fixed ones [a=N,3; c=2,4]: {SUM}
    symbolic columns, bias with fixed ones [b=3,M]: {SUM}
    the same value twice: m = MatMul(a, b) y = Add(m, m)
    apart: m = MatMul(a, b) r = Relu(m) y = Add(r, c)
    a difference: m = MatMul(a, b) y = Sub(m, c)
    shared inner value: m = MatMul(a, b) s = Add(m, c) r = Relu(m) y = Mul(r, s)
    no product, graph inputs and output at the ends [a=2,4]: y = Add(a, c)
    no sum: y = MatMul(a, b)
    int32 [dtype=int32]: {SUM}
    int64 [dtype=int64]: {SUM}
    uint32 [dtype=uint32]: {SUM}
    uint64 [dtype=uint64]: {SUM}
    bfloat16 has no kernel [dtype=bfloat16; runs=False]: {SUM}
    older opset [c=2,4; opset=6; runs=False]: {SUM}
    opset without broadcasting, non-default attributes [opset=6; runs=False]: m = MatMul(a, b)
        y = Add<axis=1, broadcast=1>(m, c)
    inner value is a graph output [graph=g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] m, float[n,m] y)]:
        {SUM}
    unknown rank of a factor [graph=g (float[] a, float[3,4] b, float[4] c) => (float[] y); runs=False]: {SUM}
    unknown rank of the bias [graph=g (float[2,3] a, float[3,4] b, float[] c) => (float[] y)]: {SUM}
    unknown rows of the bias [c=?,4]: {SUM}
    across the border of an If body [graph=g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y)]:
        m = MatMul(a, b) y = If (k) <then_branch = t () => (float[n,m] r) {{ r = Add(m, c) }},
        else_branch = e () => (float[n,m] s) {{ n = Neg(a) s = MatMul(n, b) }}>
    inner value captured by an If body [graph=g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y)]:
        m = MatMul(a, b) z = Add(m, c) y = If (k) <then_branch = t () => (float[n,m] r) {{ r = Relu(m) }},
        else_branch = e () => (float[n,m] s) {{ s = Neg(z) }}>
""")

EXTENT = st.integers(1, 3)


@given(n=EXTENT, k=EXTENT, m=EXTENT, c=st.lists(EXTENT, max_size=3), body=st.sampled_from(["m, c", "c, m"]))
def test_any_shapes(n: int, k: int, m: int, c: list[int], body: str) -> None:
    try:
        total = list(np.broadcast_shapes((n, m), tuple(c)))
    except ValueError:
        return
    graph = f"g (float[{n},{k}] a, float[{k},{m}] b, float{c or ''} c) => (float{total} y)"
    if total == [n, m]:
        gemms.becomes(f"m = MatMul(a, b) y = Add({body})", GEMM, graph=graph)
    else:
        gemms.stays(f"m = MatMul(a, b) y = Add({body})", graph=graph)
