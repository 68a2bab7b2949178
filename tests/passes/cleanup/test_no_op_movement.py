"""Reshape, Slice, Pad and other data movement without effect."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

DROP_NO_OP_MOVEMENT = rule_pass(no_ops, "drop-no-op-movement")

RULES = DROP_NO_OP_MOVEMENT.rules
STATIC, OPEN, NOTHING = "float[2,3] x", "float[n,k] x", "float[0,3] x"


def ints(**values: list[int]) -> dict[str, Any]:
    """Initializers of int64 numbers."""
    return {name: np.array(v, np.int64) for name, v in values.items()}


def around(x: str, node: str, rank: int = 2) -> str:
    """A model in which `node` computes `u` from `t`, both inner values."""
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ t = Neg(x) {node} y = Relu(u) }}"


def without(x: str, rank: int = 2) -> str:
    """The same model without the node."""
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ t = Neg(x) y = Relu(t) }}"


@each(
    ("x", "node", "weights"),
    {
        "Reshape, same extents": (STATIC, "u = Reshape(t, s)", ints(s=[2, 3])),
        "Reshape, one open": (STATIC, "u = Reshape(t, s)", ints(s=[-1, 3])),
        "Reshape, both copied": (OPEN, "u = Reshape(t, s)", ints(s=[0, 0])),
        "Reshape, one copied, one open": (OPEN, "u = Reshape(t, s)", ints(s=[0, -1])),
        "Reshape, open batch": ("float[n,4] x", "u = Reshape(t, s)", ints(s=[-1, 4])),
        "Reshape, zero is meant": ("float[0,3] x", "u = Reshape<allowzero=1>(t, s)", ints(s=[0, 3])),
        "Reshape, unknown extents": ("float[?,?] x", "u = Reshape(t, s)", ints(s=[0, 0])),
        "Flatten": (STATIC, "u = Flatten(t)", {}),
        "Flatten, unknown extents": ("float[?,?] x", "u = Flatten<axis=-1>(t)", {}),
        "Flatten, one row": ("float[1,n] x", "u = Flatten<axis=0>(t)", {}),
        "Flatten, one column": ("float[3,1] x", "u = Flatten<axis=2>(t)", {}),
        "Squeeze, nothing of extent 1": (STATIC, "u = Squeeze(t)", {}),
        "Squeeze, empty axes and nothing of extent 1": (STATIC, "u = Squeeze(t, s)", ints(s=[])),
        "Unsqueeze, no axes": ("float[?,n] x", "u = Unsqueeze(t, s)", ints(s=[])),
        "Expand, same extents": (STATIC, "u = Expand(t, s)", ints(s=[2, 3])),
        "Expand by ones": (OPEN, "u = Expand(t, s)", ints(s=[1, 1])),
        "Expand, lower rank": ("float[n,3] x", "u = Expand(t, s)", ints(s=[3])),
        "Expand to a scalar's shape": (OPEN, "u = Expand(t, s)", ints(s=[])),
        "Expand of nothing": (NOTHING, "u = Expand(t, s)", ints(s=[1, 3])),
        "Tile": (OPEN, "u = Tile(t, s)", ints(s=[1, 1])),
        "Tile of nothing": (NOTHING, "u = Tile(t, s)", ints(s=[5, 1])),
        "Slice, all axes": (STATIC, "u = Slice(t, s, e)", ints(s=[0, 0], e=[2, 3])),
        "Slice, beyond the end": (STATIC, "u = Slice(t, s, e, a)", ints(s=[0], e=[9], a=[-1])),
        "Slice, from behind": (STATIC, "u = Slice(t, s, e, a, p)", ints(s=[-3], e=[3], a=[1], p=[1])),
        "Slice, before the beginning": (STATIC, "u = Slice(t, s, e, a)", ints(s=[-9], e=[3], a=[1])),
        "Slice, open end": (OPEN, "u = Slice(t, s, e, a)", ints(s=[0], e=[2**63 - 1], a=[0])),
        "Slice, 32-bit open end": ("float[?,?] x", "u = Slice(t, s, e)", ints(s=[0], e=[2**31 - 1])),
        "one reversed": ("float[1,n] x", "u = Slice(t, s, e, a, p)", ints(s=[-1], e=[-9], a=[0], p=[-1])),
        "one of one": ("float[2,1] x", "u = Slice(t, s, e, a, p)", ints(s=[0], e=[2], a=[1], p=[2])),
        "Slice of nothing": (NOTHING, "u = Slice(t, s, e)", ints(s=[3], e=[5])),
        "Pad": (OPEN, "u = Pad(t, s)", ints(s=[0, 0, 0, 0])),
        "Pad, reflecting": (OPEN, 'u = Pad<mode="reflect">(t, s)', ints(s=[0, 0, 0, 0])),
        "Pad by the edge": (OPEN, 'u = Pad<mode="edge">(t, s)', ints(s=[0, 0, 0, 0])),
        "Einsum": (OPEN, 'u = Einsum<equation="ij->ij">(t)', {}),
        "Einsum, any rank": (OPEN, 'u = Einsum<equation="b ... -> b ...">(t)', {}),
        "Trilu of a row": ("float[1,n] x", "u = Trilu(t)", {}),
        "Trilu of a column": ("float[n,1] x", "u = Trilu<upper=0>(t)", {}),
        "Trilu, above a low diagonal": ("float[3,n] x", "u = Trilu(t, s)", {"s": np.array(-2)}),
        "Trilu, below a high one": ("float[n,3] x", "u = Trilu<upper=0>(t, s)", {"s": np.array(2)}),
    },
)
def test_becomes(x: str, node: str, weights: dict[str, Any]) -> None:
    becomes(around(x, node), without(x), *RULES, weights=weights)


no_op_movement = Rewrites("g ({x}) => (float[] y)", *RULES, x="float[n,k] x")

test_becomes_with_four_dims = no_op_movement.using(opset=18, x="float[n,4,2,3] x").all_become("""
    DepthToSpace: t = Neg(x) u = DepthToSpace<blocksize=1>(t) y = Relu(u) => t = Neg(x) y = Relu(t)
    DepthToSpace, other order: t = Neg(x) u = DepthToSpace<blocksize=1,mode="CRD">(t) y = Relu(u)
        => t = Neg(x) y = Relu(t)
    SpaceToDepth: t = Neg(x) u = SpaceToDepth<blocksize=1>(t) y = Relu(u) => t = Neg(x) y = Relu(t)
    Pad, some axes: t = Neg(x) u = Pad(t, [0,0], , [-1]) y = Relu(u) => t = Neg(x) y = Relu(t)
    CenterCropPad [x=float[2,4,2,3] x]: t = Neg(x) u = CenterCropPad(t, [2,4,2,3]) y = Relu(u) => t = Neg(x) y = Relu(t)
    CenterCropPad, some axes [x=float[2,4,2,3] x]: t = Neg(x) u = CenterCropPad<axes=[-1,1]>(t, [3,4]) y = Relu(u)
        => t = Neg(x) y = Relu(t)
    Reshape, all sorts [x=float[n,m,2,3] x]: t = Neg(x) u = Reshape(t, [0,-1,2,0]) y = Relu(u) => t = Neg(x) y = Relu(t)
