"""Models exchanged with other tools, with placeholders for unchanged large weights."""

from __future__ import annotations

import onnx
from onnx import helper

from ..ir.graph import Graph
from ..ir.tensor import SMALL_TENSOR_BYTES, Tensor, digest
from ..serialization.exporter import written_initializers
from .model import Model, SerializedModel, serialize

UNCHANGED_LOCATION = "passwright:as-sent"  # the location of the external data of a placeholder


def serialize_main_graph(graph: Graph) -> SerializedModel:
    """The main graph and the local functions that it calls as a model, without a copy of the weights.

    Raises GraphError if the graph cannot be written.
    """
    shared = graph.context
    imports = [helper.make_opsetid(domain, version) for domain, version in shared.opsets.items()]
    header = onnx.ModelProto(ir_version=shared.ir_version, opset_import=imports, functions=shared.functions)
    return serialize(Model(header, graph))


def proto_without_weights(graph: Graph) -> onnx.ModelProto:
    """The main graph as a message, with placeholders for large weights and without local functions."""
    exported = serialize_main_graph(graph)
    proto = onnx.ModelProto.FromString(exported.header)
    proto.ClearField("functions")
    proto.graph.MergeFromString(bytes(exported.body))
    for value, tensor in written_initializers(graph):
        is_large = tensor.nbytes > SMALL_TENSOR_BYTES
        whole = tensor.proto_without_elements(value.name) if is_large else tensor.to_proto(value.name)
        proto.graph.initializer.append(make_placeholder(whole) if is_large else whole)
    return proto


def make_placeholder(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """A placeholder for an initializer of that name, type and shape whose elements did not change."""
    proto = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    proto.data_location = onnx.TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=UNCHANGED_LOCATION)
    return proto


def is_placeholder(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor is a placeholder for unchanged elements."""
    return any(e.key == "location" and e.value == UNCHANGED_LOCATION for e in tensor.external_data)


def replace_unchanged_weights(model: onnx.ModelProto, sent: dict[str, bytes]) -> onnx.ModelProto:
    """`model` with placeholders for the large initializers whose content has not changed since it was sent."""
    for tensor in model.graph.initializer:
        if tensor.name in sent and large_tensor_digest(tensor) == sent[tensor.name]:
            tensor.CopyFrom(make_placeholder(tensor))
    return model


def large_tensor_digests(model: onnx.ModelProto) -> dict[str, bytes]:
    """Digests of the large initializers, by name."""
    found = ((t.name, large_tensor_digest(t)) for t in model.graph.initializer)
    return {name: content for name, content in found if content}


def large_tensor_digest(tensor: onnx.TensorProto) -> bytes:
    """A digest of type, shape and elements; empty for a small tensor."""
    held = Tensor.from_proto(tensor)
    if held.nbytes <= SMALL_TENSOR_BYTES or held.is_external:
        return b""
    return digest(held)
