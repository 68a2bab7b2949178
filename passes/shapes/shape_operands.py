"""Folding of the shape operands of Reshape, Expand, Slice and Resize."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core import EXACT, Build, Graph, Ledger, Op, RulePass, Value, conditional, require, rule, same_extent
from ...core.inference.input_queries import INT64_MAX, slice_bounds
from ...core.ir.dims import Dim, Elements, as_integers
from ...core.ir.expressions import divide
from ...core.rewriting.driver import rewrite
from ...core.verify.empty_tensor_support import supports_empty_tensors
from ..support.operand_queries import known


@rule(lambda g, x, shape, reshape: g.Reshape(x, shape) @ reshape, contract=EXACT)
def fold_reshape_shape(g: Build, x: Value, shape: Value, reshape: Op) -> Value:
    """Reshape(x, computed) => Reshape(x, numbers, 0 for a kept extent, -1 where nothing else is open)"""
    target = _reshape_target(x, shape, reshape)
    asked = shape.known_elements or ()
    fails_alike = -1 in target and asked[target.index(-1) :][:1] == (-1,) and not reshape.attr("allowzero", 0)
    others = [n for n in target if n != -1]
    require(-1 not in target or fails_alike or all(n > 0 for n in others), "-1 is invalid next to an extent of 0")
    return g.Reshape(x, g.const(np.array(target, np.int64)))


@rule(lambda g, x, shape, reshape: g.Reshape(x, shape) @ reshape, contract=conditional("no extent is 0"))
def fold_dynamic_reshape_shape(g: Build, x: Value, shape: Value, reshape: Op) -> Value:
    """Reshape(x, computed) => Reshape(x, numbers, 0 for a kept extent, -1 for the one extent that is open)"""
    return g.Reshape(x, g.const(np.array(_reshape_target(x, shape, reshape), np.int64)))


def _reshape_target(x: Value, shape: Value, reshape: Op) -> list[int]:
    """The constant that gives the same shape; declines if more than one extent would have to be worked out."""
    require(not shape.is_const, "the shape is constant already")
    target = [_target_dim(d, x, i) for i, d in enumerate(reshape.outputs[0].shape)]
    require(target.count(-1) <= 1, "more than one extent is unknown")
    require(-1 not in target or 0 not in reshape.outputs[0].shape, "-1 is invalid next to an extent of 0")
    return target


def _target_dim(extent: Dim, x: Value, i: int) -> int:
    if i < x.rank and same_extent(extent, x.shape[i]):
        return 0
    require(extent != 0, "a target of 0 would copy the input's extent")
    return extent if isinstance(extent, int) else -1


def _required_elements(v: Value) -> Elements:
    return known(v.known_elements, f"the elements of {v.name} are unknown")


@rule(lambda g, x, shape: g.Expand(x, shape), contract=EXACT)
def fold_expand_shape(g: Build, x: Value, shape: Value) -> Value:
    """Expand(x, computed) => Expand(x, numbers, 1 for a kept extent)"""
    require(not shape.is_const, "the shape is constant already")
    asked = _required_elements(shape)
    require(len(asked) >= x.rank, "the target shape has fewer dims than x")
    lead = len(asked) - x.rank
    target = [1 if i >= lead and same_extent(e, x.shape[i - lead]) else e for i, e in enumerate(asked)]
    return g.Expand(x, g.const(np.array(known(as_integers(target), "an extent is unknown"), np.int64)))


@rule(lambda g, x, starts, ends, slice_: g.Slice(x, starts, ends, ...) @ slice_, contract=EXACT)
def fold_slice_bounds(g: Build, x: Value, starts: Value, ends: Value, slice_: Op) -> Value:
    """Slice(x, start, computed) => Slice(x, start, to the end), where the end is the extent"""
    require(not (starts.is_const and ends.is_const), "the bounds are constant already")
    require(bool(_required_elements(starts)) and bool(_required_elements(ends)), "the bounds are empty")
    bounds = slice_bounds(slice_, x.rank)
    begin, end = [], []
    for axis, (first, last, step) in bounds.items():
        require(isinstance(first, int), "a start is computed")
        whole = step > 0 and same_extent(last, x.shape[axis])
        require(whole or isinstance(last, int), "an end is computed")
        begin.append(first)
        end.append(INT64_MAX if whole else last)
    steps = [step for _, _, step in bounds.values()]
    numbers = [np.array(n, np.int64) for n in (begin, end, list(bounds), steps)]
    return g.Slice(x, *(g.const(n) for n in (numbers if set(steps) != {1} else numbers[:3])))


@rule(lambda g, x, sizes, resize, roi=None, scales=None: g.Resize(x, roi, scales, sizes) @ resize, contract=EXACT)
def resize_sizes_to_scales(g: Build, x: Value, roi: Value | None, sizes: Value, resize: Op) -> Value:
    """Resize(x, sizes=computed) => Resize(x, scales), where they are whole multiples of the extents"""
    require(not sizes.is_const, "the sizes are constant already")
    require(resize.attr("keep_aspect_ratio_policy", "stretch") == "stretch", "the sizes may be changed")
    require(resize.attr("coordinate_transformation_mode") != "tf_crop_and_resize", "the scale depends on roi")
    asked, dims = _required_elements(sizes), x.shape
    require(resize.attr("axes") is None and len(asked) == len(dims), "the sizes do not cover all axes")
    factors = [divide(e, d) if d is not None and d != 0 else None for e, d in zip(asked, dims, strict=True)]
    numbers = [f for f in factors if isinstance(f, int) and f > 0]
    require(len(numbers) == len(factors), "the sizes are not integer multiples of the extents")
    return g.Resize(x, roi, g.const(np.array(numbers, np.float32)), None, **resize.attrs)


FOLD_SHAPE_OPERANDS = RulePass(
    "fold-shape-operands", (fold_reshape_shape, fold_expand_shape, fold_slice_bounds, resize_sizes_to_scales)
)


@dataclass(frozen=True, slots=True)
class FoldDynamicShapeOperands:
    """As fold-shape-operands, with a -1 beside extents that may be 0, in models with ops that refuse those."""

    name: str = "fold-dynamic-shape-operands"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Apply the rule, unless the whole model runs on tensors without elements. O(ops)."""
        return 0 if supports_empty_tensors(graph) else rewrite(graph, (fold_dynamic_reshape_shape,), ledger).total()
