"""Products of one value with several weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.ir.cost_model import CPU, FEWEST_OPS
from passwright.core.run.pipeline import Pipeline
from passwright.passes.linear.matmul_merging import MERGE_PARALLEL_MATMULS
from rewriting import becomes, cases, initializers, stays
from weights import matrix, weights_used_in

MERGE = Pipeline("at any cost", (MERGE_PARALLEL_MATMULS,), costs=FEWEST_OPS)
KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
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
    "num": np.array(0.5, np.float32),
    "col": matrix(2, 1),
    "deep": matrix(1, 1, 1, 4),
}
CONST = "<float k = {1}, float b = {1}, float l = {1}, float f = {1}>"
JOIN = "Concat<axis=-1>"
used = partial(weights_used_in, weights=WEIGHTS)


def model(x: str, body: str, constants: str = "", result: str = "n,m", dtype: str = "float") -> str:
    return f"g ({dtype}[{x}] x) => ({dtype}[{result}] y) {constants} {{ {body} }}"


THREE = f"p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)"
PAIR = f"p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) t = Add(b, q) y = {JOIN}(s, t)"


@cases(
    ("x", "before", "after"),
    {
        "three": ("2,3", THREE, f"m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)"),
        "open": ("N,3", THREE, f"m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)"),
        "no rows": ("0,3", THREE, f"m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)"),
        "two with biases": ("2,3", PAIR, f"m = MatMul(x, k) n = Add(m, b) p, q = Split<axis=1>(n, l) y = {JOIN}(p, q)"),
        "three, one bias": (
            "2,3",
            f"p = MatMul(x, u) s = Add(p, num) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(s, q, r)",
            f"m = MatMul(x, k) n = Add(m, b) p, q, r = Split<axis=1>(n, l) y = {JOIN}(p, q, r)",
        ),
        "Gemms": (
            "2,3",
            f"p = Gemm(x, u, a) q = Gemm(x, v, b) r = Gemm(x, w, c) y = {JOIN}(p, q, r)",
            f"m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)",
        ),
        "Gemms without biases": (
            "2,3",
            f"p = Gemm(x, u) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)",
            f"m = Gemm(x, k) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)",
        ),
        "Gemms, one bias": (
            "2,3",
            f"p = Gemm(x, u, num) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)",
            f"m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)",
        ),
        "a Gemm among MatMuls": (
            "2,3",
            f"p = MatMul(x, u) q = Gemm(x, v, b) r = MatMul(x, w) y = {JOIN}(p, q, r)",
            f"m = Gemm(x, k, b) p, q, r = Split<axis=1>(m, l) y = {JOIN}(p, q, r)",
        ),
        "a bias added, and one in a Gemm": (
            "2,3",
            f"p = MatMul(x, u) s = Add(p, a) q = Gemm(x, v, b) y = {JOIN}(s, q)",
            f"m = Gemm(x, k, b) p, q = Split<axis=1>(m, l) y = {JOIN}(p, q)",
        ),
        "Gemms with attributes": (
            "3,2",
            (
                "p = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, ut, a)"
                " q = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, vt)"
                f" r = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, wt, c) y = {JOIN}(p, q, r)"
            ),
            (
                "m = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, k, b) p, q, r = Split<axis=1>(m, l)"
                f" y = {JOIN}(p, q, r)"
            ),
        ),
        "a product that others read too keeps its Add": (
            "2,3",
            f"p = MatMul(x, u) s = Add(p, a) f = Add(s, p) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(f, q, r)",
            f"m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) s = Add(p, f) g_ = Add(s, p) y = {JOIN}(g_, q, r)",
        ),
    },
)
def test_becomes(x: str, before: str, after: str) -> None:
    becomes(model(x, before), model(x, after, CONST), MERGE, weights=used(before))


@cases(
    ("x", "before", "after", "result"),
    {
        "batches": ("5,2,3", THREE, f"m = MatMul(x, k) p, q, r = Split<axis=2>(m, l) y = {JOIN}(p, q, r)", "k_,n,m"),
        "vector": ("3", THREE, f"m = MatMul(x, k) p, q, r = Split<axis=0>(m, l) y = {JOIN}(p, q, r)", "n"),
        "batches, two with biases": (
            "B,T,3",
            PAIR,
            f"m = MatMul(x, k) n = Add(m, b) p, q = Split<axis=2>(n, l) y = {JOIN}(p, q)",
            "k_,n,m",
        ),
    },
)
def test_becomes_of_other_ranks(x: str, before: str, after: str, result: str) -> None:
    becomes(model(x, before, result=result), model(x, after, CONST, result), MERGE, weights=used(before))


def test_outputs_of_the_graph_keep_their_names() -> None:
    g = "g (float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,l] r)"
    before = f"{g} {{ p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) }}"
    after = f"{g} {CONST} {{ m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) }}"
    out = becomes(before, after, MERGE, weights=used("u v w"))
    assert sorted(a.shape for a in initializers(out).values()) == [(3,), (3, 10)]


def test_inside_an_if_body() -> None:
    text = (
        "g (bool c, float[2,3] x) => (float[n,m] y) {{ y = If (c) <then_branch = a () => (float[n,m] z) {}, "
        "else_branch = b () => (float[n,m] s) {{ s = Relu(x) }}> }}"
    )
    before = text.format(f"{{ {THREE.replace('y =', 'z =')} }}")
    inner = f"m = MatMul(x, k) p, q, r = Split<axis=1>(m, l) z = {JOIN}(p, q, r)"
    becomes(before, text.format(f"{CONST} {{ {inner} }}"), MERGE, weights=used(THREE))


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 11, 13, 18, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    weights = {name: a.astype(KINDS[dtype]) for name, a in used(THREE).items()}
    split = "Split<axis=1>(m, l)" if opset >= 13 else "Split<axis=1,split=[4,4,2]>(m)"
    before = model("2,3", THREE.replace("axis=-1", "axis=1"), dtype=dtype)
    after = model("2,3", f"m = MatMul(x, k) p, q, r = {split} y = Concat<axis=1>(p, q, r)", CONST, dtype=dtype)
    becomes(before, after, MERGE, opset=opset, weights=weights)


@cases(
    ("x", "body", "result"),
    {
        "two": ("2,3", f"p = MatMul(x, u) q = MatMul(x, v) y = {JOIN}(p, q)", "n,m"),
        "and a bias": ("2,3", f"p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) y = {JOIN}(s, q)", "n,m"),
        "two Gemms": ("2,3", f"p = Gemm(x, u, a) q = Gemm(x, v, b) y = {JOIN}(p, q)", "n,m"),
        "another operand": (
            "2,3",
            f"p = MatMul(x, u) z = Relu(x) q = MatMul(z, v) r = MatMul(x, w) y = {JOIN}(p, q, r)",
            "n,m",
        ),
        "another operator": (
            "2,3",
            f"p = MatMul(x, u) q = Gemm<alpha=2.0>(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)",
            "n,m",
        ),
        "another alpha": ("2,3", f"p = Gemm(x, u) q = Gemm<alpha=2.0>(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)", "n,m"),
        "transB": ("2,3", f"p = Gemm(x, u) q = Gemm<transB=1>(x, vt) r = Gemm(x, w) y = {JOIN}(p, q, r)", "n,m"),
        "a bias for each row": ("2,3", f"p = Gemm(x, u, col) q = Gemm(x, v) r = Gemm(x, w) y = {JOIN}(p, q, r)", "n,m"),
        "shared weights": ("2,3", f"p = MatMul(x, u) q = MatMul(x, u) r = MatMul(x, w) y = {JOIN}(p, q, r)", "n,m"),
        "no columns": ("2,3", f"p = MatMul(x, u0) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)", "n,m"),
        "in batches": ("2,3", f"p = MatMul(x, u3) q = MatMul(x, v3) r = MatMul(x, w3) y = {JOIN}(p, q, r)", "k,n,m"),
        "computed weights": (
            "3,3",
            f"z = Relu(x) p = MatMul(x, z) q = MatMul(x, v) r = MatMul(x, w) y = {JOIN}(p, q, r)",
            "n,m",
        ),
        "weights on the left": (
            "4,3",
            "p = MatMul(ut, x) q = MatMul(vt, x) r = MatMul(wt, x) y = Concat<axis=0>(p, q, r)",
            "n,m",
        ),
        "no sums": ("2,3", f"p = MatMul(x, u) s = Sub(a, p) q = MatMul(x, v) t = Sub(b, q) y = {JOIN}(s, t)", "n,m"),
        "sums that vary by row": (
            "2,3",
            f"p = MatMul(x, u) s = Add(p, col) q = MatMul(x, v) t = Add(q, col) y = {JOIN}(s, t)",
            "n,m",
        ),
        "sums that add dims": (
            "2,3",
            f"p = MatMul(x, u) s = Add(p, deep) q = MatMul(x, v) t = Add(q, deep) y = {JOIN}(s, t)",
            "l,k,n,m",
        ),
        "one": ("2,3", "y = MatMul(x, u)", "n,m"),
    },
)
def test_stays(x: str, body: str, result: str) -> None:
    x = "3,4" if "ut, x" in body else x
    stays(model(x, body, result=result), MERGE, weights=used(body))


@cases(
    ("text", "weights"),
    {
        "integers": (
            (
                "g (int32[2,3] x) => (int32[n,m] p, int32[n,m] q, int32[n,m] r)"
                " { p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) }"
            ),
            {name: np.full((3, 2), n, np.int32) for n, name in enumerate("uvw")},
        ),
        "overridable weights": (
            (
                "g (float[2,3] x, float[3,1] u = {1,2,3}) => (float[n,m] p, float[n,m] q, float[n,l] r)"
                " { p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) }"
            ),
            used("v w"),
        ),
        "unknown rank": (
            "g (float[] x) => (float[] p, float[] q, float[] r) { p = MatMul(x, u) q = MatMul(x, v) r = MatMul(x, w) }",
            used("u v w"),
        ),
        "products are graph outputs": (
            (
                "g (float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,m] s, float[n,m] t)"
                " { p = MatMul(x, u) s = Add(p, a) q = MatMul(x, v) t = Add(q, a) }"
            ),
            used("u v a"),
        ),
        "across the border of an If body": (
            (
                "g (bool c, float[2,3] x) => (float[n,m] p, float[n,m] q, float[n,m] y)"
                " { p = MatMul(x, u) q = MatMul(x, v) y = If (c) <"
                "then_branch = f () => (float[n,m] r) { r = MatMul(x, w) },"
                " else_branch = e () => (float[n,m] s) { s = Relu(x) }> }"
            ),
            used("u v w"),
        ),
    },
)
def test_stays_elsewhere(text: str, weights: dict[str, np.ndarray]) -> None:
    stays(text, MERGE, weights=weights)


@given(
    columns=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    biases=st.lists(st.booleans(), min_size=4, max_size=4),
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
    before = model("2,3", f"{' '.join(lines)} {join}")
    if ops <= 2 + adds:
        stays(before, MERGE, weights=weights)
        return
    split = f"{', '.join(ends)} = Split<axis=1>({'n' if adds else 'm'}, l)"
    after = f"m = MatMul(x, k) {'n = Add(m, b)' if adds else ''} {split} {join}"
    becomes(before, model("2,3", after, CONST), MERGE, weights=weights)


def parallel(count: int, columns: int) -> tuple[str, str, dict[str, np.ndarray]]:
    """Products of one x with biases, and the merged form."""
    weights = {f"w{i}": matrix(3, columns) + i for i in range(count)} | {f"b{i}": matrix(columns) for i in range(count)}
    products = " ".join(f"p{i} = MatMul(x, w{i}) s{i} = Add(p{i}, b{i})" for i in range(count))
    names = ", ".join(f"s{i}" for i in range(count))
    join = f"y = {JOIN}({names})"
    return f"{products} {join}", f"m = MatMul(x, k) n = Add(m, b) {names} = Split<axis=1>(n, l) {join}", weights


def test_few_rows_are_merged() -> None:
    before, after, weights = parallel(3, 32)
    becomes(model("4,3", before), model("4,3", after, CONST), MERGE_PARALLEL_MATMULS, weights=weights)


def test_many_rows_are_not_merged() -> None:
    before, _, weights = parallel(3, 32)
    stays(model("400,3", before), MERGE_PARALLEL_MATMULS, weights=weights)


def test_an_unknown_dim_counts_with_its_nominal_size() -> None:
    before, after, weights = parallel(3, 32)
    few, many = (Pipeline("n", (MERGE_PARALLEL_MATMULS,), costs=replace(CPU, nominal_dim=n)) for n in (4, 400))
    becomes(model("N,3", before), model("N,3", after, CONST), few, weights=weights)
    stays(model("N,3", before), many, weights=weights)


def test_three_products_without_biases_are_not_merged() -> None:
    """The Split takes longer than the two MatMuls that it saves."""
    stays(model("1,3", THREE), MERGE_PARALLEL_MATMULS, weights=used(THREE))


PROJECTIONS = " ".join(f"p{i} = MatMul(x, w{i}) s{i} = Add(p{i}, b{i})" for i in range(3))
DECOMPOSED = (
    "h0 = Reshape(s0, shape) q = Transpose<perm=[0,2,1,3]>(h0) h1 = Reshape(s1, shape) "
    "k = Transpose<perm=[0,2,3,1]>(h1) h2 = Reshape(s2, shape) v = Transpose<perm=[0,2,1,3]>(h2) "
    "scores = MatMul(q, k) p = Softmax<axis=-1>(scores) y = MatMul(p, v)"
)
PARTS = parallel(3, 4)[2] | {"shape": np.array([1, 2, 2, 2])}


@cases(
    ("attention", "opset"),
    {
        "its parts": (DECOMPOSED, 17),
        "the operator": ("y = Attention<q_num_heads=2,kv_num_heads=2>(s0, s1, s2)", 23),
    },
)
def test_projections_of_an_attention_stay(attention: str, opset: int) -> None:
    weights = PARTS if "shape" in attention else parallel(3, 4)[2]
    result = "a,b,c,d" if "shape" in attention else "a,b,c"
    text = model("1,2,3", f"{PROJECTIONS} {attention}", result=result)
    stays(text, MERGE, opset=opset, weights=weights)


def test_cross_attention_projections_of_several_layers_stay() -> None:
    """Keys and values of two decoder layers, all of one encoded sequence."""
    weights = {f"w{i}": matrix(3, 4) + i for i in range(4)} | {"shape": np.array([1, 2, 2, 2])}
    keys = "k{0} = MatMul(x, w{1}) h{0} = Reshape(k{0}, shape) t{0} = Transpose<perm=[0,2,3,1]>(h{0})"
    values = "v{0} = MatMul(x, w{1}) i{0} = Reshape(v{0}, shape) u{0} = Transpose<perm=[0,2,1,3]>(i{0})"
    attention = "s{0} = MatMul(q{0}, t{0}) p{0} = Softmax<axis=-1>(s{0}) q{1} = MatMul(p{0}, u{0})"
    layers = " ".join(
        f"{keys.format(n, 2 * n)} {values.format(n, 2 * n + 1)} {attention.format(n, n + 1)}" for n in range(2)
    )
    text = f"g (float[1,2,3] x, float[1,2,2,2] q0) => (float[a,b,c,d] y) {{ {layers} y = Relu(q2) }}"
    stays(text, MERGE, weights=weights)
