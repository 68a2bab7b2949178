"""Expands before ops that broadcast."""

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
from rewriting import apply_passes, load

DROP_EXPAND_BEFORE_BROADCAST = rule_pass(expands, "drop-expand-before-broadcast")

RULES = (drop_expand_before_broadcast, drop_expand_before_extremum, drop_expand_before_power)

broadcasts = Rewrites("g ({x}) => (float[] y)", *RULES, x="float[1,4] x, float[3,4] z")

test_becomes = broadcasts.all_become("""
    the left operand: u = Expand(x, [3,4]) y = Add(u, z) => y = Add(x, z)
    the right operand [x=float[4] x, float[N,4] z]: u = Expand(x, [1,4]) y = Sub(z, u) => y = Sub(z, x)
    to the shape of the other [x=float[1,M] x, float[N,M] z]: n = Shape(z) u = Expand(x, n) y = Mul(u, z)
        => y = Mul(x, z)
    a Tile: u = Tile(x, [3,1]) y = Div(u, z) => y = Div(x, z)
    a leading 1 [x=float[M] x, float[N,M] z]: u = Unsqueeze(x, [0]) y = Add(u, z) => y = Add(x, z)
    a Reshape to leading 1s [x=float[4] x, float[N,3,4] z]: u = Reshape(x, [1,1,4]) y = Add(z, u) => y = Add(z, x)
    one of many: u = Expand(x, [3,4]) y = Max(z, u, z) => y = Max(z, x, z)
    an exponent [x=float[1] x, float[3,4] z]: u = Expand(x, [3,4]) y = Pow(z, u) => y = Pow(z, x)
    a branch of Where [x=float[4] x, float[3,1] z, bool[3,4] c]: u = Expand(x, [3,4]) y = Where(c, z, u)
        => y = Where(c, z, x)
    the condition of Where [x=float[4] x, float[3,4] z, bool[1,1] c]: u = Expand(c, [3,4]) y = Where(u, z, x)
        => y = Where(c, z, x)
    both [x=float[1,4] x, float[3,1] z]: u = Expand(x, [3,1]) v = Expand(z, [1,4]) y = Add(u, v) => y = Add(x, z)
    read twice: u = Expand(x, [3,4]) v = Add(u, z) y = Mul(u, v) => v = Add(x, z) y = Mul(x, v)
    to part of a shape [x=float[1,1] x, float[1,N,1] z]: n = Shape<start=1>(z) u = Expand(x, n) y = Add(u, z)
        => y = Add(x, z)
""")

test_stays = broadcasts.all_stay("""
    it makes the result longer [x=float[1,4] x, float[1,4] z]: u = Expand(x, [3,4]) y = Add(u, z)
    the other may be 1 [x=float[1,4] x, float[N,4] z; runs=False]: u = Expand(x, [3,4]) y = Add(u, z)
    the other has fewer dims [x=float[1,4] x, float[4] z]: u = Expand(x, [3,4]) y = Add(u, z)
    the 1 is a dim of the result [x=float[M] x, float[M] z]: u = Unsqueeze(x, [0]) y = Add(u, z)
    a trailing 1 [x=float[M] x, float[N,M] z]: u = Unsqueeze(x, [1]) y = Add(u, z)
    a Tile of more than 1 [x=float[2,2] x, float[4,2] z]: u = Tile(x, [2,1]) y = Add(u, z)
    a Reshape of elements [x=float[6] x, float[2,3] z]: u = Reshape(x, [2,3]) y = Add(u, z)
    PRelu broadcasts one way [x=float[4] x, float[3,4] z]: u = Expand(x, [3,4]) y = PRelu(u, z)
    MatMul [graph=g (float[1,4] x, float[3,4] z) => (float[p,q] y); runs=False]: u = Expand(x, [3,4]) y = MatMul(u, z)
    alone: u = Expand(x, [3,4]) y = Max(u)
    a power of integers may overflow [x=int64[1] x, int64[3] z]: u = Expand(x, [3]) p = Pow(z, u) y = Cast<to=1>(p)
    apart: u = Expand(x, [3,4]) v = Neg(u) y = Add(v, z)
    to another part of a shape [x=float[1,1] x, float[N,1,1] z]: n = Shape<end=2>(z) u = Expand(x, n) y = Add(u, z)
""")

test_every_opset = broadcasts.using(
    drop_expand_before_broadcast, graph="g (int64[1] x, int64[3] z) => (int64[] y)"
).all_become({str(n): ("u = Expand(x, [3]) y = Add(u, z) => y = Add(x, z)", {"opset": n}) for n in (8, 13, 22, 25)})
test_an_output_is_kept = broadcasts.using(drop_expand_before_broadcast).all_become("""
    read once [graph=g (float[1,3] x, float[2,3] z) => (float[2,3] u, float[] y)]: u = Expand(x, [2,3]) y = Add(u, z)
        => u = Expand(x, s) y = Add(x, z)
""")
test_older_stays = broadcasts.using(drop_expand_before_broadcast, opset=7).all_stay("""
    a Tile [x=float[1,3] x, float[2,3] z]: u = Tile(x, [2,1]) y = Add(u, z)
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
