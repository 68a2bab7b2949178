"""Products with constant weights that follow one another or meet in a sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.folding import folding_limits
from passwright.passes.linear import matmul_merging
from rewrite_tables import Rewrites
from tiers import in_turn
from weights import matrix

MERGE_MATMULS = rule_pass(matmul_merging, "merge-matmuls")

WEIGHTS = {
    "v": matrix(3, 4),
    "vt": matrix(4, 3),
    "v1": matrix(3, 1),
    "v0": matrix(3, 0),
    "w": matrix(4, 2),
    "wt": matrix(2, 4),
    "w9": matrix(1, 9),
    "w0": matrix(0, 2),
    "u": matrix(3, 4) * 2 - 1,
    "u2": matrix(3, 2),
    "v3": matrix(5, 3, 4),
    "w3": matrix(5, 4, 2),
    "w2": matrix(2, 2),
    "square": matrix(4, 4),
    "b4": matrix(4),
    "b2": matrix(2),
    "col": matrix(2, 1),
    "most": np.full((3, 4), 3e38, np.float32),
    "most2": np.full((3, 4), 3e38, np.float32),
    "ones": np.ones((3, 4), np.int32),
    "ones2": np.ones((4, 2), np.int32),
}
X = "x = Tanh(t)"  # finite
chains = Rewrites(
    "g (float[{t}] t, float[{z}] z, float[{m}] m, float[{q}] q) => (float[] y)",
    MERGE_MATMULS,
    weights=WEIGHTS,
    t="2,3",
    z="2,3",
    q="2,3",
    m="3,4",
)
test_becomes = chains.all_become(f"""
    two products: {X} a = MatMul(x, v) y = MatMul(a, w) => {X} y = MatMul(x, k)
    symbolic batch [t=N,3]: {X} a = MatMul(x, v) y = MatMul(a, w) => {X} y = MatMul(x, k)
    no rows [t=0,3]: {X} a = MatMul(x, v) y = MatMul(a, w) => {X} y = MatMul(x, k)
    batches [t=5,2,3]: {X} a = MatMul(x, v) y = MatMul(a, w) => {X} y = MatMul(x, k)
    a vector [t=3]: {X} a = MatMul(x, v) y = MatMul(a, w) => {X} y = MatMul(x, k)
    two Gemms: {X} a = Gemm(x, v, b4) y = Gemm(a, w, b2) => {X} y = Gemm(x, k, l)
    a Gemm and a product: {X} a = Gemm(x, v, b4) y = MatMul(a, w) => {X} y = Gemm(x, k, l)
    a product and a Gemm: {X} a = MatMul(x, v) y = Gemm(a, w, 0.5) => {X} y = Gemm(x, k, l)
    a Gemm without bias: {X} a = MatMul(x, v) y = Gemm<alpha=2.0>(a, w) => {X} y = MatMul(x, k)
    no biases: {X} a = Gemm(x, v) y = Gemm(a, w) => {X} y = Gemm(x, k)
    attributes [t=3,2]: {X} a = Gemm<alpha=2.0,beta=3.0,transA=1,transB=1>(x, vt, 0.5)
        y = Gemm<alpha=0.5,beta=4.0,transB=1>(a, wt, b2) => {X} y = Gemm<transA=1,transB=1>(x, k, l)
    a sum between: {X} a = MatMul(x, v) b = Add(a, b4) y = MatMul(b, w) => {X} a = MatMul(x, k) y = Add(a, l)
    a sum between, in batches [t=B,T,3]: {X} a = MatMul(x, v) b = Add(0.5, a) y = MatMul(b, w)
        => {X} a = MatMul(x, k) y = Add(a, l)
    a sum of two: {X} a = MatMul(x, v) b = MatMul(x, u) y = Add(a, b) => {X} y = MatMul(x, k)
    the same value twice: {X} a = MatMul(x, v) y = Add(a, a) => {X} y = MatMul(x, k)
    a Sum of two: {X} a = MatMul(x, v) b = MatMul(x, u) y = Sum(a, b) => {X} y = MatMul(x, k)
    one matrix of weights: a = MatMul(t, v) b = MatMul(z, v) y = Add(a, b) => a = Add(t, z) y = MatMul(a, k)
    one computed factor [q=N,T,K; z=N,T,K; t=K,M]: {X} a = MatMul(q, x) b = MatMul(z, x) y = Add(a, b)
        => {X} a = Add(q, z) y = MatMul(a, x)
    one left factor [q=3,2; z=3,2; t=4,3]: {X} a = MatMul(x, q) b = MatMul(x, z) y = Add(b, a)
        => {X} a = Add(z, q) y = MatMul(x, a)
    integers are distributed, too [dtype=int32]: a = MatMul(t, m) b = MatMul(z, m) y = Add(a, b)
        => a = Add(t, z) y = MatMul(a, m)
