"""A model as it will be written: made once, then measured, loaded, saved or handed out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import onnx

from ..errors import GraphError, ModelError, PassesError, told
from ..ir import wire_format
from ..ir.tensor import Tensor
from ..serialization.exporter import INITIALIZER, MODEL_GRAPH, Chunk, TensorChunks, graph_chunks, tensors_of
from .model import Model, closing_header

ONE_MESSAGE = (2 << 30) - (1 << 20)  # protobuf's limit for a message, less some room


@dataclass(frozen=True)
class Exported:
    """A serialized model: header, graph without initializers, and each initializer in pieces.

    The pieces of large tensors are views of where they lie: a mapped file or an array.
    """

    header: bytes
    body: bytearray
    tensors: tuple[tuple[Chunk, ...], ...]

    @cached_property
    def _graph_bytes(self) -> int:
        fields = (sum(map(len, t)) for t in self.tensors)
        return len(self.body) + sum(n + len(wire_format.prefix(INITIALIZER, n)) for n in fields)

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return len(self.header) + len(wire_format.prefix(MODEL_GRAPH, self._graph_bytes)) + self._graph_bytes

    def chunks(self) -> Iterator[Chunk]:
        """The message in pieces. Raises ModelError beyond protobuf's 2 GB."""
        if self.size > ONE_MESSAGE:
            raise ModelError("the model is over 2 GB; it can only be written with external data")
        yield self.header
        yield wire_format.prefix(MODEL_GRAPH, self._graph_bytes)
        yield self.body
        for pieces in self.tensors:
            yield wire_format.prefix(INITIALIZER, sum(map(len, pieces)))
            yield from pieces

    def to_proto(self) -> onnx.ModelProto:
        """The model as a message. Each initializer is parsed on its own, so that no more than one is copied twice."""
        proto = onnx.ModelProto.FromString(self.header)
        proto.graph.MergeFromString(bytes(self.body))
        for pieces in self.tensors:
            proto.graph.initializer.add().MergeFromString(b"".join(pieces))
        return proto


def export(model: Model, tensor_chunks: TensorChunks = Tensor.chunks) -> Exported:
    """Serialize `model`; `tensor_chunks` says how tensors are written.

    Raises GraphError for what a pass left there that cannot be written.
    """
    try:
        return _export(model, tensor_chunks)
    except (PassesError, MemoryError, OSError):
        raise
    except Exception as e:
        raise GraphError(f"it cannot be written: {told(e)}") from e


def _export(model: Model, tensor_chunks: TensorChunks) -> Exported:
    header = closing_header(model).SerializeToString(deterministic=True)
    body = bytearray()
    for chunk in graph_chunks(model.graph, tensor_chunks):
        body += chunk
    tensors = tuple(tuple(tensor_chunks(tensor, value.name)) for value, tensor in tensors_of(model.graph))
    return Exported(header, body, tensors)
