"""Export of a Graph as serialized ONNX messages, in chunks, so that large tensors are not copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import onnx
from onnx import AttributeProto, helper

from ..errors import GraphError
from ..ir import op_schemas, wire_format
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.tensor import Tensor, first_line
from ..ir.values import Value
from .provenance import with_provenance

# Field numbers of onnx.proto.
NODE, INITIALIZER, INPUT, OUTPUT, VALUE_INFO, SPARSE_INITIALIZER = 1, 5, 11, 12, 13, 15
MODEL_GRAPH = 7
NODE_INPUT, NODE_OUTPUT = 1, 2

Chunk = bytes | bytearray | memoryview
TensorWriter = Callable[[Tensor, str], Iterator[Chunk]]
"""Writes a tensor of a given name: inline, or as a reference to external data."""


def graph_chunks(graph: Graph, tensor_chunks: TensorWriter = Tensor.chunks) -> Iterator[Chunk]:
    """The serialized GraphProto without its initializers."""
    if graph.owner is not None:
        rename_shadowed_values(graph)
    for op in graph.sorted_ops():
        yield wire_format.encode_field(NODE, with_provenance(op, node_bytes(op, tensor_chunks)))
    yield graph.declared.header.SerializeToString(deterministic=True)
    for value, info in written_inputs(graph):
        yield wire_format.encode_field(INPUT, renamed_value_info(info, value.name))
    for value, info in zip(graph.outputs, graph.declared.outputs, strict=True):
        yield wire_format.encode_field(OUTPUT, renamed_value_info(info, value.name))
    for value, info in graph.declared.value_infos:
        if value is None or (_is_part_of(graph, value) and onnx.ValueInfoProto.FromString(info).name == value.name):
            yield wire_format.encode_field(VALUE_INFO, info)
    for value, sparse in written_sparse(graph):
        sparse.values.name = value.name
        yield wire_format.encode_field(SPARSE_INITIALIZER, sparse.SerializeToString(deterministic=True))


def written_inputs(graph: Graph) -> Iterator[tuple[Value, bytes]]:
    """The declared inputs that still exist: before IR version 4, initializers among them may have been removed."""
    return ((v, info) for v, info in graph.declared.inputs if v.tensor is None or v in graph.initializers)


def written_sparse(graph: Graph) -> Iterator[tuple[Value, onnx.SparseTensorProto]]:
    """The sparse initializers that are used or that a caller may override."""
    inputs = set(graph.inputs) if graph.sparse_initializers else set[Value]()
    return ((v, t) for v, t in graph.sparse_initializers.items() if v.consumers or graph.is_output(v) or v in inputs)


def rename_shadowed_values(graph: Graph) -> None:
    """Rename the values of a subgraph whose names would shadow an outer value that is read there.

    A file may use one name on both levels as long as the inner graph does not read the outer value; rewrites may.
    """
    read = {v.name for v in graph.captured_values()}
    for v in (*graph.inputs, *graph.initializers, *(v for op in graph.ops() for v in op.outputs)):
        if v.name and v.name in read:
            v.name = graph.fresh_name(v.name)


def renamed_value_info(info: bytes, name: str) -> bytes:
    """A ValueInfoProto under the current name of its value."""
    proto = onnx.ValueInfoProto.FromString(info)
    if proto.name == name:
        return info
    proto.name = name
    return proto.SerializeToString(deterministic=True)


def written_initializers(graph: Graph) -> Iterator[tuple[Value, Tensor]]:
    """The initializers to write, in file order."""
    for value in dict.fromkeys((*graph.declared.initializers, *graph.initializers)):
        if value in graph.input_defaults:
            yield value, graph.input_defaults[value]
        elif value.tensor is not None and value in graph.initializers:
            yield value, value.tensor


def node_bytes(op: Op, tensor_chunks: TensorWriter = Tensor.chunks) -> bytes:
    """The serialized NodeProto: with the current names, otherwise unchanged for a node of the file."""
    if op.proto_bytes is None:
        try:
            rest = build_node_proto(op, tensor_chunks).SerializeToString(deterministic=True)
        except (TypeError, ValueError, AttributeError) as e:  # as raised by helper.make_attribute and protobuf
            raise GraphError(f"{op.label} cannot be written: {first_line(e)}") from e
    elif op.is_stripped:
        rest = _restored_node(op, tensor_chunks).SerializeToString(deterministic=True)
    else:
        rest = op.proto_bytes
    edges = [wire_format.encode_field(NODE_INPUT, v.name.encode() if v is not None else b"") for v in op.inputs]
    edges += [wire_format.encode_field(NODE_OUTPUT, v.name.encode()) for v in op.outputs]
    return b"".join(edges) + rest


def build_node_proto(op: Op, tensor_chunks: TensorWriter = Tensor.chunks) -> onnx.NodeProto:
    """The NodeProto of an op made by a rewrite, without its edges."""
    node = onnx.NodeProto(op_type=op.type)
    if op.name:
        node.name = op.name
    if op.domain:
        node.domain = op.domain
    for name, value in op.attrs.items():
        if isinstance(value, AttributeProto):
            node.attribute.add().CopyFrom(value)
            continue
        plain = _attribute_to_onnx(value, tensor_chunks)
        node.attribute.add().CopyFrom(op_schemas.make_attribute(name, plain, op.schema))
    return node


def _attribute_to_onnx(value: Any, tensor_chunks: TensorWriter) -> Any:
    if isinstance(value, Tensor):
        return onnx.TensorProto.FromString(b"".join(tensor_chunks(value, "")))
    if isinstance(value, Graph):
        return graph_proto(value, tensor_chunks)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return [_attribute_to_onnx(v, tensor_chunks) for v in entries]
    return value


def _restored_node(op: Op, tensor_chunks: TensorWriter) -> onnx.NodeProto:
    """The node with its subgraphs and tensors, which the importer removed from it."""
    node = onnx.NodeProto.FromString(op.proto_bytes or b"")
    for a in node.attribute:
        value: Any = op.attrs.get(a.name)
        if isinstance(value, AttributeProto):
            continue
        if isinstance(value, Graph):
            a.g.CopyFrom(graph_proto(value, tensor_chunks))
        elif isinstance(value, Tensor):
            a.t.MergeFromString(b"".join(tensor_chunks(value, value.name)))
        elif a.type == AttributeProto.TENSORS:
            for tensor in cast("list[Tensor]", value):
                a.tensors.add().MergeFromString(b"".join(tensor_chunks(tensor, tensor.name)))
        elif a.type == AttributeProto.GRAPHS:
            graphs: list[Graph] = value
            a.graphs.extend(graph_proto(g, tensor_chunks) for g in graphs)
    return node


def graph_proto(graph: Graph, tensor_chunks: TensorWriter = Tensor.chunks) -> onnx.GraphProto:
    """The whole graph as one message; each initializer is parsed on its own, so none is copied twice."""
    proto = onnx.GraphProto.FromString(b"".join(graph_chunks(graph, tensor_chunks)))
    for value, tensor in written_initializers(graph):
        proto.initializer.add().MergeFromString(b"".join(tensor_chunks(tensor, value.name)))
    return proto


def _is_part_of(graph: Graph, value: Value) -> bool:
    """Whether `value` is still part of `graph`."""
    return value.producer is not None or value in graph.initializers or (value.tensor is None and value in graph.inputs)


def declare_new_initializers(graph: Graph) -> None:
    """Declare the initializers that rewrites added as inputs, as every initializer must be before IR version 4."""
    known = {v for v, _ in graph.declared.inputs}
    for value, tensor in written_initializers(graph):
        if value not in known:
            info = helper.make_tensor_value_info(value.name, tensor.dtype, tensor.dims)
            graph.declared.inputs.append((value, info.SerializeToString(deterministic=True)))
