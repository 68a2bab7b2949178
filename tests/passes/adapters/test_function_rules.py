"""Rules made of two plain functions, as onnxscript's rewriter takes them."""

from typing import Any

import numpy as np
import pytest
from pass_loading import passes_from_file
from passwright.core.errors import RuleError
from rewrite_tables import Rewrites
from rewriting import cases, each, load, op_types, stays

from passwright import optimize, rule_from_functions

products = Rewrites("g (float[N,4] x, float[4,4] w, float[4] b) => (float[N,4] y)")


def pattern_gemm(op: Any, x: Any, w: Any, b: Any) -> Any:
    return op.Add(op.MatMul(x, w), b)


def to_gemm(op: Any, x: Any, w: Any, b: Any) -> Any:
    """MatMul(x, w) + b => Gemm(x, w, b)"""
    return op.Gemm(x, w, b)


def pattern_ones(op: Any, x: Any) -> Any:
    return x * 1 + 0.5


def to_add(op: Any, x: Any) -> Any:
    return op.Add(x, 0.5)


def to_same(op: Any, x: Any, **_: Any) -> Any:
    return op.Identity(x)


def to_swapped(op: Any, x: Any) -> Any:
    first, second = op.Split(x, [2, 2], axis=1, _outputs=["first", "second"])
    return op.Identity(first), second


def pattern_drop(op: Any, x: Any) -> Any:
    kept, _mask = op.Dropout(x, _outputs=["kept", "mask"])
    return kept


RULES = {
    "sum": rule_from_functions(
        lambda op, x: op.Sum(op.Neg(x), _allow_other_inputs=True), lambda op, x: op.Neg(x), name="sum"
    ),
    "gemm": rule_from_functions(pattern_gemm, to_gemm),
    "ones": rule_from_functions(pattern_ones, to_add),
    "transpose": rule_from_functions(
        lambda op, x, perm: op.Transpose(x, perm=perm), to_same, lambda perm: perm == sorted(perm), name="transpose"
    ),
    "leaky": rule_from_functions(
        lambda op, x: op.LeakyRelu(x, alpha=0.1), lambda op, x: op.PRelu(x, op.Constant(value_float=0.1)), name="leaky"
    ),
    "split": rule_from_functions(
        lambda op, x: op.Split(x, axis=1, _outputs=2, _allow_other_attributes=True), to_swapped, name="split"
    ),
    "clip": rule_from_functions(
        lambda op, x: op.Clip(x, None, 6.0), lambda op, x: op.Min(x, op.initializer(np.float32(6))), name="clip"
    ),
    "drop": rule_from_functions(
        pattern_drop, to_same, lambda context, kept, **_: kept is context.root.outputs[0], name="drop"
    ),
}
HALVES = "g (float[2,4] x) => (float[2,2] y, float[2,2] z)"
applied = products.using(*RULES.values(), weights={"a": 1.0, "h": [0.5], "six": 6.0, "s": [2, 2]})
test_rule_applies_its_functions = applied.all_become(f"""
    other inputs, none: n = Neg(x) y = Sum(n) => y = Neg(x)
    names bind values, sums go either way: t = MatMul(x, w) y = Add(b, t) => y = Gemm(x, w, b)
    numbers and arithmetic: t = Mul(x, a) y = Add(t, h) => y = Add(x, k)
    an attribute and a condition: y = Transpose<perm=[0,1]>(x) => y = Identity(x)
    a number as ONNX stores it: y = LeakyRelu<alpha=0.1>(x) => y = PRelu(x, k)
    several outputs [graph={HALVES}; opset=18]: y, z = Split<axis=1, num_outputs=2>(x)
        => t, z = Split<axis=1>(x, k) y = Identity(t)
    an input left out: y = Clip(x, , six) => y = Min(x, k)
    a named output and a context: y = Dropout(x) => y = Identity(x)
""")
test_rule_does_not_match = applied.all_stay(f"""
    a pattern without an input that is there [graph={HALVES}]: y, z = Split<axis=1>(x, s)
    another operator: y = Tanh(x)
""")


class Refusal:
    """A false result with a reason, like onnxscript's MatchResult."""

    reason = "the third of May"

    def __bool__(self) -> bool:
        return False