""")

test_becomes_producer_of_an_output = no_op_movement.all_become("""
    Reshape, both copied: t = Neg(x) y = Reshape(t, [0,0]) => y = Neg(x)
    Reshape, one copied, one open: t = Neg(x) y = Reshape(t, [0,-1]) => y = Neg(x)
    Reshape, unknown extents [x=float[?,?] x]: t = Neg(x) y = Reshape(t, [0,-1]) => y = Neg(x)
    Expand: t = Neg(x) y = Expand(t, [1]) => y = Neg(x)
    Tile: t = Neg(x) y = Tile(t, [1,1]) => y = Neg(x)
    Flatten: t = Neg(x) y = Flatten(t) => y = Neg(x)
    Unsqueeze [graph=g (float[n,k] x) => (float[] y) <int64[0] s = {}>]: t = Neg(x) y = Unsqueeze(t, s) => y = Neg(x)
""")

test_becomes_elsewhere = no_op_movement.all_become("""
    a list has one length [x=float[n] x, float[m] z]: s = Shape(z) t = Neg(x) u = Reshape(t, [-1]) y = Relu(u)
        => s = Shape(z) t = Neg(x) y = Relu(t)
    a scalar [graph=g (float x) => (float[] y) <int64[0] w = {}>]:
        u = Expand(x, w) v = Tile(u, w) r = Squeeze(v) y = Neg(r) => y = Neg(x)
    strings [graph=g (string[2,3] x) => (string[] y)]: u = Reshape(x, [2,3]) v = Tile(u, [1,1]) y = Concat<axis=0>(v, x)
        => y = Concat<axis=0>(x, x)
    from input to output [x=float[2,3] x]: y = Reshape(x, [2,3]) => y = Identity(x)
    from output to output [graph=g (float[2,3] x) => (float[2,3] t, float[] y)]: t = Relu(x) y = Reshape(t, [2,3])
        => t = Relu(x) y = Identity(t)
    overridable initializer [x=float[2,3] x = {1,2,3,4,5,6}]: t = Tile(x, [1,1]) y = Neg(t) => y = Neg(x)
    inside an If body, captured [x=bool c, float[2,3] x]: y = If(c) <then_branch = a () => (float[p,q] r) {
        t = Reshape(x, [2,3]) r = Neg(t) }, else_branch = b () => (float[p,q] e) { e = Relu(x) }> =>
        y = If(c) <then_branch = a () => (float[p,q] r) { r = Neg(x) }, else_branch = b () => (float[p,q] e) {
        e = Relu(x) }>
