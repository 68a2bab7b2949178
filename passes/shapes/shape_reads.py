"""Simplification of reads of shapes."""

from __future__ import annotations

from ...core import EXACT, Build, Declined, Op, RulePass, Value, require, rule, same_extent
from ...core.ir.dims import Dim, Shape
from ..support.operand_queries import same_shape

MAX_OPS = 1000  # ops that a Shape is moved up at once


@rule(lambda g, x, i, gather: g.Gather(g.Shape(x), g.const(i)) @ gather, shared=True, contract=EXACT)
def gather_of_shape_to_shape(g: Build, x: Value, i: Value) -> Value:
    """Gather(Shape(x), [i, i + 1, ...]) => Shape(x, start=i, end=...)"""
    require(g.opset >= 15, "before opset 15, Shape has no start and end")
    require(i.rank == 1 and i.const.size > 0, "the indices are not consecutive")
    places = [int(n) for n in i.const]
    require(all(-x.rank <= n < x.rank for n in places), "an index is out of range")
    first = places[0] % x.rank
    require([n % x.rank for n in places] == list(range(first, first + len(places))), "the dims are not consecutive")
    return g.Shape(x, start=first or None, end=first + len(places))


@rule(lambda g, xs: g.Concat(*xs, axis=0), contract=EXACT)
def concat_of_dims_to_shape(g: Build, xs: tuple[Value, ...]) -> Value:
    """Concat(some dims of x, more of them) => Shape(x, start, end), where they are a run of its dims"""
    wanted: list[Dim] = []
    for v in xs:
        found = v.known_elements
        require(found is not None and v.rank == 1, "the elements are unknown")
        wanted += found or ()
    require(len(xs) > 1 and not all(isinstance(e, int) for e in wanted), "the elements are numbers already")
    for source in dict.fromkeys(filter(None, map(_shape_source, xs))):
        for first in range(source.rank - len(wanted) + 1):
            run = source.shape[first : first + len(wanted)]
            if all(map(same_extent, run, wanted)):
                whole = len(run) == source.rank
                require(whole or g.opset >= 15, "before opset 15, Shape has no start and end")
                return g.Shape(source) if whole else g.Shape(source, start=first or None, end=first + len(run))
    raise Declined("the pieces are not consecutive dims of one value")


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


@rule(lambda g, y, shape: g.Shape(y) @ shape, contract=EXACT)
def hoist_shape(g: Build, y: Value, shape: Op) -> Value:
    """Shape(f(x)) => Shape(x), where f keeps the shape, so that f(x) has one reader less"""
    earliest = y
    for _ in range(MAX_OPS):
        before = _same_shape_input(g, earliest)
        if before is None:
            break
        earliest = before
    require(earliest is not y, "no preceding value has the same shape")
    return g.Shape(earliest, **shape.attrs)


def _same_shape_input(g: Build, y: Value) -> Value | None:
    """A computed input of the op that makes `y`, with the same shape."""
    maker = g.graph.producer(y)
    for v in maker.inputs if maker is not None and not maker.subgraphs else ():
        if v is not None and not v.is_const and v.type is None and _is_same(v.known_shape, y.known_shape):
            return v
    return None


def _is_same(a: Shape | None, b: Shape | None) -> bool:
    return a is not None and b is not None and same_shape(a, b)


SIMPLIFY_SHAPE_READS = RulePass(
    "simplify-shape-reads", (gather_of_shape_to_shape, concat_of_dims_to_shape, hoist_shape)
)
