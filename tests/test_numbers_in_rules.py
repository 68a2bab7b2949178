"""Numbers in patterns and replacements: the constants that they match, and the constants that they become."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from passwright.core import EXACT, RewriteBuilder, Rule, RuleError, RulePass, Value, from_onnx, rule
from passwright.testing import check_rule
from rewriting import apply_passes, becomes, each, load, op_types, stays, to_onnx

X = "float[2,3] x"


@rule(lambda g, x: g.Mul(x, 2.0), contract=EXACT)
def double_to_sum(g: RewriteBuilder, x: Value) -> Value:
    """2 x => x + x"""
    return g.Add(x, x)


@rule(lambda g, x: g.Sub(0.0, x))
def difference_to_neg(g: RewriteBuilder, x: Value) -> Value:
    """0 - x => -x"""
    return g.Neg(x)


@rule(lambda g, x: g.And(x, True), contract=EXACT)
def drop_true(g: RewriteBuilder, x: Value) -> Value:
    """x and true => x"""
    return x


@rule(lambda g, x: g.Div(x, 0.1))
def multiply_by_ten(g: RewriteBuilder, x: Value) -> Value:
    """x / 0.1 => x * 10"""
    return g.Mul(x, 10)


@rule(lambda g, x: g.Gather(x, 0, axis=0), contract=EXACT)
def take_first(g: RewriteBuilder, x: Value) -> Value:
    """x[0] => Squeeze(x[:1], 0)"""
    return g.Squeeze(g.Slice(x, g.const([0]), g.const([1]), g.const([0])), axes=[0])


@each(
    ("chosen", "before", "after"),
    {
        "no dims": (double_to_sum, "<float c = {2}> { y = Mul(x, c) }", "{ y = Add(x, x) }"),
        "the other order": (double_to_sum, "<float c = {2}> { y = Mul(c, x) }", "{ y = Add(x, x) }"),
        "as many dims": (double_to_sum, "<float[1,1] c = {2}> { y = Mul(x, c) }", "{ y = Add(x, x) }"),
        "op": (double_to_sum, "{ c = Constant<value_float=2.0>() y = Mul(x, c) }", "{ y = Add(x, x) }"),
        "zero": (difference_to_neg, "<float c = {0}> { y = Sub(c, x) }", "{ y = Neg(x) }"),
        "rounded": (multiply_by_ten, "<float c = {0.1}> { y = Div(x, c) }", "<float t = {10}> { y = Mul(x, t) }"),
        "an index without dims": (
            take_first,
            "<int64 c = {0}> { y = Gather(x, c) }",
            "<int64[1] z = {0}, int64[1] o = {1}> { s = Slice(x, z, o, z) y = Squeeze(s, z) }",
        ),
    },
)
def test_becomes(chosen: Rule, before: str, after: str) -> None:
    head = f"g ({X}) => (float[{'3' if chosen is take_first else 'n,m'}] y)"
    becomes(f"{head} {before}", f"{head} {after}", chosen)


@each(
    ("pattern", "named"),
    {
        "what became an input": (lambda g, x: g.Squeeze(x, 0), r"axes of Squeeze .* so 0 never .*; axes=\[0\] does"),
        "what always was one": (lambda g, x: g.TopK(x, 2), r"K of TopK has one dim, so 2 never matches; K=\[2\] does"),
        "a list": (lambda g, x: g.TopK(x, [2]), r"K of TopK has one dim, so \[2\] never matches; K=\[2\] does"),
        "a further one": (lambda g, x: g.Slice(x, 0, 1), r"starts of Slice .*; starts=\[0\] does"),
        "a reduction": (lambda g, x: g.one_of("ReduceMax", "Max")(x, 1), r"axes=\[1\] does"),
    },
)  # fmt: skip
def test_a_number_where_an_input_has_one_dim_is_refused(pattern: Any, named: str) -> None:
    with pytest.raises(RuleError, match=named):
        rule(pattern)(squeeze_first.build)


@rule(lambda g, x: g.Squeeze(g.Abs(x), axes=[0]), contract=EXACT)
def squeeze_first(g: RewriteBuilder, x: Value) -> Value:
    """Squeeze(Abs(x), 0) => Abs(Squeeze(x, 0))"""
    return g.Abs(g.Squeeze(x, [0]))


@each("opset", {"attribute": 12, "input": 17})
def test_an_input_by_name_is_matched_as_an_attribute_and_as_an_input(opset: int) -> None:
    axes = ("", "<axes = [0]> (a)") if opset == 12 else ("<int64[1] k = {0}>", "(a, k)")
    text = f"g (float[1,3] x) => (float[3] y) {axes[0]} {{ a = Abs(x) y = Squeeze {axes[1]} }}"
    assert op_types(to_onnx(apply_passes(load(text, opset), RulePass("s", (squeeze_first,)))[0])) == ["Squeeze", "Abs"]


def drop_activation(g: Any, x: Any, w: Any) -> Any:
    return g.MatMul(x, w)


@each(
    ("pattern", "inner"),
    {
        "values": (lambda g, x, w: g.MatMul(A=g.Relu(x), B=w), "y = MatMul(r, w)"),
        "a constant": (lambda g, x, w: g.MatMul(g.Relu(x), B=g.const(w)), "y = MatMul(r, k)"),
        "a computed one": (lambda g, x, w: g.MatMul(w, B=g.Relu(x)), "y = MatMul(w, r)"),
        "a number": (lambda g, x, w: g.MatMul(g.Mul(A=g.Relu(x), B=2.0), w), "m = Mul(r, two) y = MatMul(m, w)"),
        "one behind another that is left out": (
            lambda g, x, w: g.MatMul(g.Clip(g.Relu(x), max=g.const(w)), ...),
            "m = Clip(r, , one) y = MatMul(m, w)",
        ),
    },
)
def test_values_by_name_match_as_by_position(pattern: Any, inner: str) -> None:
    head = "g (float[3,3] x, float[3,3] w) => (float[3,3] y) <float[3,3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9}"
    text = f"{head}, float two = {{2}}, float one = {{1}}> {{ r = Relu(x) {inner} }}"
    applied = apply_passes(load(text, 17), RulePass("n", (rule(pattern)(drop_activation),)))[0]
    assert "Relu" not in op_types(to_onnx(applied))


@each(
    ("pattern", "why"),
    {
        "twice": (lambda g, x, w: g.Conv(x, w, W=w), "W of Conv is given twice, by position and by name"),
        "a gap": (lambda g, x, w: g.Conv(x, B=w), "it never matches, because Conv has an input W before the named"),
        "behind several": (lambda g, w: g.Conv(..., B=w), "B of Conv has no unique position"),
        "a list for a number": (lambda g, x, w: g.OneHot(x, w, depth=[4]), r"so \[4\] never matches; depth=4 does"),
        "a number for a list": (lambda g, x: g.TopK(x, K=2), r"K of TopK is a list, .*; K=\[2\] does"),
    },
)
def test_inputs_by_name_that_never_match_are_refused(pattern: Any, why: str) -> None:
    with pytest.raises(RuleError, match=why):
        rule(pattern)(drop_activation)


SCALARS: list[Any] = []


@rule(lambda g, x, p, c=None: g.Pad(g.Abs(x), pads=p, constant_value=c), contract=EXACT)
def pad_before_abs(g: RewriteBuilder, x: Value, p: list[int], c: float | None) -> Value:
    """Pad(Abs(x), c) => Abs(Pad(x, c)), where c is not negative"""
    SCALARS.append(c)
    return g.Abs(g.Pad(x, pads=p, constant_value=[2.0] if c else c))


@rule(lambda g, x, d, v: g.OneHot(g.Abs(x), depth=d, values=v), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value, d: int, v: list[float]) -> Value:
    """OneHot(Abs(x), d, v) => OneHot(x, d, v), for indices that are not negative"""
    SCALARS.append((d, v))
    return g.OneHot(x, depth=d, values=v)


@each(
    ("chosen", "text", "bound"),
    {
        "a scalar": (pad_before_abs, "<int64[4] p = {0, 1, 0, 0}, float c = {2}> { a = Abs(x) y = Pad(a, p, c) }", 2.0),
        "one with a dim": (
            pad_before_abs,
            "<int64[4] p = {0, 1, 0, 0}, float[1] c = {2}> { a = Abs(x) y = Pad(a, p, c) }",
            2.0,
        ),
        "none": (pad_before_abs, "<int64[4] p = {0, 1, 0, 0}> { a = Abs(x) y = Pad(a, p) }", None),
        "depth": (
            drop_abs,
            "<int64[1] d = {4}, float[2] v = {0, 1}> { a = Abs(x) y = OneHot(a, d, v) }",
            (4, [0.0, 1.0]),
        ),
    },
)
def test_a_number_by_name_is_no_list(chosen: Rule, text: str, bound: Any) -> None:
    SCALARS.clear()
    head = f"g ({X}) => (float[{'n,m,k' if chosen is drop_abs else 'n,m'}] y)"
    graph = apply_passes(load(f"{head} {text}", 17), RulePass("s", (chosen,)))[0].graph
    assert [bound] == SCALARS
    (made,) = (op for op in graph.ops() if op.type in {"Pad", "OneHot"})
    number = made.input(2 if chosen is pad_before_abs else 1)
    assert made.inputs[0] is graph.inputs[0]
    assert (None if number is None else number.const.shape) == (None if bound is None else ())


@each(
    ("chosen", "text"),
    {
        "other": (double_to_sum, f"g ({X}) => (float[n,m] y) <float c = {{3}}> {{ y = Mul(x, c) }}"),
        "an input": (double_to_sum, f"g ({X}, float c) => (float[n,m] y) {{ y = Mul(x, c) }}"),
        "overridable": (double_to_sum, f"g ({X}, float c = {{2}}) => (float[n,m] y) {{ y = Mul(x, c) }}"),
        "more dims": (double_to_sum, f"g ({X}) => (float[k,n,m] y) <float[1,1,1] c = {{2}}> {{ y = Mul(x, c) }}"),
        "more elements": (double_to_sum, f"g ({X}) => (float[n,m] y) <float[3] c = {{2, 2, 2}}> {{ y = Mul(x, c) }}"),
        "no element": (double_to_sum, f"g ({X}) => (float[0,3] y) <float[0,3] c = {{}}> {{ y = Mul(c, c) }}"),
        "another operator": (double_to_sum, f"g ({X}) => (float[n,m] y) <float c = {{2}}> {{ y = Sub(x, c) }}"),
        "order": (difference_to_neg, f"g ({X}) => (float[n,m] y) <float c = {{0}}> {{ y = Sub(x, c) }}"),
        "negative zero": (difference_to_neg, f"g ({X}) => (float[n,m] y) <float c = {{-0.0}}> {{ y = Sub(c, x) }}"),
        "index with a dim": (take_first, f"g ({X}) => (float[1,3] y) <int64[1] c = {{0}}> {{ y = Gather(x, c) }}"),
    },
)
def test_stays(chosen: Rule, text: str) -> None:
    stays(text, chosen, runs="{}" not in text)


def product(dtype: int, number: Any, op_type: str = "Mul") -> Any:
    """`x` of an element type, times a constant."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, [3])],
        [helper.make_tensor_value_info("y", dtype, [3])],
        [numpy_helper.from_array(np.asarray(number).astype(kind), "c")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


NUMBERS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT64)


