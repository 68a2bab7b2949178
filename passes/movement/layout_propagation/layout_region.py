"""A region: the ops that a layout reaches, from a Transpose on, through whatever can be computed in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ....core import Graph, Op, Value
from .layout import Layout, after, inverse, is_plain, perm_of
from .layout_rewrite import Move
from .layout_rules import MOVABLE, move

Visit = tuple[Value, Layout]
PATIENCE = 16  # how often an op that declines is asked for another of its operands
MOST = 4  # regions that an op is in, in one round


@dataclass(slots=True)
class Region:
    """`moves` says how each op works in its other layout, `layouts` in which each value is held then.

    A Transpose in `moves` would not work at all: its result, held so, is its input, held so.
    """

    graph: Graph
    moves: dict[Op, Move] = field(default_factory=dict[Op, Move])
    layouts: dict[Value, Layout] = field(default_factory=dict[Value, Layout])

    @property
    def transposes(self) -> int:
        """How many Transposes are in it."""
        return sum(op.type == "Transpose" for op in self.moves)


def explore(graph: Graph, start: Visit, visits: Counter[Op], *, exact_only: bool) -> Region:
    """The region that `start`, a value and the layout to hold it in, belongs to. O(region).

    `visits` counts for each op the regions that it is in.
    """
    region = Region(graph)
    refused: Counter[Op] = Counter()
    region.layouts[start[0]] = start[1]
    queue = [start]
    for value, layout in queue:
        for op in _ends(graph, value):
            if op in region.moves or refused[op] == PATIENCE or visits[op] == MOST:
                continue
            at = ~op.outputs.index(value) if value.producer is op else op.inputs.index(value)
            found = movement(op, at, layout, exact_only=exact_only)
            if found is None:
                refused[op] += 1
                continue
            region.moves[op] = found
            visits[op] += 1
            for v, own in _held(op, found):
                if v not in region.layouts:
                    region.layouts[v] = own
                    queue.append((v, own))
    return region


def _ends(graph: Graph, value: Value) -> Iterator[Op]:
    """The ops of the graph that make and read a value, but for those in whose subgraphs it is read."""
    if (maker := graph.producer(value)) is not None:
        yield maker
    yield from (op for op in value.uses if op.graph is graph and not op.subgraphs)


def _held(op: Op, found: Move) -> Iterator[Visit]:
    """The computed values of an op that it holds in other layouts."""
    for v, own in zip((*op.inputs, *op.outputs), (*found.inputs, *found.outputs), strict=True):
        if v is not None and own is not None and not v.is_const:
            yield v, own


def movement(op: Op, at: int, layout: Layout, *, exact_only: bool) -> Move | None:
    """`move`, and for a Transpose the two layouts between which it does nothing."""
    if op.type != "Transpose" or op.domain:
        return move(op, at, layout, exact_only=exact_only)
    perm, x = perm_of(op), op.input(0)
    if perm is None or len(perm) != len(layout) or x is None or x.known_dtype not in MOVABLE:
        return None
    inner, outer = (layout, after(inverse(perm), layout)) if at == 0 else (after(perm, layout), layout)
    return Move((None if is_plain(inner) else inner,), (None if is_plain(outer) else outer,))


def starts(transpose: Op) -> Iterator[Visit]:
    """The two ways to do without a Transpose: its result held as its input is, or the other way round."""
    perm, x = perm_of(transpose), transpose.input(0)
    if perm is not None and x is not None and not is_plain(perm):
        yield transpose.outputs[0], inverse(perm)
        if not x.is_const:
            yield x, perm
