"""Kernels of `onnx.reference`, for operators of which it is right in every version and computes in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

from .kernel_call import Kernel, KernelCall

OPERATORS = frozenset({
        "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil",
    "Clip", "Concat", "Conv", "Cos", "Cosh", "Div", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "Gemm", "Identity", "MatMul", "Mul", "Neg", "Pad", "Pow", "Reciprocal",
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Shape", "Sigmoid", "Sign", "Sin",
    "Slice", "Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
    "Log", "LogSoftmax", "AveragePool", "GlobalAveragePool", "MaxPool", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "Not", "Or", "Xor", "Min", "Max", "Sum", "Mean", "Constant", "ConstantOfShape", "Range", "Size"
})  # fmt: skip


def _run(call: KernelCall, *inputs: Any) -> Any:
    operator: Any = load_op(call.node.domain, call.node.op_type, call.version)
    settings: dict[str, Any] = {
        "log": "{} {}".format, "opsets": {"": call.version}, "verbose": 0, "new_ops": None,
        "evaluator_cls": ReferenceEvaluator,
    }  # fmt: skip
    node = onnx.NodeProto()
    node.CopyFrom(call.node)
    results: tuple[Any, ...] = operator(node, settings).run(*inputs)
    return results


KERNELS: Mapping[str, Kernel] = dict.fromkeys(OPERATORS, _run)
