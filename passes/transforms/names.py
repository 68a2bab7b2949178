"""Transforms of the names of nodes and inner values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from ...core import Graph, Model, Op, Value
from ...core.io.convert import training_info_names
from ...core.ir.graph import defined_values
from ...core.run.report import Hint, Report
from ...core.serialization.exporter import renamed_value_info


@dataclass(frozen=True, slots=True)
class UniqueNodeNames:
    """Gives each node a name of its own: onnxruntime refuses a graph in which two have the same.

    The first node of a name keeps it, others get a number behind it, in bodies too.
    """

    nameless: bool = field(default=False, metadata={"doc": "whether nodes without a name get one"})
    name: str = "unique-node-names"

    def hint(self, model: Model, report: Report) -> Hint | None:  # noqa: ARG002 - as hints have
        """The hint for a result with nodes of one name in one graph."""
        named = ([op.name for op in g.ops() if op.name] for g in model.graph.with_subgraphs())
        count = sum(len(names) - len(set(names)) for names in named)
        has = "node has the name" if count == 1 else "nodes have the names"
        return Hint(f"{count} {has} of others, which onnxruntime refuses") if count else None

    def transform(self, model: Model) -> int:
        """Rename nodes; returns how many. O(nodes)."""
        ops = [op for g in model.graph.with_subgraphs() for op in g.sorted_ops()]
        taken = {op.name for op in ops}
        seen, changes = set[str](), 0
        fresh: dict[str, Iterator[str]] = {}
        for op in ops:
            if op.name in seen or (self.nameless and not op.name):
                stem = op.name or op.type
                names = fresh.setdefault(stem, (f"{stem}_{n}" for n in count(2 if op.name else 1)))
                _rename(op, next(name for name in names if name not in taken))
                changes += 1
            seen.update({op.name} - {""})
        return changes


@dataclass(frozen=True, slots=True)
class ShortNames:
    """Gives short names to nodes, such as Conv_12, and to inner values and initializers, such as v7.

    The names of inputs, outputs and values that annotations or training information name stay.
    """

    name: str = "short-names"

    def transform(self, model: Model) -> int:
        """Rename everything else; returns how many nodes and values. O(nodes + values)."""
        graphs = list(model.graph.with_subgraphs())
        main = model.graph
        kept = {*main.inputs, *main.outputs, *(v for g in graphs for v in g.pinned)}
        taken = {v.name for v in kept} | training_info_names(model.header)
        names = (f"v{n}" for n in count(1))
        changes = 0
        for graph in graphs:
            for v in _own_values(graph):
                if v not in kept and v.name and v.name not in taken:
                    v.name, changes = next(n for n in names if n not in taken), changes + 1
            _rename_declarations(graph)
        numbers: dict[str, Iterator[int]] = {}
        for op in (op for g in graphs for op in g.sorted_ops()):
            _rename(op, f"{op.type}_{next(numbers.setdefault(op.type, count(1)))}")
            changes += 1
        main.context.reserved_names = None
        main.mark_changed()
        return changes


def _own_values(graph: Graph) -> Iterator[Value]:
    yield from dict.fromkeys(defined_values(graph))


def _rename(op: Op, name: str) -> None:
    """Rename a node of the file, which counts as loaded under that name."""
    op.name = name
    op.loaded_proto_bytes = op.proto_bytes


def _rename_declarations(graph: Graph) -> None:
    """Give the declarations of a graph the names of their values."""
    declared = graph.declared
    declared.inputs[:] = [(v, renamed_value_info(info, v.name)) for v, info in declared.inputs]
    outputs = zip(graph.outputs, declared.outputs, strict=True)
    declared.outputs[:] = [renamed_value_info(info, v.name) for v, info in outputs]
    declared.value_infos[:] = [
        (v, info if v is None else renamed_value_info(info, v.name)) for v, info in declared.value_infos
    ]
