"""Name maps: the tensors and nodes of the rewritten model that correspond to names in the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from ..io.model import Model
from ..ir.graph import Graph, ReplacementLog, defined_values, subgraphs_by_attribute
from ..ir.op import MAX_SOURCES, Op
from ..ir.values import Value
from ..rewriting.change_log import Change
from ..serialization.exporter import written_sparse
from ..serialization.provenance import TRUNCATION_MARK

T = TypeVar("T")


class UniqueNames(Struct, frozen=True):
    """Unique names of values and ops: names in subgraphs that also occur elsewhere are prefixed by their path.

    The path is `op/attribute/`, once per level. An op without a unique name in its graph is identified by its first
    output.
    """

    values: dict[Value, str]
    ops: dict[Op, str]

    @classmethod
    def of(cls, root: Graph) -> UniqueNames:
        """The current names of all values and ops in `root`. O(V + E)."""
        graphs = list(graph_paths(root))
        values = ((v, path, v.name) for g, path in graphs for v in _written_values(g) if v.name)
        ops = ((op, path, name) for g, path in graphs for op, name in _named_ops(g))
        return cls(_disambiguate(values), _disambiguate(ops))


def graph_paths(graph: Graph, path: str = "") -> Iterator[tuple[Graph, str]]:
    """Yield the graph and its subgraphs, outermost first, each with its path."""
    yield graph, path
    for op, name in _named_ops(graph):
        for attribute, sub in subgraphs_by_attribute(op).items():
            yield from graph_paths(sub, f"{path}{name}/{attribute}/")


def _named_ops(graph: Graph) -> list[tuple[Op, str]]:
    """The ops of a graph with their names."""
    ops = sorted(graph.ops(), key=lambda op: op.order_key)
    counts = Counter(op.name for op in ops)
    return [(op, _fallback_name(op) if counts[op.name] > 1 else op.name or _fallback_name(op)) for op in ops]


def _fallback_name(op: Op) -> str:
    return next((v.name for v in op.outputs if v.name), op.name or op.type)


def _written_values(graph: Graph) -> Iterator[Value]:
    """The values of a graph that are in the written file."""
    sparse = {v for v, _ in written_sparse(graph)}
    return (v for v in defined_values(graph) if v not in graph.sparse_initializers or v in sparse)


def _disambiguate(items: Iterable[tuple[T, str, str]]) -> dict[T, str]:
    """A unique name for each of `items`: (object, path, name)."""
    listed = list(items)
    counts = Counter(name for _, _, name in listed)
    found: dict[T, str] = {}
    taken: set[str] = set()
    for what, path, name in listed:
        plain = chosen = path + name if counts[name] > 1 else name
        number = 1
        while chosen in taken:  # for example, nodes with equal names whose outputs have the names of other nodes
            number += 1
            chosen = f"{plain}#{number}"
        taken.add(chosen)
        found[what] = chosen
    return found


FORMAT_VERSION = 1


def log_replacements(model: Model) -> ReplacementLog:
    """Log replacements in `model`, which has just been loaded, from now on, with its current names. O(V + E)."""
    names = UniqueNames.of(model.graph)
    initializers = [v for g in model.graph.with_subgraphs() for v in (*g.initializers, *g.input_defaults)]
    log = model.graph.context.replacement_log = ReplacementLog(names.values, names.ops, tuple(initializers))
    return log


class NameTracker(Struct, frozen=True):
    """The values and ops of a model before any rewrite, and the log of their replacements.

    `names` are as when the log began, before transforms; `producers` has the computed values. Removed ops stay
    in memory, so it is only used for runs that write a name map.
    """

    names: UniqueNames
    replacement_log: ReplacementLog
    producers: dict[Value, Op]
    labels: dict[Op, str]  # as in the change log
    initializers: dict[Value, str]

    @classmethod
    def of(cls, model: Model) -> NameTracker:
        """Track `model`, which has just been loaded, and transformed after its log began, if it has one. O(V + E)."""
        log = model.graph.context.replacement_log or log_replacements(model)
        names = UniqueNames(log.value_names, log.op_names)
        producers = {v: op for op in names.ops for v in op.outputs if v.tensor is None}
        initializers = {v: v.name for v in log.initializers if v in names.values}
        return cls(names, log, producers, {op: op.label for op in names.ops}, initializers)


def name_map(tracker: NameTracker, model: Model, changes: Sequence[Change]) -> dict[str, object]:
    """The name map as data for JSON; call it after export, which may rename values in subgraphs.

    `changes` are all changes of the run. "tensors" maps each name to the name of the equal tensor now, or None. "nodes"
    maps each name to the nodes made from it, or itself if it still exists. "folded" are computed tensors that are now
    initializers, and "removed" are nodes without successor and removed initializers. Both map to the rule or pass
    responsible, or None if the pass did not report it.
    """
    current = UniqueNames.of(model.graph)
    history = _NameHistory(tracker, current, changes)
    values, ops = tracker.names.values, tracker.names.ops
    targets = {v: history.target(v) for v in values}
    nodes = {name: history.successors(op) for op, name in ops.items()}
    constants = {v for v, now in targets.items() if now is not None and now.tensor is not None and now.producer is None}
    removed_initializers = [v for v in tracker.initializers if v not in current.values]
    return {
        "version": FORMAT_VERSION,
        "tensors": {values[v]: current.values[now] if now is not None else None for v, now in targets.items()},
        "nodes": nodes,
        "folded": {values[v]: history.folded_by(v) for v in values if v in constants and v in tracker.producers},
        "removed": {
            "nodes": {name: history.op_removers.get(op) for op, name in ops.items() if not nodes[name]},
            "initializers": {values[v]: history.removed_by(v) for v in removed_initializers},
        },
    }


class _NameHistory:
    """The successors of values and ops, cached."""

    def __init__(self, tracker: NameTracker, current_names: UniqueNames, changes: Sequence[Change]) -> None:
        self.tracker, self.current_names, self._log = tracker, current_names, tracker.replacement_log
        self._targets: dict[Value, Value | None] = {}
        self._successors: dict[Op, list[str]] = {}
        self._change = {label: c for c in changes for label in c.replaced}  # the last change that names it

    def target(self, value: Value) -> Value | None:
        """The value that replaces `value`; the value itself if it still exists."""
        path: list[Value] = []
        at: Value | None = value
        while at is not None and at not in self.current_names.values and at not in self._targets:
            path.append(at)
            self._targets[at] = None  # also ends a cycle
            at = self._log.replaced_values.get(at)
        found = at if at is None or at in self.current_names.values else self._targets[at]
        self._targets.update(dict.fromkeys(path, found))
        return found

    def folded_by(self, value: Value) -> str | None:
        """The rule or pass that made a computed value constant."""
        producer = self.tracker.producers[value]
        change = self._change.get(self._label(producer))
        return change.by if change is not None else self.op_removers.get(producer)

    def removed_by(self, value: Value) -> str | None:
        """The rule or pass that removed an initializer, directly or with the last op that read it."""
        change = self._change.get(self.tracker.initializers[value])
        return change.by if change is not None else self._consumer_removed_by.get(value)

    @cached_property
    def _consumer_removed_by(self) -> dict[Value, str | None]:
        removed = [*(op for op in self.tracker.names.ops if op not in self.current_names.ops), *self._log.removed_ops]
        return {v: self.op_removers.get(op) for op in removed for v in op.inputs if v is not None}

    def successors(self, op: Op) -> list[str]:
        """The names of the ops that replace `op`: itself, its equivalent, or the ops made from it; at most 50."""
        work, begun = [op], {op}
        while work:
            nexts = self._direct_successors(work[-1])
            waiting = [o for o in nexts if o not in self._successors and o not in begun]
            if waiting:
                begun.update(waiting)
                work += waiting
                continue
            at = work.pop()
            if at in self.current_names.ops:
                self._successors[at] = [self.current_names.ops[at]]
            elif at not in self._successors:
                found = dict.fromkeys(name for o in nexts for name in self._successors.get(o, ()))
                names = [name for name in found if name != TRUNCATION_MARK]
                is_complete = len(names) <= MAX_SOURCES and TRUNCATION_MARK not in found
                self._successors[at] = names if is_complete else [*names[:MAX_SOURCES], TRUNCATION_MARK]
        return self._successors[op]

    def _direct_successors(self, op: Op) -> list[Op]:
        """The equivalent of a removed op, or the ops made from it, which may also be removed."""
        if op in self.current_names.ops:
            return []
        nexts = list(self._log.derived_ops.get(op, ()))
        equivalent, change = self._log.equivalent_ops.get(op), self._change.get(self._label(op))
        # The producer of a removed op's input is not its equivalent: it was part of the same change, and was kept.
        if equivalent is not None and change is not None and self._label(equivalent) in change.replaced:
            nexts.append(equivalent)
        return nexts

    def _label(self, op: Op) -> str:
        """The label of the op in the change log."""
        return self._log.original_labels.get(op) or self.tracker.labels.get(op) or op.label

    @cached_property
    def op_removers(self) -> dict[Op, str | None]:
        """The rule or pass that removed each op. Ops that die with another are removed right after it."""
        found: dict[Op, str | None] = {}
        last: str | None = None
        for op in self._log.removed_ops:
            change = self._change.get(self._label(op))
            last = found[op] = change.by if change is not None else last
        for op in self.tracker.names.ops:
            if op not in found and op not in self.current_names.ops:
                owner = op.graph.owner  # the op with whose subgraph `op` was removed, if any
                while owner is not None and owner not in found:
                    owner = owner.graph.owner
                found[op] = found[owner] if owner is not None else None
        return found
