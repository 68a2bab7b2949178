"""BatchNormalization before and behind products with constant weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewrite_tables import Rewrites
from rewriting import each, initializers
from weights import matrix

FOLD_BATCHNORM_INTO_GEMM = rule_pass(weight_scale, "fold-batchnorm-into-gemm")

RANGES = {"s": (0.5, 2), "b": (-1, 2), "m": (2, -1), "v": (0.1, 3)}
WEIGHTS = {
    "w": matrix(3, 4),
    "other": matrix(3, 4),
    "wt": matrix(4, 3),
    "w3": matrix(5, 3, 4),
    **{f"{name}{n}": np.linspace(*ends, n, dtype=np.float32) for name, ends in RANGES.items() for n in (2, 3, 4)},
}
norms = Rewrites("g (float[{x}] x, float[4] c) => (float[] y)", FOLD_BATCHNORM_INTO_GEMM, weights=WEIGHTS, x="2,3")


def bn(channels: int, x: str, attrs: str = "") -> str:
    return f"BatchNormalization{attrs}({x}, s{channels}, b{channels}, m{channels}, v{channels})"


ONE = "y = Gemm(x, k, l)"
test_becomes = norms.all_become(f"""
    behind a product: p = MatMul(x, w) y = {bn(4, "p")} => {ONE}
    symbolic batch [x=N,3]: p = MatMul(x, w) y = {bn(4, "p")} => {ONE}
    no rows [x=0,3]: p = MatMul(x, w) y = {bn(4, "p")} => {ONE}
    behind a Gemm without bias: p = Gemm(x, w) y = {bn(4, "p")} => {ONE}
    its bias one number: p = Gemm(x, w, 0.5) y = {bn(4, "p")} => {ONE}
    behind a Gemm with attributes [x=3,2]: p = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, wt, [1.0,-2.0,3.0,0.5])
        y = {bn(4, "p", "<epsilon=0.5>")} => y = Gemm<transA=1,transB=1>(x, k, l)
    before a product: p = {bn(3, "x")} y = MatMul(p, w) => {ONE}
    before a Gemm without bias: p = {bn(3, "x")} y = Gemm(p, w) => {ONE}
    before a Gemm with attributes: p = {bn(3, "x")} y = Gemm<alpha=0.5,beta=2.0,transB=1>(p, wt, [1.0,-2.0,3.0,0.5])
        => y = Gemm<transB=1>(x, k, l)
    before and behind: p = {bn(3, "x")} q = MatMul(p, w) y = {bn(4, "q")} => {ONE}
""")


ROWS = "q = MatMul(x, k) a = Add(q, l)"
test_becomes_behind_movement = norms.all_become(f"""
    rows in one matrix [x=2,5,3]: p = MatMul(x, w) t = Reshape(p, [-1,4]) y = {bn(4, "t")} => {ROWS} y = Reshape(a, r)
    rows of an unknown number [x=N,M,3]: p = MatMul(x, w) t = Reshape(p, [-1,4]) y = {bn(4, "t")}
        => {ROWS} y = Reshape(a, r)
    no rows [x=0,5,3]: p = MatMul(x, w) t = Flatten<axis=2>(p) y = {bn(4, "t")} => {ROWS} y = Flatten<axis=2>(a)
    a bias [x=2,5,3]: p = MatMul(x, w) b = Add([1.0,-2.0,3.0,0.5], p) t = Flatten<axis=2>(b) y = {bn(4, "t")}
        => {ROWS} y = Flatten<axis=2>(a)
    a bias of one number [x=1,5,3]: p = MatMul(x, w) b = Add(p, [0.5]) t = Squeeze(b, [0])
        y = {bn(4, "t", "<epsilon=0.5>")} => {ROWS} y = Squeeze(a, r)
    channels first [x=N,5,3]: p = MatMul(x, w) t = Transpose<perm=[0,2,1]>(p) y = {bn(4, "t")}
        => {ROWS} y = Transpose<perm=[0,2,1]>(a)
    channels second of four [x=2,5,2,3]: p = MatMul(x, w) t = Transpose<perm=[2,3,1,0]>(p) y = {bn(4, "t")}
        => {ROWS} y = Transpose<perm=[2,3,1,0]>(a)
