"""Attributes of nodes in the encoding in which they compare: serialized, without doc strings and defaults."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import AttributeProto

from ..ir.digest import digest
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.op_schemas import encoded_defaults
from ..ir.tensor import Tensor
from .exporter import build_node_proto
from .proto_queries import SUBGRAPH_ATTRIBUTE_TYPES


def encoded_attribute(attribute: AttributeProto) -> bytes:
    """The serialized attribute without its doc string."""
    if not attribute.doc_string:
        return attribute.SerializeToString(deterministic=True)
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.ClearField("doc_string")
    return bare.SerializeToString(deterministic=True)


def bare_node(op: Op) -> onnx.NodeProto:
    """The node of an op without its edges and without subgraphs and tensors that the op stores apart."""
    if op.proto_bytes is not None:
        return onnx.NodeProto.FromString(op.proto_bytes)
    plain = Op(op.type, op.domain, op.name, {k: v for k, v in op.attrs.items() if not isinstance(v, Graph)}, None)
    plain.version = op.version
    return build_node_proto(plain)


def non_default_attributes(op: Op, kept: Collection[str] = ()) -> dict[str, bytes]:
    """Attributes that differ from their schema defaults, or are in `kept`, by name; subgraphs aside.

    Each is encoded, or the digest of a tensor that the op stores apart.
    """
    if op.proto_bytes is None and not op.attrs:
        return {}
    defaults = encoded_defaults(op.type, op.domain, op.version)
    encoded = {a.name: encoded_attribute(a) for a in bare_node(op).attribute if a.type not in SUBGRAPH_ATTRIBUTE_TYPES}
    found = {name: code for name, code in encoded.items() if name in kept or code != defaults.get(name)}
    if op.is_stripped:
        found.update((name, digest(t)) for name, t in op.attrs.items() if isinstance(t, Tensor))
    return found
