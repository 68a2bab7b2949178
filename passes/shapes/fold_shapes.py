"""Folding of shape computations: elements of shapes, reads of shapes, and operands that are shapes.

`simplify-shape-reads`: Simplification of reads of shapes.
`fold-shape-operands`: Folding of the shape operands of Reshape, Expand, Slice and Resize.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from onnx import helper

from ...core import (
    EXACT,
    ChangeLog,
    Graph,
    MatchFailure,
    Op,
    RewriteBuilder,
    Tensor,
    Value,
    conditional,
    require,
    rule,
    same_extent,
)
from ...core.ir.expressions import Dim, Elements, as_integers, divide
from ...core.operators.operands import INT64_MAX, slice_bounds
from ...core.operators.table import OPERATORS, UNKNOWN
from ...core.ort.empty_tensors import supports_empty_tensors
from ...core.rewriting.driver import Worklist, rewrite
from ..support.operand_queries import known, same_shape

shape_operand_rule = partial(rule, contract=EXACT, group="fold-shape-operands")


class FoldShapes(Struct, frozen=True):
    """Integers computed from shapes become constants where they are numbers, whatever the inputs."""

    name: str = "fold-shapes"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Fold in every graph. O(ops that compute with shapes)."""
        return sum(self._fold(g, change_log) for g in tuple(graph.with_subgraphs()) if g.can_hold_initializers)

    def _fold(self, g: Graph, change_log: ChangeLog) -> int:
        changes, makers = 0, list[Op]()
        for op in shape_computations(g):
            for v in op.outputs:
                elements = v.known_elements
                numbers = None if elements is None else as_integers(elements)
                if numbers is None or v.is_const or not _is_read(g, v):
                    continue
                if change_log.request_change(self.name, v.name, (op,)):
                    kind = helper.tensor_dtype_to_np_dtype(v.dtype)
                    g.make_constant(v, Tensor.from_array(np.array(numbers, kind).reshape(v.static_shape)))
                    makers.append(op)
                    changes += 1
        g.prune(makers)
        return changes


class MergeShapes(Struct, frozen=True):
    """Equal expressions of shapes that are computed twice are computed once."""

    name: str = "merge-shapes"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Merge within each graph. O(ops)."""
        return sum(self._merge(g, change_log) for g in tuple(graph.with_subgraphs()))

    def _merge(self, g: Graph, change_log: ChangeLog) -> int:
        inside = dict.fromkeys(shape_computations(g))
        if len(inside) < 2:
            return 0
        known: dict[tuple[int, int, Elements], Value] = {}
        changes = 0
        for op in [op for op in g.sorted_ops() if op in inside]:
            if op not in g:
                continue  # it fed one that is gone
            for v in op.outputs:
                if v.is_const or not v.known_elements or v in g.pinned or as_integers(v.known_elements) is not None:
                    continue
                first = known.setdefault((v.dtype, v.rank, v.known_elements), v)
                if g.producer(first) is None:  # all that read it was merged into others
                    first = known[v.dtype, v.rank, v.known_elements] = v
                replaceable = first is not v and _is_read(g, v) and not g.is_output(v)
                if replaceable and change_log.request_change(self.name, v.name, (op,)):
                    g.replace_uses(v, first)
                    g.prune([op])
                    changes += 1
        return changes


def shape_computations(g: Graph) -> Iterator[Op]:
    """Shape and Size, and the ops that compute with their elements. May be changed as it goes."""
    queue = Worklist()
    queue.add(g.ops("Shape", "Size"))
    done: dict[Op, None] = {}
    for op in queue:
        if op in done or op not in g or op.domain or OPERATORS.get(op.type, UNKNOWN).symbols is None:
            continue
        done[op] = None
        if any(v.known_elements is not None for v in op.outputs):
            readers = dict.fromkeys(user for v in op.outputs for user in v.consumers)
            yield op
            queue.add(readers)


def _is_read(g: Graph, v: Value) -> bool:
    return bool(v.consumers) or g.is_output(v)


MAX_OPS = 1000  # ops that a Shape is moved up at once


@rule(
    lambda g, x, i, gather: g.Gather(g.Shape(x), g.const(i)) @ gather,
    allow_other_uses=True,
    contract=EXACT,
    group="simplify-shape-reads",
)
def gather_of_shape_to_shape(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather(Shape(x), [i, i + 1, ...]) => Shape(x, start=i, end=...)"""
    require(g.opset >= 15, "before opset 15, Shape has no start and end")
    require(i.rank == 1 and i.const.size > 0, "the indices are not consecutive")
    places = [int(n) for n in i.const]
    require(all(-x.rank <= n < x.rank for n in places), "an index is out of range")
    first = places[0] % x.rank
    require([n % x.rank for n in places] == list(range(first, first + len(places))), "the dims are not consecutive")
    return g.Shape(x, start=first or None, end=first + len(places))


@rule(lambda g, xs: g.Concat(*xs, axis=0), contract=EXACT, group="simplify-shape-reads")
def concat_of_dims_to_shape(g: RewriteBuilder, xs: tuple[Value, ...]) -> Value:
    """Concat(some dims of x, more of them) => Shape(x, start, end), where they are a run of its dims"""
    wanted: list[Dim] = []
    for v in xs:
        found = v.known_elements
        require(found is not None and v.rank == 1, "the elements are unknown")
        wanted += found or ()
    require(len(xs) > 1 and not all(isinstance(e, int) for e in wanted), "the elements are numbers already")
    for source in dict.fromkeys(s for s in map(_shape_source, xs) if s is not None):
        for first in range(source.rank - len(wanted) + 1):
            run = source.shape[first : first + len(wanted)]
            if all(map(same_extent, run, wanted)):
                whole = len(run) == source.rank
                require(whole or g.opset >= 15, "before opset 15, Shape has no start and end")
                return g.Shape(source) if whole else g.Shape(source, start=first or None, end=first + len(run))
    raise MatchFailure("the pieces are not consecutive dims of one value")


