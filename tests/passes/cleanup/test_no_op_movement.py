"""Reshape, Slice, Pad and other data movement without effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from rewriting import becomes, stays

DROP_NO_OP_MOVEMENT = rule_pass(no_ops, "drop-no-op-movement")

RULES = DROP_NO_OP_MOVEMENT.rules
STATIC, OPEN, NOTHING = "float[2,3] x", "float[n,k] x", "float[0,3] x"
IF = (
    "g (bool c, float[2,3] x) => (float[p,q] y) <int64[2] s = {{2, 3}}> {{ y = If (c) <then_branch = a () =>"
    " (float[p,q] r) {{ {} }}, else_branch = b () => (float[p,q] e) {{ e = Relu(x) }}> }}"
)


def ints(**values: list[int]) -> dict[str, Any]:
    """Initializers of int64 numbers."""
    return {name: np.array(v, np.int64) for name, v in values.items()}


def around(x: str, node: str, rank: int = 2) -> str:
    """A model in which `node` computes `u` from `t`, both inner values."""
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ t = Neg(x) {node} y = Relu(u) }}"


def without(x: str, rank: int = 2) -> str:
    """The same model without the node."""
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) {{ t = Neg(x) y = Relu(t) }}"


@pytest.mark.parametrize(
    ("x", "node", "weights"),
    [
        pytest.param(STATIC, "u = Reshape(t, s)", ints(s=[2, 3]), id="Reshape, same extents"),
        pytest.param(STATIC, "u = Reshape(t, s)", ints(s=[-1, 3]), id="Reshape, one open"),
        pytest.param(OPEN, "u = Reshape(t, s)", ints(s=[0, 0]), id="Reshape, both copied"),
        pytest.param(OPEN, "u = Reshape(t, s)", ints(s=[0, -1]), id="Reshape, one copied, one open"),
        pytest.param("float[n,4] x", "u = Reshape(t, s)", ints(s=[-1, 4]), id="Reshape, open batch"),
        pytest.param("float[0,3] x", "u = Reshape<allowzero=1>(t, s)", ints(s=[0, 3]), id="Reshape, zero is meant"),
        pytest.param("float[?,?] x", "u = Reshape(t, s)", ints(s=[0, 0]), id="Reshape, unknown extents"),
        pytest.param(STATIC, "u = Flatten(t)", {}, id="Flatten"),
        pytest.param("float[?,?] x", "u = Flatten<axis=-1>(t)", {}, id="Flatten, unknown extents"),
        pytest.param("float[1,n] x", "u = Flatten<axis=0>(t)", {}, id="Flatten, one row"),
        pytest.param("float[3,1] x", "u = Flatten<axis=2>(t)", {}, id="Flatten, one column"),
        pytest.param(STATIC, "u = Squeeze(t)", {}, id="Squeeze, nothing of extent 1"),
        pytest.param(STATIC, "u = Squeeze(t, s)", ints(s=[]), id="Squeeze, empty axes and nothing of extent 1"),
        pytest.param("float[?,n] x", "u = Unsqueeze(t, s)", ints(s=[]), id="Unsqueeze, no axes"),
        pytest.param(STATIC, "u = Expand(t, s)", ints(s=[2, 3]), id="Expand, same extents"),
        pytest.param(OPEN, "u = Expand(t, s)", ints(s=[1, 1]), id="Expand by ones"),
        pytest.param("float[n,3] x", "u = Expand(t, s)", ints(s=[3]), id="Expand, lower rank"),
        pytest.param(OPEN, "u = Expand(t, s)", ints(s=[]), id="Expand to a scalar's shape"),
        pytest.param(NOTHING, "u = Expand(t, s)", ints(s=[1, 3]), id="Expand of nothing"),
        pytest.param(OPEN, "u = Tile(t, s)", ints(s=[1, 1]), id="Tile"),
        pytest.param(NOTHING, "u = Tile(t, s)", ints(s=[5, 1]), id="Tile of nothing"),
        pytest.param(STATIC, "u = Slice(t, s, e)", ints(s=[0, 0], e=[2, 3]), id="Slice, all axes"),
        pytest.param(STATIC, "u = Slice(t, s, e, a)", ints(s=[0], e=[9], a=[-1]), id="Slice, beyond the end"),
        pytest.param(STATIC, "u = Slice(t, s, e, a, p)", ints(s=[-3], e=[3], a=[1], p=[1]), id="Slice, from behind"),
        pytest.param(STATIC, "u = Slice(t, s, e, a)", ints(s=[-9], e=[3], a=[1]), id="Slice, before the beginning"),
        pytest.param(OPEN, "u = Slice(t, s, e, a)", ints(s=[0], e=[2**63 - 1], a=[0]), id="Slice, open end"),
        pytest.param("float[?,?] x", "u = Slice(t, s, e)", ints(s=[0], e=[2**31 - 1]), id="Slice, 32-bit open end"),
        pytest.param(
            "float[1,n] x", "u = Slice(t, s, e, a, p)", ints(s=[-1], e=[-9], a=[0], p=[-1]), id="one reversed"
        ),
        pytest.param("float[2,1] x", "u = Slice(t, s, e, a, p)", ints(s=[0], e=[2], a=[1], p=[2]), id="one of one"),
        pytest.param(NOTHING, "u = Slice(t, s, e)", ints(s=[3], e=[5]), id="Slice of nothing"),
        pytest.param(OPEN, "u = Pad(t, s)", ints(s=[0, 0, 0, 0]), id="Pad"),
        pytest.param(OPEN, 'u = Pad<mode="reflect">(t, s)', ints(s=[0, 0, 0, 0]), id="Pad, reflecting"),
        pytest.param(OPEN, 'u = Pad<mode="edge">(t, s)', ints(s=[0, 0, 0, 0]), id="Pad by the edge"),
        pytest.param(OPEN, 'u = Einsum<equation="ij->ij">(t)', {}, id="Einsum"),
        pytest.param(OPEN, 'u = Einsum<equation="b ... -> b ...">(t)', {}, id="Einsum, any rank"),
        pytest.param("float[1,n] x", "u = Trilu(t)", {}, id="Trilu of a row"),
        pytest.param("float[n,1] x", "u = Trilu<upper=0>(t)", {}, id="Trilu of a column"),
        pytest.param("float[3,n] x", "u = Trilu(t, s)", {"s": np.array(-2)}, id="Trilu, above a low diagonal"),
        pytest.param("float[n,3] x", "u = Trilu<upper=0>(t, s)", {"s": np.array(2)}, id="Trilu, below a high one"),
    ],
)
def test_becomes(x: str, node: str, weights: dict[str, Any]) -> None:
    becomes(around(x, node), without(x), *RULES, weights=weights)


@pytest.mark.parametrize(
    ("x", "node", "weights"),
    [
        pytest.param("float[n,4,2,3] x", "u = DepthToSpace<blocksize=1>(t)", {}, id="DepthToSpace"),
        pytest.param(
            "float[n,4,2,3] x", 'u = DepthToSpace<blocksize=1,mode="CRD">(t)', {}, id="DepthToSpace, other order"
        ),
        pytest.param("float[n,4,2,3] x", "u = SpaceToDepth<blocksize=1>(t)", {}, id="SpaceToDepth"),
        pytest.param("float[n,4,2,3] x", "u = Pad(t, s, , a)", ints(s=[0, 0], a=[-1]), id="Pad, some axes"),
        pytest.param("float[2,4,2,3] x", "u = CenterCropPad(t, s)", ints(s=[2, 4, 2, 3]), id="CenterCropPad"),
        pytest.param(
            "float[2,4,2,3] x", "u = CenterCropPad<axes=[-1,1]>(t, s)", ints(s=[3, 4]), id="CenterCropPad, some axes"
        ),
        pytest.param("float[n,m,2,3] x", "u = Reshape(t, s)", ints(s=[0, -1, 2, 0]), id="Reshape, all sorts"),
    ],
)
def test_becomes_with_four_dims(x: str, node: str, weights: dict[str, Any]) -> None:
    becomes(around(x, node, 4), without(x, 4), *RULES, weights=weights, opset=18)


@pytest.mark.parametrize(
    ("x", "node", "weights"),
    [
        pytest.param(OPEN, "y = Reshape(t, s)", ints(s=[0, 0]), id="Reshape, both copied"),
        pytest.param(OPEN, "y = Reshape(t, s)", ints(s=[0, -1]), id="Reshape, one copied, one open"),
        pytest.param("float[?,?] x", "y = Reshape(t, s)", ints(s=[0, -1]), id="Reshape, unknown extents"),
        pytest.param(OPEN, "y = Expand(t, s)", ints(s=[1]), id="Expand"),
        pytest.param(OPEN, "y = Tile(t, s)", ints(s=[1, 1]), id="Tile"),
        pytest.param(OPEN, "y = Flatten(t)", {}, id="Flatten"),
        pytest.param(OPEN, "y = Unsqueeze(t, s)", ints(s=[]), id="Unsqueeze"),
    ],
)
def test_becomes_producer_of_an_output(x: str, node: str, weights: dict[str, Any]) -> None:
    g = f"g ({x}) => (float[p,q] y)"
    becomes(f"{g} {{ t = Neg(x) {node} }}", f"{g} {{ y = Neg(x) }}", *RULES, weights=weights)


@pytest.mark.parametrize(
    ("before", "after", "weights"),
    [
        pytest.param(
            "g (float[n] x, float[m] z) => (float[p] y) { s = Shape(z) t = Neg(x) u = Reshape(t, w) y = Relu(u) }",
            "g (float[n] x, float[m] z) => (float[p] y) { s = Shape(z) t = Neg(x) y = Relu(t) }",
            ints(w=[-1]),
            id="a list has one length",
        ),
        pytest.param(
            "g (float x) => (float y) { u = Expand(x, w) v = Tile(u, w) r = Squeeze(v) y = Neg(r) }",
            "g (float x) => (float y) { y = Neg(x) }",
            ints(w=[]),
            id="a scalar",
        ),
        pytest.param(
            "g (string[2,3] x) => (string[p,q] y) { u = Reshape(x, w) v = Tile(u, o) y = Concat<axis=0>(v, x) }",
            "g (string[2,3] x) => (string[p,q] y) { y = Concat<axis=0>(x, x) }",
            ints(w=[2, 3], o=[1, 1]),
            id="strings",
        ),
        pytest.param(
            "g (float[2,3] x) => (float[2,3] y) { y = Reshape(x, w) }",
            "g (float[2,3] x) => (float[2,3] y) { y = Identity(x) }",
            ints(w=[2, 3]),
            id="from input to output",
        ),
        pytest.param(
            "g (float[2,3] x) => (float[2,3] t, float[2,3] y) { t = Relu(x) y = Reshape(t, w) }",
            "g (float[2,3] x) => (float[2,3] t, float[2,3] y) { t = Relu(x) y = Identity(t) }",
            ints(w=[2, 3]),
            id="from output to output",
        ),
        pytest.param(
            "g (float[2,3] x = {1,2,3,4,5,6}) => (float[2,3] y) { t = Tile(x, w) y = Neg(t) }",
            "g (float[2,3] x = {1,2,3,4,5,6}) => (float[2,3] y) { y = Neg(x) }",
            ints(w=[1, 1]),
            id="overridable initializer",
        ),
        pytest.param(
            IF.format("t = Reshape(x, s) r = Neg(t)"), IF.format("r = Neg(x)"), {}, id="inside an If body, captured"
        ),
        pytest.param(
            "g (float[2,3] x, int64[2] e) => (float[p,q] y) { t = Slice(x, z, e) u = Reshape(t, w) v = Slice(u, z, e)"
            " r = Reshape(v, w) y = Neg(r) }",
            "g (float[2,3] x, int64[2] e) => (float[p,q] y) { t = Slice(x, z, e) u = Reshape(t, w) v = Slice(u, z, e)"
            " r = Reshape(v, w) y = Neg(r) }",
            ints(w=[2, 3], z=[0, 0]),
            id="valid only if the bounds match",
        ),
    ],
)
def test_becomes_elsewhere(before: str, after: str, weights: dict[str, Any]) -> None:
    if before == after:
        stays(before, *RULES, weights=weights, runs=False)
    else:
        becomes(before, after, *RULES, weights=weights)


@pytest.mark.parametrize("node", ["Slice(x, z, e)", "Reshape(x, e)", "Expand(x, e)", "Tile(x, e)"])
def test_declared_shape_is_used(node: str) -> None:
    """The bounds are known at run time only; the type shows that the shape is unchanged."""
    text = "g (float[2,3] x, int64[2] e) => (float[2,3] y) "
    before = f"<float[2,3] t, int64[2] z = {{0, 0}}> {{ t = {node} y = Relu(t) }}"
    becomes(text + before, text + "{ y = Relu(x) }", *RULES, runs=False)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("x", "node", "weights"),
    [
        pytest.param(STATIC, "u = Reshape(t, s)", ints(s=[3, 2]), id="Reshape, other extents"),
        pytest.param(STATIC, "u = Reshape(t, s)", ints(s=[-1, 2]), id="Reshape, one open"),
        pytest.param(STATIC, "u = Reshape(t, s)", ints(s=[1, 2, 3]), id="Reshape, another rank"),
        pytest.param(OPEN, "u = Reshape(t, s)", ints(s=[-1, 3]), id="Reshape, an open extent is given"),
        pytest.param("float[n,m,2] x", "u = Reshape(t, s)", ints(s=[0, -1]), id="Reshape joins dims"),
        pytest.param("float[n,n] x, int64[2] s", "u = Reshape(t, s)", {}, id="Reshape, shape given at run time"),
        pytest.param("float[2,3,4] x", "u = Flatten(t)", {}, id="Flatten joins dims"),
        pytest.param(OPEN, "u = Flatten<axis=0>(t)", {}, id="Flatten, one row of all"),
        pytest.param("float[n] x", "u = Flatten<axis=0>(t)", {}, id="Flatten of a list"),
        pytest.param("float[1,n] x", "u = Flatten<axis=2>(t)", {}, id="Flatten, one column of all"),
        pytest.param(OPEN, "u = Squeeze(t)", {}, id="Squeeze, unknown extents"),
        pytest.param("float[1,3] x", "u = Squeeze(t)", {}, id="Squeeze, an extent of 1"),
        pytest.param("float[1,3] x", "u = Squeeze(t, s)", ints(s=[]), id="Squeeze, empty axes, an extent of 1"),
        pytest.param("float[1,3] x", "u = Squeeze(t, s)", ints(s=[0]), id="Squeeze of an axis"),
        pytest.param(OPEN, "u = Unsqueeze(t, s)", ints(s=[-1]), id="Unsqueeze of an axis"),
        pytest.param("float[n,1] x", "u = Expand(t, s)", ints(s=[1, 3]), id="Expand stretches"),
        pytest.param(OPEN, "u = Expand(t, s)", ints(s=[1, 3]), id="Expand may stretch"),
        pytest.param(OPEN, "u = Expand(t, s)", ints(s=[1, 1, 1]), id="Expand adds a dim"),
        pytest.param(OPEN, "u = Tile(t, s)", ints(s=[1, 2]), id="Tile by two"),
        pytest.param(OPEN, "u = Tile(t, s)", ints(s=[0, 1]), id="Tile by none"),
        pytest.param(STATIC, "u = Slice(t, s, e)", ints(s=[0], e=[1]), id="Slice, to an earlier end"),
        pytest.param(STATIC, "u = Slice(t, s, e, a)", ints(s=[0], e=[-1], a=[1]), id="Slice, to the last but one"),
        pytest.param(STATIC, "u = Slice(t, s, e, a)", ints(s=[1], e=[9], a=[1]), id="Slice, from a later element"),
        pytest.param(STATIC, "u = Slice(t, s, e, a, p)", ints(s=[0], e=[9], a=[1], p=[2]), id="Slice, every other"),
        pytest.param(STATIC, "u = Slice(t, s, e, a, p)", ints(s=[-1], e=[-9], a=[1], p=[-1]), id="Slice, reversed"),
        pytest.param(OPEN, "u = Slice(t, s, e)", ints(s=[0], e=[100]), id="Slice, an end that may come too early"),
        pytest.param(OPEN, "u = Slice(t, s, e)", ints(s=[-100], e=[2**31 - 1]), id="Slice, a start that may not be 0"),
        pytest.param(OPEN, "u = Slice(t, s, e)", ints(s=[0, 1], e=[2**63 - 1] * 2), id="Slice, one axis of two"),
        pytest.param(OPEN, "u = Pad(t, s)", ints(s=[0, 1, 0, 0]), id="Pad"),
        pytest.param(STATIC, "u = Pad(t, s)", ints(s=[0, -1, 0, 1]), id="Pad that shifts"),
        pytest.param(STATIC, 'u = Pad<mode="reflect">(t, s)', ints(s=[1, 0, 0, 0]), id="Pad, reflecting"),
        pytest.param(STATIC, 'u = Einsum<equation="ij->ji">(t)', {}, id="Einsum, transposed"),
        pytest.param("float[n,n] x", 'u = Einsum<equation="ii->ii">(t)', {}, id="Einsum of a diagonal"),
        pytest.param(STATIC, 'u = Einsum<equation="ij,ij->ij">(t, t)', {}, id="Einsum of two"),
        pytest.param(STATIC, "u = Trilu(t)", {}, id="Trilu"),
        pytest.param("float[3,n] x", "u = Trilu(t, s)", {"s": np.array(-1)}, id="Trilu, cuts a corner"),
        pytest.param("float[n,3] x", "u = Trilu<upper=0>(t, s)", {"s": np.array(1)}, id="Trilu, cuts the other corner"),
        pytest.param("float[n,1] x", "u = Trilu(t)", {}, id="Trilu, open extent"),
    ],
)
def test_stays(x: str, node: str, weights: dict[str, Any]) -> None:
    stays(around(x, node, 2 if "1, 1, 1" not in str(weights) else 3), *RULES, weights=weights, runs=False)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        pytest.param(
            "g (float[2,3] x, int64[2] s) => (float[p,q] y) { y = Reshape(x, s) }", {}, id="given at run time"
        ),
        pytest.param("g (float[1,3] x, int64[2] s) => (float[p,q] y) { y = Expand(x, s) }", {}, id="Expand, unknown"),
        pytest.param("g (float[2,3] x, int64[2] s) => (float[p,q] y) { y = Tile(x, s) }", {}, id="Tile, unknown"),
        pytest.param("g (float[2,3] x, int64[4] s) => (float[p,q] y) { y = Pad(x, s) }", {}, id="Pad, unknown"),
        pytest.param(
            "g (float[n,3] x, int64[2] s) => (float[n,3] y) { y = Reshape(x, s) }", {}, id="a name is not a proof"
        ),
        pytest.param(
            "g (float[2,3] x, int64[2] s = {2,3}) => (float[p,q] y) { y = Reshape(x, s) }", {}, id="overridable shape"
        ),
        pytest.param(
            "g (float[n,4,2,3] x) => (float[p,q,r,s] y) { y = DepthToSpace<blocksize=2>(x) }", {}, id="DepthToSpace"
        ),
        pytest.param(
            "g (float[n,4,2,2] x) => (float[p,q,r,s] y) { y = SpaceToDepth<blocksize=2>(x) }", {}, id="SpaceToDepth"
        ),
        pytest.param(
            "g (float[2,3] x) => (float[p,q] y) { y = Reshape<allowzero=1>(x, s) }", ints(s=[3, 2]), id="allowzero"
        ),
        pytest.param(
            "g (float[10,3] x) => (float[10,3] y) { y = Slice(x, s, e) }",
            ints(s=[0], e=[9]),
            id="Slice, a wrong declaration",
        ),
        pytest.param(
            "g (float[1,3] x) => (float[1,3] y) { y = Squeeze(x, s) }", ints(s=[0]), id="Squeeze, a declared rank"
        ),
    ],
)
def test_stays_elsewhere(text: str, weights: dict[str, Any]) -> None:
    stays(text, *RULES, weights=weights, runs=False)


BOUNDS = st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, -1, 1, 2]))


@given(extent=st.integers(0, 3), bounds=BOUNDS)
def test_slice_is_dropped_only_if_it_selects_all(extent: int, bounds: tuple[int, int, int]) -> None:
    start, end, step = bounds
    weights = ints(s=[start], e=[end], a=[0], p=[step])
    text, whole = around(f"float[{extent},2] x", "u = Slice(t, s, e, a, p)"), without(f"float[{extent},2] x")
    if range(extent)[start:end:step] == range(extent):
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
