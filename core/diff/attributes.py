"""The attributes of an op as they compare between two versions of an opset."""

from __future__ import annotations

from functools import cache

import onnx

from ..io.exporter import built_node
from ..ir import schemas
from ..ir.digest import digest
from ..ir.op import Op
from ..ir.tensor import Tensor

GRAPHS = frozenset({onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS})

Encoded = dict[str, bytes]


def node_of(op: Op) -> onnx.NodeProto:
    """The node without its edges and without what the op holds apart from it."""
    if op.rest is not None:
        return onnx.NodeProto.FromString(op.rest)
    plain = Op(op.type, op.domain, op.name, {k: v for k, v in op.attrs.items() if v not in op.subgraphs}, None)
    plain.version = op.version
    return built_node(plain)


def encoded(op: Op, other_version: int) -> Encoded:
    """The attributes that say something, serialized, bodies aside.

    One at its default says nothing, unless that default is another in `other_version` of the opset.
    """
    shifted = shifted_defaults(op.type, op.domain, op.version, other_version)
    defaults = encoded_defaults(op.type, op.domain, op.version)
    found = {name: defaults[name] for name in shifted}
    for a in node_of(op).attribute if op.rest is not None or op.attrs else ():
        if a.type in GRAPHS:
            continue
        a.ClearField("doc_string")
        code = a.SerializeToString(deterministic=True)
        if code != defaults.get(a.name) or a.name in shifted:
            found[a.name] = code
    if op.hollow:
        found.update((n, digest(t)) for n, t in op.attrs.items() if isinstance(t, Tensor))
    return found


@cache
def encoded_defaults(op_type: str, domain: str, version: int) -> Encoded:
    """The schema's defaults, serialized."""
    spec = schemas.schema(op_type, domain, version)
    declared = [a.default_value for a in spec.attributes.values() if a.default_value.name] if spec else []
    return {a.name: a.SerializeToString(deterministic=True) for a in declared}


@cache
def shifted_defaults(op_type: str, domain: str, version: int, other: int) -> frozenset[str]:
    """The attributes whose defaults differ between two versions of an opset, such as `axis` of Softmax at 13."""
    if version == other:
        return frozenset()
    ours, theirs = (encoded_defaults(op_type, domain, v) for v in (version, other))
    return frozenset(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