""")
test_becomes_elsewhere_stays = no_op_movement.using(runs=False).all_stay("""
    valid only if the bounds match [x=float[2,3] x, int64[2] e]:
        t = Slice(x, [0,0], e) u = Reshape(t, [2,3]) v = Slice(u, [0,0], e) r = Reshape(v, [2,3]) y = Neg(r)
""")


@each("node", ["Slice(x, z, e)", "Reshape(x, e)", "Expand(x, e)", "Tile(x, e)"])
def test_declared_shape_is_used(node: str) -> None:
    """The bounds are known at run time only; the type shows that the shape is unchanged."""
    text = "g (float[2,3] x, int64[2] e) => (float[2,3] y) "
    before = f"<float[2,3] t, int64[2] z = {{0, 0}}> {{ t = {node} y = Relu(t) }}"
    becomes(text + before, text + "{ y = Relu(x) }", *RULES, runs=False)


@each(
    ("opset", "node", "weights"),
    [
        (7, "u = Reshape(t, s)", ints(s=[2, 3])),
        (11, "u = Flatten<axis=-1>(t)", {}),
        (11, "u = Squeeze(t)", {}),
        (8, "u = Expand(t, s)", ints(s=[2, 1])),
        (7, "u = Tile(t, s)", ints(s=[1, 1])),
        (7, "u = Slice<starts=[0],ends=[3],axes=[1]>(t)", {}),
        (9, "u = Slice<starts=[0,0],ends=[2,9]>(t)", {}),
        (10, "u = Slice(t, s, e)", ints(s=[0], e=[2])),
        (26, "u = Slice(t, s, e)", ints(s=[0], e=[2])),
        (7, "u = Pad<pads=[0,0,0,0]>(t)", {}),
        (10, 'u = Pad<pads=[0,0,0,0],mode="edge">(t)', {}),
        (11, "u = Pad(t, s)", ints(s=[0, 0, 0, 0])),
        (19, 'u = Pad<mode="wrap">(t, s)', ints(s=[0, 0, 0, 0])),
        (26, "u = Pad(t, s, , a)", ints(s=[0, 0], a=[1])),
        (26, "u = Reshape(t, s)", ints(s=[0, -1])),
    ],
)
def test_every_opset(opset: int, node: str, weights: dict[str, Any]) -> None:
    becomes(around(STATIC, node), without(STATIC), *RULES, opset=opset, weights=weights)


test_stays = no_op_movement.using(runs=False).all_stay("""
    Reshape, other extents [x=float[2,3] x]: t = Neg(x) u = Reshape(t, [3,2]) y = Relu(u)
    Reshape, one open [x=float[2,3] x]: t = Neg(x) u = Reshape(t, [-1,2]) y = Relu(u)
    Reshape, another rank [graph=g (float[2,3] x) => (float[p,q] y)]: t = Neg(x) u = Reshape(t, [1,2,3]) y = Relu(u)
    Reshape, an open extent is given: t = Neg(x) u = Reshape(t, [-1,3]) y = Relu(u)
    Reshape joins dims [x=float[n,m,2] x]: t = Neg(x) u = Reshape(t, [0,-1]) y = Relu(u)
    Reshape, shape given at run time [x=float[n,n] x, int64[2] s]: t = Neg(x) u = Reshape(t, s) y = Relu(u)
    Flatten joins dims [x=float[2,3,4] x]: t = Neg(x) u = Flatten(t) y = Relu(u)
    Flatten, one row of all: t = Neg(x) u = Flatten<axis=0>(t) y = Relu(u)
    Flatten of a list [x=float[n] x]: t = Neg(x) u = Flatten<axis=0>(t) y = Relu(u)
    Flatten, one column of all [x=float[1,n] x]: t = Neg(x) u = Flatten<axis=2>(t) y = Relu(u)
    Squeeze, unknown extents [graph=g (float[n,k] x) => (float[p,q] y)]: t = Neg(x) u = Squeeze(t) y = Relu(u)
    Squeeze, an extent of 1 [graph=g (float[1,3] x) => (float[p,q] y)]: t = Neg(x) u = Squeeze(t) y = Relu(u)
    Squeeze, empty axes, an extent of 1 [graph=g (float[1,3] x) => (float[] y) <int64[0] s = {}>]:
        t = Neg(x) u = Squeeze(t, s) y = Relu(u)
    Squeeze of an axis [graph=g (float[1,3] x) => (float[p,q] y)]: t = Neg(x) u = Squeeze(t, [0]) y = Relu(u)
    Unsqueeze of an axis [graph=g (float[n,k] x) => (float[p,q] y)]: t = Neg(x) u = Unsqueeze(t, [-1]) y = Relu(u)
    Expand stretches [x=float[n,1] x]: t = Neg(x) u = Expand(t, [1,3]) y = Relu(u)
    Expand may stretch: t = Neg(x) u = Expand(t, [1,3]) y = Relu(u)
    Expand adds a dim: t = Neg(x) u = Expand(t, [1,1,1]) y = Relu(u)
    Tile by two: t = Neg(x) u = Tile(t, [1,2]) y = Relu(u)
    Tile by none: t = Neg(x) u = Tile(t, [0,1]) y = Relu(u)
    Slice, to an earlier end [x=float[2,3] x]: t = Neg(x) u = Slice(t, [0], [1]) y = Relu(u)
    Slice, to the last but one [x=float[2,3] x]: t = Neg(x) u = Slice(t, [0], [-1], [1]) y = Relu(u)
    Slice, from a later element [graph=g (float[2,3] x) => (float[] y) <int64[1] s = {1}, int64[1] a = {1}>]:
        t = Neg(x) u = Slice(t, s, [9], a) y = Relu(u)
    Slice, every other [x=float[2,3] x]: t = Neg(x) u = Slice(t, [0], [9], [1], [2]) y = Relu(u)
    Slice, reversed [graph=g (float[2,3] x) => (float[] y) <int64[1] s = {-1}, int64[1] p = {-1}>]:
        t = Neg(x) u = Slice(t, s, [-9], [1], p) y = Relu(u)
    Slice, an end that may come too early: t = Neg(x) u = Slice(t, [0], [100]) y = Relu(u)
    Slice, a start that may not be 0: t = Neg(x) u = Slice(t, [-100], [2147483647]) y = Relu(u)
    Slice, one axis of two: t = Neg(x) u = Slice(t, [0,1], [9223372036854775807,9223372036854775807]) y = Relu(u)
    Pad: t = Neg(x) u = Pad(t, [0,1,0,0]) y = Relu(u)
    Pad that shifts [x=float[2,3] x]: t = Neg(x) u = Pad(t, [0,-1,0,1]) y = Relu(u)
    Pad, reflecting [x=float[2,3] x]: t = Neg(x) u = Pad<mode="reflect">(t, [1,0,0,0]) y = Relu(u)
    Einsum, transposed [x=float[2,3] x]: t = Neg(x) u = Einsum<equation="ij->ji">(t) y = Relu(u)
    Einsum of a diagonal [x=float[n,n] x]: t = Neg(x) u = Einsum<equation="ii->ii">(t) y = Relu(u)
    Einsum of two [x=float[2,3] x]: t = Neg(x) u = Einsum<equation="ij,ij->ij">(t, t) y = Relu(u)
    Trilu [x=float[2,3] x]: t = Neg(x) u = Trilu(t) y = Relu(u)
    Trilu, cuts a corner [x=float[3,n] x]: t = Neg(x) u = Trilu(t, -1) y = Relu(u)
    Trilu, cuts the other corner [x=float[n,3] x]: t = Neg(x) u = Trilu<upper=0>(t, 1) y = Relu(u)
    Trilu, open extent [x=float[n,1] x]: t = Neg(x) u = Trilu(t) y = Relu(u)