@each(
    ("text", "condition"),
    {
        "a false condition": ("y = Add(t, b)", lambda **_: False),
        "a result with a reason": ("y = Add(t, b)", lambda **_: Refusal()),
        "a condition on an unknown constant": ("y = Add(t, b)", lambda w: w.const is None),
        "another operator": ("y = Sub(t, b)", None),
        "another pattern": ("y = Mul(t, t)", None),
    },
)
def test_rule_declines(text: str, condition: Any) -> None:
    products.using(rule_from_functions(pattern_gemm, to_gemm, condition)).stays(f"t = MatMul(x, w) {text}")


def test_match_failure_declines() -> None:
    basics = pytest.importorskip("onnxscript.rewriter._basics")

    def check(context: Any, x: Any, **_: Any) -> bool:
        raise basics.MatchFailureError("not this one")

    products.using(rule_from_functions(pattern_gemm, to_gemm, check)).stays("t = MatMul(x, w) y = Add(t, b)")


@cases("value", {"another number": 2, "half is not an integer": 0})
def test_constants_are_compared_by_value(value: int) -> None:
    text = (
        f"g (int32[2] x) => (int32[2] y) <int32 one = {{1}}, int32 c = {{{value}}}> {{ t = Mul(x, one) y = Add(t, c) }}"
    )
    stays(text, rule_from_functions(pattern_ones, to_add))


def test_omitted_attributes_have_defaults() -> None:
    rule = rule_from_functions(lambda op, x, w: op.Gemm(x, w), lambda op, x, w: op.MatMul(x, w), name="product")
    products.using(rule).stays("y = Gemm<alpha=2.0>(x, w)")


def test_named_outputs_are_graph_values() -> None:
    seen: list[Any] = []

    def pattern(op: Any, x: Any) -> Any:
        return op.Neg(op.Relu(x, _outputs=["r"]))

    def replacement(op: Any, x: Any, r: Any) -> Any:
        seen.append(r.shape)
        return op.Min(op.Neg(x), 0.0)

    model = load("g (float[N,3] x) => (float[N,3] y) { r = Relu(x) y = Neg(r) }")
    result = optimize(model, pipeline="none", plugin=[rule_from_functions(pattern, replacement)])
    assert seen == [("N", 3)]
    assert op_types(result.model) == ["Neg", "Min"]


def two_roots(op: Any, x: Any) -> Any:
    return op.Relu(x), op.Neg(x)


@each(
    ("pattern", "message"),
    {
        "several roots": (two_roots, "several roots"),
        "no operator": (lambda _, x: x, "the output of an operator"),
        "a check inside": (lambda op, x: op.Relu(x, _check=bool), "_check"),
        "any number of inputs": (lambda op, *xs: op.Max(*xs), "xs is not supported"),
        "the shape of a variable": (lambda op, x: op.Relu(x.shape), "cannot be traced: AttributeError"),
        "a comparison": (lambda op, x: op.Relu(x, keep=x > 0), "cannot be traced: TypeError"),
        "no parameter for op": (lambda: None, "cannot be traced: TypeError"),
        "an invalid input": (lambda op: op.Relu(print), "cannot be a builtin"),
        "an invalid attribute": (lambda op, x: op.Elu(x, alpha=print), "alpha cannot be compared"),
        "a Constant without a value": (lambda op, x: op.Add(x, op.Constant()), "takes one attribute"),
        "an unbound variable": (lambda op, y: op.Relu(y), "takes x, which"),
    },
)
def test_unsupported_pattern_raises_rule_error(pattern: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        rule_from_functions(pattern, lambda _, x: x, name="tried")


def test_rule_needs_a_name() -> None:
    with pytest.raises(RuleError, match="set name="):
        rule_from_functions(lambda op, x: op.Relu(x), lambda _, x: x)


def test_rule_of_a_plugin_file_is_found(tmp_path: Any) -> None:
    path = tmp_path / "from_script.py"
    path.write_text(
        "from passwright import rule_from_functions\n"
        "def twice(op, x):\n    return op.Abs(op.Abs(x))\n"
        "def once(op, x):\n    return op.Abs(x)\n"
        "once_only = rule_from_functions(twice, once)\n"
    )
    assert list(passes_from_file(path)) == ["from-script"]


def test_wrong_rule_is_rejected_by_name_and_place() -> None:
    rule = rule_from_functions(lambda op, x: op.Elu(x), lambda op, x: op.Relu(x), name="elu_to_relu")
    model = load("g (float[8] x) => (float[8] y) { y = Elu(x) }")
    (found,) = optimize(model, pipeline="none", plugin=[rule]).report.rejected
    assert (found.by, found.place) == ("elu_to_relu", "y")
