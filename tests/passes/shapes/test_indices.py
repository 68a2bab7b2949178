"""Indices computed from ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.shapes.range_indices import DROP_RANGE_GATHERS
from rewriting import becomes, stays

CONST = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[2] a12 = {1,2}"
G = f"g (float[N,M] x) => (float[a,b,c] y) <{CONST}>"
F = f"g (float[N,M] x) => (float[a,b,c,d] y) <{CONST}>"
DIMS = "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=2>(x)"
COUNT = "r = Range(zero, n, one) c = Range(zero, m, one)"


@pytest.mark.parametrize(
    ("head", "before", "after"),
    [
        pytest.param(
            G,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)",
            "y = Unsqueeze(x, a2)",
            id="all elements in order",
        ),
        pytest.param(
            G,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(m, u) i = Add(p, c) y = Gather<axis=0>(f, i)",
            "y = Unsqueeze(x, a2)",
            id="the other way round",
        ),
        pytest.param(
            F,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a12) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)",
            "y = Unsqueeze(x, a13)",
            id="with a dim between",
        ),
    ],
)
def test_becomes(head: str, before: str, after: str) -> None:
    more = f"{head[:-1]}, int64[1] a2 = {{2}}, int64[2] a13 = {{1,3}}>"
    becomes(f"{head} {{ {before} }}", f"{more} {{ {after} }}", DROP_RANGE_GATHERS)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(u, n) i = Add(c, p) y = Gather(f, i)", id="other step"
        ),
        pytest.param(
            f"{DIMS} r = Range(zero, n, one) c = Range(zero, n, one) u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p)"
            " y = Gather(f, i)",
            id="not as many columns",
        ),
        pytest.param(
            f"{DIMS} r = Range(zero, n, two) c = Range(zero, m, one) u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p)"
            " y = Gather(f, i)",
            id="every other row",
        ),
        pytest.param(
            f"{DIMS} {COUNT} u = Unsqueeze(r, a0) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)", id="a diagonal"
        ),
        pytest.param(
            f"s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=0>(x) {COUNT} u = Unsqueeze(r, a1)"
            " p = Mul(u, m) i = Add(c, p) y = Gather(f, i)",
            id="one row",
        ),
    ],
)
def test_stays(body: str) -> None:
    stays(f"{G} {{ {body} }}", DROP_RANGE_GATHERS, runs=False)


ND = "g (float[N,M] x) => (float[a,b,c,d] y) <int64 zero = {0}, int64 one = {1}, int64[3] a123 = {1,2,3},"
ND += " int64[1] last = {-1}, int64[2] a12 = {1,2}>"
STEPS = (
    "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) r = Range(zero, n, one) c = Range(zero, m, one)"
    " u = Unsqueeze(r, a123) w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t)"
    " p = Unsqueeze(e, last) q = Unsqueeze(f, last) i = Concat<axis=-1>({}) y = GatherND({}x, i)"
)


def test_matrix_indexed_by_row_and_column() -> None:
    becomes(f"{ND} {{ {STEPS.format('p, q', '')} }}", f"{ND} {{ y = Unsqueeze(x, a12) }}", DROP_RANGE_GATHERS, opset=18)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(STEPS.format("q, p", ""), id="by column and row"),
        pytest.param(STEPS.format("p, q", "").replace("Range(zero, m, one)", "Range(zero, m, one) k = Neg(c)")
                     .replace("f = Expand(c", "f = Expand(k"), id="backwards"),
        pytest.param(STEPS.format("p, q", "").replace("Range(zero, n, one)", "Range(one, n, one)"), id="not all rows"),
    ],
)  # fmt: skip
def test_other_indices_stay(body: str) -> None:
    stays(f"{ND} {{ {body} }}", DROP_RANGE_GATHERS, opset=18, runs=False)


@given(m=st.integers(1, 4), n=st.integers(1, 4))
def test_any_matrix(m: int, n: int) -> None:
    head = f"g (float[{m},{n}] x) => (float[a,b,c] y) <{CONST}, int64 m = {{{m}}}, int64 n = {{{n}}}>"
    body = "f = Flatten<axis=2>(x) r = Range(zero, m, one) c = Range(zero, n, one) u = Unsqueeze(r, a1)"
    after = f"{head[:-1]}, int64[1] a2 = {{2}}> {{ y = Unsqueeze(x, a2) }}"
    becomes(f"{head} {{ {body} p = Mul(u, n) i = Add(c, p) y = Gather(f, i) }}", after, DROP_RANGE_GATHERS)
