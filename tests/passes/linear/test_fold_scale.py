"""Scalar factors behind a product with constant weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.linear.weight_scale import FOLD_SCALE
from rewriting import becomes, initializers, stays
from weights import matrix, weights_used_in

KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
WEIGHTS = {
    "w": matrix(6, 4),
    "v": matrix(6, 4) * 2,
    "w3": matrix(5, 6, 4),
    "w12": matrix(6, 12),
    "b": matrix(4),
    "b12": matrix(12),
    "rows": matrix(3, 1),
    "s": np.array(0.5, np.float32),
    "t": np.array([[[4.0]]], np.float32),
    "deep": np.full((1, 1, 1, 1, 1), 2, np.float32),
    "row": matrix(4) + 3,
    "zero": np.array(0, np.float32),
    "flat": np.array([-1, 6], np.int64),
    "back": np.array([1, 6, 12], np.int64),
    "heads": np.array([0, 3, 2, 2], np.int64),
    "parts": np.array([4, 4, 4], np.int64),
    "other": np.array([1, 3, 24], np.int64),
    "rest": np.array([0, 3, -1], np.int64),
}
CONST = "<float k = {1}, float f = {1}, int64[4] h = {0,3,2,2}, int64[3] p = {4,4,4}, float j = {1}>"
P = "Transpose<perm=[0,2,1,3]>"
PT = "Transpose<perm=[0,2,3,1]>"
used = partial(weights_used_in, weights=WEIGHTS)


def model(body: str, constants: str = "", dtype: str = "float", result: str = "d0,d1,d2,d3") -> str:
    return f"g ({dtype}[2,3,6] x, {dtype}[2,2,2,3] z) => ({dtype}[{result}] y) {constants} {{ {body} }}"


SCORES = (
    f"m = MatMul(x, w) a = Add(m, b) r = Reshape(a, heads) q = {P}(r)"
    f" n = MatMul(x, v) l = Reshape(n, heads) k_ = {PT}(l)"
)
WANT = (
    f"n = MatMul(x, j) l = Reshape(n, h) k_ = {PT}(l)"
    f" m = MatMul(x, k) a = Add(m, f) r = Reshape(a, h) q = {P}(r) y = MatMul(q, k_)"
)
WHOLE = f"m = MatMul(x, w12) a = Add(m, b12) q0, k0, v0 = Split<axis=-1>(a, parts) l = Reshape(q0, heads) q = {P}(l)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"{SCORES} u = Mul(q, s) y = MatMul(u, k_)",
            WANT,
            id="queries",
        ),
        pytest.param(
            f"{SCORES} u = MatMul(q, k_) y = Div(u, s)",
            WANT,
            id="scores",
        ),
        pytest.param(
            f"{SCORES} u = Mul(t, k_) i = Mul(q, t) y = MatMul(i, u)",
            WANT,
            id="both",
        ),
        pytest.param(
            f"m = MatMul(x, w) r = Reshape(m, heads) q = {P}(r) u = MatMul(z, q) y = Mul(u, s)",
            f"m = MatMul(x, k) r = Reshape(m, h) q = {P}(r) y = MatMul(z, q)",
            id="the right factor has weights",
        ),
        pytest.param(
            f"{WHOLE} u = Mul(q, s) o = Reshape(k0, heads) i = {PT}(o) e = MatMul(u, i)"
            f" c = Reshape(v0, heads) d = {P}(c) y = MatMul(e, d)",
            f"m = MatMul(x, k) a = Add(m, f) q0, k0, v0 = Split<axis=-1>(a, p) l = Reshape(q0, h) q = {P}(l)"
            f" o = Reshape(k0, h) i = {PT}(o) e = MatMul(q, i) c = Reshape(v0, h) d = {P}(c) y = MatMul(e, d)",
            id="one part of a Split",
        ),
        pytest.param(
            "e = Reshape(x, flat) m = Gemm(e, w12, b12) n = Reshape(m, back) c, d, i = Split<axis=2>(n, parts)"
            " q = Transpose<perm=[0,2,1]>(d) u = Mul(q, s) o = MatMul(c, u) y = MatMul(o, i)",
            "e = Reshape(x, j) m = Gemm(e, k, f) n = Reshape(m, h) c, d, i = Split<axis=2>(n, p)"
            " u = Transpose<perm=[0,2,1]>(d) o = MatMul(c, u) y = MatMul(o, i)",
            id="one part of a Split, the columns apart from the rows",
        ),
    ],
)
def test_becomes(before: str, after: str) -> None:
    out = becomes(model(before), model(after, CONST), FOLD_SCALE, weights=used(before))
    assert len(out.graph.node) < before.count(" = ")


def test_one_output_of_a_split_is_scaled() -> None:
    before = (
        f"{WHOLE} u = Mul(q, s) o = Reshape(k0, heads) i = {P}(o) c = Reshape(v0, heads) d = {P}(c) y = Sum(u, i, d)"
    )
    out = becomes(
        model(before),
        model(
            f"m = MatMul(x, k) a = Add(m, f) q0, k0, v0 = Split<axis=-1>(a, p) l = Reshape(q0, h) q = {P}(l)"
            f" o = Reshape(k0, h) i = {P}(o) c = Reshape(v0, h) d = {P}(c) y = Sum(q, i, d)",
            CONST,
        ),
        FOLD_SCALE,
        weights=used(before),
    )
    weights = next(a for a in initializers(out).values() if a.shape == (6, 12))
    assert np.array_equal(weights[:, :4], WEIGHTS["w12"][:, :4] / 2)
    assert np.array_equal(weights[:, 4:], WEIGHTS["w12"][:, 4:])


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 11, 13, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    before = f"m = MatMul(x, w) r = Reshape(m, heads) q = {P}(r) y = Mul(q, s)"
    weights = {n: a if a.dtype == np.int64 else a.astype(KINDS[dtype]) for n, a in used(before).items()}
    after = model(f"m = MatMul(x, k) r = Reshape(m, h) y = {P}(r)", CONST, dtype)
    becomes(model(before, dtype=dtype), after, FOLD_SCALE, weights=weights, opset=opset)


@pytest.mark.parametrize(
    ("g", "before", "after"),
    [
        pytest.param(
            "g (float[N,6] x) => (float[n,m] y)",
            "m = Gemm<alpha=2.0,beta=0.5>(x, w, b) r = Transpose(m) y = Div(r, s)",
            "m = Gemm(x, k, f) y = Transpose(m)",
            id="a Gemm",
        ),
        pytest.param(
            "g (float[N,6] x) => (float[n,m] y)",
            "m = MatMul(x, w) a = Add(zero, m) r = Transpose(a) y = Mul(r, s)",
            "m = MatMul(x, k) a = Add(f, m) y = Transpose(a)",
            id="a sum with a number",
        ),
        pytest.param(
            "g (bool c, float[3,6] x) => (float[n,m] y)",
            "y = If (c) <then_branch = o () => (float[n,m] i) { m = MatMul(x, w) r = Transpose(m) i = Mul(r, s) },"
            " else_branch = e () => (float[n,m] j_) { j_ = Relu(x) }>",
            "y = If (c) <then_branch = o () => (float[n,m] i) <float k = {1}> { m = MatMul(x, k) i = Transpose(m) },"
            " else_branch = e () => (float[n,m] j_) { j_ = Relu(x) }>",
            id="inside an If body",
        ),
    ],
)
def test_becomes_elsewhere(g: str, before: str, after: str) -> None:
    becomes(f"{g} {{ {before} }}", f"{g} {CONST} {{ {after} }}", FOLD_SCALE, weights=used(before))


@pytest.mark.parametrize(
    ("body", "result"),
    [
        pytest.param(f"m = MatMul(x, w) r = Reshape(m, heads) q = {P}(r) a = Relu(q) y = Mul(a, s)", "4", id="apart"),
        pytest.param(f"m = MatMul(x, w) r = Reshape(m, heads) q = {P}(r) y = Mul(q, zero)", "4", id="zero"),
        pytest.param("m = MatMul(x, w) r = Reshape(m, heads) y = Mul(r, deep)", "5", id="adds a dim"),
        pytest.param("m = MatMul(x, w) r = Transpose(m) q = Transpose(r) y = Mul(q, row)", "3", id="a row"),
        pytest.param("m = MatMul(x, w) r = Transpose(m) y = Div(s, r)", "3", id="it divides"),
        pytest.param("m = MatMul(x, w) r = Transpose(m) y = Mul(r, r)", "3", id="the same value twice"),
        pytest.param("m = MatMul(x, w) r = Transpose(m) q = Mul(r, s) y = Add(q, r)", "3", id="scaled value is needed"),
        pytest.param("m = MatMul(x, w) r = Transpose(m) q = Mul(r, s) n = Sum(m) o = Transpose(n) y = Add(q, o)", "3",
                     id="product is needed"),
        pytest.param("m = MatMul(x, w) n = MatMul(x, w) r = Transpose(m) q = Mul(r, s) o = Transpose(n) y = Add(q, o)",
                     "3", id="weights are needed"),
        pytest.param(
            "m = MatMul(x, w) r = Reshape(m, heads) q = MatMul(r, r) y = Mul(q, s)", "4", id="a factor with itself"
        ),
        pytest.param(f"q = {P}(z) y = Mul(q, s)", "4", id="no product"),
        pytest.param("q = MatMul(z, z2) y = Mul(q, s)", "4", id="no weights"),
        pytest.param("m = MatMul(x, w) a = Add(m, c) r = Transpose(a) y = Mul(r, s)", "3", id="a computed sum"),
        pytest.param("m = MatMul(x, w12) c, d, e = Split<axis=1>(m) a = Reshape(c, rest) r = Transpose(a) q = Mul(r, s)"
                     " o = Reshape(d, rest) n = Transpose(o) y = Add(q, n)", "3", id="a Split of rows"),
        pytest.param("m = MatMul(x, w12) n = Reshape(m, other) c, d, e = Split<axis=-1>(n) q = Mul(c, s)"
                     " y = Sum(q, d, e)", "3", id="a Split of columns and rows"),
        pytest.param("m = MatMul(x, w12) n = Relu(m) c, d, e = Split<axis=-1>(n, parts) q = Mul(c, s) y = Sum(q, d, e)",
                     "3", id="a Split of something else"),
        pytest.param("m = MatMul(x, w12) t_ = Transpose<perm=[0,1,2]>(m) c, d, e = Split<axis=-1>(t_, parts)"
                     " q = Mul(c, s) y = Sum(q, d, e)", "3", id="a Split of a moved value"),
        pytest.param("m = MatMul(x, w) o = Transpose<perm=[0,2,1]>(x) n = MatMul(o, m) c, d = Split<axis=-1>(n)"
                     " q = Mul(c, s) y = Add(q, d)", "3", id="a Split of another product"),
    ],
)  # fmt: skip
def test_stays(body: str, result: str) -> None:
    dims = ",".join(f"d{i}" for i in range(int(result)))
    text = model(body, result=dims).replace("x, ", "x, float[4] c, float[2,2,3,3] z2, ", 1) if "c)" in body else ""
    text = text or model(body, result=dims).replace("x, ", "x, float[2,2,3,3] z2, ", 1)
    stays(text, FOLD_SCALE, weights=used(body))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (float[3,6] x) => (float[n,m] y, float[m,n] m) { m = MatMul(x, w) r = Transpose(m) y = Mul(r, s) }",
            id="product is a graph output",
        ),
        pytest.param(
            "g (float[3,6] x, float s = {2}) => (float[n,m] y) { m = MatMul(x, w) r = Transpose(m) y = Mul(r, s) }",
            id="overridable scale",
        ),
        pytest.param(
            "g (float[3,6] x, float[6,1] w = {1,2,3,4,5,6}) => (float[n,m] y)"
            " { m = MatMul(x, w) r = Transpose(m) y = Mul(r, s) }",
            id="overridable weights",
        ),
        pytest.param(
            "g (bool c, float[3,6] x) => (float[n,m] y) { m = MatMul(x, w) r = Transpose(m) y = If (c) <"
            "then_branch = o () => (float[n,m] i) { i = Mul(r, s) },"
            " else_branch = e () => (float[n,m] j) { j = Relu(x) }> }",
            id="across the border of an If body",
        ),
    ],
)
def test_stays_elsewhere(text: str) -> None:
    weights = {name: a for name, a in used(text).items() if f"{name} = {{" not in text}
    stays(text, FOLD_SCALE, weights=weights)


NUMBERS = st.sampled_from([-2.0, 0.25, 0.5, 3.0])
STEPS = ["Transpose(v)", "Transpose<perm=[1,0]>(v)", "Identity(v)", "Flatten<axis=1>(v)", "Add(v, s)", "MatMul(v, u)"]


@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=4),
    s=NUMBERS,
    op=st.sampled_from(["Mul", "Div"]),
)
def test_any_path(steps: list[str], s: float, op: str) -> None:
    weights = {"w": matrix(3, 3), "s": np.array(s, np.float32)}
    way = [f"v{i + 1} = {step.replace('v', f'v{i}')}" for i, step in enumerate(steps)]
    g = "g (float[3,3] x, float[3,3] u) => (float[n,m] y)"
    last = f"v{len(steps)}"
    before = f"v0 = MatMul(x, w) {' '.join(way)} y = {op}({last}, s)"
    lines = ["v0 = MatMul(x, k)", *(line.replace("s)", f"c{i})") for i, line in enumerate(way))]
    after = " ".join(lines).replace(f"{last} =", "y =")
    constants = f"<float k = {{1}}, {', '.join(f'float c{i} = {{1}}' for i in range(4))}>"
    becomes(f"{g} {{ {before} }}", f"{g} {constants} {{ {after} }}", FOLD_SCALE, weights=weights)
