"""Export of a Graph as serialized ONNX messages, in chunks, so that large tensors are not copied."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import onnx
from onnx import AttributeProto, helper

from ..errors import GraphError
from ..ir import op_schemas, wire_format
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.op_schemas import canonical_domain
from ..ir.tensor import Chunk, Tensor, first_line, join_chunks
from ..ir.values import Value, inferred_type_proto
from .proto_queries import all_nodes, opset_versions, subgraphs
from .provenance import with_provenance

# Field numbers of onnx.proto.
NODE, INITIALIZER, INPUT, OUTPUT, VALUE_INFO, SPARSE_INITIALIZER = 1, 5, 11, 12, 13, 15
MODEL_GRAPH = 7
NODE_INPUT, NODE_OUTPUT = 1, 2

TensorWriter = Callable[[Tensor, str], Iterator[Chunk]]
"""Writes a tensor under a given name: inline, or as a reference to external data."""


def graph_chunks(graph: Graph, tensor_chunks: TensorWriter = Tensor.chunks) -> Iterator[bytes]:
    """Yield the serialized GraphProto without its initializers."""
    if graph.owner is not None:
        rename_shadowed_values(graph)
    for op in graph.sorted_ops():
        yield wire_format.encode_field(NODE, with_provenance(op, node_bytes(op, tensor_chunks)))
    yield from _header_chunks(graph)


def graph_header(graph: Graph) -> onnx.GraphProto:
    """The GraphProto without its nodes and initializers."""
    return onnx.GraphProto.FromString(b"".join(_header_chunks(graph)))


def _header_chunks(graph: Graph) -> Iterator[bytes]:
    yield graph.declared.header.SerializeToString(deterministic=True)
    for value, info in written_inputs(graph):
        yield wire_format.encode_field(INPUT, renamed_value_info(info, value.name))
    for value, info in zip(graph.outputs, graph.declared.outputs, strict=True):
        yield wire_format.encode_field(OUTPUT, renamed_value_info(info, value.name))
    for info in written_value_infos(graph):
        yield wire_format.encode_field(VALUE_INFO, info)
    for value, sparse in written_sparse(graph):
        sparse.values.name = value.name
        yield wire_format.encode_field(SPARSE_INITIALIZER, sparse.SerializeToString(deterministic=True))


def written_inputs(graph: Graph) -> Iterator[tuple[Value, bytes]]:
    """Yield the declared inputs that still exist: before IR version 4, initializers may have been removed."""
    return ((v, info) for v, info in graph.declared.inputs if v.tensor is None or v in graph.initializers)


def written_sparse(graph: Graph) -> Iterator[tuple[Value, onnx.SparseTensorProto]]:
    """Yield the sparse initializers that are used or that a caller may override."""
    inputs = set(graph.inputs) if graph.sparse_initializers else set[Value]()
    return ((v, t) for v, t in graph.sparse_initializers.items() if v.consumers or graph.is_output(v) or v in inputs)


def written_value_infos(graph: Graph) -> Iterator[bytes]:
    """Yield the serialized `value_info`: by default the entries of the file for values that still exist.

    If it is stripped, entries remain for ops whose schema infers no types; without these, onnxruntime may not load the
    model. If it is written, the inferred types of all values are added, except for outputs, which are declared.
    """
    policy = graph.context.value_info
    kept = [
        (value, info)
        for value, info in graph.declared.value_infos
        if value is None or (_is_part_of(graph, value) and onnx.ValueInfoProto.FromString(info).name == value.name)
    ]
    if policy == "strip":
        made = ((value.producer, info) for value, info in kept if value is not None)
        yield from (info for op, info in made if op is not None and not _infers_types(op.schema))
        return
    if policy == "keep":
        yield from (info for _, info in kept)
        return
    yield from (info for value, info in kept if value is None)
    declared = {value: info for value, info in kept if value is not None}
    outputs = set(graph.outputs)
    computed = (v for op in graph.sorted_ops() for v in op.outputs if v.name and v not in outputs)
    for value in dict.fromkeys((*declared, *computed)):
        info = onnx.ValueInfoProto.FromString(declared.get(value, b""))
        info.name = value.name
        if (known := inferred_type_proto(value)) is not None:
            _complete_type(info.type, known)
        if info.type.WhichOneof("value"):
            yield info.SerializeToString(deterministic=True)


def _infers_types(schema: onnx.defs.OpSchema | None) -> bool:
    """Whether the types of an operator's outputs follow from its schema."""
    return schema is not None and schema.has_type_and_shape_inference_function


