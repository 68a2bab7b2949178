"""Expands and Tiles that merge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import expands
from passwright.passes.movement.expands import drop_unsqueeze_before_expand, merge_expands, merge_tiles
from rewriting import becomes, cases, initializers, stays

MERGE_EXPANDS = rule_pass(expands, "merge-expands")

RULES = (merge_expands, merge_tiles, drop_unsqueeze_before_expand)


def model(x: str, rank: int, body: str) -> str:
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ {body} }}"


def ints(**given_: list[int]) -> dict[str, np.ndarray]:
    return {n: np.array(v, np.int64) for n, v in given_.items()}


@pytest.mark.parametrize(
    ("x", "s", "t", "after"),
    [
        ("float[1,4] x", [3, 4], [2, 1, 4], [2, 3, 4]),
        ("float[1,4] x", [2, 1, 1], [3, 4], [2, 3, 4]),
        ("float[N,1] x", [1, 1], [1, 5], [1, 5]),
        ("float[1,1] x", [0, 1], [1, 2], [0, 2]),
    ],
)
def test_expands(x: str, s: list[int], t: list[int], after: list[int]) -> None:
    before = model(x, len(after), "u = Expand(x, s) y = Expand(u, t)")
    new = model(x, len(after), "y = Expand(x, s)").replace(") {", ") <int64[1] s = {0}> {", 1)
    out = becomes(before, new, *RULES, weights=ints(s=s, t=t))
    assert [a.tolist() for a in initializers(out).values()] == [after]


def test_tiles() -> None:
    before = model("float[N,2] x", 2, "u = Tile(x, s) y = Tile(u, t)")
    new = model("float[N,2] x", 2, "y = Tile(x, s)").replace(") {", ") <int64[1] s = {0}> {", 1)
    out = becomes(before, new, *RULES, weights=ints(s=[2, 3], t=[1, 2]))
    assert [a.tolist() for a in initializers(out).values()] == [[2, 6]]


@cases(
    ("x", "body", "after", "rank"),
    {
        "one": ("float[N,1] x", "u = Unsqueeze(x, zero) y = Expand(u, s)", "y = Expand(x, s)", 3),
        "two": ("float[1] x", "u = Unsqueeze(x, both) y = Expand(u, s)", "y = Expand(x, s)", 3),
        "a Reshape": ("float[4] x", "u = Reshape(x, ones) y = Expand(u, s)", "y = Expand(x, s)", 3),
        "computed": ("float[N,1] x, int64[3] k", "u = Unsqueeze(x, zero) y = Expand(u, k)", "y = Expand(x, k)", 3),
        "read elsewhere": (
            "float[N,1] x",
            "u = Unsqueeze(x, zero) v = Expand(u, s) w = Neg(u) y = Add(v, w)",
            "u = Unsqueeze(x, zero) v = Expand(x, s) w = Neg(u) y = Add(v, w)",
            3,
        ),
    },
)
def test_leading_ones(x: str, body: str, after: str, rank: int) -> None:
    weights = ints(zero=[0], both=[0, 1], ones=[1, 1, 4], s=[2, 1, 4])
    new = model(x, rank, after).replace(") {", ") <int64[1] zero = {0}, int64[1] s = {0}> {", 1)
    becomes(model(x, rank, body), new, *RULES, weights=weights, runs="int64" not in x)


@cases(
    ("x", "body", "rank"),
    {
        "not in front": ("float[N,1] x", "u = Unsqueeze(x, one) y = Expand(u, s)", 3),
        "a shorter shape": ("float[N,1] x", "u = Unsqueeze(x, zero) y = Expand(u, flat)", 3),
        "a shape of any length": ("float[N,1] x, int64[k] k", "u = Unsqueeze(x, zero) y = Expand(u, k)", 3),
        "a Reshape of elements": ("float[8] x", "u = Reshape(x, cut) y = Expand(u, s)", 3),
        "alone": ("float[N,1] x", "y = Expand(x, s)", 3),
        "apart": ("float[2,1] x", "u = Expand(x, flat) v = Neg(u) y = Expand(v, s)", 3),
        "computed": ("float[1,1] x, int64[2] k", "u = Expand(x, k) y = Expand(u, s)", 3),
        "a Tile and an Expand": ("float[1,1] x", "u = Tile(x, flat) y = Expand(u, s)", 3),
        "a computed Tile": ("float[N,2] x, int64[2] k", "u = Tile(x, k) y = Tile(u, flat)", 2),
    },
)
def test_stays(x: str, body: str, rank: int) -> None:
    weights = ints(zero=[0], one=[1], cut=[1, 2, 4], s=[2, 1, 4], flat=[1, 4])
    stays(model(x, rank, body), *RULES, weights=weights, runs=False)


@pytest.mark.parametrize("opset", [8, 12, 13, 25])
def test_every_opset(opset: int) -> None:
    x = "int32[1,1] x"
    before = model(x, 2, "u = Expand(x, s) y = Expand(u, t)").replace("float[p", "int32[p")
    new = model(x, 2, "y = Expand(x, s)").replace("float[p", "int32[p").replace(") {", ") <int64[1] s = {0}> {", 1)
    becomes(before, new, *RULES, weights=ints(s=[3, 1], t=[1, 2]), opset=opset)


def test_the_pass_has_all_rules() -> None:
    assert MERGE_EXPANDS.rules == RULES


DIMS = st.lists(st.sampled_from([1, 2]), min_size=1, max_size=3)


@given(s=DIMS, t=DIMS)
def test_any_two_expands(s: list[int], t: list[int]) -> None:
    after = list(np.broadcast_shapes((1, 1), tuple(s), tuple(t)))
    before = model("float[1,1] x", len(after), "u = Expand(x, s) y = Expand(u, t)")
    new = model("float[1,1] x", len(after), "y = Expand(x, s)").replace(") {", ") <int64[1] s = {0}> {", 1)
    becomes(before, new, *RULES, weights=ints(s=s, t=t))