def _shape_source(v: Value) -> Value | None:
    """The value whose dims `v` was taken from, found through a few ops."""
    for _ in range(4):
        maker = v.producer
        if maker is None or not maker.inputs or maker.inputs[0] is None:
            return None
        v = maker.inputs[0]
        if maker.type == "Shape" and not maker.domain:
            return v
    return None


@rule(lambda g, y, shape: g.Shape(y) @ shape, contract=EXACT, group="simplify-shape-reads")
def hoist_shape(g: RewriteBuilder, y: Value, shape: Op) -> Value:
    """Shape(f(x)) => Shape(x), where f keeps the shape, so that f(x) has one reader less"""
    earliest = y
    for _ in range(MAX_OPS):
        before = _same_shape_input(g, earliest)
        if before is None:
            break
        earliest = before
    require(earliest is not y, "no preceding value has the same shape")
    return g.Shape(earliest, **shape.attrs)


def _same_shape_input(g: RewriteBuilder, y: Value) -> Value | None:
    """A computed input of the op that makes `y`, with the same shape."""
    maker, shape = g.graph.producer(y), y.known_shape
    for v in maker.inputs if maker is not None and not maker.subgraphs and shape is not None else ():
        own = v.known_shape if v is not None and not v.is_const and v.type is None else None
        if own is not None and shape is not None and same_shape(own, shape):
            return v
    return None


@shape_operand_rule(lambda g, x, shape, reshape: g.Reshape(x, shape) @ reshape)
def fold_reshape_shape(g: RewriteBuilder, x: Value, shape: Value, reshape: Op) -> Value:
    """Reshape(x, computed) => Reshape(x, numbers, 0 for a kept extent, -1 where nothing else is open)"""
    target = _reshape_target(x, shape, reshape)
    asked = shape.known_elements or ()
    fails_alike = -1 in target and asked[target.index(-1) :][:1] == (-1,) and not reshape.attr("allowzero", 0)
    others = [n for n in target if n != -1]
    require(-1 not in target or fails_alike or all(n > 0 for n in others), "-1 is invalid next to an extent of 0")
    return g.Reshape(x, g.const(np.array(target, np.int64)))


NOT_EMPTY = conditional("no extent is 0", assume=lambda g, x: g.Greater(g.Size(x), 0))


@rule(lambda g, x, shape, reshape: g.Reshape(x, shape) @ reshape, contract=NOT_EMPTY)
def fold_dynamic_reshape_shape(g: RewriteBuilder, x: Value, shape: Value, reshape: Op) -> Value:
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


@shape_operand_rule(lambda g, x, shape: g.Expand(x, shape))
def fold_expand_shape(g: RewriteBuilder, x: Value, shape: Value) -> Value:
    """Expand(x, computed) => Expand(x, numbers, 1 for a kept extent)"""
    require(not shape.is_const, "the shape is constant already")
    asked = _required_elements(shape)
    require(len(asked) >= x.rank, "the target shape has fewer dims than x")
    lead = len(asked) - x.rank
    target = [1 if i >= lead and same_extent(e, x.shape[i - lead]) else e for i, e in enumerate(asked)]
    return g.Expand(x, g.const(np.array(known(as_integers(target), "an extent is unknown"), np.int64)))


@shape_operand_rule(lambda g, x, starts, ends, slice_: g.Slice(x, starts, ends, ...) @ slice_)
def fold_slice_bounds(g: RewriteBuilder, x: Value, starts: Value, ends: Value, slice_: Op) -> Value:
    """Slice(x, start, computed) => Slice(x, start, to the end), where the end is the extent"""
    require(not (starts.is_const and ends.is_const), "the bounds are constant already")
    require(bool(_required_elements(starts)) and bool(_required_elements(ends)), "the bounds are empty")
    bounds = slice_bounds(slice_, x.rank)
    begin, end = list[Dim](), list[Dim]()
    for axis, (first, last, step) in bounds.items():
        require(isinstance(first, int), "a start is computed")
        whole = step > 0 and same_extent(last, x.shape[axis])
        require(whole or isinstance(last, int), "an end is computed")
        begin.append(first)
        end.append(INT64_MAX if whole else last)
    steps = [step for _, _, step in bounds.values()]
    numbers = [np.array(n, np.int64) for n in (begin, end, list(bounds), steps)]
    return g.Slice(x, *(g.const(n) for n in (numbers if set(steps) != {1} else numbers[:3])))


@shape_operand_rule(lambda g, x, sizes, resize, roi=None, scales=None: g.Resize(x, roi, scales, sizes) @ resize)
def resize_sizes_to_scales(g: RewriteBuilder, x: Value, roi: Value | None, sizes: Value, resize: Op) -> Value:
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


class FoldDynamicShapeOperands(Struct, frozen=True):
    """As fold-shape-operands, with a -1 beside extents that may be 0, in models with ops that refuse those."""

    name: str = "fold-dynamic-shape-operands"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Apply the rule, unless the whole model runs on tensors without elements. O(ops)."""
        return 0 if supports_empty_tensors(graph) else rewrite(graph, (fold_dynamic_reshape_shape,), change_log).total()