""")

test_stays_elsewhere = no_op_movement.using(runs=False).all_stay("""
    given at run time [x=float[2,3] x, int64[2] s]: y = Reshape(x, s)
    Expand, unknown [x=float[1,3] x, int64[2] s]: y = Expand(x, s)
    Tile, unknown [x=float[2,3] x, int64[2] s]: y = Tile(x, s)
    Pad, unknown [x=float[2,3] x, int64[4] s]: y = Pad(x, s)
    a name is not a proof [x=float[n,3] x, int64[2] s]: y = Reshape(x, s)
    overridable shape [x=float[2,3] x, int64[2] s = {2,3}]: y = Reshape(x, s)
    DepthToSpace [x=float[n,4,2,3] x]: y = DepthToSpace<blocksize=2>(x)
    SpaceToDepth [x=float[n,4,2,2] x]: y = SpaceToDepth<blocksize=2>(x)
    allowzero [x=float[2,3] x]: y = Reshape<allowzero=1>(x, [3,2])
    Slice, a wrong declaration [x=float[10,3] x]: y = Slice(x, [0], [9])
    Squeeze, a declared rank [graph=g (float[1,3] x) => (float[1,3] y)]: y = Squeeze(x, [0])
""")

BOUNDS = st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, -1, 1, 2]))


def selected(extent: int, start: int, end: int, step: int) -> range:
    """The indices that Slice-13 selects: other than Python, it has a negative step begin within the extent."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    least, most = (0, extent) if step > 0 else (-1, extent - 1)
    return range(min(max(start, 0), most), min(max(end, least), most), step)


