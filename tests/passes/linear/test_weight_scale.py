"""Scales before and behind products with constant weights."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewrite_tables import Rewrites
from tiers import in_turn
from weights import matrix

FOLD_SCALE_INTO_WEIGHTS = rule_pass(weight_scale, "fold-scale-into-weights")

WEIGHTS = {
    "w": matrix(3, 4),
    "wt": matrix(4, 3),
    "wb": matrix(2, 3, 4),
    "w1": matrix(3),
    "row": [1.0, -2.0, 3.0, 0.5],
    "s": 0.5,
    "s4": [1.0, 2.0, -3.0, 0.25],
    "k3": [1.0, 2.0, -3.0],
    "rows": [[1.0], [2.0]],
}
scales = Rewrites("g (float[{x}] x) => (float[] y)", FOLD_SCALE_INTO_WEIGHTS, weights=WEIGHTS, x="2,3")
test_becomes = scales.all_become("""
    times a number: m = MatMul(x, w) y = Mul(m, s) => y = MatMul(x, k)
    times a row, on the left: m = MatMul(x, w) y = Mul(s4, m) => y = MatMul(x, k)
    times a matrix of one number: m = MatMul(x, w) y = Mul(m, [[4.0]]) => y = MatMul(x, k)
    divided by a row: m = MatMul(x, w) y = Div(m, s4) => y = MatMul(x, k)
    negated: m = MatMul(x, w) y = Neg(m) => y = MatMul(x, k)
    columns of zeros: m = MatMul(x, w) y = Mul(m, [1.0,0.0,1.0,0.0]) => y = MatMul(x, k)
    symbolic batch [x=N,3]: m = MatMul(x, w) y = Mul(m, s4) => y = MatMul(x, k)
    no rows [x=0,3]: m = MatMul(x, w) y = Mul(m, s4) => y = MatMul(x, k)
    Gemm without bias: m = Gemm(x, w) y = Mul(m, s4) => y = Gemm(x, k)
    Gemm with bias: m = Gemm(x, w, row) y = Mul(m, s4) => y = Gemm(x, k, k)
    Gemm by a number: m = Gemm(x, w, row) y = Div(m, s) => y = Gemm(x, k, k)
    alpha and beta go into the weights too: m = Gemm<alpha=0.5,beta=2.0,transB=1>(x, wt, row) y = Mul(m, s4)
        => y = Gemm<transB=1>(x, k, k)
    transA, the bias one number [x=3,2]: m = Gemm<transA=1>(x, w, s) y = Mul(m, s4) => y = Gemm<transA=1>(x, k, k)
    scaled before: m = Mul(x, k3) y = MatMul(m, w) => y = MatMul(x, k)
    scaled before by a number: m = Mul(s, x) y = MatMul(m, w) => y = MatMul(x, k)
    divided before: m = Div(x, k3) y = MatMul(m, w) => y = MatMul(x, k)
    negated before: m = Neg(x) y = MatMul(m, w) => y = MatMul(x, k)
    scaled before a Gemm, its bias stays: m = Mul(x, k3) y = Gemm<alpha=2.0,beta=0.5,transB=1>(m, wt, row)
        => y = Gemm<beta=0.5,transB=1>(x, k, k)
    by a number before transA [x=3,2]: m = Mul(x, s) y = Gemm<transA=1>(m, w) => y = Gemm<transA=1>(x, k)
    before and behind: a = Mul(x, k3) m = MatMul(a, w) y = Div(m, s4) => y = MatMul(x, k)
    batches of matrices [x=5,2,3]: m = MatMul(x, w) y = Mul(m, s4) => y = MatMul(x, k)
    batches of matrices, scaled before [x=B,T,3]: m = Mul(x, k3) y = MatMul(m, w) => y = MatMul(x, k)
    weights for each of a batch [x=2,5,3]: m = MatMul(x, wb) y = Mul(m, s4) => y = MatMul(x, k)
    a vector [x=3]: m = MatMul(x, w) y = Mul(m, s4) => y = MatMul(x, k)
    a number of rank 3 [x=5,2,3]: m = MatMul(x, w) y = Mul(m, [[[4.0]]]) => y = MatMul(x, k)
""")

test_becomes_elsewhere = scales.all_become("""
    scalar of an input of unknown rank [graph=g (float[2,3] x, int64[n] d) => (float[a,b] y); runs=False]:
        r = Reshape(x, d) m = Mul(r, s) y = MatMul(m, w) => r = Reshape(x, d) y = MatMul(r, k)
    inside an If body [in_if]: m = MatMul(x, w) y = Mul(m, s) => y = MatMul(x, k)
""")
test_becomes_with_a_bias = scales.all_become("""
    a row [x=5,2,3]: m = MatMul(x, w) a = Add(m, row) y = Mul(a, s4) => m = MatMul(x, k) y = Add(m, f)
    a number, divided [x=B,T,3]: m = MatMul(x, w) a = Add(0.25, m) y = Div(a, s4) => m = MatMul(x, k) y = Add(m, f)
    a sum for each row [x=5,2,3]: m = MatMul(x, w) a = Add(m, rows) y = Mul(s4, a) => m = MatMul(x, k) y = Add(m, f)
    matrices: m = MatMul(x, w) a = Add(m, row) y = Mul(a, s) => m = MatMul(x, k) y = Add(m, f)
    a vector [x=3]: m = MatMul(x, w) a = Add(m, row) y = Mul(a, s4) => m = MatMul(x, k) y = Add(m, f)
