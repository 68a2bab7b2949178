"""Small models of the groups that are computed on integers, and their quantization in tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace
from onnx import TensorProto
from passwright.core import Fixpoint, Pipeline, QuantizationSpec, Range, rule_pass
from passwright.core.ort.sessions import SessionConfig, create_session
from passwright.passes.cleanup import quantization
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.quantization import static_groups
from rewriting import apply_passes, initializers, load, op_types, run, to_onnx
from weights import read_by

SIMPLIFY_QUANTIZATION = rule_pass(quantization, "simplify-quantization")
QUANTIZE_STATIC = rule_pass(static_groups, "quantize-static")

OPERATORS = frozenset({
    "AveragePool", "Add", "Concat", "Conv", "Gemm", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LeakyRelu",
    "MatMul", "Mul", "Sigmoid", "Softmax",
})  # fmt: skip
UNSIGNED = QuantizationSpec(operators=OPERATORS, weight_limit=64)
SIGNED = replace(UNSIGNED, activations=TensorProto.INT8, weight_limit=127)
X = np.random.default_rng(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
ROWS = np.random.default_rng(1).uniform(-1, 1, (2, 5, 16)).astype(np.float32)
MATRIX = ROWS[0]


def normal(*dims: int, scale: float = 0.2) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(dims)).normal(0, scale, dims).astype(np.float32)


WEIGHTS = {
    "w1": normal(3, 3, 3, 3), "w2": np.roll(normal(3, 3, 3, 3), 1, 1), "b1": normal(3), "m1": normal(16, 12),
    "m2": normal(12, 16), "c1": normal(12), "c2": normal(16), "c_row": normal(1, 12), "m3": normal(2, 16, 12),
    "v1": normal(16), "s1": np.float32(0.5), "eight": np.float32(8), "of_channels": normal(3, 1, 1),
    "low": np.float32(-0.5), "tiny": np.float32(1e-12), "m5": np.abs(normal(5, 4)),
    "zero": np.float32(0), "high": np.float32(0.75),
    "w_one": normal(1, 3, 1, 1), "w_back": normal(3, 1, 1, 1, scale=1.0),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "twice": np.array([1, 1, 2, 2], np.float32), "zeroth": np.array([0]),
    "halves": np.array([4, 4]), "rows": np.array([8, -1, 2]), "per_row": normal(5, 1),
    "nothing": np.zeros((0, 3, 1, 1), np.float32), "infinite": np.full((3, 3, 1, 1), np.inf, np.float32),
    "not_a_number": np.full(3, np.nan, np.float32),
}  # fmt: skip


def calibrated(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Range]:
    every = onnx.ModelProto()
    every.CopyFrom(model)
    outputs = {v.name for v in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    computed = run(every, feeds, names) if names else []  # onnxruntime takes no names for all
    arrays = {**feeds, **dict(zip(names, computed, strict=True))}
    return {k: Range(float(a.min()), float(a.max())) for k, a in arrays.items() if a.dtype == np.float32 and a.size}


def quantized(
    model: onnx.ModelProto, feeds: Mapping[str, Any], spec: QuantizationSpec | None = UNSIGNED, **ranges: Range
) -> onnx.ModelProto:
    given = None if spec is None else replace(spec, ranges=calibrated(model, feeds) | ranges)
    clean = Fixpoint("clean", (SIMPLIFY_QUANTIZATION, MergeDuplicates()))
    return to_onnx(apply_passes(model, Pipeline("static", (QUANTIZE_STATIC, clean), quantization=given))[0])


def fused_ops(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The ops that onnxruntime makes of a model, but for the first QuantizeLinear and the last DequantizeLinear."""
    made = folder / "optimized.onnx"
    create_session(
        model.SerializeToString(),
        SessionConfig("ENABLE_EXTENDED", optimized_model_path=str(made), prepack_weights=True),
    )
    return [t for t in op_types(onnx.load(made)) if t not in {"QuantizeLinear", "DequantizeLinear"}]


def optimized_run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    session = create_session(model.SerializeToString(), SessionConfig("ENABLE_ALL", prepack_weights=True))
    return session.run(None, dict(feeds))