@each("dtype", [*NUMBERS, TensorProto.UINT8])
def test_number_is_one_of_the_element_type(dtype: int) -> None:
    assert apply_passes(product(dtype, 2), double_to_sum)[1].changes
    assert not apply_passes(product(dtype, 3), double_to_sum)[1].changes


@each("dtype", NUMBERS[:4])
def test_nearest_number_of_the_element_type(dtype: int) -> None:
    found = apply_passes(product(dtype, 0.1, "Div"), multiply_by_ten)[0]
    (made,) = (numpy_helper.to_array(t) for t in to_onnx(found).graph.initializer)
    assert (made.dtype, made.shape) == (helper.tensor_dtype_to_np_dtype(dtype), ())
    assert float(made) == 10
    near = np.nextafter(np.float32(0.1), np.float32(1)) if dtype == TensorProto.FLOAT else 0.11
    assert not apply_passes(product(dtype, near, "Div"), multiply_by_ten)[1].changes


@each(
    ("number", "dtype", "stored"),
    {
        "a fraction of integers": (0.5, TensorProto.INT64, 0),
        "underflow": (1e-10, TensorProto.FLOAT16, 0),
        "overflow": (1e10, TensorProto.FLOAT16, np.inf),
        "wraps around": (256, TensorProto.UINT8, 0),
    },
)
def test_number_that_the_element_type_lacks(number: float, dtype: int, stored: Any) -> None:
    @rule(lambda g, x: g.Mul(x, number))
    def match(g: RewriteBuilder, x: Value) -> Value:
        """x * number => x"""
        return x

    @rule(lambda g, x: g.Mul(x, 3))
    def build(g: RewriteBuilder, x: Value) -> Value:
        """x * 3 => x * number"""
        return g.Mul(x, number)

    assert not apply_passes(product(dtype, stored), match)[1].changes
    result, change_log = apply_passes(product(dtype, 3), build)
    assert not change_log.changes
    assert len(to_onnx(result).graph.initializer) == 1  # nothing is left of the attempt


