"""Models with their float32 values of another float type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ..verify.reference.float64_evaluation import DTYPE_ATTRIBUTES

FLOAT_ATTRIBUTES = ("value_float", "value_floats")


def retyped_model(model: onnx.ModelProto, dtype: int) -> onnx.ModelProto:
    """The model with values of element type `dtype` (TensorProto.DataType) in place of float32, constants rounded."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for value in (*found.graph.input, *found.graph.output, *found.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = dtype
    for tensor in found.graph.initializer:
        _retype(tensor, dtype)
    for node in found.graph.node:
        _retype_attributes(node, dtype)
    return found


def _retype(tensor: onnx.TensorProto, dtype: int) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array: Any = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(dtype))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _retype_attributes(node: onnx.NodeProto, dtype: int) -> None:
    for a in node.attribute:
        if a.type == AttributeProto.TENSOR:
            _retype(a.t, dtype)
        elif a.name in DTYPE_ATTRIBUTES and a.i == TensorProto.FLOAT:
            a.i = dtype
        elif node.op_type == "Constant" and a.name in FLOAT_ATTRIBUTES:
            tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(a), np.float32))
            _retype(tensor, dtype)
            a.CopyFrom(helper.make_attribute("value", tensor))
