"""Expands before ops that broadcast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import EXACT, rule_pass
from passwright.passes.movement import expands
from passwright.passes.movement.expands import (
    broadcasts_alike,
    drop_expand_before_broadcast,
    drop_expand_before_extremum,
    drop_expand_before_power,
)
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, load, stays

DROP_EXPAND_BEFORE_BROADCAST = rule_pass(expands, "drop-expand-before-broadcast")

RULES = (drop_expand_before_broadcast, drop_expand_before_extremum, drop_expand_before_power)


@pytest.mark.parametrize(
    ("given_", "constants", "before", "after", "rank"),
    [
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}",
                     "u = Expand(x, s) y = Add(u, z)", "y = Add(x, z)", 2, id="the left operand"),
        pytest.param("float[4] x, float[N,4] z", "int64[2] s = {1,4}",
                     "u = Expand(x, s) y = Sub(z, u)", "y = Sub(z, x)", 2, id="the right operand"),
        pytest.param("float[1,M] x, float[N,M] z", "int64[2] a = {0,1}, int64[1] b = {0}",
                     "n = Shape(z) u = Expand(x, n) y = Mul(u, z)", "y = Mul(x, z)", 2, id="to the shape of the other"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,1}",
                     "u = Tile(x, s) y = Div(u, z)", "y = Div(x, z)", 2, id="a Tile"),
        pytest.param("float[M] x, float[N,M] z", "int64[1] a = {0}",
                     "u = Unsqueeze(x, a) y = Add(u, z)", "y = Add(x, z)", 2, id="a leading 1"),
        pytest.param("float[4] x, float[N,3,4] z", "int64[3] s = {1,1,4}",
                     "u = Reshape(x, s) y = Add(z, u)", "y = Add(z, x)", 3, id="a Reshape to leading 1s"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}",
                     "u = Expand(x, s) y = Max(z, u, z)", "y = Max(z, x, z)", 2, id="one of many"),
        pytest.param("float[1] x, float[3,4] z", "int64[2] s = {3,4}",
                     "u = Expand(x, s) y = Pow(z, u)", "y = Pow(z, x)", 2, id="an exponent"),
        pytest.param("float[4] x, float[3,1] z, bool[3,4] c", "int64[2] s = {3,4}",
                     "u = Expand(x, s) y = Where(c, z, u)", "y = Where(c, z, x)", 2, id="a branch of Where"),
        pytest.param("float[4] x, float[3,4] z, bool[1,1] c", "int64[2] s = {3,4}",
                     "u = Expand(c, s) y = Where(u, z, x)", "y = Where(c, z, x)", 2, id="the condition of Where"),
        pytest.param("float[1,4] x, float[3,1] z", "int64[2] s = {3,1}, int64[2] t = {1,4}",
                     "u = Expand(x, s) v = Expand(z, t) y = Add(u, v)", "y = Add(x, z)", 2, id="both"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}",
                     "u = Expand(x, s) v = Add(u, z) y = Mul(u, v)", "v = Add(x, z) y = Mul(x, v)", 2, id="read twice"),
        pytest.param("float[1,1] x, float[1,N,1] z", "int64[2] s = {3,4}",
                     "n = Shape<start=1>(z) u = Expand(x, n) y = Add(u, z)", "y = Add(x, z)", 3,
                     id="to part of a shape"),
    ],
)  # fmt: skip
def test_becomes(given_: str, constants: str, before: str, after: str, rank: int) -> None:
    g = f"g ({given_}) => (float[{','.join('pqr'[:rank])}] y) <{constants}>"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", *RULES)


@pytest.mark.parametrize(
    ("given_", "constants", "body", "rank"),
    [
        pytest.param("float[1,4] x, float[1,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = Add(u, z)", 2,
                     id="it makes the result longer"),
        pytest.param("float[1,4] x, float[N,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = Add(u, z)", 2,
                     id="the other may be 1"),
        pytest.param("float[1,4] x, float[4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = Add(u, z)", 2,
                     id="the other has fewer dims"),
        pytest.param("float[M] x, float[M] z", "int64[1] a = {0}", "u = Unsqueeze(x, a) y = Add(u, z)", 2,
                     id="the 1 is a dim of the result"),
        pytest.param("float[M] x, float[N,M] z", "int64[1] a = {1}", "u = Unsqueeze(x, a) y = Add(u, z)", 2,
                     id="a trailing 1"),
        pytest.param("float[2,2] x, float[4,2] z", "int64[2] s = {2,1}", "u = Tile(x, s) y = Add(u, z)", 2,
                     id="a Tile of more than 1"),
        pytest.param("float[6] x, float[2,3] z", "int64[2] s = {2,3}", "u = Reshape(x, s) y = Add(u, z)", 2,
                     id="a Reshape of elements"),
        pytest.param("float[4] x, float[3,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = PRelu(u, z)", 2,
                     id="PRelu broadcasts one way"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = MatMul(u, z)", 2,
                     id="MatMul"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) y = Max(u)", 2, id="alone"),
        pytest.param("int64[1] x, int64[3] z", "int64[1] s = {3}",
                     "u = Expand(x, s) p = Pow(z, u) y = Cast<to=1>(p)", 1, id="a power of integers may overflow"),
        pytest.param("float[1,4] x, float[3,4] z", "int64[2] s = {3,4}", "u = Expand(x, s) v = Neg(u) y = Add(v, z)", 2,
                     id="apart"),
        pytest.param("float[1,1] x, float[N,1,1] z", "int64[2] s = {3,4}",
                     "n = Shape<end=2>(z) u = Expand(x, n) y = Add(u, z)", 3, id="to another part of a shape"),
    ],
)  # fmt: skip
def test_stays(given_: str, constants: str, body: str, rank: int) -> None:
    g = f"g ({given_}) => (float[{','.join('pqr'[:rank])}] y) <{constants}>"
    stays(f"{g} {{ {body} }}", *RULES, runs="MatMul" not in body and "N,4" not in given_)


broadcasts = Rewrites("g (int64[1] x, int64[3] z) => (int64[] y)", drop_expand_before_broadcast, opset=8)

test_every_opset = broadcasts.all_become("""
    8: u = Expand(x, [3]) y = Add(u, z) => y = Add(x, z)
    13 [opset=13]: u = Expand(x, [3]) y = Add(u, z) => y = Add(x, z)
    22 [opset=22]: u = Expand(x, [3]) y = Add(u, z) => y = Add(x, z)
    25 [opset=25]: u = Expand(x, [3]) y = Add(u, z) => y = Add(x, z)
    an output is kept [opset=17; graph=g (float[1,3] x, float[2,3] z) => (float[2,3] u, float[] y)]:
        u = Expand(x, [2,3]) y = Add(u, z) => u = Expand(x, s) y = Add(x, z)
