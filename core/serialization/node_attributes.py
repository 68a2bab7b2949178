"""Attributes and keys of nodes that compare equal for equivalent nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.graph import Graph
from ..ir.op import Op, without_trailing_omitted
from ..ir.op_schemas import encoded_defaults
from ..ir.tensor import Tensor, digest
from .exporter import build_node_proto
from .proto_queries import SUBGRAPH_ATTRIBUTE_TYPES, copy_without


def encoded_attribute(attribute: AttributeProto) -> bytes:
    """The serialized attribute without its doc string."""
    if not attribute.doc_string:
        return attribute.SerializeToString(deterministic=True)
    return copy_without(attribute, "doc_string").SerializeToString(deterministic=True)


def bare_node(op: Op) -> onnx.NodeProto:
    """The node of an op without its edges, and without the subgraphs and tensors that the op stores separately."""
    if op.proto_bytes is not None:
        return onnx.NodeProto.FromString(op.proto_bytes)
    plain = Op(op.type, op.domain, op.name, {k: v for k, v in op.attrs.items() if not isinstance(v, Graph)}, None)
    plain.version = op.version
    return build_node_proto(plain)


def non_default_attributes(op: Op, kept: Collection[str] = ()) -> dict[str, bytes]:
    """Attributes that differ from their schema defaults, or are in `kept`, by name; except subgraphs.

    The values are encoded attributes, or the digest of a tensor that the op stores separately.
    """
    if op.proto_bytes is None and not op.attrs:
        return {}
    defaults = encoded_defaults(op.type, op.domain, op.version)
    encoded = {a.name: encoded_attribute(a) for a in bare_node(op).attribute if a.type not in SUBGRAPH_ATTRIBUTE_TYPES}
    found = {name: code for name, code in encoded.items() if name in kept or code != defaults.get(name)}
    if op.is_stripped:
        found.update((name, digest(t)) for name, t in op.attrs.items() if isinstance(t, Tensor))
    return found


NodeKey = tuple[Any, ...]
NameResolver = Callable[[str], str]


def node_key(
    node: onnx.NodeProto, resolve_name: NameResolver, opsets: Mapping[str, int], kept_outputs: Collection[str] = ()
) -> NodeKey:
    """A key that is equal for equivalent nodes, whatever the names of the nodes and their outputs.

    `resolve_name` maps names of inputs to names in the other model. Outputs in `kept_outputs` are compared by name. Doc
    strings, metadata, attributes at their default, the order of attributes and the encoding of tensors are ignored.
    """
    domain = op_schemas.canonical_domain(node.domain)
    outputs = (o if o in kept_outputs else bool(o) for o in without_trailing_omitted(node.output))
    inputs = (resolve_name(i) if i else i for i in without_trailing_omitted(node.input))
    version = opsets.get(domain, 0)
    defaults = op_schemas.encoded_defaults(node.op_type, domain, version)
    chosen = (a for a in node.attribute if encoded_attribute(a) != defaults.get(a.name))
    attributes = sorted((_attribute_key(a, resolve_name, opsets) for a in chosen), key=lambda key: key[0])
    return (node.op_type, domain, node.overload, tuple(inputs), tuple(outputs), tuple(attributes))


def _attribute_key(a: AttributeProto, resolve_name: NameResolver, opsets: Mapping[str, int]) -> NodeKey:
    if a.ref_attr_name:
        return (a.name, a.type, a.ref_attr_name)
    if a.type == AttributeProto.TENSOR:
        return (a.name, a.type, _tensor_key(a.t))
    if a.type == AttributeProto.GRAPH:
        return (a.name, a.type, _graph_key(a.g, resolve_name, opsets))
    if a.type == AttributeProto.GRAPHS:
        return (a.name, a.type, *(_graph_key(g, resolve_name, opsets) for g in a.graphs))
    return (a.name, a.type, encoded_attribute(a))


def _graph_key(graph: onnx.GraphProto, resolve_name: NameResolver, opsets: Mapping[str, int]) -> NodeKey:
    own = [i.name for i in graph.input] + [t.name for t in graph.initializer]
    own += [t.values.name for t in graph.sparse_initializer] + [o for node in graph.node for o in node.output]
    inner = {name: f"\0\0{i}" for i, name in enumerate(own)}

    def name_of(name: str) -> str:
        return inner[name] if name in inner else resolve_name(name)  # an inner name shadows an outer one

    return (
        len(graph.input),
        tuple((inner[t.name], _tensor_key(t)) for t in graph.initializer),
        tuple((inner[t.values.name], t.SerializeToString(deterministic=True)) for t in graph.sparse_initializer),
        tuple((node_key(node, name_of, opsets), *map(name_of, node.output)) for node in graph.node),
        tuple(name_of(o.name) for o in graph.output),
    )


def _tensor_key(tensor: onnx.TensorProto) -> NodeKey:
    held = Tensor.from_proto(tensor)
    try:
        return (digest(held),)
    except ModelError:  # its elements are in another file or unreadable
        return (tensor.SerializeToString(deterministic=True),)
