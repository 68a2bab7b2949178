"""Kernels of `onnx.reference`, for operators of which it is right in each version and computes in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

from ...ir.dtypes import INTEGER_DTYPES, INTEGERS
from .kernel_call import Array, Kernel, KernelCall

PLAIN_INTEGERS = INTEGERS
"""Integer types of NumPy."""


def dtype_of(element_type: int) -> np.dtype[Any]:
    """The NumPy type of elements."""
    return helper.tensor_dtype_to_np_dtype(element_type)


def integer_range(element_type: int) -> tuple[int, int] | None:
    """The least and the greatest number of an integer type; None for others."""
    if element_type not in INTEGER_DTYPES:
        return None
    name = TensorProto.DataType.Name(element_type)
    bits = int(name.lstrip("UINT"))
    return (0, (1 << bits) - 1) if name.startswith("U") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def cast(array: Array, to: int, *, saturate: bool = True) -> Array:
    """`array` with elements of another type (operator Cast)."""
    node = helper.make_node("Cast", ["x"], ["y"], to=to, saturate=int(saturate))
    return run_node(node, onnx.defs.onnx_opset_version(), array)[0]


def run_node(node: onnx.NodeProto, version: int, *inputs: Any) -> tuple[Any, ...]:
    """The outputs of a node of the standard operators or those of ai.onnx.ml."""
    settings: dict[str, Any] = {
        "log": "{} {}".format,
        "opsets": {node.domain: version},
        "verbose": 0,
        "new_ops": None,
        "evaluator_cls": ReferenceEvaluator,
    }
    if node.domain:
        from onnx.reference.ops.aionnxml import load_op as load_ml_op  # noqa: PLC0415 - seldom needed

        operator: Any = load_ml_op(node.domain, node.op_type, version)
    else:
        operator = load_op(node.domain, node.op_type, version)
    return operator(node, settings).run(*inputs)


def run_call(call: KernelCall, *inputs: Any) -> tuple[Any, ...]:
    """The outputs of a call."""
    return run_node(call.node, call.version, *inputs)


def _roi_align(call: KernelCall, *inputs: Any) -> tuple[Any, ...]:
    node = onnx.NodeProto()
    node.CopyFrom(call.node)
    if call.version < 16:  # which has half pixels
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
    return run_node(node, call.version, *inputs)


OPERATORS = (
    "BlackmanWindow", "DFT", "DeformConv", "HammingWindow", "HannWindow", "MelWeightMatrix",
    "NonMaxSuppression", "RegexFullMatch", "STFT", "StringConcat", "StringNormalizer",
    "StringSplit", "TfIdfVectorizer",
)  # fmt: skip
KERNELS: Mapping[str, Kernel] = {**dict.fromkeys(OPERATORS, run_call), "RoiAlign": _roi_align}
