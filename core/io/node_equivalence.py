"""Equivalence keys of nodes, independent of the ways in which tools write the same node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.digest import digest
from ..ir.tensor import Tensor

NodeKey = tuple[Any, ...]
NameResolver = Callable[[str], str]


def node_key(
    node: onnx.NodeProto, resolve_name: NameResolver, opsets: Mapping[str, int], kept_outputs: Collection[str] = ()
) -> NodeKey:
    """A key that is equal for equivalent nodes, whatever the names of the nodes and their outputs.

    `resolve_name` maps names of inputs to those of the other model. Outputs among `kept_outputs` count by name. Doc
    strings, metadata, attributes at their default, the order of attributes and the encoding of tensors do not count.
    """
    domain = op_schemas.canonical_domain(node.domain)
    outputs = (o if o in kept_outputs else bool(o) for o in _without_trailing_empty(node.output))
    inputs = (resolve_name(i) if i else i for i in _without_trailing_empty(node.input))
    version = opsets.get(domain, 0)
    idle = op_schemas.default_encodings(node.op_type, domain, version)
    attributes = sorted(
        (_attribute_key(a, resolve_name, opsets) for a in node.attribute if _serialized_attribute(a) not in idle),
        key=lambda key: key[0],
    )
    return (node.op_type, domain, node.overload, tuple(inputs), tuple(outputs), tuple(attributes))


def tensors_equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same type, shape and elements."""
    return (a.dtype, a.dims) == (b.dtype, b.dims) and a.comparable_bytes() == b.comparable_bytes()


def _attribute_key(a: AttributeProto, resolve_name: NameResolver, opsets: Mapping[str, int]) -> NodeKey:
    if a.ref_attr_name:
        return (a.name, a.type, a.ref_attr_name)
    if a.type == AttributeProto.TENSOR:
        return (a.name, a.type, _tensor_key(a.t))
    if a.type == AttributeProto.GRAPH:
        return (a.name, a.type, _graph_key(a.g, resolve_name, opsets))
    if a.type == AttributeProto.GRAPHS:
        return (a.name, a.type, *(_graph_key(g, resolve_name, opsets) for g in a.graphs))
    return (a.name, a.type, _serialized_attribute(a))


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
    except ModelError:  # elements in another file, or unreadable ones
        return (tensor.SerializeToString(deterministic=True),)


def _serialized_attribute(a: AttributeProto) -> bytes:
    if not a.doc_string:
        return a.SerializeToString(deterministic=True)
    bare = AttributeProto()
    bare.CopyFrom(a)
    bare.ClearField("doc_string")
    return bare.SerializeToString(deterministic=True)


def _without_trailing_empty(names: Iterable[str]) -> list[str]:
    """`names` without trailing empty names, which have no meaning."""
    found = list(names)
    while found and not found[-1]:
        found.pop()
    return found