""")

test_every_type_and_opset = scales.all_become(
    {
        f"{opset} {dtype}": tier(
            "m = MatMul(x, w) y = Mul(m, s4) => y = MatMul(x, k)", {"opset": opset, "dtype": dtype}
        )
        for opset, dtype, tier in in_turn((7, 11, 13, 22), ("double", "float16"))
    }
)
test_stays = scales.all_stay("""
    a number for each row: m = MatMul(x, w) y = Mul(m, rows)
    adds a dim: m = MatMul(x, w) y = Mul(m, [[[4.0]]])
    adds rows [x=1,3]: m = MatMul(x, w) y = Mul(m, rows)
    divided by zero: m = MatMul(x, w) y = Div(m, [1.0,0.0,1.0,0.0])
    the product divides: m = MatMul(x, w) y = Div(s4, m)
    a difference: m = MatMul(x, w) y = Sub(m, s4)
    the new weights overflow [x=0,3]: m = Mul(x, [1e30,1.0,1.0]) y = MatMul(m, [[1e30],[1.0],[1.0]])
    apart: m = MatMul(x, w) a = Relu(m) y = Mul(a, s4)
    shared product: m = MatMul(x, w) a = Mul(m, s4) y = Add(a, m)
    the same value twice: m = MatMul(x, w) y = Mul(m, m)
    shared weights: m = MatMul(x, w) a = Mul(m, s4) b = MatMul(x, w) y = Add(a, b)
    computed weights [x=3,3]: m = MatMul(x, x) y = Mul(m, s)
    a vector of weights: m = MatMul(x, w1) y = Mul(m, s)
    axis not summed over [x=3,2]: m = Mul(x, [1.0,2.0]) y = Gemm<transA=1>(m, w)
    rows before: m = Mul(x, rows) y = MatMul(m, w)
    adds rows before [x=1,3]: m = Mul(x, rows) y = MatMul(m, w)
    adds columns before [x=2,1]: m = Mul(x, k3) y = MatMul(m, w)
    a bias for each row: m = Gemm(x, w, rows) y = Mul(m, s4)
    scaled value is needed itself: m = Mul(x, k3) a = MatMul(m, w) b = ReduceSum<keepdims=1>(m) y = Add(a, b)
    by rows [x=5,2,3]: m = MatMul(x, w) a = Add(m, row) y = Mul(a, rows)
    a difference from a sum [x=5,2,3]: m = MatMul(x, w) a = Sub(m, row) y = Mul(a, s4)
    the sum adds columns: m = MatMul(x, [[1.0],[2.0],[-1.0]]) a = Add(m, row) y = Mul(a, s4)
    the sum adds dims: m = MatMul(x, w) a = Add(m, [[[4.0]]]) y = Mul(a, s4)
    shared sum [x=5,2,3]: m = MatMul(x, w) a = Add(m, row) b = Mul(a, s4) y = Add(a, b)
    sum by zero [x=5,2,3]: m = MatMul(x, w) a = Add(m, row) y = Div(a, [1.0,0.0,1.0,0.0])
    the sum divides [x=5,2,3]: m = MatMul(x, w) a = Add(m, row) y = Div(s4, a)
    product is a graph output: g (float[2,3] x) => (float[n,m] m, float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }
    overridable scale: g (float[2,3] x, float[4] s = {1,2,3,4}) => (float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }
    overridable weights: g (float[2,3] x, float[3,1] w = {1,2,3}) => (float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }
    computed bias: g (float[2,3] x, float[4] b) => (float[n,m] y) { m = Gemm(x, w, b) y = Mul(m, s4) }
    integers [dtype=int32]: m = MatMul(x, w) y = Mul(m, s4)
    unknown rank of a result that may get dims [graph=g (float[] x) => (float[] y)]: m = Mul(x, [[4.0]])
        y = MatMul(m, w)
    unknown rank [graph=g (float[] x) => (float[] y)]: m = MatMul(x, w) y = Mul(m, s4)
    no Gemm without bias before opset 11 [opset=7]: m = Gemm<beta=0.0>(x, w, s) y = Mul(m, s)
    nor in opset 10 [opset=10]: m = Gemm<beta=0.0>(x, w, s) y = Mul(m, s)
""")

NUMBERS = st.sampled_from([-3.0, -0.5, 0.25, 1.0, 8.0])


@given(
    scale=st.lists(NUMBERS, min_size=4, max_size=4),
    bias=st.booleans(),
    alpha=NUMBERS,
    op=st.sampled_from(["Mul", "Div"]),
    trans=st.booleans(),
)
def test_any_scale(scale: list[float], bias: bool, alpha: float, op: str, trans: bool) -> None:
    gemm = f"Gemm<alpha={alpha},transB={int(trans)}>(x, {'wt' if trans else 'w'}{', row' if bias else ''})"
    after = f"y = Gemm{'<transB=1>' if trans else ''}(x, k{', l' if bias else ''})"
    scales.becomes(f"m = {gemm} y = {op}(m, s)", after, weights={"s": scale})
