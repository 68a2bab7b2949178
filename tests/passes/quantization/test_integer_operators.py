"""Tests of the format QOperator."""

from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import RulePass, rule_pass
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.quantization import integer_operators
from passwright.passes.quantization.integer_operators import conv_of_integers, matmul_of_integers
from quantized_models import (
    GROUPS,
    MATRIX,
    SIGNED,
    UNSIGNED,
    WEIGHTS,
    X,
    as_model,
    distance,
    optimized_run,
    quantized,
    scales,
)
from rewriting import apply_passes, load, op_types, run, to_onnx
from weights import read_by

INTEGER_OPERATORS = rule_pass(integer_operators, "integer-operators")
STANDARD_INTEGERS = RulePass("standard-integer-operators", (conv_of_integers, matmul_of_integers))

FLOAT_OPS = {"AveragePool", "Concat", "Conv", "Gemm", "GlobalAveragePool", "LeakyRelu", "MatMul", "Sigmoid"}


def in_integers(model: onnx.ModelProto) -> onnx.ModelProto:
    return to_onnx(apply_passes(model, INTEGER_OPERATORS, MergeDuplicates())[0])


@pytest.mark.parametrize(
    "opset", [13, pytest.param(10, marks=pytest.mark.slow), pytest.param(21, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("body", "x"), [row[:2] for row in GROUPS], ids=[row[0] for row in GROUPS])
def test_integers_are_those_of_the_groups(body: str, x: np.ndarray[Any, Any], opset: int) -> None:
    model = as_model(body, x, opset)
    for spec, compute, steps in ((UNSIGNED, optimized_run, 1e-4), (SIGNED, run, 1.01)):  # groups that are not fused
        groups = quantized(model, {"x": x}, spec)
        made = in_integers(groups)
        onnx.checker.check_model(made)
        (of_groups,), (of_operators,) = compute(groups, {"x": x}), compute(made, {"x": x})
        assert distance(of_groups, of_operators) <= steps * max(scales(groups))
        assert not FLOAT_OPS & set(op_types(made))


PAIRS = """q = QuantizeLinear(x, s, z) e = DequantizeLinear(q, s, z) %s
    r = QuantizeLinear(c, s, z) y = DequantizeLinear(r, s, z)"""
CONSTANTS = {
    "s": np.float32(0.05), "z": np.uint8(128), "i": np.ones((3, 3, 1, 1), np.int8), "n": np.int8(0),
    "t": np.float32(0.01), "v": np.full(3, 0.02, np.float32), "vn": np.zeros(3, np.int8), "k": np.ones(3, np.int32),
    "o": np.int32(0), "j": np.ones((16, 16), np.int8), "p": np.full(16, 0.02, np.float32), "pn": np.zeros(16, np.int8),
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "x"),
    [
        pytest.param(PAIRS % "c = Conv(e, w1)", X, id="float weights"),
        pytest.param(PAIRS % "w = DequantizeLinear(i, t, n) c = Conv(x, w)", X, id="a float value"),
        pytest.param(PAIRS % "w = DequantizeLinear<axis = 1>(i, v, vn) c = Conv(e, w)", X, id="scales of inputs"),
        pytest.param(PAIRS % "w = DequantizeLinear(i, t, n) d = DequantizeLinear(k, t, o) c = Conv(e, w, d)", X,
                     id="the scale of the bias"),
        pytest.param(PAIRS % "w = DequantizeLinear(i, t) c = Conv(e, w)", X, id="no zero point"),
        pytest.param(PAIRS % "w = DequantizeLinear(i, t, n) c = Conv(e, w) a = Neg(c)", X, id="another reader"),
        pytest.param(PAIRS % "w = DequantizeLinear<axis = 0>(j, p, pn) c = MatMul(e, w)", MATRIX, id="scales of rows"),
        pytest.param(PAIRS % "w = DequantizeLinear(j, t, n) c = Gemm<alpha = 2.0>(e, w)", MATRIX, id="alpha"),
        pytest.param(PAIRS % "c = Add(e, x)", MATRIX, id="a sum with floats"),
        pytest.param(PAIRS % "c = Tanh(e)", MATRIX, id="an op without form of integers"),
    ],
)  # fmt: skip
def test_stays(body: str, x: np.ndarray[Any, Any]) -> None:
    sizes = ",".join("abcd"[: x.ndim])
    outputs = f"float[{sizes}] y" + (f", float[{sizes}] a" if " a = " in body else "")
    text = f"g (float[{','.join(map(str, x.shape))}] x) => ({outputs}) {{ {body} }}"
    model = load(text, 13, read_by(text, WEIGHTS | CONSTANTS))
    assert op_types(in_integers(model)) == op_types(model)


def test_runtimes_of_the_standard_get_standard_operators() -> None:
    groups = quantized(as_model("c = Conv(x, w1, b1) s = Sigmoid(c) y = Mul(c, s)", X, 13), {"x": X})
    made = to_onnx(apply_passes(groups, STANDARD_INTEGERS)[0])
    assert [d.domain for d in made.opset_import] == [""]
    assert op_types(made).count("QLinearConv") == 1
    assert {"Sigmoid", "Mul"} <= set(op_types(made))
