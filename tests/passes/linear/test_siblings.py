"""Products of one value with several weights."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.ir.cost_model import CPU, FEWEST_OPS
from passwright.core.run.pipeline import Pipeline
from passwright.passes.linear.matmul_merging import MERGE_PARALLEL_MATMULS
from rewrite_tables import Rewrites
from rewriting import initializers
from tiers import in_turn
from weights import matrix

MERGE = Pipeline("at any cost", (MERGE_PARALLEL_MATMULS,), costs=FEWEST_OPS)
WEIGHTS = {
    "u": matrix(3, 4),
    "v": matrix(3, 4) * 2,
    "w": matrix(3, 2),
    "ut": matrix(4, 3),
    "vt": matrix(4, 3) * 2,
    "wt": matrix(2, 3),
    "u3": matrix(5, 3, 4),
    "v3": matrix(5, 3, 4) * 2,
    "w3": matrix(5, 3, 2),
    "u0": matrix(3, 0),
    "a": matrix(4),
    "b": matrix(1, 4) + 1,
    "c": matrix(2) - 1,
    "col": matrix(2, 1),
    "deep": matrix(1, 1, 1, 4),
}
JOIN = "Concat<axis=-1>"
siblings = Rewrites("g (float[{x}] x) => (float[] y)", MERGE, weights=WEIGHTS, x="2,3")
THREE = f"p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)"
PAIR = f"p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) t = Add(b, q) y = {JOIN}(s, t)"

test_becomes = siblings.all_become(f"""
    three: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    open [x=N,3]: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    no rows [x=0,3]: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    two with biases: {PAIR} => m = MatMul(x, k) n = Add(m, b) p, q = Split<axis=1>(n, l) y = {JOIN}(p, q)
    three, one bias: p = MatMul(x, u) s = Add(p, 0.5) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(s, q, r)
        => m = MatMul(x, k) n = Add(m, b) p, q, r = Split<axis=1>(n, l) y = {JOIN}(p, q, r)
    Gemms: p = Gemm(x, u, a) q = Gemm(x, v, b) r = Gemm(x, w, c) y = {JOIN}(p, q, r)
        => m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    Gemms without biases: p = Gemm(x, u) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)
        => m = Gemm(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    Gemms, one bias: p = Gemm(x, u, 0.5) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)
        => m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    a Gemm among MatMuls: p = MatMul(x, u) q = Gemm(x, v, b) r = MatMul(x, w) y = {JOIN}(p, q, r)
        => m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    a bias added, and one in a Gemm: p = MatMul(x, u) s = Add(p, a) q = Gemm(x, v, b) y = {JOIN}(s, q)
        => m = Gemm(x, k, b) p, q = Split<axis=1>(m, l) y = {JOIN}(p, q)
    Gemms with attributes [x=3,2]: p = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, ut, a)
        q = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, vt) r = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, wt, c)
        y = {JOIN}(p, q, r)
        => m = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    a product that others read too keeps its Add: p = MatMul(x, u) s = Add(p, a) f = Add(s, p) q = MatMul(x, v)
        r = MatMul(x, w) y = {JOIN}(f, q, r)
        => m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) s = Add(p, f) g_ = Add(s, p) y = {JOIN}(g_, q, r)
    batches [x=5,2,3]: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=2>(m, l) y = {JOIN}(p, q, r)
    vector [x=3]: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=0>(m, l) y = {JOIN}(p, q, r)
    inside an If body [in_if]: {THREE} => m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)
    batches, two with biases [x=B,T,3]: {PAIR}
        => m = MatMul(x, k) n = Add(m, b) p, q = Split<axis=2>(n, l) y = {JOIN}(p, q)