@each(
    ("op_type", "numbers", "kinds"),
    {
        "a type of its own, like the operand": ("Pow", (2.0,), [np.float16]),
        "the same formal type": ("Clip", (0.0, 6.0), [np.float16, np.float16]),
        "variadic": ("Max", (0.0, 1.0), [np.float16, np.float16]),
        "an index": ("Gather", (0,), [np.int64]),
        "an axis": ("CumSum", (0,), [np.int64]),
    },
)
def test_type_of_numbers_in_replacements(op_type: str, numbers: tuple[float, ...], kinds: list[Any]) -> None:
    graph = from_onnx(product(TensorProto.FLOAT16, 2)).graph
    (op,) = graph.sorted_ops()
    g = RewriteBuilder(graph, op)
    made = getattr(g, op_type)(op.inputs[0], *numbers)
    constants = [v.const for v in made.producer.inputs[1:]]
    assert all(c.shape == () for c in constants)
    assert [c.dtype for c in constants] == [np.dtype(k) for k in kinds]


def test_numbers_become_attributes_of_old_opsets() -> None:
    @rule(lambda g, x: g.Relu(x))
    def clip(g: RewriteBuilder, x: Value) -> Value:
        """Relu(x) => Clip(x, 0, 6)"""
        return g.Clip(x, 0.0, 6.0)

    result, _ = apply_passes(load(f"g ({X}) => (float[2,3] y) {{ y = Relu(x) }}", 9), clip)
    (node,) = to_onnx(result).graph.node
    assert {a.name: a.f for a in node.attribute} == {"min": 0.0, "max": 6.0}


def test_bools() -> None:
    head = "g (bool[2] x) => (bool[2] y)"
    becomes(f"{head} <bool c = {{1}}> {{ y = And(x, c) }}", f"{head} {{ y = Identity(x) }}", drop_true)
    stays(f"{head} <bool c = {{0}}> {{ y = And(x, c) }}", drop_true)


@each("chosen", [double_to_sum, multiply_by_ten])
def test_checks_generate_the_number(chosen: Rule) -> None:
    checked = check_rule(chosen, budget=6)
    assert checked.fired > 0
