"""Whether a model may be run on tensors without elements: some kernels of onnxruntime end the process on those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from ..errors import ModelError
from ..io.convert import from_onnx
from ..ir.graph import Graph
from ..sessions import Loadable
from .windows import WINDOWS, has_fixed_windows

# Operators that were run on empty tensors of all sorts without harm. Attention, ConvTranspose, Einsum, GRU, LSTM,
# STFT and Unique were not.
BEARS_EMPTINESS = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool",
    "BatchNormalization", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu",
    "Clip", "Compress", "Concat", "Constant", "ConstantOfShape", "Conv", "ConvInteger", "Cos", "Cosh", "CumSum",
    "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear", "Elu", "Equal", "Erf", "Exp",
    "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "If",
    "InstanceNormalization", "IsInf", "IsNaN", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "Loop", "LpNormalization", "MatMul", "MatMulInteger", "Max", "MaxPool", "Mean", "Min", "Mish",
    "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "QLinearConv", "QLinearMatMul",
    "QuantizeLinear", "RMSNormalization", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu",
    "Reshape", "Resize", "Round", "ScatterElements", "ScatterND", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub",
    "Sum", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
})  # fmt: skip


def bears_emptiness(graph: Graph) -> bool:
    """Whether all ops of a graph, and of those inside it, are known to run on empty tensors."""
    return _all_bear((op.domain, op.type) for g in graph.with_subgraphs() for op in g.ops())


def loadable_bears_emptiness(model: Loadable) -> bool:
    """The same of a serialized model, and that none of its convolutions may sum over nothing."""
    proto = onnx.ModelProto()
    proto.ParseFromString(model.read_bytes() if isinstance(model, Path) else model)
    kinds = {(n.domain, n.op_type) for n in _nodes(proto.graph)}
    return _all_bear(kinds) and (not any(kind in WINDOWS for _, kind in kinds) or _has_fixed_windows(proto))


def _has_fixed_windows(proto: onnx.ModelProto) -> bool:
    try:
        return has_fixed_windows(from_onnx(proto).graph)
    except ModelError:
        return False


def _all_bear(kinds: Iterable[tuple[str, str]]) -> bool:
    return all(domain in {"", "ai.onnx"} and op_type in BEARS_EMPTINESS for domain, op_type in kinds)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for a in node.attribute:
            for sub in (a.g, *a.graphs) if a.type in {a.GRAPH, a.GRAPHS} else ():
                yield from _nodes(sub)
