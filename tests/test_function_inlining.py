"""Tests of the inlining of local functions."""

import onnx
import pytest
from passwright.core import ModelError, from_onnx, to_onnx
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


CALLS = """<ir_version: 10, opset_import: ["this": 1, "": 18]>
g (float[3] x, bool c) => (float[3] y, float[3] z) <float[3] w = {1, 2, 3}> { %s }
<domain: "this", opset_import: ["": 18]> scale <by: float = 3.0>(x) => (y) {
    s = Constant<value_float: float = @by>() y = Mul(x, s) }
<domain: "this", opset_import: ["": 18, "this": 1]> twice <by: float = 5.0>(x) => (y) {
    x_1 = this.scale<by: float = @by>(x) y = this.scale(x_1) }
<domain: "this", opset_import: ["": 18]> limit (x, least, most) => (y, n) { y = Clip(x, least, most) n = Neg(y) }
<domain: "this", opset_import: ["": 18]> slope <alpha>(x) => (y) { y = LeakyRelu<alpha: float = @alpha>(x) }
<domain: "this", opset_import: ["": 18, "this": 1]> choose <by: float = 2.0>(x, c) => (y) {
    t = Neg(x)
    y = If(c) <then_branch = a () => (r) { t_1 = Abs(t) r = this.scale<by: float = @by>(t_1) },
               else_branch = b () => (r) { t_1 = this.scale(x) r = Add(t_1, t) }> }
<domain: "this", opset_import: ["": 18, "this": 1]> repeat (x) => (y, ys) {
    n = Constant<value_int = 3>()
    y, ys = Loop(n, , x) <body = b (int64 i, bool k, float[3] v) => (bool l, float[3] u, float[3] s) {
        l = Identity(k) s = this.scale<by = 0.5>(v) u = Add(s, x) }> }"""


@cases(
    "calls",
    {
        "a default, and an attribute that is passed on": "y = this.twice(x) z = this.twice<by = 0.5>(x)",
        "an attribute that is not given": "y = this.slope(x) z = this.slope<alpha = 0.5>(x)",
        "inputs and outputs that are not given": "m = Constant<value_float = 2.0>() y = this.limit(x, , m) z = Neg(y)",
        "an output that nobody takes": "m = Constant<value_float = 2.0>() , y = this.limit(x, m) z = Neg(y)",
        "names that are taken": "s__1 = Neg(x) y__1 = this.scale(s__1) y = this.scale(y__1) z = Neg(s__1)",
        "a call of a weight": "y = this.scale(w) z = Add(x, y)",
        "branches": "y = this.choose(x, c) n = Not(c) z = this.choose<by = 7.0>(y, n)",
        "a body with inputs of its own": "y, s = this.repeat(x) a = Constant<value_ints = [0]>() "
        "z = ReduceSum<keepdims = 0>(s, a)",
        "a call in a branch": """z = this.scale(x)
            y = If(c) <then_branch = a () => (r) { q = this.twice(z) r = Neg(q) },
            else_branch = b () => (r) { r, q = this.repeat(z) }>""",
    },
)
def test_calls_compute_the_same(calls: str) -> None:
    model = onnx.parser.parse_model(CALLS % calls)
    inlined = with_inlined_functions(model)
    assert not inlined.functions
    onnx.checker.check_model(inlined, full_check=True)
    require_equivalent(model, inlined)


def test_functions_are_not_changed() -> None:
    model = onnx.parser.parse_model(CALLS % "y = this.choose(x, c) z = this.twice(y)")
    before = model.SerializeToString()
    with_inlined_functions(model)
    assert model.SerializeToString() == before


@cases(
    ("calls", "message"),
    {
        "too many inputs": (
            "y = this.scale(x, x) z = Neg(x)",
            "a call of its local function scale has too many inputs",
        ),
        "too many outputs": (
            "y, z = this.scale(x)",
            "a call of its local function scale has too many inputs or outputs",
        ),
    },
)
def test_calls_that_are_wrong(calls: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        with_inlined_functions(onnx.parser.parse_model(CALLS % calls))


ONE = """<ir_version: 10, opset_import: ["this": 1, "": 18]> g (float[3] x) => (float[3] y, float[3] z) { %s }
<domain: "this", opset_import: ["": 18]> f %s"""


@cases(
    ("function", "source"),
    {"an input": ("(x) => (x, z) { z = Neg(x) }", "x"), "another output": ("(x) => (z, z) { z = Neg(x) }", "z")},
)
def test_outputs_that_are_also(function: str, source: str) -> None:
    """onnxruntime refuses such functions, and onnx inlines them to values that nobody defines."""
    inlined = with_inlined_functions(onnx.parser.parse_model(ONE % ("y, z = this.f(x)", function)))
    plain, _, _ = ONE.partition("\n")
    require_equivalent(onnx.parser.parse_model(plain % f"z = Neg(x) y = Identity({source})"), inlined)


def test_a_value_that_a_function_does_not_define_is_none_of_its_caller() -> None:
    text = ONE % ("z = Neg(x) y = this.f(x)", "(x) => (y) { y = Add(x, z) }")
    with pytest.raises(ModelError, match="z of a function"):
        from_onnx(onnx.parser.parse_model(text), inline=True)
