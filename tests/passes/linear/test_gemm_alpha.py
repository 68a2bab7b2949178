"""Scalar factors of a Gemm or a product of two matrices."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import gemm
from rewrite_tables import Rewrites
from tiers import in_turn

FOLD_SCALE_INTO_GEMM = rule_pass(gemm, "fold-scale-into-gemm")

WEIGHTS = {"h": 0.5, "f": [[4.0]], "two": [[4.0], [4.0]], "nan": float("nan")}
gemms = Rewrites(
    "g (float[{a}] a, float[{b}] b, float[4] c, float[1] s1) => (float[] y)",
    FOLD_SCALE_INTO_GEMM,
    weights=WEIGHTS,
    a="2,3",
    b="3,4",
)
HALF = "y = Gemm<alpha=0.5>(a, b)"
test_becomes = gemms.all_become(f"""
    product times a number: m = MatMul(a, b) y = Mul(m, h) => {HALF}
    a number of rank 2, first: m = MatMul(a, b) y = Mul(f, m) => y = Gemm<alpha=4.0>(a, b)
    a row of one number: m = MatMul(a, b) y = Mul(m, [2.0,2.0,2.0,2.0]) => y = Gemm<alpha=2.0>(a, b)
    divided: m = MatMul(a, b) y = Div(m, f) => y = Gemm<alpha=0.25>(a, b)
    negated: m = MatMul(a, b) y = Neg(m) => y = Gemm<alpha=-1.0>(a, b)
    left factor: s = Mul(a, h) y = MatMul(s, b) => {HALF}
    right factor: s = Mul(h, b) y = MatMul(a, s) => {HALF}
    both factors and the product: s = Mul(a, h) r = Mul(f, b) m = MatMul(s, r) y = Neg(m) => y = Gemm<alpha=-2.0>(a, b)
    Gemm without bias: m = Gemm(a, b) y = Mul(m, h) => {HALF}
    Gemm: m = Gemm(a, b, c) y = Mul(m, h) => y = Gemm<alpha=0.5,beta=0.5>(a, b, c)
    attributes are kept, those that say nothing go [a=3,2; b=4,3]:
        m = Gemm<alpha=4.0,beta=0.5,transA=1,transB=1>(a, b, c) y = Div(m, f)
        => y = Gemm<beta=0.125,transA=1,transB=1>(a, b, c)
    -Gemm: m = Gemm(a, b, c) y = Neg(m) => y = Gemm<alpha=-1.0,beta=-1.0>(a, b, c)
    left of a Gemm: s = Mul(a, h) y = Gemm(s, b, c) => y = Gemm<alpha=0.5>(a, b, c)
    right of it: s = Mul(b, 2.0) y = Gemm<beta=3.0>(a, s, c) => y = Gemm<alpha=2.0,beta=3.0>(a, b, c)
    symbolic extents [a=N,K; b=K,M]: m = MatMul(a, b) y = Mul(m, h) => {HALF}
    empty [a=2,0; b=0,4]: m = MatMul(a, b) y = Mul(m, h) => {HALF}
    a square [a=3,3]: m = MatMul(a, a) y = Mul(m, h) => y = Gemm<alpha=0.5>(a, a)
""")
test_every_type_and_opset = gemms.all_become(
    {
        f"{opset} {dtype}": tier(
            f"m = MatMul(a, b) y = Mul(m, h) => y = Gemm<alpha=0.5>(a, b{', 0.0' if opset < 11 else ''})",
            {"opset": opset, "dtype": dtype},
        )
        for opset, dtype, tier in in_turn((7, 9, 11, 13, 22), ("float", "double", "float16"))
    }
)
test_stays = gemms.all_stay("""
    batches of matrices [a=5,2,3; b=5,3,4]: m = MatMul(a, b) y = Mul(m, h)
    left batch [a=5,2,3]: s = Mul(a, h) y = MatMul(s, b)
    a vector [a=3]: m = MatMul(a, b) y = Mul(m, h)
    a number for each column: m = MatMul(a, b) y = Mul(m, [1.0,2.0,3.0,4.0])
    adds a dim: m = MatMul(a, b) y = Mul(m, [[[2.0]]])
    adds rows [a=1,3]: m = MatMul(a, b) y = Mul(m, two)
    adds rows before [a=1,3]: s = Mul(a, two) y = MatMul(s, b)
    adds rows before a Gemm [a=1,3]: s = Mul(a, two) y = Gemm(s, b)
    zero: m = MatMul(a, b) y = Mul(m, 0.0)
    not a number: m = MatMul(a, b) y = Mul(m, nan)
    the product divides: m = MatMul(a, b) y = Div(2.0, m)
    apart: m = MatMul(a, b) r = Relu(m) y = Mul(r, h)
    shared product: m = MatMul(a, b) s = Mul(m, h) y = Add(s, m)
    the same value twice: m = MatMul(a, b) y = Mul(m, m)
    Gemm by a row: m = Gemm(a, b, c) y = Mul(m, [1.0,2.0,3.0,4.0])
    sums that may be empty [a=2,K; b=K,4]: m = Gemm(a, b, c) y = Neg(m)
    computed scale: m = MatMul(a, b) y = Mul(m, c)
    the scale is an input: m = MatMul(a, b) y = Mul(m, s1)
    no product, graph inputs and outputs at the ends: y = Mul(a, h)
    product is a graph output [graph=g (float[2,3] a, float[3,4] b) => (float[n,m] m, float[n,m] y)]:
        m = MatMul(a, b) y = Mul(m, h)
    overridable scale [graph=g (float[2,3] a, float[3,4] b, float h = {2}) => (float[] y)]:
        m = MatMul(a, b) y = Mul(m, h)
    alpha would round a double [graph=g (double[2,3] a, double[3,4] b) => (double[] y) <double h = {0.1}>]:
        m = MatMul(a, b) y = Mul(m, h)
    integers [graph=g (int32[2,3] a, int32[3,4] b) => (int32[] y) <int32 h = {2}>]: m = MatMul(a, b) y = Mul(m, h)
    unknown rank [graph=g (float[] a, float[3,4] b) => (float[] y); runs=False]: m = MatMul(a, b) y = Mul(m, h)
    older opset [opset=6; runs=False]: m = MatMul(a, b) y = Mul(m, h)
    across the border of an If body [graph=g (bool k, float[2,3] a, float[3,4] b) => (float[n,m] y)]: m = MatMul(a, b)
        y = If (k) <then_branch = t () => (float[n,m] r) { r = Mul(m, h) },
        else_branch = e () => (float[n,m] s) { n = Neg(a) o = Relu(n) s = MatMul(o, b) }>
""")

NUMBERS = st.sampled_from([-4.0, -0.5, 0.25, 2.0])


@given(alpha=NUMBERS, beta=NUMBERS, s=NUMBERS, op=st.sampled_from(["Mul", "Div"]), bias=st.booleans())
def test_any_numbers(alpha: float, beta: float, s: float, op: str, bias: bool) -> None:
    inputs = "a, b, c" if bias else "a, b"
    by = s if op == "Mul" else 1 / s
    attrs = {"alpha": alpha * by, "beta": beta * by if bias else beta}
    written = ", ".join(f"{name}={v}" for name, v in attrs.items() if v != 1)
    before = f"m = Gemm<alpha={alpha}, beta={beta}>({inputs}) y = {op}(m, s)"
    gemms.becomes(before, f"y = Gemm{f'<{written}>' if written else ''}({inputs})", weights={"s": s})