@given(extent=st.integers(0, 3), bounds=BOUNDS)
def test_slice_is_dropped_only_if_it_selects_all(extent: int, bounds: tuple[int, int, int]) -> None:
    start, end, step = bounds
    weights = ints(s=[start], e=[end], a=[0], p=[step])
    text, whole = around(f"float[{extent},2] x", "u = Slice(t, s, e, a, p)"), without(f"float[{extent},2] x")
    if selected(extent, start, end, step) == range(extent):
        becomes(text, whole, *RULES, weights=weights)
    else:
        stays(text, *RULES, weights=weights)


@given(dims=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
def test_reshape_is_dropped_only_if_shapes_are_equal(dims: list[int], data: st.DataObject) -> None:
    copied = data.draw(st.sets(st.integers(0, len(dims) - 1)))
    entries = [0 if i in copied else d for i, d in enumerate(data.draw(st.permutations(dims)))]
    if 0 in entries or np.prod(entries) == np.prod(dims):
        x = f"float[{','.join(map(str, dims))}] x"
        kept = all(e in (0, d) for e, d in zip(entries, dims, strict=True))
        text, weights = around(x, "u = Reshape(t, s)", len(dims)), ints(s=entries)
        if kept:
            becomes(text, without(x, len(dims)), *RULES, weights=weights)
        else:
            stays(text, *RULES, weights=weights, runs=False)
