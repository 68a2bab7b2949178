"""Concat with empty inputs, and Split into one output."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

DROP_NO_OP_SPLIT_CONCAT = rule_pass(no_ops, "drop-no-op-split-concat")

RULES = DROP_NO_OP_SPLIT_CONCAT.rules
G = "g (float[2,n] x, float[2,0] z, float[0,n] v) => (float[p,q] y)"

no_op_concat_split = Rewrites(
    "g ({x}) => (float[] y)",
    *RULES,
    weights={"e": np.array([[], []], np.float32)},
    x="float[2,n] x, float[2,0] z, float[0,n] v",
)

test_becomes = no_op_concat_split.all_become("""
    Concat of one: t = Concat<axis=1>(x) y = Neg(t) => y = Neg(x)
    Concat of one, from input to output: y = Concat<axis=-1>(x) => y = Identity(x)
    with an empty constant: t = Concat<axis=1>(x, e) y = Neg(t) => y = Neg(x)
    with an empty input: t = Concat<axis=-1>(z, x) y = Neg(t) => y = Neg(x)
    along the other axis: t = Concat<axis=0>(v, x, v) y = Neg(t) => y = Neg(x)
    two are left: y = Concat<axis=1>(x, z, x, e) => y = Concat<axis=1>(x, x)
    nothing but empty pieces: t = Concat<axis=1>(z, e) y = Neg(t) => y = Neg(z)
    empty on the way: t = Relu(z) y = Concat<axis=1>(x, t, x) => y = Concat<axis=1>(x, x)
    Split into one: t = Split<axis=1>(x) y = Neg(t) => y = Neg(x)
    Split off nothing: t, u = Split<axis=0>(x, [0,2]) y = Neg(u) => y = Neg(x)
    Split into one, from input to output: y = Split(x) => y = Identity(x)
    both, of a shared value: a = Relu(x) b = Split(a) c = Concat<axis=0>(b) d = Abs(a) y = Add(c, d)
        => a = Relu(x) d = Abs(a) y = Add(a, d)
""")

test_becomes_elsewhere = no_op_concat_split.all_become("""
    strings [graph=g (string[n] x) => (string[] y) <string[0] e = {}>]: y = Concat<axis=0>(x, e) => y = Identity(x)
    an overridable empty input [x=float[n] x, float[0] e = {}]: t = Concat<axis=0>(x, e) y = Neg(t) => y = Neg(x)
    inside an If body, captured [x=bool c, float[2,3] x]: y = If(c) <then_branch = a () => (float[p,q] r) {
        t = Concat<axis=0>(x) u = Split(t) r = Neg(u) }, else_branch = b () => (float[p,q] s) { s = Relu(x) }> =>
        y = If(c) <then_branch = a () => (float[p,q] r) { r = Neg(x) }, else_branch = b () => (float[p,q] s) {
        s = Relu(x) }>
    a piece of unknown rank [graph=g (float[n] x, int64[k] s) => (float[m] y) <float[0] e = {}>; runs=False]:
        t = Reshape(x, s) y = Concat<axis=0>(t, e, x) => t = Reshape(x, s) y = Concat<axis=0>(t, x)
""")


@each("opset", [7, 11, 13, 18, 26])
def test_every_opset(opset: int) -> None:
    before = "t = Split<axis=0>(x) u = Concat<axis=0>(t, v) y = Neg(u)"
    if opset >= 18:
        before = before.replace("axis=0>(x)", "axis=0, num_outputs=1>(x)")
    becomes(f"{G} {{ {before} }}", f"{G} {{ y = Neg(x) }}", *RULES, opset=opset)


test_sizes_as_an_attribute = no_op_concat_split.all_become("""
    7 [opset=7]: t, u = Split<axis=0,split=[2,0]>(x) y = Neg(t) => y = Neg(x)
    11 [opset=11]: t, u = Split<axis=0,split=[2,0]>(x) y = Neg(t) => y = Neg(x)
""")

test_stays = no_op_concat_split.using(x="float[2,n] x, float[2,n] w").all_stay("""
    the same twice: y = Concat<axis=1>(x, x)
    another: y = Concat<axis=0>(x, w)
    empty along another axis [graph=g (float[2,n] x, float[2,n] w) => (float[] y) <float[2,0] e = {}, float[3,0] f =
        {}>]: y = Concat<axis=0>(e, f)
    Split into two: t, y = Split<axis=0>(x)
    Split into two, given: t, y = Split<axis=0>(x, [1,1])
    the empty piece is read: t, u = Split<axis=0>(x, [2,0]) a = ReduceSum(u) y = Add(t, a)
    the piece that is read is the empty one [graph=g (float[2,n] x, float[2,n] w) => (float[] y) <float[2,0] e = {}>]:
        t, u = Split<axis=0>(e, [2,0]) y = Neg(u)
    of unknown extent: t = Relu(w) y = Concat<axis=1>(x, t)
""")

test_stays_elsewhere = no_op_concat_split.using(runs=False).all_stay("""
    may be empty [x=float[n] x, float[m] z]: y = Concat<axis=0>(x, z)
    unknown extents [x=float[?] x, float[?] z]: y = Concat<axis=0>(z, x)
    sizes given at run time [graph=g (float[4] x, int64[2] s) => (float[p] y)]: y, t = Split<axis=0>(x, s)
    overridable sizes [x=float[4] x, int64[2] s = {4,0}]: y, t = Split<axis=0>(x, s)
    the empty piece is an output [graph=g (float[4] x) => (float[p] y, float[q] t)]: y, t = Split<axis=0>(x, [4,0])
""")


@given(extents=st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_only_empty_inputs_are_dropped(extents: list[int]) -> None:
    inputs = ", ".join(f"float[2,{n}] x{i}" for i, n in enumerate(extents))
    head = f"g ({inputs}) => (float[p,q] y)"
    left = [i for i, n in enumerate(extents) if n] or [0]
    joined = ", ".join(f"x{i}" for i in range(len(extents)))
    before = f"{head} {{ t = Concat<axis=1>({joined}) y = Neg(t) }}"
    kept = ", ".join(f"x{i}" for i in left)
    after = f"t = Concat<axis=1>({kept}) y = Neg(t)" if len(left) > 1 else f"y = Neg({kept})"
    if len(left) == len(extents) > 1:
        stays(before, *RULES, runs=False)
    else:
        becomes(before, f"{head} {{ {after} }}", *RULES)


@given(extents=st.lists(st.integers(0, 2), min_size=2, max_size=4), read=st.integers(0, 3))
def test_split_into_one_and_an_empty_output(extents: list[int], read: int) -> None:
    read %= len(extents)
    names = ", ".join(f"t{i}" for i in range(len(extents)))
    head = f"g (float[{sum(extents)}] x) => (float[p] y)"
    text = f"{head} {{ {names} = Split<axis=0>(x, s) y = Neg(t{read}) }}"
    weights: dict[str, Any] = {"s": np.array(extents)}
    if extents[read] == sum(extents) > 0:
        becomes(text, f"{head} {{ y = Neg(x) }}", *RULES, weights=weights)
    else:
        stays(text, *RULES, weights=weights)
