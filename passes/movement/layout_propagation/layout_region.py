"""Regions of ops that can be computed in another layout, grown from a Transpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ....core import Graph, Op, Value
from .layout import Layout, LayoutRewrite, compose, inverse, is_identity, perm_of
from .layout_rules import TRANSPOSABLE_TYPES, apply_layout_rule

ValueLayout = tuple[Value, Layout]
MAX_REFUSALS = 16  # attempts with other operands of an op that declined
MAX_REGIONS_PER_OP = 4  # regions that an op is in, in one round


@dataclass(slots=True)
class LayoutRegion:
    """A region: the rewrite of each op, and the new layout of each value.

    A Transpose in `rewrites` is removed: its result in one layout is its input in another.
    """

    graph: Graph
    rewrites: dict[Op, LayoutRewrite] = field(default_factory=dict[Op, LayoutRewrite])
    layouts: dict[Value, Layout] = field(default_factory=dict[Value, Layout])

    @property
    def transposes(self) -> int:
        """The number of Transposes in the region."""
        return sum(op.type == "Transpose" for op in self.rewrites)


def grow_region(graph: Graph, start: ValueLayout, visits: Counter[Op], *, exact_only: bool) -> LayoutRegion:
    """Grow the region from `start`, a value and its new layout. O(region).

    `visits` counts for each op the regions that it is in.
    """
    region = LayoutRegion(graph)
    refused: Counter[Op] = Counter()
    region.layouts[start[0]] = start[1]
    queue = [start]
    for value, layout in queue:
        for op in _adjacent_ops(graph, value):
            if op in region.rewrites or refused[op] == MAX_REFUSALS or visits[op] == MAX_REGIONS_PER_OP:
                continue
            at = ~op.outputs.index(value) if value.producer is op else op.inputs.index(value)
            found = propagate_through(op, at, layout, exact_only=exact_only)
            if found is None:
                refused[op] += 1
                continue
            region.rewrites[op] = found
            visits[op] += 1
            values = zip((*op.inputs, *op.outputs), (*found.input_layouts, *found.output_layouts), strict=True)
            for v, own in values:
                if v is not None and own is not None and not v.is_const and v not in region.layouts:
                    region.layouts[v] = own
                    queue.append((v, own))
    return region


def _adjacent_ops(graph: Graph, value: Value) -> Iterator[Op]:
    """The ops of the graph that make and read a value, but for those in whose subgraphs it is read."""
    if (maker := graph.producer(value)) is not None:
        yield maker
    yield from (op for op in value.consumers if op.graph is graph and not op.subgraphs)


def propagate_through(op: Op, index: int, layout: Layout, *, exact_only: bool) -> LayoutRewrite | None:
    """As `apply_layout_rule`; for a Transpose, the two layouts between which it is the identity."""
    if op.type != "Transpose" or op.domain:
        return apply_layout_rule(op, index, layout, exact_only=exact_only)
    perm, x = perm_of(op), op.input(0)
    if perm is None or len(perm) != len(layout) or x is None or x.known_dtype not in TRANSPOSABLE_TYPES:
        return None
    inner, outer = (layout, compose(inverse(perm), layout)) if index == 0 else (compose(perm, layout), layout)
    return LayoutRewrite((None if is_identity(inner) else inner,), (None if is_identity(outer) else outer,))


def seed_layouts(transpose: Op) -> Iterator[ValueLayout]:
    """The two layouts that make a Transpose the identity: one of its result, one of its input."""
    perm, x = perm_of(transpose), transpose.input(0)
    if perm is not None and x is not None and not is_identity(perm):
        yield transpose.outputs[0], inverse(perm)
        if not x.is_const:
            yield x, perm