C, D = "c = Conv<pads=[1,1,1,1]>(x, w1, b1)", "d = Conv<pads=[1,1,1,1]>(x, w2)"
M = "m = MatMul(x, m1)"
GROUPS = [
    (f"{C} y = Neg(c)", X, "QLinearConv Neg"),
    (f"{D} y = Neg(d)", X, "QLinearConv Neg"),
    (f"{C} r = Relu(c) y = Neg(r)", X, "QLinearConv Neg"),
    (f"{C} r = Clip(c, zero, high) y = Neg(r)", X, "QLinearConv Neg"),
    (f"{C} r = Clip(c, low, high) y = Neg(r)", X, "QLinearConv Neg"),
    (f"{C} r = Max(c, zero) y = Neg(r)", X, "QLinearConv Neg"),
    (f"{C} r = Relu(c) d = Conv(r, w2, b1) y = Neg(d)", X, "QLinearConv QLinearConv Neg"),
    (f"{C} {D} y = Add(c, d)", X, "QLinearConv QLinearConv QLinearAdd"),
    (f"{C} y = Add(c, x)", X, "QLinearConv QLinearAdd"),
    (f"{C} y = Add(c, c)", X, "QLinearConv QLinearAdd"),
    (f"{C} {D} s = Add(c, d) y = Relu(s)", X, "QLinearConv QLinearConv QLinearAdd"),
    (f"{C} s = Sigmoid(c) y = Mul(c, s)", X, "QLinearConv QLinearSigmoid QLinearMul"),
    (f"{C} y = Mul(c, of_channels)", X, "QLinearConv QLinearMul"),
    (f"{C} m = Mul(s1, c) d = Conv(m, w2) y = Neg(d)", X, "QLinearConv QLinearConv Neg"),
    (f"{C} m = Div(c, s1) d = Conv(m, w2) y = Neg(d)", X, "QLinearConv QLinearConv Neg"),
    (f"{C} {D} y = Concat<axis = 1>(c, d)", X, "QLinearConv QLinearConv QLinearConcat"),
    (f"{C} y = LeakyRelu<alpha = 0.1>(c)", X, "QLinearConv QLinearLeakyRelu"),
    (f"{C} y = HardSwish(c)", X, "QLinearConv QLinearMul"),
    (f"{C} m = Mul(c, eight) y = HardSwish(m)", X, "QLinearConv Clip QLinearMul"),
    (f"{C} y = HardSigmoid(c)", X, "QLinearConv"),
    (f"{C} m = Mul(c, eight) y = HardSigmoid<alpha = 0.1>(m)", X, "QLinearConv Clip"),
    (f"{C} {D} h = HardSigmoid<beta = 0.25>(d) y = Mul(c, h)", X, "QLinearConv QLinearConv QLinearMul"),
    (f"{C} y = AveragePool<kernel_shape = [2, 2]>(c)", X, "QLinearConv QLinearAveragePool"),
    (f"{C} y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(c)", X,
     "QLinearConv QLinearAveragePool"),
    (f"{C} y = GlobalAveragePool(c)", X, "QLinearConv QLinearGlobalAveragePool"),
    (f"{C} y = Softmax<axis = 3>(c)", X, "QLinearConv QLinearSoftmax"),
    (f"{C} n = Neg(c) r = Relu(c) y = Add(n, r)", X, "QLinearConv Neg Clip Add"),
    (f"{C} t = Transpose<perm = [0, 2, 3, 1]>(c) r = Reshape(t, rows) y = Neg(r)", X,
     "QLinearConv Transpose Reshape Neg"),
    (f"{C} p = MaxPool<kernel_shape = [2, 2]>(c) q = MaxPool<kernel_shape = [1, 1]>(p) y = Concat<axis = 1>(p, q)", X,
     "QLinearConv MaxPool MaxPool QLinearConcat"),
    (f"{C} a, b = Split<axis = 2>(c, halves) y = Sub(a, b)", X, "QLinearConv Split Sub"),
    (f"{C} p = Pad(c, pads) d = Conv(p, w2) y = Neg(d)", X, "QLinearConv Pad QLinearConv Neg"),
    (f'{C} r = Resize<mode = "nearest">(c, , twice) d = Conv(r, w2) y = Neg(d)', X,
     "QLinearConv Resize QLinearConv Neg"),
    (f"{C} i = Gather<axis = 0>(c, zeroth) y = Neg(i)", X, "QLinearConv Gather Neg"),
    (f"{M} y = Neg(m)", ROWS, "MatMulIntegerToFloat Neg"),
    (f"{M} y = Relu(m)", ROWS, "QLinearMatMul"),
    ("m = MatMul(x, v1) y = Neg(m)", ROWS, "MatMulIntegerToFloat Neg"),
    ("m = MatMul(x, m3) y = Neg(m)", ROWS, "MatMulIntegerToFloat Neg"),
    (f"{M} a = Add(c1, m) y = Neg(a)", ROWS, "Reshape QGemm Reshape Neg"),
    (f"{M} a = Add(m, c1) y = Neg(a)", MATRIX, "QGemm Neg"),
    (f"{M} a = Add(m, c1) r = Relu(a) n = MatMul(r, m2) y = Neg(n)", MATRIX, "QGemm QGemm Neg"),
    (f"{M} n = Neg(m) a = MatMul(m, m2) b = MatMul(n, m2) y = Sub(a, b)", ROWS,
     "QLinearMatMul Neg MatMulIntegerToFloat MatMulIntegerToFloat Sub"),
    (f"{M} r = Relu(m) e = Abs(m) y = Max(r, e)", MATRIX, "QGemm Relu Abs Max"),
    (f"{M} a = Add(c_row, m) y = Neg(a)", MATRIX, "QGemm Neg"),
    (f"{M} a = Add(c_row, m) y = Neg(a)", ROWS, "Reshape QGemm Reshape Neg"),
    ("m = MatMul(x, m1) n = Relu(m) k = MatMul(n, m2) a = Add(k, x) y = Neg(a)", MATRIX, "QGemm QGemm Add Neg"),
    ("a = Gemm(x, m1, c1) y = Neg(a)", MATRIX, "QGemm Neg"),
    ("a = Gemm(x, m1) y = Neg(a)", MATRIX, "QGemm Neg"),
    ("a = Gemm<alpha = 0.5, beta = 3.0, transB = 1>(x, m2, c1) y = Neg(a)", MATRIX, "QGemm Neg"),
    ("a = Gemm<beta = 2.0>(x, m1, s1) y = Neg(a)", MATRIX, "QGemm Neg"),
    ("t = Transpose<perm = [1, 0]>(x) a = Gemm<transA = 1>(t, m1, c1) y = Neg(a)", MATRIX, "Transpose QGemm Neg"),
    ("a = Gemm(x, m1, c1) r = Relu(a) e = Gemm(r, m2, c2) y = Neg(e)", MATRIX, "QGemm QGemm Neg"),
    ("t = Transpose<perm = [0, 2, 1]>(x) a = MatMul(x, t) y = Softmax<axis = 2>(a)", ROWS,
     "Transpose MatMulIntegerToFloat Softmax"),
]  # fmt: skip
NEEDS = {
    "Clip(": 12, "Max(c": 12, "Relu(c) y = Add": 12, "MaxPool": 12, "Pad(": 11, "Resize": 13, "Split": 13,
    "HardSwish": 14, "HardSigmoid": 12, "Gemm(x, m1) ": 11, "k = MatMul": 11, "e = Abs": 11, "n = MatMul": 11,
}  # fmt: skip


def as_model(body: str, x: np.ndarray[Any, Any], opset: int) -> onnx.ModelProto:
    """The model with that body, an input like `x`, and the weights that it names; of a later opset if ops need it."""
    opset = max([opset, *(since for text, since in NEEDS.items() if text in body)])
    rank = 2 if "v1" in body else x.ndim
    declared = ",".join(f"d{i}" for i in range(rank))
    declared = "a0,a1,a2" if "Reshape(t" in body else declared
    text = f"g (float[{','.join(map(str, x.shape))}] x) => (float[{declared}] y) {{ {body} }}"
    return load(text, opset, read_by(text, WEIGHTS))


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    return float(np.abs(a.astype(np.float64) - b).max(initial=0.0))


def scales(model: onnx.ModelProto) -> list[float]:
    """The scales of the activations."""
    constants = initializers(model)
    return [float(constants[node.input[1]]) for node in model.graph.node if node.op_type == "QuantizeLinear"]
