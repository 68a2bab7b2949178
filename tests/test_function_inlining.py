"""Tests of the inlining of local functions that import other opsets than the model."""

from __future__ import annotations

import onnx
from passwright.core import from_onnx, to_onnx
from passwright.core.io.function_inlining import with_inlined_functions

from passwright import info

from .rewriting import cases, require_equivalent

MODEL = """<ir_version: 10, opset_import: ["this": 1, "": %d]>
g (float[1,2,3] x) => (float[1,2,3] y) { a = this.f(x) y = this.h(a) }
<domain: "this", opset_import: ["": %d, "this": 2]> f (x) => (y) { z = this.g(x) y = %s(z) }
<domain: "this", opset_import: ["": %d]> g (x) => (y) { y = Elu(x) }
<domain: "this", opset_import: ["": %d, "this": 3]> h (x) => (y) { r = Softplus(x) y = this.f(r) }"""


def model_with(model: int, function: int, op_type: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL % (model, function, op_type, function, function))


@cases(
    ("opset", "of_functions", "op_type", "kept"),
    {
        "the same operator, older": (18, 17, "Sin", []),
        "the same operator, newer": (17, 21, "Sin", []),
        "another meaning, older": (17, 11, "LogSoftmax", ["f", "g"]),
        "another meaning, newer": (12, 17, "LogSoftmax", ["f", "g"]),
        "unknown at the opset of the model": (17, 18, "Mish", ["f", "g"]),
        "unknown at the opset of the function": (18, 17, "Mish", ["f", "g"]),
    },
)
def test_functions_are_inlined_where_operators_mean_the_same(
    opset: int, of_functions: int, op_type: str, kept: list[str]
) -> None:
    """A kept function keeps the functions that it calls; a function that calls a kept one is inlined."""
    flat = with_inlined_functions(model_with(opset, of_functions, op_type))
    assert [f.name for f in flat.functions] == kept
    assert all(e.version in {of_functions, 2} for f in flat.functions for e in f.opset_import)
    called = ["f", "Softplus", "f"]
    assert [n.op_type for n in flat.graph.node] == (called if kept else ["Elu", op_type, "Softplus", "Elu", op_type])


def test_kept_functions_run_as_before() -> None:
    """onnxruntime runs them at the opset of the model."""
    model = model_with(18, 11, "Softmax")
    require_equivalent(model, to_onnx(from_onnx(model, inline=True)))


def test_calls_of_a_function_that_calls_itself_are_counted() -> None:
    text = """<ir_version: 10, opset_import: ["this": 1, "": 18]> g (float[3] x) => (float[3] y) { y = this.f(x) }
    <domain: "this", opset_import: ["": 18, "this": 1]> f (x) => (y) { y = this.f(x) }"""
    (found,) = info(onnx.parser.parse_model(text)).models
    assert (found.functions, found.ops) == (1, {"this.f": 1})