""")

test_stays_before_opset_8 = broadcasts.all_stay("""
    before opset 8 [opset=7; graph=g (float[1,3] x, float[2,3] z) => (float[] y)]: u = Tile(x, [2,1]) y = Add(u, z)
""")


def test_inexact_rules_are_declared() -> None:
    assert [r.contract == EXACT for r in RULES] == [True, False, False]
    g = "g (float[1] x, float[3] z) => (float[p] y) <int64[1] s = {3}>"
    for op in ("Max", "Min", "Pow"):
        model = load(f"{g} {{ u = Expand(x, s) y = {op}(u, z) }}")
        assert not apply_passes(model, DROP_EXPAND_BEFORE_BROADCAST, exact_only=True)[1].changes


def test_the_pass_has_all_rules() -> None:
    assert DROP_EXPAND_BEFORE_BROADCAST.rules == RULES


DIMS = st.lists(st.sampled_from([1, 2, 3]), max_size=3).map(tuple)


@given(small=DIMS, wide=DIMS, other=DIMS)
def test_broadcasts_alike_as_numpy(small: tuple[int, ...], wide: tuple[int, ...], other: tuple[int, ...]) -> None:
    import numpy as np

    try:
        if np.broadcast_shapes(small, wide) != wide:
            return
        want = np.broadcast_shapes(wide, other)
    except ValueError:
        return
    assert broadcasts_alike(small, wide, [other]) == (np.broadcast_shapes(small, other) == want)
