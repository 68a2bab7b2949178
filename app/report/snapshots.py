"""Pictures of a run's changes, taken directly before and after each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...core import Graph, Op, Value
from ...core.ir.graph import Mutation, enclosing_op
from ...core.rewriting.change_log import Change, inserted_ops, removed_ops
from ...core.rewriting.driver import is_live
from .op_pictures import region_picture
from .picture import Box, BoxKind, Picture

MAX_OPS = 24
"""The number of ops in a picture; larger regions are cut, with the number of omitted ops."""
MAX_CONSUMERS = 4
"""The number of drawn consumers of a value; a constant or shape may have very many."""


def neighbours(ops: Collection[Op], hidden: Collection[Op] = ()) -> list[Op]:
    """The producers and consumers of ops that are not removed, as far as a picture has space for them."""
    inside = {*ops, *hidden}
    found: dict[Op, None] = {}
    for op in ops:
        found |= dict.fromkeys(producers((*op.inputs, *op.captures)))
        for v in op.outputs:
            found |= dict.fromkeys(islice(consumers(v, op), MAX_CONSUMERS))
    present = (op for op in found if op not in inside and op in op.graph and (not op.outputs or is_live(op)))
    return list(islice(present, max(MAX_OPS - len(ops), 0)))


def producers(values: Iterable[Value | None]) -> Iterator[Op]:
    """The ops that produce the values."""
    return (v.producer for v in values if v is not None and v.producer is not None)


def consumers(value: Value, producer: Op | None = None) -> Iterator[Op]:
    """The ops that read a value; for an op in a body, the op in the producer's graph that contains it."""
    users = (enclosing_op(producer.graph, op) if producer is not None else op for op in value.consumers)
    return (op for op in users if op is not None)


def neighbourhood_picture(
    ops: Collection[Op],
    marked: Collection[Op | Value],
    context_ops: dict[Op, Collection[Value]],
    shown_values: Collection[Value] = (),
    excluded: Collection[Op] = (),
) -> Picture:
    """Draw ops and their linked neighbours; without links, draw all."""
    shown, cut = list(islice(ops, MAX_OPS)), list(islice(ops, MAX_OPS, None))
    made = {v for op in (*shown, *context_ops) for v in op.outputs}
    read = {v for op in (*shown, *context_ops) for v in (*op.inputs, *op.captures)}
    linked = {
        op: values
        for op, values in context_ops.items()
        if values or not read.isdisjoint(op.outputs) or not made.isdisjoint((*op.inputs, *op.captures))
    }
    around = dict(islice((linked if shown or linked else context_ops).items(), MAX_OPS - len(shown)))
    values = list(islice(shown_values, MAX_OPS))
    picture = region_picture(shown, marked, values, around, {*excluded, *cut}, declared=True)
    if cut:
        picture.add(Box(BoxKind.VALUE, (f"and {len(cut)} more ops",)))
    if not picture.boxes:
        picture.add(Box(BoxKind.VALUE, ("no ops remain here",)))
    return picture


MAX_PICTURES = 20_000
"""The maximum number of drawn changes; the second half is reserved for later rules."""
MAX_PER_RULE, MIN_PER_RULE = 50, 3
"""The number of changes that are drawn of each rule in the second half."""


@dataclass(slots=True)
class _Snapshot:
    """The ops of a change, their results and bodies, the inputs of the surrounding ops, and the picture."""

    ops: list[Op]
    produced: dict[Value, Graph]
    body_ops: dict[Op, None]
    neighbours: dict[Op, tuple[Value | None, ...]]
    picture: Picture


@dataclass(slots=True)
class SnapshotObserver:
    """An observer of a run. `pictures` before and after, and the labels of `removed_ops`, are by ordinal."""

    pictures: dict[int, tuple[Picture, Picture]] = field(default_factory=dict[int, tuple[Picture, Picture]])
    removed_ops: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    _change_counts: Counter[str] = field(default_factory=Counter[str])
    _pending: _Snapshot | None = None

    def before_change(self, change: Change, replaced: Sequence[Op | Value], mutations: Sequence[Mutation]) -> None:
        """Draw the ops and values about to be replaced; if a pass does not announce them, the ops that it removed."""
        self._change_counts[change.by] += 1
        self._pending = None
        drawn = len(self.pictures)
        limit = MAX_PICTURES if 2 * drawn < MAX_PICTURES else MAX_PER_RULE if drawn < MAX_PICTURES else MIN_PER_RULE
        if self._change_counts[change.by] > limit:
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

    def after_change(self, change: Change, mutations: Sequence[Mutation]) -> None:
        """Draw the new ops with the same surroundings."""
        if removed := removed_ops(mutations):
            self.removed_ops[change.ordinal] = tuple(op.label for op in removed)
        if self._pending is not None:
            after = _picture_after(self._pending, inserted_ops(mutations))
            self.pictures[change.ordinal] = self._pending.picture, after
            self._pending = None


def _picture_after(snapshot: _Snapshot, built: list[Op]) -> Picture:
    graphs = {op.graph for op in snapshot.ops if op in op.graph} | {op.graph for op in snapshot.neighbours}
    made = [op for op in built if is_live(op)]
    made += [op for op in snapshot.body_ops if op.graph in graphs and is_live(op)]  # moved out of a body
    stayed = [op for op in snapshot.ops if is_live(op) and op not in made]
    freed = {v: graph for v, graph in snapshot.produced.items() if v.producer is None}  # now constants
    around: dict[Op, Collection[Value]] = {}  # with their new inputs
    for op, known in snapshot.neighbours.items():
        if is_live(op) and op not in made:
            read = (v for v in (*op.inputs, *op.captures) if v is not None)
            around[op] = [v for v in read if v not in known or v in freed]
    new_values = [v for values in around.values() for v in values]
    near = dict.fromkeys([*producers(new_values), *neighbours(made)])
    around |= {op: () for op in near if op not in around and op not in made and op not in stayed and is_live(op)}
    outputs = [v for v, graph in freed.items() if graph.is_output(v)]
    constants = {v for v in new_values if v.tensor is not None}
    return neighbourhood_picture([*made, *stayed], {*made, *constants, *outputs}, around, outputs)
