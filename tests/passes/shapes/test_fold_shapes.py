"""Shape arithmetic folded into constants or earlier values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.shapes.fold_shapes import FoldShapes, MergeShapes
from rewriting import becomes, stays

I64 = "int64 i = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] most = {-1}"
G = f"g (float[N,3,4] x, float[N,M] z) => (int64[a] y) <{I64}>"


@pytest.mark.parametrize(
    ("before", "constant"),
    [
        pytest.param("s = Shape(x) y = Slice(s, one, most)", "int64[1] y = {3}", id="a known dim"),
        pytest.param("s = Shape<start=1>(x) y = Neg(s)", "int64[2] y = {-3,-4}", id="known dims"),
        pytest.param(
            "s = Shape(x) g = Gather(s, i) u = Unsqueeze(g, zero) y = Mul(u, two)", "int64[1] y = {6}", id="a product"
        ),
        pytest.param(
            "s = Shape(x) t = Shape(z) a = Slice(s, zero, one) b = Slice(t, zero, one) y = Sub(a, b)",
            "int64[1] y = {0}",
            id="one symbol in two inputs",
        ),
        pytest.param(
            "s = Shape(x) a = Slice(s, zero, one) b = Add(a, one) y = Sub(b, a)",
            "int64[1] y = {1}",
            id="a difference of unknowns",
        ),
        pytest.param(
            "s = Shape(x) e = Equal(s, most) w = Where(e, one, two) y = Neg(w)",
            "int64[3] y = {-2,-2,-2}",
            id="no extent is -1",
        ),
        pytest.param(
            "s = Size(x) a = Shape(x) p = ReduceProd<keepdims=0>(a) d = Sub(s, p) y = Unsqueeze(d, zero)",
            "int64[1] y = {0}",
            id="all elements",
        ),
    ],
)
def test_becomes_a_constant(before: str, constant: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G[:-1]}, {constant}> {{}}", FoldShapes())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{G} {{ s = Shape(x) y = Slice(s, zero, one) }}", id="a symbol"),
        pytest.param(f"{G} {{ s = Shape(x) t = Shape(z) y = Concat<axis=0>(s, t) }}", id="symbols among numbers"),
        pytest.param(
            f"{G} {{ s = Shape(z) a = Slice(s, zero, one) b = Slice(s, one, two) y = Sub(a, b) }}", id="two symbols"
        ),
        pytest.param(
            f"g (float[?,?] x) => (int64[a] y) <{I64}> {{ s = Shape(x) a = Slice(s, zero, one)"
            " b = Slice(s, one, two) y = Sub(a, b) }",
            id="two dims that nobody named",
        ),
        pytest.param("g (float[N,3] x) => (float[a] y) { s = Shape(x) y = Cast<to=1>(s) }", id="floats"),
        pytest.param("g (int64[2] x, int64[2] w = {1,1}) => (int64[2] y) { y = Sub(w, w) }", id="no shape at all"),
        pytest.param("g (float[] x) => (int64[a] y) { y = Shape(x) }", id="unknown rank"),
    ],
)
def test_no_constant(text: str) -> None:
    stays(text, FoldShapes())


M = f"g (float[N,M] x, float[N,K] z) => (int64[a] y, int64[b] w) <{I64}>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "s = Shape(x) t = Shape(x) y = Neg(s) w = Abs(t)", "s = Shape(x) y = Neg(s) w = Abs(s)", id="twice"
        ),
        pytest.param(
            "s = Shape(x) a = Slice(s, zero, one) t = Shape(z) b = Slice(t, zero, one) y = Neg(a) w = Abs(b)",
            "s = Shape(x) a = Slice(s, zero, one) y = Neg(a) w = Abs(a)",
            id="one symbol in two inputs",
        ),
        pytest.param(
            "s = Shape(x) a = Add(s, two) c = Add(s, one) d = Add(c, one) y = Neg(d) w = Neg(a)",
            "s = Shape(x) a = Add(s, two) y = Neg(a) w = Neg(a)",
            id="equal sums, and then equal negations",
        ),
        pytest.param("s = Shape(x) a = Add(s, one) b = Add(s, two) y = Neg(a) w = Neg(b)", None, id="other sums"),
        pytest.param("s = Shape(x) t = Shape(z) y = Neg(s) w = Neg(t)", None, id="another symbol"),
        pytest.param("y = Shape(x) w = Shape(x)", None, id="both are outputs"),
        pytest.param(
            "s = Shape(x) i32 = Cast<to=6>(s) t = Cast<to=7>(i32) y = Neg(t) w = Neg(s)",
            "s = Shape(x) y = Neg(s) w = Neg(s)",
            id="another type in between",
        ),
    ],
)
def test_merges(before: str, after: str | None) -> None:
    if after is None:
        stays(f"{M} {{ {before} }}", MergeShapes())
    else:
        becomes(f"{M} {{ {before} }}", f"{M} {{ {after} }}", MergeShapes())


@given(start=st.integers(-4, 4), end=st.integers(-4, 4))
def test_any_run_of_known_dims(start: int, end: int) -> None:
    dims = [2, 3, 4][start:end]
    head = f"g (float[2,3,4] x) => (int64[a] y) <int64[1] b = {{{start}}}, int64[1] e = {{{end}}}>"
    text = f"{head} {{ s = Shape(x) t = Slice(s, b, e) y = Neg(t) }}"
    numbers = ",".join(str(-d) for d in dims)
    becomes(text, f"g (float[2,3,4] x) => (int64[a] y) <int64[{len(dims)}] y = {{{numbers}}}> {{}}", FoldShapes())