""")


def test_outputs_of_the_graph_keep_their_names() -> None:
    g = "g (float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,l] r)"
    before = "p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w)"
    out = siblings.becomes(before, "m = MatMul(x, k) p, q, r = Split<axis=1>(m, l)", graph=g)
    assert sorted(a.shape for a in initializers(out).values()) == [(3,), (3, 10)]


test_every_type_and_opset = siblings.all_become(
    {
        f"{opset} {dtype}": tier(
            THREE.replace("axis=-1", "axis=1"),
            f"m = MatMul(x, k) p, q, r = {split} y = Concat<axis=1>(p, q, r)",
            {"opset": opset, "dtype": dtype},
        )
        for opset, dtype, tier in in_turn((7, 11, 13, 18, 22), ("float", "double", "float16"))
        for split in ["Split<axis=1>(m, l)" if opset >= 13 else "Split<axis=1,split=[4,4,2]>(m)"]
    }
)
test_stays = siblings.all_stay(f"""
    two: p = MatMul(x, u) q = MatMul(x, v) y = {JOIN}(p, q)
    and a bias: p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) y = {JOIN}(s, q)
    two Gemms: p = Gemm(x, u, a) q = Gemm(x, v, b) y = {JOIN}(p, q)
    another operand: p = MatMul(x, u) z = Relu(x) q = MatMul(z, v) r = MatMul(x, w) y = {JOIN}(p, q, r)
    another operator: p = MatMul(x, u) q = Gemm<alpha=2.0>(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)
    another alpha: p = Gemm(x, u) q = Gemm<alpha=2.0>(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)
    transB: p = Gemm(x, u) q = Gemm<transB=1>(x, vt) r = Gemm(x, w) y = {JOIN}(p, q, r)
    a bias for each row: p = Gemm(x, u, col) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)
    shared weights: p = MatMul(x, u) q = MatMul(x, u) r = MatMul(x, w) y = {JOIN}(p, q, r)
    no columns: p = MatMul(x, u0) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)
    in batches: p = MatMul(x, u3) q = MatMul(x, v3) r = MatMul(x, w3) y = {JOIN}(p, q, r)
    computed weights [x=3,3]: z = Relu(x) p = MatMul(x, z) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)
    weights on the left [x=3,4]: p = MatMul(ut, x) q = MatMul(vt, x) r = MatMul(wt, x) y = Concat<axis=0>(p, q, r)
    no sums: p = MatMul(x, u) s = Sub(a, p) q = MatMul(x, v) t = Sub(b, q) y = {JOIN}(s, t)
    sums that vary by row: p = MatMul(x, u) s = Add(p, col) q = MatMul(x, v) t = Add(q, col) y = {JOIN}(s, t)
    sums that add dims: p = MatMul(x, u) s = Add(p, deep) q = MatMul(x, v) t = Add(q, deep) y = {JOIN}(s, t)
    one: y = MatMul(x, u)
    integers [dtype=int32]: {THREE}
    overridable weights: g (float[2,3] x, float[3,1] u = {{1,2,3}}) => (float[n,m] p, float[n,m] q, float[n,l] r) {{
        p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) }}
    unknown rank: g (float[] x) => (float[] p, float[] q, float[] r) {{ p = MatMul(x, u) q = MatMul(x, v)
        r = MatMul(x, w) }}
    products are graph outputs: g (float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,m] s, float[n,m] t) {{
        p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) t = Add(q, a) }}
    across the border of an If body: g (bool c, float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,m] y) {{
        p = MatMul(x, u) q = MatMul(x, v) y = If (c) <then_branch = f () => (float[n,m] r) {{ r = MatMul(x, w) }},
        else_branch = e () => (float[n,m] s) {{ s = Relu(x) }}> }}
