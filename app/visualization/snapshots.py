"""The surroundings of a change in the graph: the ops that it is about, and those next to them.

Pictures of each change of a run, taken just before it is made and just after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...core import Graph, Op, Value
from ...core.ir.mutation_log import Mutation
from ...core.ir.subgraphs import enclosing_op
from ...core.rewriting.changes import Change, inserted_ops, removed_ops
from ...core.rewriting.driver import is_live
from ..drawing.picture import Box, BoxKind, Picture
from ..drawing.picture_text import declared_type_text
from ..drawing.region_picture import RegionContext, region_picture

MAX_OPS = 24
"""The ops of a picture; of a larger region, how many more there are."""
MAX_CONSUMERS = 4
"""Of what reads one value, as many are drawn; a constant or shape may be read everywhere."""


def is_present(op: Op) -> bool:
    """Whether an op stands in its graph, and anything looks at what it makes."""
    return op in op.graph and (not op.outputs or is_live(op))


def neighbours(ops: Collection[Op], hidden: Collection[Op] = ()) -> list[Op]:
    """What feeds the ops and what reads of them, as far as there is room for it in a picture."""
    inside = {*ops, *hidden}
    found = dict.fromkeys(op for op in _adjacent_ops(ops) if op not in inside)
    return list(islice(filter(is_present, found), max(MAX_OPS - len(ops), 0)))


def _adjacent_ops(ops: Iterable[Op]) -> Iterator[Op]:
    for op in ops:
        yield from producers((*op.inputs, *op.captures))
        for v in op.outputs:
            yield from islice(consumers(v, op), MAX_CONSUMERS)


def producers(values: Iterable[Value | None]) -> Iterator[Op]:
    """The ops that make them."""
    for v in values:
        if v is not None and v.producer is not None:
            yield v.producer


def consumers(value: Value, producer: Op | None = None) -> Iterator[Op]:
    """The ops that read a value; what is in a body stands for the op of the maker's graph that holds it."""
    for user in value.consumers:
        outer = enclosing_op(producer.graph, user) if producer is not None else user
        if outer is not None:
            yield outer


def neighbourhood_picture(
    ops: Collection[Op],
    marked: Collection[Op | Value],
    context_ops: dict[Op, Collection[Value]],
    shown_values: Collection[Value] = (),
    excluded: Collection[Op] = (),
) -> Picture:
    """The picture, which says so where there is more, or nothing."""
    shown = list(islice(ops, MAX_OPS))
    room = dict(islice(_connected(shown, context_ops).items(), MAX_OPS - len(shown)))
    hidden = {*excluded, *islice(ops, MAX_OPS, None)}
    picture = region_picture(
        shown, marked, list(islice(shown_values, MAX_OPS)), RegionContext(room, hidden, declared_type_text)
    )
    if len(ops) > MAX_OPS:
        picture.add(Box(BoxKind.VALUE, (f"and {len(ops) - MAX_OPS} more ops",)))
    if not picture.boxes:
        picture.add(Box(BoxKind.VALUE, ("nothing is left here",)))
    return picture


def _connected(ops: Collection[Op], context_ops: dict[Op, Collection[Value]]) -> dict[Op, Collection[Value]]:
    """Those around that have a line to something; all, if there would be nothing to see without them."""
    made = {v for op in (*ops, *context_ops) for v in op.outputs}
    read = {v for op in (*ops, *context_ops) for v in (*op.inputs, *op.captures)}
    linked = {
        op: values
        for op, values in context_ops.items()
        if values or not read.isdisjoint(op.outputs) or not made.isdisjoint((*op.inputs, *op.captures))
    }
    return linked if ops or linked else context_ops


MAX_PICTURES = 20_000
"""The changes that are drawn. Half of it is for the first that come, half is kept for rules that come later."""
MAX_PER_RULE, MIN_PER_RULE = 50, 3
"""As many of each rule are drawn while there is room for them, and always."""


@dataclass(slots=True)
class _Snapshot:
    """What the last picture was of: the ops of the change, what they made and held, and what those around read."""

    ops: list[Op]
    produced: dict[Value, Graph]
    body_ops: dict[Op, None]
    neighbours: dict[Op, tuple[Value | None, ...]]
    picture: Picture


@dataclass(slots=True)
class SnapshotObserver:
    """A witness of a run.

    `pictures` by ordinal, before and after; `removed_ops` are the ops that went with each change.
    """

    pictures: dict[int, tuple[Picture, Picture]] = field(default_factory=dict[int, tuple[Picture, Picture]])
    removed_ops: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    _change_counts: Counter[str] = field(default_factory=Counter[str])
    _pending: _Snapshot | None = None

    def before_change(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """Draw what is about to be replaced; of a pass that did not ask before, what it took away."""
        self._change_counts[change.by] += 1
        self._pending = None
        if self._change_counts[change.by] > self._per_rule_limit():
            return
        built = inserted_ops(mutations)
        ops = [op for op in replaced if isinstance(op, Op)] or removed_ops(mutations)
        values = [v for v in replaced if isinstance(v, Value)]
        readers = [op for v in values for op in consumers(v)]
        around = dict.fromkeys([*readers, *neighbours(ops, built)])
        inner = dict.fromkeys(inside for op in ops for g in op.subgraphs for inside in g.ops())
        picture = neighbourhood_picture(ops, {*ops, *values}, dict.fromkeys(around, values), values, built)
        made = {v: op.graph for op in ops for v in op.outputs}
        self._pending = _Snapshot(ops, made, inner, {op: (*op.inputs, *op.captures) for op in around}, picture)

    def _per_rule_limit(self) -> int:
        """The changes of one rule that may be drawn, now that there are so many pictures."""
        if len(self.pictures) < MAX_PICTURES // 2:
            return MAX_PICTURES
        return MAX_PER_RULE if len(self.pictures) < MAX_PICTURES else MIN_PER_RULE

    def after_change(self, change: Change, mutations: Sequence[Mutation]) -> None:
        """Draw what was made, in the same surroundings."""
        if fallen := removed_ops(mutations):
            self.removed_ops[change.ordinal] = tuple(op.label for op in fallen)
        if self._pending is not None:
            self.pictures[change.ordinal] = (
                self._pending.picture,
                _picture_after(self._pending, inserted_ops(mutations)),
            )
            self._pending = None


def _picture_after(snapshot: _Snapshot, built: list[Op]) -> Picture:
    homes = {op.graph for op in snapshot.ops if op in op.graph} | {op.graph for op in snapshot.neighbours}
    made = [op for op in built if is_live(op)]
    made += [
        op for op in snapshot.body_ops if op.graph in homes and is_live(op)
    ]  # it was in a body, and is not any more
    stayed = [op for op in snapshot.ops if is_live(op) and op not in made]
    there = [op for op in snapshot.neighbours if is_live(op) and op not in made]
    freed = {v: graph for v, graph in snapshot.produced.items() if v.producer is None}  # constants by now
    new: dict[Op, Collection[Value]] = {
        op: [
            v for v in (*op.inputs, *op.captures) if v is not None and (v not in snapshot.neighbours[op] or v in freed)
        ]
        for op in there
    }
    near = dict.fromkeys([*producers(v for values in new.values() for v in values), *neighbours(made)])
    new |= {op: () for op in near if op not in new and op not in made and op not in stayed and is_live(op)}
    left = [v for v, graph in freed.items() if graph.is_output(v)]
    constants = {v for values in new.values() for v in values if v.tensor is not None}
    return neighbourhood_picture([*made, *stayed], {*made, *constants, *left}, new, left)
