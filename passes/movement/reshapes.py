"""Merging of Reshape, Flatten, Squeeze and Unsqueeze."""

from __future__ import annotations

from itertools import pairwise

from ...core import EXACT, Build, Declined, Op, RulePass, Value, require, rule
from ...core.ir.dims import Shape
from ...core.ir.expressions import prod
from ..support.operand_queries import inferred_shape, same_shape
from .reshape_targets import RESHAPE_OPS, SQUEEZE_OPS, map_axes, reshape_target


@rule(
    lambda g, x, inner, outer: g.one_of(*RESHAPE_OPS)(g.one_of(*RESHAPE_OPS)(x, ...) @ inner, ...) @ outer,
    shared=True,
    contract=EXACT,
)
def merge_reshapes(g: Build, x: Value, inner: Op, outer: Op) -> Value:
    """Reshape(Reshape(x, s), t) => Reshape(x, t), or x; so any two of Reshape, Flatten, Squeeze, Unsqueeze"""
    made = inferred_shape(outer)
    if same_shape(made, x.known_shape or ()):
        return x
    if {inner.type, outer.type} <= SQUEEZE_OPS and (done := build_squeeze_or_unsqueeze(g, x, inner, outer)) is not None:
        return done
    if outer.type == "Flatten" and inner.type != "Reshape":
        return g.Flatten(x, axis=flatten_axis(x.shape, made))
    return g.Reshape(x, shape=reshape_target(x, made, inner, outer))


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def transpose_to_reshape(g: Build, x: Value, p: list[int] | None) -> Value:
    """Transpose(x, p) => Reshape(x), where all that change places are of extent 1"""
    shape = x.shape
    order = [i for i in (range(len(shape))[::-1] if p is None else p) if shape[i] != 1]
    require(all(i < j for i, j in pairwise(order)), "the permutation moves elements")
    made = tuple(shape[i] for i in (p or range(len(shape))[::-1]))
    return x if same_shape(made, shape) else g.Reshape(x, shape=reshape_target(x, made))


def flatten_axis(shape: Shape, made: Shape) -> int:
    """The axis of a Flatten of `shape` to `made`."""
    dims = [d for d in shape if d is not None]
    require(len(dims) == len(shape), "an extent is unknown")
    for axis in range(len(dims) + 1):
        if same_shape((prod(dims[:axis]), prod(dims[axis:])), made):
            return axis
    raise Declined("Flatten splits the dims elsewhere")


def build_squeeze_or_unsqueeze(g: Build, x: Value, inner: Op, outer: Op) -> Value | None:
    """Build one Squeeze or Unsqueeze of `x` for two of them, or `x`; None where both are needed."""
    shape = x.shape
    axes = map_axes(outer, map_axes(inner, list(range(len(shape)))))
    left = [a for a in axes if a is not None]
    behind = [i for i in left if shape[i] != 1]  # ones may change places
    gone = [(sum(j < i for j in behind), i) for i in range(len(shape)) if i not in left]
    new: list[tuple[int, int]] = []
    before = 0
    for i, axis in enumerate(axes):
        if axis is not None:
            before += shape[axis] != 1
        else:
            new.append((before, i))
    _cancel(gone, new)
    if gone and new:
        return None
    if new:
        return g.Unsqueeze(x, axes=[i for _, i in new])
    return g.Squeeze(x, axes=[i for _, i in gone]) if gone else x


def _cancel(gone: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
    """Remove pairs of a removed and a new 1 after the same dims."""
    for pair in tuple(gone):
        same = next((n for n in new if n[0] == pair[0]), None)
        if same is not None:
            new.remove(same)
            gone.remove(pair)


MERGE_RESHAPES = RulePass("merge-reshapes", (merge_reshapes,))
TRANSPOSE_TO_RESHAPE = RulePass("transpose-to-reshape", (transpose_to_reshape,))