def _complete_type(declared: onnx.TypeProto, known: onnx.TypeProto) -> None:
    """Add a known type to a declared one; the denotations of the declared type are kept."""
    if not (declared.HasField("tensor_type") and known.HasField("tensor_type")):
        if not declared.WhichOneof("value"):
            declared.MergeFrom(known)
        return
    declared.tensor_type.elem_type = known.tensor_type.elem_type
    if not known.tensor_type.HasField("shape"):
        return
    if not declared.tensor_type.HasField("shape"):
        declared.tensor_type.shape.CopyFrom(known.tensor_type.shape)
    for dim, found in zip(declared.tensor_type.shape.dim, known.tensor_type.shape.dim, strict=False):
        dim.MergeFrom(found)


def strip_value_info(function: onnx.FunctionProto) -> None:
    """Remove the `value_info` of a local function and its subgraphs, like the `value_info` of a graph."""
    versions = opset_versions(function)

    def is_opaque(node: onnx.NodeProto) -> bool:
        domain = canonical_domain(node.domain)
        return not _infers_types(op_schemas.schema(node.op_type, domain, versions.get(domain, 0)))

    for holder in (function, *(g for node in all_nodes(function.node) for g in subgraphs(node))):
        needed = {name for node in holder.node if is_opaque(node) for name in node.output}
        kept = [info for info in holder.value_info if info.name in needed]
        del holder.value_info[:]
        holder.value_info.extend(kept)


def rename_shadowed_values(graph: Graph) -> None:
    """Rename the values of a subgraph whose names would shadow an outer value that is read there.

    A file may use one name on both levels if the inner graph does not read the outer value; a rewrite may let it read
    that.
    """
    read = {v.name for v in graph.captured_values()}
    for v in (*graph.inputs, *graph.initializers, *(v for op in graph.ops() for v in op.outputs)):
        if v.name and v.name in read:
            v.name = graph.fresh_name(v.name)


@contextmanager
def unchanged_names(graph: Graph) -> Generator[None]:
    """Undo the changes of an export: names of values in bodies, and declarations of initializers."""
    inner = [g for g in graph.with_subgraphs() if g.owner is not None]
    values = (v for g in inner for v in (*g.inputs, *g.initializers, *(v for op in g.ops() for v in op.outputs)))
    names, inputs, count = [(v, v.name) for v in values], [*graph.declared.inputs], graph.context.fresh_name_count
    try:
        yield
    finally:
        for value, name in names:
            value.name = name
        graph.declared.inputs[:] = inputs
        graph.context.fresh_name_count = count


def renamed_value_info(info: bytes, name: str) -> bytes:
    """A ValueInfoProto with the current name of its value."""
    proto = onnx.ValueInfoProto.FromString(info)
    if proto.name == name:
        return info
    proto.name = name
    return proto.SerializeToString(deterministic=True)


def written_initializers(graph: Graph) -> Iterator[tuple[Value, Tensor]]:
    """Yield the initializers to write, in file order."""
    for value in dict.fromkeys((*graph.declared.initializers, *graph.initializers)):
        if value in graph.input_defaults:
            yield value, graph.input_defaults[value]
        elif value.tensor is not None and value in graph.initializers:
            yield value, value.tensor


def node_bytes(op: Op, tensor_chunks: TensorWriter = Tensor.chunks) -> bytes:
    """The serialized NodeProto with the current names; a node of the file does not change otherwise."""
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
    """The NodeProto of an op created by a rewrite, without its edges."""
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
        return onnx.TensorProto.FromString(join_chunks(tensor_chunks(value, "")))
    if isinstance(value, Graph):
        return graph_proto(value, tensor_chunks)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return [_attribute_to_onnx(v, tensor_chunks) for v in entries]
    return value


def _restored_node(op: Op, tensor_chunks: TensorWriter) -> onnx.NodeProto:
    """The node including its subgraphs and tensors, which the importer removed from it."""
    node = onnx.NodeProto.FromString(op.proto_bytes or b"")
    for a in node.attribute:
        value: Any = op.attrs.get(a.name)
        if isinstance(value, AttributeProto):
            continue
        if isinstance(value, Graph):
            a.g.CopyFrom(graph_proto(value, tensor_chunks))
        elif isinstance(value, Tensor):
            a.t.MergeFromString(join_chunks(tensor_chunks(value, value.name)))
        elif a.type == AttributeProto.TENSORS:
            for tensor in cast("list[Tensor]", value):
                a.tensors.add().MergeFromString(join_chunks(tensor_chunks(tensor, tensor.name)))
        elif a.type == AttributeProto.GRAPHS:
            graphs: list[Graph] = value
            a.graphs.extend(graph_proto(g, tensor_chunks) for g in graphs)
    return node


def graph_proto(graph: Graph, tensor_chunks: TensorWriter = Tensor.chunks) -> onnx.GraphProto:
    """The whole graph as one message; each initializer is parsed separately, so none is copied twice."""
    proto = onnx.GraphProto.FromString(b"".join(graph_chunks(graph, tensor_chunks)))
    for value, tensor in written_initializers(graph):
        proto.initializer.add().MergeFromString(join_chunks(tensor_chunks(tensor, value.name)))
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