""")


@each("dtype", ["float", "double"])
@each("opset", [7, 9, 11, 14, 15, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    out = norms.becomes(f"p = MatMul(x, w) y = {bn(4, 'p')}", ONE, dtype=dtype, opset=opset)
    assert {a.dtype for a in initializers(out).values()} == {np.dtype({"float": "float32"}.get(dtype, dtype))}


test_stays = norms.all_stay(f"""
    the channels are the rows [x=2,4,3]: p = MatMul(x, w) y = {bn(4, "p")}
    the channels are the rows, before [x=2,4,3]: p = {bn(4, "x")} y = MatMul(p, w)
    the rows are cut otherwise [x=2,3,3]: p = MatMul(x, w) t = Reshape(p, [-1,3]) y = {bn(3, "t")}
    the columns are no channels [x=2,4,3]: p = MatMul(x, w) t = Transpose<perm=[2,1,0]>(p) y = {bn(4, "t")}
    the channels are the rows, in one image [x=2,8,3]: p = MatMul(x, w) t = Reshape(p, [4,4,4]) y = {bn(4, "t")}
    the same, turned [x=4,5,3]: p = MatMul(x, w) t = Transpose<perm=[1,0,2]>(p) y = {bn(4, "t")}
    a bias for each sample [x=2,5,3]: p = MatMul(x, w) b = Add(p, [[[1.0]],[[2.0]]]) t = Reshape(b, [-1,4])
        y = {bn(4, "t")}
    a bias that adds dims [x=5,3]: p = MatMul(x, w) b = Add(p, [[[1.0]]]) t = Reshape(b, [-1,4]) y = {bn(4, "t")}
    shared rows [x=2,5,3]: p = MatMul(x, w) t = Reshape(p, [-1,4]) r = {bn(4, "t")} y = Add(t, r)
    shared product of rows [x=2,5,3]: p = MatMul(x, w) t = Reshape(p, [-1,4]) r = {bn(4, "t")} s = ReduceSum(p)
        y = Add(r, s)
    a computed shape [graph=g (float[2,3,3] x, int64[2] d) => (float[6,4] y)]: p = MatMul(x, w) t = Reshape(p, d)
        y = {bn(4, "t")}
    weights in batches: p = MatMul(x, w3) y = {bn(2, "p")}
    before transA [x=3,2]: p = {bn(2, "x")} y = Gemm<transA=1>(p, w)
    a bias for each row: p = Gemm(x, w, [[1.0],[2.0]]) y = {bn(4, "p")}
    apart: p = MatMul(x, w) r = Relu(p) y = {bn(4, "r")}
    shared product: p = MatMul(x, w) r = {bn(4, "p")} y = Add(p, r)
    shared: p = {bn(3, "x")} r = MatMul(p, w) s = ReduceSum(p) y = Add(r, s)
    weights: p = MatMul(x, w) q = MatMul(x, w) r = {bn(4, "p")} y = Add(q, r)
    computed weights [x=4,4]: p = MatMul(x, x) y = {bn(4, "p")}
    alone: y = {bn(3, "x")}
    computed bias: p = Gemm(x, w, c) y = {bn(4, "p")}
    product is a graph output [graph=g (float[2,3] x) => (float[n,m] y, float[n,m] p)]:
        p = MatMul(x, w) y = {bn(4, "p")}
    computed statistics: p = MatMul(x, w) y = BatchNormalization(p, c, b4, m4, v4)
    overridable statistics [graph=g (float[2,3] x, float[4] s4 = {{1,2,3,4}}) => (float[] y)]:
        p = MatMul(x, w) y = {bn(4, "p")}
    in training mode [graph=g (float[2,3] x) => (float[n,m] y, float[4] a, float[4] b); opset=15]:
        p = MatMul(x, w) y, a, b = BatchNormalization<training_mode=1>(p, s4, b4, m4, v4)
    across the border of an If body [graph=g (bool k, float[2,3] x) => (float[n,m] y)]: p = MatMul(x, w)
        y = If (k) <then_branch = t () => (float[n,m] r) {{ r = {bn(4, "p")} }},
        else_branch = e () => (float[n,m] s) {{ s = MatMul(x, other) }}>
""")

NUMBERS = st.sampled_from([-2.0, 0.5, 1.0, 3.0])


@given(alpha=NUMBERS, beta=NUMBERS, scale=NUMBERS, shift=NUMBERS, trans=st.booleans(), behind=st.booleans())
def test_any_numbers(alpha: float, beta: float, scale: float, shift: float, trans: bool, behind: bool) -> None:
    product = f"Gemm<alpha={alpha},beta={beta},transB={int(trans)}>"
    weights = "wt" if trans else "w"
    if behind:
        before = f"p = {product}(x, {weights}, [1.0,-2.0,3.0,0.5]) y = {bn(4, 'p')}"
    else:
        before = f"p = {bn(3, 'x')} y = {product}(p, {weights}, [1.0,-2.0,3.0,0.5])"
    values = {
        f"{kind}{n}": WEIGHTS[f"{kind}{n}"] * np.float32(by)
        for kind, by in (("s", scale), ("b", shift))
        for n in (3, 4)
    }
    norms.becomes(before, f"y = Gemm{'<transB=1>' if trans else ''}(x, k, l)", weights=values)
