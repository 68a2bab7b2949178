"""Transforms of texts without meaning for the values of a model: names, doc strings and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, cast

import onnx
from google.protobuf.message import Message
from msgspec import Struct

from ...core import Graph, Model, Op, Tensor, Value
from ...core.io.convert import training_info_names
from ...core.ir.graph import defined_values, revise_declarations
from ...core.run.report import Hint, Report
from ...core.serialization.exporter import renamed_value_info
from ...core.serialization.provenance import PROVENANCE_KEYS


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


class ShortNames(Struct, frozen=True):
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
            for v in dict.fromkeys(defined_values(graph)):
                if v not in kept and v.name and v.name not in taken:
                    v.name, changes = next(n for n in names if n not in taken), changes + 1
            revise_declarations(graph, lambda v, info: info if v is None else renamed_value_info(info, v.name))
        numbers: dict[str, Iterator[int]] = {}
        for op in (op for g in graphs for op in g.sorted_ops()):
            _rename(op, f"{op.type}_{next(numbers.setdefault(op.type, count(1)))}")
            changes += 1
        main.context.reserved_names = None
        main.mark_changed()
        return changes


def _rename(op: Op, name: str) -> None:
    """Rename a node of the file, which counts as loaded under that name."""
    op.name = name
    op.loaded_proto_bytes = op.proto_bytes


MIN_SHARE = 0.1  # of the written model, from which a hint names texts


class ClearDocs(Struct, frozen=True):
    """Clears the doc strings of the model, its graphs, nodes, attributes, values, initializers and functions."""

    name: str = "clear-docs"
    field: ClassVar[str] = "doc_string"

    def transform(self, model: Model) -> int:
        """Clear all doc strings; returns how many there were. O(nodes + values)."""
        return _clear(model, self.field)

    def hint(self, model: Model, report: Report) -> Hint | None:
        """The hint for a result of which they are a large part."""
        return _hint(model, report, self.field, "doc strings")


class ClearMetadata(Struct, frozen=True):
    """Clears the metadata of the model, its graphs, nodes, values, initializers and functions.

    Metadata of nodes says where they come from; metadata of the model may be read by programs that run the model.
    """

    name: str = "clear-metadata"
    field: ClassVar[str] = "metadata_props"

    def transform(self, model: Model) -> int:
        """Clear all metadata; returns the number of messages that had some. O(nodes + values)."""
        return _clear(model, self.field)

    def hint(self, model: Model, report: Report) -> Hint | None:
        """The hint for a result of which the metadata of its nodes is a large part."""
        return _hint(model, report, self.field, "metadata of nodes")


def _hint(model: Model, report: Report, field: str, what: str) -> Hint | None:
    nodes = (op.loaded_proto_bytes for g in model.graph.with_subgraphs() for op in g.ops())
    size = sum(len(_text_field(onnx.NodeProto.FromString(n), field)) for n in nodes if n is not None)
    if size < MIN_SHARE * report.after.bytes:
        return None
    return Hint(f"{size / report.after.bytes:.0%} of the bytes are {what}")


def _text_field(node: onnx.NodeProto, field: str) -> bytes:
    kept = onnx.NodeProto()
    if field == "doc_string":
        kept.doc_string = node.doc_string
    else:
        kept.metadata_props.extend(p for p in node.metadata_props if p.key not in PROVENANCE_KEYS)  # written anew
    return kept.SerializeToString()


def _clear(model: Model, field: str) -> int:
    count = _clear_message(model.header, field)
    for graph in model.graph.with_subgraphs():
        count += _clear_message(graph.declared.header, field) + _clear_declarations(graph, field)
        for op in graph.ops():
            count += _clear_node(op, field)
        held = [*graph.input_defaults.values(), *(v.tensor for v in defined_values(graph))]
        count += sum(tensor.clear_field(field) for tensor in held if tensor is not None)
    model.graph.mark_changed()
    return count


def _clear_declarations(graph: Graph, field: str) -> int:
    """Clear the declarations of a graph's inputs, outputs, intermediate values and sparse initializers."""
    count = 0

    def clear(_value: Value | None, info: bytes) -> bytes:
        nonlocal count
        proto = onnx.ValueInfoProto.FromString(info)
        found = _clear_message(proto, field)
        count += found
        return proto.SerializeToString(deterministic=True) if found else info

    revise_declarations(graph, clear)
    return count + sum(_clear_message(sparse, field) for sparse in graph.sparse_initializers.values())


def _clear_node(op: Op, field: str) -> int:
    """Clear a node of the file, and its tensors; graphs in it are cleared by themselves."""
    if op.proto_bytes is None:
        return 0
    count = 0
    for found in op.attrs.values() if op.is_stripped else ():
        tensors = cast("list[Any]", found if isinstance(found, list) else [found])
        count += sum(t.clear_field(field) for t in tensors if isinstance(t, Tensor))
    node = onnx.NodeProto.FromString(op.proto_bytes)
    count += _clear_message(node, field)
    if count:
        op.proto_bytes = op.loaded_proto_bytes = node.SerializeToString(deterministic=True)
    return count


def _clear_message(message: Message, field: str) -> int:
    """Clear a field of a message and of those inside it; returns how many had it."""
    count = 0
    for descriptor, content in message.ListFields():
        if descriptor.name == field:
            message.ClearField(field)
            count += 1
        elif descriptor.message_type is not None:
            messages: list[Message] = [content] if isinstance(content, Message) else list(content)
            count += sum(_clear_message(inner, field) for inner in messages)
    return count
