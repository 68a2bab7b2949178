"""Attributes as Python values."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from . import schemas
from .tensor import Tensor


def decode_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node that holds no subgraph."""
    return {a.name: attribute_value(a) for a in node.attribute}


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """An attribute as a Python value; a reference to a function's attribute stays a proto."""
    if proto.ref_attr_name:
        return proto
    value = schemas.plain(helper.get_attribute_value(proto))
    if proto.type == onnx.AttributeProto.TENSOR:
        return Tensor.from_proto(value)
    if proto.type == onnx.AttributeProto.TENSORS:
        return [Tensor.from_proto(t) for t in value]
    return value
