"""Expands and Tiles that merge."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import expands
from passwright.passes.movement.expands import drop_unsqueeze_before_expand, merge_expands, merge_tiles
from rewrite_tables import Rewrites
from rewriting import becomes, each, initializers

MERGE_EXPANDS = rule_pass(expands, "merge-expands")

RULES = (merge_expands, merge_tiles, drop_unsqueeze_before_expand)


def model(x: str, rank: int, body: str) -> str:
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ {body} }}"


def ints(**given_: list[int]) -> dict[str, np.ndarray]:
    return {n: np.array(v, np.int64) for n, v in given_.items()}


@each(
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


rewrites = Rewrites("g ({x}) => (float[] y)", *RULES, x="float[N,1] x")

test_leading_ones = rewrites.all_become("""
    one: u = Unsqueeze(x, [0]) y = Expand(u, [2,1,4]) => y = Expand(x, s)
    two [x=float[1] x]: u = Unsqueeze(x, [0,1]) y = Expand(u, [2,1,4]) => y = Expand(x, s)
    a Reshape [x=float[4] x]: u = Reshape(x, [1,1,4]) y = Expand(u, [2,1,4]) => y = Expand(x, s)
    computed [x=float[N,1] x, int64[3] k; runs=False]: u = Unsqueeze(x, [0]) y = Expand(u, k) => y = Expand(x, k)
    read elsewhere: u = Unsqueeze(x, [0]) v = Expand(u, [2,1,4]) w = Neg(u) y = Add(v, w)
        => u = Unsqueeze(x, zero) v = Expand(x, s) w = Neg(u) y = Add(v, w)
""")

test_stays = rewrites.using(runs=False).all_stay("""
    not in front: u = Unsqueeze(x, [1]) y = Expand(u, [2,1,4])
    a shorter shape: u = Unsqueeze(x, [0]) y = Expand(u, [1,4])
    a shape of any length [graph=g (float[N,1] x, int64[k] k) => (float[p,q,r] y)]:
        u = Unsqueeze(x, [0]) y = Expand(u, k)
    a Reshape of elements [x=float[8] x]: u = Reshape(x, [1,2,4]) y = Expand(u, [2,1,4])
    alone: y = Expand(x, [2,1,4])
    apart [x=float[2,1] x]: u = Expand(x, [1,4]) v = Neg(u) y = Expand(v, [2,1,4])
    computed [x=float[1,1] x, int64[2] k]: u = Expand(x, k) y = Expand(u, [2,1,4])
    a Tile and an Expand [x=float[1,1] x]: u = Tile(x, [1,4]) y = Expand(u, [2,1,4])
    a computed Tile [x=float[N,2] x, int64[2] k]: u = Tile(x, k) y = Tile(u, [1,4])
""")

test_every_opset = rewrites.using(x="float[1,1] x", dtype="int32").all_become(
    {str(n): ("u = Expand(x, [3,1]) y = Expand(u, [1,2]) => y = Expand(x, s)", {"opset": n}) for n in (8, 12, 13, 25)}
)


def test_the_pass_has_all_rules() -> None:
    assert MERGE_EXPANDS.rules == RULES


DIMS = st.lists(st.sampled_from([1, 2]), min_size=1, max_size=3)


@given(s=DIMS, t=DIMS)
def test_any_two_expands(s: list[int], t: list[int]) -> None:
    after = list(np.broadcast_shapes((1, 1), tuple(s), tuple(t)))
    before = model("float[1,1] x", len(after), "u = Expand(x, s) y = Expand(u, t)")
    new = model("float[1,1] x", len(after), "y = Expand(x, s)").replace(") {", ") <int64[1] s = {0}> {", 1)
    becomes(before, new, *RULES, weights=ints(s=s, t=t))