""")
test_every_type_and_opset = chains.all_become(
    {
        f"{opset} {dtype}": tier(
            f"{X} a = Gemm(x, v, b4) y = MatMul(a, w) => {X} y = Gemm(x, k, l)", {"opset": opset, "dtype": dtype}
        )
        for opset, dtype, tier in in_turn((7, 11, 13, 22), ("float", "double", "float16"))
    }
)
test_stays = chains.all_stay(f"""
    through few, the product is larger: {X} a = MatMul(x, v1) y = MatMul(a, w9)
    through none: {X} a = MatMul(x, v0) y = MatMul(a, w0)
    apart: {X} a = MatMul(x, v) r = Relu(a) y = MatMul(r, w)
    computed weights [m=4,2]: {X} a = MatMul(x, v) y = MatMul(a, m)
    shared: {X} a = MatMul(x, v) b = MatMul(a, w) c = ReduceSum(a) y = Add(b, c)
    weights in batches: {X} a = MatMul(x, v3) y = MatMul(a, w3)
    the first is transposed [t=4,3]: {X} a = MatMul(x, v) y = Gemm<transA=1>(a, w)
    computed bias [m=4]: {X} a = Gemm(x, v, m) y = Gemm(a, w)
    a bias for each row: {X} a = Gemm(x, v, col) y = Gemm(a, w)
    a sum for each row: {X} a = MatMul(x, v) b = Add(a, col) y = MatMul(b, w)
    the sum adds rows [t=1,3]: {X} a = MatMul(x, v) b = Add(a, col) y = MatMul(b, w)
    a difference [t=5,2,3]: {X} a = MatMul(x, v) b = Sub(a, b4) y = MatMul(b, w)
    weights of other shape: {X} a = MatMul(x, v1) b = MatMul(x, u2) y = Add(a, b)
    nothing shared: a = MatMul(t, v) b = MatMul(z, u) y = Add(a, b)
    overflow [t=0,3]: {X} a = MatMul(x, most) b = MatMul(x, most2) y = Add(a, b)
    other rows [z=1,3]: a = MatMul(t, v) b = MatMul(z, v) y = Add(a, b)
    other symbols [t=N,3; z=M,3]: a = MatMul(t, v) b = MatMul(z, v) y = Add(a, b)
    other rank [z=3]: a = MatMul(t, v) b = MatMul(z, v) y = Add(a, b)
    the same value twice: {X} a = MatMul(x, m) y = Add(a, a)
    one: {X} y = MatMul(x, v)
    possibly infinite values: a = MatMul(z, v) y = MatMul(a, w)
    a sum of such: a = MatMul(z, v) b = MatMul(z, u) y = Add(a, b)
    by such: a = MatMul(q, m) b = MatMul(z, m) y = Add(a, b)
    the first is a graph output [graph=g (float[2,3] t) => (float[n,m] a, float[n,m] y)]: {X} a = MatMul(x, v)
        y = MatMul(a, w)
    overridable weights [graph=g (float[2,3] t, float[3,2] v = {{1,2,3,4,5,6}}) => (float[] y)]: {X} a = MatMul(x, v)
        y = MatMul(a, w2)
    the same weights twice [t=2,4]: {X} a = MatMul(x, square) y = MatMul(a, square)
    integers [graph=g (int32[2,3] x) => (int32[] y)]: a = MatMul(x, ones) y = MatMul(a, ones2)
    across the border of an If body [graph=g (bool k, float[2,3] t) => (float[n,m] y)]: {X} a = MatMul(x, v)
        y = If (k) <then_branch = f () => (float[n,m] r) {{ r = MatMul(a, w) }},
        else_branch = e () => (float[n,m] s) {{ s = MatMul(x, u2) }}>
""")

EXTENT = st.integers(1, 4)


@given(k=EXTENT, m=EXTENT, n=EXTENT, first=st.booleans(), second=st.booleans())
def test_any_extents(k: int, m: int, n: int, first: bool, second: bool) -> None:
    weights = {"v": matrix(k, m), "w": matrix(m, n), "b": matrix(m), "c": matrix(n)}
    one = "Gemm(x, v, b)" if first else "MatMul(x, v)"
    two = "Gemm(a, w, c)" if second else "MatMul(a, w)"
    before = f"{X} a = {one} y = {two}"
    if k * n > k * m + m * n:
        chains.stays(before, weights=weights, t=f"2,{k}")
    else:
        after = "Gemm(x, k, l)" if first or second else "MatMul(x, k)"
        chains.becomes(before, f"{X} y = {after}", weights=weights, t=f"2,{k}")


def test_a_run_multiplies_so_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of weights are counted with the work of folding: the first one fits, the second one does not."""
    monkeypatch.setattr(folding_limits, "MAX_MULTIPLICATIONS", 3 * 4 * 2)
    monkeypatch.setattr(folding_limits, "MULTIPLICATIONS_PER_WEIGHT_BYTE", 0)
    chains.becomes(
        f"{X} a = MatMul(x, v) b = MatMul(a, w) c = MatMul(b, e) y = MatMul(c, f)",
        f"{X} b = MatMul(x, k) c = MatMul(b, l) y = MatMul(c, n)",
        weights={"e": matrix(2, 3), "f": matrix(3, 2)},
    )
