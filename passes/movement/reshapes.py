"""Reshape, Flatten, Squeeze and Unsqueeze only rename the axes of the same elements: a chain of them is one of them."""

from __future__ import annotations

from itertools import pairwise

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from .extents import RESHAPES, Extents, Kept, entries, kept, reshaped, restores, settled, sharpened

AXES_ONLY = frozenset({"Squeeze", "Unsqueeze"})


@rule(
    lambda g, x, a, b, inner, outer: g.one_of(*RESHAPES)(g.one_of(*RESHAPES)(x, *a) @ inner, *b) @ outer,
    shared=True,
    contract=EXACT,
)
def merge_reshapes(
    g: Build, x: Value, a: tuple[Value | None, ...], b: tuple[Value | None, ...], inner: Op, outer: Op
) -> Value:
    """Reshape(Reshape(x, s), t) => Reshape(x, t), or x; so any two of Reshape, Flatten, Squeeze, Unsqueeze"""
    between = settled(reshaped(inner, kept(x), x), x)
    if outer.type == "Flatten" and between is not None and inner.type != "Reshape":
        return g.Flatten(x, axis=_flattens_at(inner, outer, between, x.rank))
    extents = settled(reshaped(outer, between, x), x)
    require(extents is not None, "the shape between them is unknown")
    assert extents is not None
    if {inner.type, outer.type} <= AXES_ONLY and (done := by_axes(g, x, extents)) is not None:
        return done
    extents = sharpened(extents, outer.outputs[0], x)
    return x if restores(extents, x) else g.Reshape(x, shape=entries(extents, x))


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def transpose_ones_by_reshape(g: Build, x: Value, p: list[int] | None) -> Value:
    """Transpose(x, p) => Reshape(x), where all that change places are of extent 1"""
    shape = x.shape
    order = [i for i in (range(len(shape))[::-1] if p is None else p) if shape[i] != 1]
    require(all(i < j for i, j in pairwise(order)), "it moves elements")
    extents: Extents = [1 if shape[i] == 1 else Kept(i) for i in (p or range(len(shape))[::-1])]
    return x if restores(extents, x) else g.Reshape(x, shape=entries(extents, x))


def _flattens_at(inner: Op, outer: Op, between: Extents, rank: int) -> int:
    """Where a Flatten of `x` itself parts it as `outer` parts what `inner` makes of it."""
    axis = int(outer.attr("axis", 1))
    axis += len(between) if axis < 0 else 0
    if inner.type == "Flatten":
        first = int(inner.attr("axis", 1))
        return (0, first, rank)[axis]
    return next((e.axis for e in between[axis:] if isinstance(e, Kept)), rank)


def by_axes(g: Build, x: Value, extents: Extents) -> Value | None:
    """One Squeeze or Unsqueeze for what two of them did, or `x`; None where it takes both."""
    shape = x.shape
    left = [e.axis for e in extents if isinstance(e, Kept)]
    behind = [i for i in left if shape[i] != 1]  # ones may change places
    gone = [(sum(j < i for j in behind), i) for i in range(len(shape)) if i not in left]
    new: list[tuple[int, int]] = []
    before = 0
    for i, e in enumerate(extents):
        if isinstance(e, Kept):
            before += shape[e.axis] != 1
        else:
            new.append((before, i))
    _cancel(gone, new)
    if gone and new:
        return None
    if new:
        return g.Unsqueeze(x, axes=[i for _, i in new])
    return g.Squeeze(x, axes=[i for _, i in gone]) if gone else x


def _cancel(gone: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
    """Drop pairs of a lost and a new 1 with the same dims before them: one stands for the other."""
    for pair in tuple(gone):
        same = next((n for n in new if n[0] == pair[0]), None)
        if same is not None:
            new.remove(same)
            gone.remove(pair)


MERGE_RESHAPES = RulePass("merge-reshapes", (merge_reshapes,))
RESHAPE_TRANSPOSES = RulePass("reshape-transposes", (transpose_ones_by_reshape,))
