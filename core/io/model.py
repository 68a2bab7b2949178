"""Models, and their serialized form, which can be measured, loaded and saved without serializing again."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import onnx
from msgspec import Struct
from onnx import helper

from ..errors import GraphError, ModelError, PassesError, format_error
from ..ir import op_schemas, wire_format
from ..ir.graph import Graph
from ..ir.tensor import Chunk, Tensor, join_chunks
from ..ir.values import Value
from ..serialization.exporter import (
    INITIALIZER,
    MODEL_GRAPH,
    TensorWriter,
    declare_new_initializers,
    graph_chunks,
    strip_value_info,
    written_initializers,
)
from ..serialization.proto_queries import opset_versions
from .split_models import SplitModel


@dataclass(slots=True)
class Model:
    """A graph and the `header` of its file: the ModelProto without the graph.

    Examples:
        >>> made = from_onnx(model)
        >>> made.header.ir_version, len(made.graph)
        (10, 3)
    """

    header: onnx.ModelProto
    graph: Graph

    def written_initializers(self) -> list[tuple[Value, Tensor]]:
        """The initializers of the main graph, in file order."""
        return list(written_initializers(self.graph))


def export_header(model: Model) -> onnx.ModelProto:
    """The header for export, with imports of domains that rewrites added, and the converted opset."""
    proto = deepcopy(model.header)
    del proto.functions[:]
    proto.functions.extend(model.graph.context.functions)
    if added := model.graph.context.added_functions:
        called = {(op.domain, op.type) for g in model.graph.with_subgraphs() for op in g.ops()}
        called.update((n.domain, n.op_type) for f in added for n in f.node)
        proto.functions.extend(f for f in added if (f.domain, f.name) in called)
    if model.graph.context.value_info == "strip":
        for function in proto.functions:
            strip_value_info(function)
    proto.ir_version = model.graph.context.ir_version
    for entry in proto.opset_import:
        entry.version = model.graph.opsets[op_schemas.canonical_domain(entry.domain)]
    imported = opset_versions(proto)
    used = {op.domain for g in model.graph.with_subgraphs() for op in g.ops() if op.domain not in imported}
    for domain, version in model.graph.opsets.items():
        if domain in used:
            proto.opset_import.append(helper.make_opsetid(domain, version))
    if proto.ir_version < 4:
        declare_new_initializers(model.graph)
    return proto


MAX_MESSAGE_BYTES = (2 << 30) - (1 << 20)  # protobuf's limit for a message, with a margin


class SerializedModel(Struct, frozen=True, dict=True):
    """A serialized model: header, graph without initializers, and each initializer in chunks.

    The chunks of large tensors are spans of a file or views of an array.
    """

    header: bytes
    body: bytearray
    initializers: tuple[tuple[Chunk, ...], ...]

    @cached_property
    def _graph_bytes(self) -> int:
        fields = (sum(map(len, t)) for t in self.initializers)
        return len(self.body) + sum(n + len(wire_format.encode_prefix(INITIALIZER, n)) for n in fields)

    @property
    def size(self) -> int:
        """The bytes of the whole message."""
        return len(self.header) + len(wire_format.encode_prefix(MODEL_GRAPH, self._graph_bytes)) + self._graph_bytes

    def chunks(self) -> Iterator[Chunk]:
        """Yield the message in chunks. Raises ModelError over protobuf's 2 GB."""
        if self.size > MAX_MESSAGE_BYTES:
            raise ModelError("the model is over 2 GB; it can only be written with external data")
        yield self.header
        yield wire_format.encode_prefix(MODEL_GRAPH, self._graph_bytes)
        yield self.body
        for pieces in self.initializers:
            yield wire_format.encode_prefix(INITIALIZER, sum(map(len, pieces)))
            yield from pieces

    def to_proto(self) -> onnx.ModelProto:
        """The model as a message. Initializers are parsed one by one, so that at most one is copied twice."""
        proto = onnx.ModelProto.FromString(self.header)
        proto.graph.MergeFromString(bytes(self.body))
        for pieces in self.initializers:
            proto.graph.initializer.add().MergeFromString(join_chunks(pieces))
        return proto


def serialize(model: Model, tensor_chunks: TensorWriter = Tensor.chunks) -> SerializedModel:
    """Serialize `model`, and its tensors with `tensor_chunks`. Raises GraphError if the graph cannot be written."""
    try:
        header = export_header(model).SerializeToString(deterministic=True)
        body = bytearray()
        for chunk in graph_chunks(model.graph, tensor_chunks):
            body += chunk
        tensors = tuple(tuple(tensor_chunks(tensor, value.name)) for value, tensor in written_initializers(model.graph))
    except (PassesError, MemoryError, OSError):
        raise
    except Exception as e:
        raise GraphError(f"it cannot be written: {format_error(e)}") from e
    return SerializedModel(header, body, tensors)


def split(model: Model, exported: SerializedModel | None = None) -> SplitModel:
    """Separate the large initializers of `model` without copying them. `exported` is its serialized form, if known.

    Raises GraphError if the graph cannot be written.
    """
    exported = exported or serialize(model)
    message = onnx.ModelProto.FromString(exported.header)
    message.graph.MergeFromString(bytes(exported.body))
    return SplitModel.of(message, ((value.name, tensor) for value, tensor in model.written_initializers()))