""")


@given(
    columns=st.lists(st.integers(1, 4), min_size=1, max_size=4), biases=st.lists(st.booleans(), min_size=4, max_size=4)
)
def test_any_siblings(columns: list[int], biases: list[bool]) -> None:
    lines, weights, ends = [], {}, []
    for i, (n, bias) in enumerate(zip(columns, biases, strict=False)):
        weights[f"w{i}"] = matrix(3, n) + i
        lines.append(f"p{i} = MatMul(x, w{i})")
        if bias:
            weights[f"b{i}"] = matrix(n) - i
            lines.append(f"s{i} = Add(p{i}, b{i})")
        ends.append(f"s{i}" if bias else f"p{i}")
    ops, adds = len(lines), any(bias for _, bias in zip(columns, biases, strict=False))
    join = f"y = {JOIN}({', '.join(ends)})"
    before = f"{' '.join(lines)} {join}"
    if ops <= 2 + adds:
        siblings.stays(before, weights=weights)
        return
    split = f"{', '.join(ends)} = Split<axis=1>({'n' if adds else 'm'}, l)"
    siblings.becomes(before, f"m = MatMul(x, k) {'n = Add(m, b)' if adds else ''} {split} {join}", weights=weights)


def parallel(count: int, columns: int) -> tuple[str, str, dict[str, np.ndarray]]:
    """Products of one x with biases, and the merged form."""
    weights = {f"w{i}": matrix(3, columns) + i for i in range(count)} | {f"b{i}": matrix(columns) for i in range(count)}
    products = " ".join(f"p{i} = MatMul(x, w{i}) s{i} = Add(p{i}, b{i})" for i in range(count))
    names = ", ".join(f"s{i}" for i in range(count))
    join = f"y = {JOIN}({names})"
    return f"{products} {join}", f"m = MatMul(x, k) n = Add(m, b) {names} = Split<axis=1>(n, l) {join}", weights


by_cost = siblings.using(MERGE_PARALLEL_MATMULS)


def test_few_rows_are_merged_and_many_are_not() -> None:
    before, after, weights = parallel(3, 32)
    by_cost.becomes(before, after, weights=weights, x="4,3")
    by_cost.stays(before, weights=weights, x="400,3")


def test_an_unknown_dim_counts_with_its_nominal_size() -> None:
    before, after, weights = parallel(3, 32)
    few, many = (Pipeline("n", (MERGE_PARALLEL_MATMULS,), costs=replace(CPU, nominal_dim=n)) for n in (4, 400))
    siblings.using(few).becomes(before, after, weights=weights, x="N,3")
    siblings.using(many).stays(before, weights=weights, x="N,3")


def test_three_products_without_biases_are_not_merged() -> None:
    """The Split takes longer than the two MatMuls that it saves."""
    by_cost.stays(THREE, x="1,3")


PROJECTIONS = " ".join(f"p{i} = MatMul(x, w{i}) s{i} = Add(p{i}, b{i})" for i in range(3))
DECOMPOSED = (
    "h0 = Reshape(s0, shape) q = Transpose<perm=[0,2,1,3]>(h0) h1 = Reshape(s1, shape) "
    "k = Transpose<perm=[0,2,3,1]>(h1) h2 = Reshape(s2, shape) v = Transpose<perm=[0,2,1,3]>(h2) "
    "scores = MatMul(q, k) p = Softmax<axis=-1>(scores) y = MatMul(p, v)"
)
test_projections_of_an_attention_stay = siblings.using(
    weights=parallel(3, 4)[2] | {"shape": [1, 2, 2, 2]}, x="1,2,3"
).all_stay(f"""
    its parts: {PROJECTIONS} {DECOMPOSED}
    the operator [opset=23]: {PROJECTIONS} y = Attention<q_num_heads=2,kv_num_heads=2>(s0, s1, s2)
""")


def test_cross_attention_projections_of_several_layers_stay() -> None:
    """Keys and values of two decoder layers, all of one encoded sequence."""
    weights = {f"w{i}": matrix(3, 4) + i for i in range(4)} | {"shape": [1, 2, 2, 2]}
    keys = "k{0} = MatMul(x, w{1}) h{0} = Reshape(k{0}, shape) t{0} = Transpose<perm=[0,2,3,1]>(h{0})"
    values = "v{0} = MatMul(x, w{1}) i{0} = Reshape(v{0}, shape) u{0} = Transpose<perm=[0,2,1,3]>(i{0})"
    attention = "s{0} = MatMul(q{0}, t{0}) p{0} = Softmax<axis=-1>(s{0}) q{1} = MatMul(p{0}, u{0})"
    layers = " ".join(
        f"{keys.format(n, 2 * n)} {values.format(n, 2 * n + 1)} {attention.format(n, n + 1)}" for n in range(2)
    )
    graph = "g (float[1,2,3] x, float[1,2,2,2] q0) => (float[] y)"
    siblings.stays(f"{layers} y = Relu(q2)", graph=graph, weights=weights)
