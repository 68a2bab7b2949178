"""The rule language, with toy rules."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from onnx import ModelProto, TensorProto, helper
from passwright.core import (
    EXACT,
    ROUNDING,
    ChangeLog,
    Contract,
    Fixpoint,
    Graph,
    MatchFailure,
    Op,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    by_dtype,
    conditional,
    from_onnx,
    require,
    rule,
    rule_pass,
    to_onnx,
)
from passwright.core.errors import NoFixpoint, PassesError, PluginError, RuleError
from passwright.core.rewriting.change_log import BisectLimit, Exclusions
from passwright.core.rewriting.driver import RuleIndex, try_build
from passwright.core.support.python_files import import_file
from passwright.testing.model_comparison import contract_in
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, cases, each, initializers, load, op_types, run

from passwright import optimize

G = "g (float[2,3] x, float[2,3] w) => (float[n,m] y)"

toys = Rewrites(G)


@rule(lambda g, x, y: g.Add(g.Neg(x), y), contract=EXACT)
def add_negated_to_sub(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """-x + y => y - x"""
    return g.Sub(y, x)


@rule(lambda g, x: g.Add(x, x), contract=EXACT)
def double(g: RewriteBuilder, x: Value) -> Value:
    """x + x => 2 x"""
    return g.Mul(x, g.const(2, like=x))


@rule(lambda g, x: g.Neg(g.Neg(x)), allow_other_uses=True, contract=EXACT)
def cancel_shared_negations(g: RewriteBuilder, x: Value) -> Value:
    """-(-x) => x"""
    return x


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g: RewriteBuilder, x: Value) -> Value:
    """-(-x) => x"""
    return x


test_commutative = toys.using(add_negated_to_sub).all_become("""
    as written: a = Neg(x) y = Add(a, w) => y = Sub(w, x)
    the other way round: a = Neg(x) y = Add(w, a) => y = Sub(w, x)
    both fit, the first order: a = Neg(x) b = Neg(w) y = Add(a, b) => b = Neg(w) y = Sub(b, x)
    two variables may be one value: a = Neg(x) y = Add(a, x) => y = Sub(x, x)
""")
test_not_commutative = toys.using(add_negated_to_sub).all_stay("""
    Sub does not commute: a = Neg(x) y = Sub(a, w)
    the inner value is bound outside the match: a = Neg(x) y = Add(a, a)
    the inner value is read elsewhere: a = Neg(x) b = Abs(a) y = Add(a, b)
    another op inside: a = Abs(x) y = Add(a, w)
    across the border of a body [graph=g (bool c, float[2] x) => (float[2] y)]: a = Neg(x)
        y = If (c) <then_branch = p () => (float[2] b) { b = Add(a, x) }, else_branch = e ()
        => (float[2] d) { d = Exp(x) }>
""")


@rule(lambda g, x, c: g.Mul(x, g.const(c)), contract=EXACT)
def scale_to_gain(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x / (1 / c), by one constant"""
    return g.Div(x, g.const(1 / c.const, like=x))


scaled = toys.using(scale_to_gain, weights={"c": 2.0})
test_constant_operand = scaled.all_become("""
    behind: y = Mul(x, c) => y = Div(x, k)
    before: y = Mul(c, x) => y = Div(x, k)
    a Constant op: k = Constant<value_float=2.0>() y = Mul(k, x) => y = Div(x, k)
""")
test_no_constant_operand = scaled.all_stay("""
    no constant: y = Mul(x, w)
    another op: y = Div(x, c)
""")


@rule(lambda g, x, y: g.Add(x, y), contract=EXACT)
def pull_out_of_the_first(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """x + |y| => |y| - (-x), where x is not an absolute value itself"""
    require(y.producer is not None and y.producer.type == "Abs", "y is not an absolute value")
    require(x.producer is None, "x is computed")
    return g.Sub(y, g.Neg(x))


test_declining_rule_is_tried_with_swapped_operands = toys.using(pull_out_of_the_first).all_become("""
    as written: a = Abs(w) y = Add(x, a) => a = Abs(w) t = Neg(x) y = Sub(a, t)
    swapped: a = Abs(w) y = Add(a, x) => a = Abs(w) t = Neg(x) y = Sub(a, t)
""")

test_same_variable_twice = toys.using(double).all_become("""
    the same: y = Add(x, x) => y = Mul(x, c)
    the same result: a = Abs(x) y = Add(a, a) => a = Abs(x) y = Mul(a, c)
""")
test_two_variables = toys.using(double).all_stay("""
    two inputs: y = Add(x, w)
    equal but not the same: a = Abs(x) b = Abs(x) y = Add(a, b)
    dead ops are not rewritten: a = Add(x, x) y = Neg(x)
""")

OUT = "g (float[2,3] x) => (float[n,m] a, float[n,m] y)"
test_inner_values = toys.using(cancel_negations).all_become("""
    inside: a = Neg(x) b = Neg(a) y = Abs(b) => y = Abs(x)
    three: a = Neg(x) b = Neg(a) c = Neg(b) y = Abs(c) => c = Neg(x) y = Abs(c)
    from input to output: a = Neg(x) y = Neg(a) => y = Identity(x)
""")
test_inner_values_of_others_stay = toys.using(cancel_negations).all_stay(f"""
    read elsewhere: a = Neg(x) b = Neg(a) c = Abs(b) y = Add(a, c)
    a graph output [graph={OUT}]: a = Neg(x) y = Neg(a)
""")
test_shared_inner_values = toys.using(cancel_shared_negations).all_become(f"""
    read elsewhere: a = Neg(x) b = Neg(a) c = Abs(b) y = Add(a, c) => a = Neg(x) c = Abs(x) y = Add(a, c)
    a graph output [graph={OUT}]: a = Neg(x) y = Neg(a) => a = Neg(x) y = Identity(x)
""")


@rule(lambda g, x, a: g.Neg(g.LeakyRelu(x, alpha=a)), contract=ROUNDING)
def bind_alpha(g: RewriteBuilder, x: Value, a: float) -> Value:
    """Binds an attribute."""
    return g.LeakyRelu(g.Neg(x), alpha=a + 1)


@rule(lambda g, x: g.Neg(g.LeakyRelu(x, alpha=0.5)))
def want_alpha(g: RewriteBuilder, x: Value) -> Value:
    """Wants a value of an attribute."""
    return g.Abs(x)


@rule(lambda g, x: g.Neg(g.LeakyRelu(x)))
def want_default(g: RewriteBuilder, x: Value) -> Value:
    """Leaves the attribute open."""
    return g.Abs(x)


@rule(lambda g, x, op: g.Neg(g.LeakyRelu(x) @ op))
def bind_op(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Binds the op."""
    return g.Elu(x, alpha=op.attr("alpha"))


@rule(lambda g, x, a: g.Transpose(g.Transpose(x, perm=a), perm=a))
def same_perm_twice(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    """One attribute variable at two places."""
    return g.Abs(x)


@each(
    ("chosen", "before", "after"),
    [
        (bind_alpha, "a = LeakyRelu<alpha=0.5>(x) y = Neg(a)", "a = Neg(x) y = LeakyRelu<alpha=1.5>(a)"),
        (want_alpha, "a = LeakyRelu<alpha=0.5>(x) y = Neg(a)", "y = Abs(x)"),
        (want_alpha, "a = LeakyRelu<alpha=0.25>(x) y = Neg(a)", None),
        (want_alpha, "a = LeakyRelu(x) y = Neg(a)", None),
        (want_default, "a = LeakyRelu(x) y = Neg(a)", "y = Abs(x)"),
        (want_default, "a = LeakyRelu<alpha=0.01>(x) y = Neg(a)", "y = Abs(x)"),
        (want_default, "a = LeakyRelu<alpha=0.5>(x) y = Neg(a)", None),
        (bind_op, "a = LeakyRelu<alpha=0.5>(x) y = Neg(a)", "y = Elu<alpha=0.5>(x)"),
        (same_perm_twice, "a = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(a)", "y = Abs(x)"),
        (same_perm_twice, "a = Transpose<perm=[0,1]>(x) y = Transpose<perm=[1,0]>(a)", None),
    ],
)
def test_attributes(chosen: Rule, before: str, after: str | None) -> None:
    """Toy rules need not be true: only structure is compared."""
    result, change_log = apply_passes(load(f"{G} {{ {before} }}"), chosen)
    assert bool(change_log.changes) == (after is not None)
    expected = load(f"{G} {{ {after or before} }}")
    shape = [(n.op_type, sorted((a.name, str(a)) for a in n.attribute)) for n in expected.graph.node]
    assert [(n.op_type, sorted((a.name, str(a)) for a in n.attribute)) for n in to_onnx(result).graph.node] == shape


def test_omitted_attribute_binds_its_default() -> None:
    result, _ = apply_passes(load(f"{G} {{ a = LeakyRelu(x) y = Neg(a) }}"), bind_alpha)
    (alpha,) = to_onnx(result).graph.node[1].attribute
    assert alpha.f == pytest.approx(1.01)


@rule(lambda g, x, lo, hi=None: g.Clip(x, lo, hi), contract=EXACT)
def clip_to_max_min(g: RewriteBuilder, x: Value, lo: Value, hi: Value | None) -> Value:
    """Clip(x, lo, hi) => Min(Max(x, lo), hi)"""
    # With no upper bound the largest number is one: infinities are clipped too.
    return g.Min(g.Max(x, lo), g.const(np.finfo(np.float32).max, like=x) if hi is None else hi)


clips = toys.using(clip_to_max_min, weights={"s": -1.0, "t": 1.0})
test_optional_input = clips.all_become("""
    both: y = Clip(x, s, t) => a = Max(x, s) y = Min(a, t)
    left out: y = Clip(x, s) => a = Max(x, s) y = Min(a, t)
    empty: y = Clip(x, s, ) => a = Max(x, s) y = Min(a, t)
""")
test_missing_input = clips.all_stay("""
    no lower bound: y = Clip(x, , t)
    no bound: y = Clip(x)
""")


@rule(lambda g, xs: g.Neg(g.Sum(*xs)))
def any_number(g: RewriteBuilder, xs: tuple[Value, ...]) -> Value:
    """-(a + b + ...) => -a + -b ..."""
    return g.Sum(*(g.Neg(x) for x in xs))


@rule(lambda g, first, xs, last: g.Concat(first, *xs, last, axis=0), contract=EXACT)
def turn_ends(g: RewriteBuilder, first: Value, xs: tuple[Value, ...], last: Value) -> Value:
    """Concat(a, x, b) => Concat(a, Identity(x), b, a), a toy"""
    require(len(xs) == 1, "once")
    return g.Concat(first, g.Identity(xs[0]), last, first, axis=0)


@rule(lambda g, xs, ys, z: g.Concat(*xs, g.Concat(*ys, axis=0), *z, axis=0), contract=EXACT)
def flatten_concat(g: RewriteBuilder, xs: tuple[Value, ...], ys: tuple[Value, ...], z: tuple[Value, ...]) -> Value:
    """Concat(*a, Concat(*b), *c) => Concat(*a, *b, *c)"""
    return g.Concat(*xs, *ys, *z, axis=0)


test_any_number_of_inputs = toys.using(any_number, flatten_concat).all_become("""
    three: a = Sum(x, w, x) y = Neg(a) => a = Neg(x) b = Neg(w) c = Neg(x) y = Sum(a, b, c)
    one: a = Sum(x) y = Neg(a) => a = Neg(x) y = Sum(a)
    the first: a = Concat<axis=0>(x, w) y = Concat<axis=0>(a, x) => y = Concat<axis=0>(x, w, x)
    the last: a = Concat<axis=0>(x, w) y = Concat<axis=0>(x, a) => y = Concat<axis=0>(x, x, w)
    between: a = Concat<axis=0>(x, w) y = Concat<axis=0>(w, a, x) => y = Concat<axis=0>(w, x, w, x)
    two: a = Concat<axis=0>(x) b = Concat<axis=0>(w) y = Concat<axis=0>(a, b) => y = Concat<axis=0>(x, w)
""")
test_other_concats_stay = toys.using(flatten_concat).all_stay("""
    another axis: a = Concat<axis=1>(x, w) y = Concat<axis=0>(a, a)
    the same twice: a = Concat<axis=0>(x, w) y = Concat<axis=0>(a, a)
""")


@each(("inputs", "bound"), [("x, w", None), ("x, w, x", 1), ("x, w, w, x", None), ("x", None)])
def test_variadic_inputs_between_two_others(inputs: str, bound: int | None) -> None:
    result, change_log = apply_passes(load(f"{G} {{ y = Concat<axis=0>({inputs}) }}"), turn_ends)
    assert len(change_log.changes) == (bound or 0)
    assert op_types(to_onnx(result)) == (["Identity", "Concat"] if bound else ["Concat"])


@rule(lambda g, x, k, top: g.TopK(x, k) @ top, contract=EXACT)
def top_one_to_max(g: RewriteBuilder, x: Value, k: Value, top: Op) -> tuple[Value | None, ...]:
    """TopK(x, 1) => ReduceMax(x), ArgMax(x)"""
    require(k.const.tolist() == [1], "more than one is asked for")
    return g.ReduceMax(x, axes=[-1], keepdims=1), g.ArgMax(x, axis=-1, keepdims=1)


@rule(lambda g, x, k, top: g.TopK(x, k) @ top, contract=EXACT)
def top_values_only(g: RewriteBuilder, x: Value, k: Value, top: Op) -> tuple[Value | None, ...]:
    """The same, values alone."""
    require(k.const.tolist() == [1], "more than one is asked for")
    return g.ReduceMax(x, axes=[-1], keepdims=1), None


@rule(lambda g, x, k: g.TopK(x, k))
def top_short(g: RewriteBuilder, x: Value, k: Value) -> Value:
    """One value for a root of two outputs."""
    return g.ReduceMax(x, axes=[-1], keepdims=1)


@rule(lambda g, x: g.Neg(x))
def too_many(g: RewriteBuilder, x: Value) -> tuple[Value, Value]:
    """Two values for a root of one output."""
    return g.Abs(x), g.Exp(x)


@rule(lambda g, x, k: g.Neg(g.TopK(x, k)[0]))
def first_output(g: RewriteBuilder, x: Value, k: Value) -> Value:
    """-max => a toy"""
    return g.Abs(x)


@rule(lambda g, x, k: g.Neg(g.TopK(x, k)[1]))
def second_output(g: RewriteBuilder, x: Value, k: Value) -> Value:
    """-argmax => a toy"""
    return g.Abs(x)


tops = Rewrites("g (float[2,3] x) => (float[n,m] y, int64[{z}] z)", top_one_to_max, weights={"k": [1]}, z="p,q")
MAXIMUM = "ReduceMax<axes=[-1], keepdims=1>(x)"
test_roots_of_several_outputs = tops.all_become(f"""
    inner values: a, b = TopK(x, k) y = Neg(a) z = Neg(b)
        => a = {MAXIMUM} b = ArgMax<axis=-1, keepdims=1>(x) y = Neg(a) z = Neg(b)
    graph outputs: y, z = TopK(x, k) => y = {MAXIMUM} z = ArgMax<axis=-1, keepdims=1>(x)
""")


@each("chosen", [top_values_only, top_short])
def test_one_of_two_outputs(chosen: Rule) -> None:
    top = tops.using(chosen)
    top.stays("a, b = TopK(x, k) y = Neg(a) z = Neg(b)")
    top.becomes("a, b = TopK(x, k) y = Neg(a) z = Shape(x)", f"a = {MAXIMUM} y = Neg(a) z = Shape(x)", z="p")


@each(("chosen", "output"), [(first_output, 0), (second_output, 1)])
def test_which_output_of_an_inner_op(chosen: Rule, output: int) -> None:
    for used in (0, 1):
        text = f"g (float[2,3] x) => (float[n,m] y) <int64[1] k = {{1}}> {{ a, b = TopK(x, k) y = Neg({'ab'[used]}) }}"
        _, change_log = apply_passes(load(text), chosen)
        assert len(change_log.changes) == (used == output)


test_another_output_of_an_inner_op_is_read = tops.using(first_output).all_stay("""
    the indices: a, z = TopK(x, k) y = Neg(a)
""")


@rule(lambda g, x, s: g.Split(x, s), contract=EXACT)
def same_value_for_both(g: RewriteBuilder, x: Value, s: Value) -> tuple[Value, Value]:
    """Two outputs that are one new value."""
    t = g.Abs(x)
    return t, t


def test_one_new_value_for_two_outputs() -> None:
    """The result need not be equivalent, only the graph valid."""
    text = (
        "g (float[2] x) => (float[n] y, float[n] z) <int64[2] s = {1,1}> { a, b = Split(x, s) y = Neg(a) z = Exp(b) }"
    )
    result, _ = apply_passes(load(text), same_value_for_both)
    out = to_onnx(result)
    assert sorted(op_types(out)) == ["Abs", "Exp", "Neg"]
    made = {o for n in out.graph.node for o in n.output} | {"x"}
    assert all(i in made for n in out.graph.node for i in n.input)


@rule(lambda g, x, y, op: g.Neg(g.one_of("Add", "Mul")(x, y) @ op))
def either(g: RewriteBuilder, x: Value, y: Value, op: Op) -> Value:
    """A toy for two ops."""
    return getattr(g, op.type)(y, x)


@rule(lambda g, x: g.one_of("Neg", "Abs")(x))
def either_root(g: RewriteBuilder, x: Value) -> Value:
    """A toy for two roots."""
    return g.Exp(x)


@each(
    ("chosen", "body", "left"),
    [
        (either, "a = Add(x, w) y = Neg(a)", ["Add"]),
        (either, "a = Mul(x, w) y = Neg(a)", ["Mul"]),
        (either, "a = Sub(x, w) y = Neg(a)", ["Sub", "Neg"]),
        (either_root, "a = Neg(x) y = Abs(a)", ["Exp", "Exp"]),
        (either_root, "a = Relu(x) y = Abs(a)", ["Relu", "Exp"]),
    ],
)
def test_one_of(chosen: Rule, body: str, left: list[str]) -> None:
    result, _ = apply_passes(load(f"{G} {{ {body} }}"), chosen)
    assert op_types(to_onnx(result)) == left


@rule(lambda g, x, c: g.one_of("Mul", "Div")(g.Neg(x), g.const(c)), contract=EXACT)
def negate_twice(g: RewriteBuilder, x: Value) -> Value:
    """-x * c, -x / c => -(-x), a toy for operators of which one commutes"""
    return g.Neg(g.Neg(x))


@each(("before", "fires"), [("Mul(a, c)", True), ("Mul(c, a)", True), ("Div(a, c)", True), ("Div(c, a)", False)])
def test_operands_of_commuting_ops_are_swapped(before: str, fires: bool) -> None:
    weights = {"c": np.full(1, 1, np.float32)}
    _, change_log = apply_passes(load(f"{G} {{ a = Neg(x) y = {before} }}", weights=weights), negate_twice)
    assert bool(change_log.changes) == fires


@rule(lambda g, x, op: g.one_of("Sum", "Sub", "Add")(..., g.Neg(x), ...) @ op, contract=EXACT)
def around_negation(g: RewriteBuilder, op: Op) -> Value:
    """a + -x + b => the same of absolute values, a toy that names one operand of several"""
    return getattr(g, op.type)(*(g.Abs(v) for v in op.inputs))


@each(
    ("body", "matched"),
    {
        "alone": ("a = Neg(x) y = Sum(a)", 1),
        "first": ("a = Neg(x) y = Sum(a, w)", 1),
        "last": ("a = Neg(x) y = Sum(w, x, a)", 1),
        "between": ("a = Neg(x) y = Sum(w, a, x)", 1),
        "two of them": ("a = Neg(x) b = Neg(w) y = Sum(w, a, b, x)", 2),
        "an op that does not commute": ("a = Neg(x) y = Sub(w, a)", 1),
        "an op that does: once": ("a = Neg(x) y = Add(w, a)", 1),
        "the inner value is another operand, too": ("a = Neg(x) y = Add(a, a)", 0),
        "no operand is it": ("y = Sum(x, w)", 0),
    },
)
def test_any_operands(body: str, matched: int) -> None:
    graph = from_onnx(load(f"{G} {{ {body} }}")).graph
    root = next(op for op in graph.ops() if op.outputs[0].name == "y")
    found = list(around_negation.matches(root))
    assert len(found) == matched
    assert all(set(m.bindings) == {"x", "op"} for m in found)


@rule(lambda g, x: g.domain("com.microsoft").QuickGelu(x))
def decompose_quick_gelu(g: RewriteBuilder, x: Value) -> Value:
    """QuickGelu(x) => x * Sigmoid(1.702 x)"""
    return g.Mul(x, g.Sigmoid(g.Mul(x, g.const(1.702, like=x))))


@rule(lambda g, x: g.Mul(x, g.Sigmoid(x)))
def fuse_silu(g: RewriteBuilder, x: Value) -> Value:
    """x * Sigmoid(x) => QuickGelu<alpha=1>(x)"""
    return g.domain("com.microsoft").QuickGelu(x, alpha=1.0)


@rule(lambda g, x: g.Mul(x, g.Sigmoid(x)))
def change_its_mind(g: RewriteBuilder, x: Value) -> Value:
    """Builds something and then declines."""
    g.domain("com.microsoft").QuickGelu(g.Neg(x), alpha=1.0)
    require(False, "never")
    return x


def microsoft(text: str) -> ModelProto:
    model = load(text)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def test_domain_in_the_pattern() -> None:
    result, change_log = apply_passes(microsoft(f"{G} {{ y = com.microsoft.QuickGelu(x) }}"), decompose_quick_gelu)
    assert len(change_log.changes) == 1
    assert op_types(to_onnx(result)) == ["Mul", "Sigmoid", "Mul"]


def test_domain_not_in_the_pattern() -> None:
    model = microsoft(f"{G} {{ a = com.microsoft.Neg(x) y = com.microsoft.Neg(a) }}")
    result, change_log = apply_passes(model, cancel_negations)
    assert not change_log.changes
    assert to_onnx(result) == model


def test_domain_in_the_builder() -> None:
    toys.using(decompose_quick_gelu).stays("a = Sigmoid(x) y = Mul(x, a)")
    model = load(f"{G} {{ a = Sigmoid(x) y = Mul(a, x) }}")
    result, _ = apply_passes(model, fuse_silu)
    out = to_onnx(result)
    assert [(n.domain, n.op_type) for n in out.graph.node] == [("com.microsoft", "QuickGelu")]
    assert {e.domain for e in out.opset_import} == {"", "com.microsoft"}


def test_ops_built_before_declining_are_removed() -> None:
    toys.using(change_its_mind).stays("a = Sigmoid(x) y = Mul(x, a)")


def test_rejected_rewrite_leaves_no_ops() -> None:
    model = load(f"{G} {{ a = Sigmoid(x) y = Mul(x, a) }}")
    result, change_log = apply_passes(model, fuse_silu, exact_only=True)
    assert not change_log.changes
    assert to_onnx(result) == model


@rule(lambda g, x, a: g.Neg(g.Squeeze(x, axes=a)), contract=EXACT)
def squeeze_last(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    """Neg(Squeeze(x)) => Squeeze(Neg(x))"""
    require(a, "no axes")
    return g.Squeeze(g.Neg(x), axes=a)


squeezes = Rewrites("g (float[1,3] x) => (float[n] y)", squeeze_last, weights={"k": [0]}, opset=13)
test_attribute_or_input = squeezes.all_become("""
    attribute [opset=11]: a = Squeeze<axes=[0]>(x) y = Neg(a) => a = Neg(x) y = Squeeze<axes=[0]>(a)
    input: a = Squeeze(x, k) y = Neg(a) => a = Neg(x) y = Squeeze(a, k)
""")
test_no_attribute = squeezes.all_stay("""
    left out: a = Squeeze(x) y = Neg(a)
    not written [opset=11]: a = Squeeze(x) y = Neg(a)
    computed [graph=g (float[1,1] x, int64[1] k) => (float[n] y); runs=False]: a = Squeeze(x, k) y = Neg(a)
""")


@rule(lambda g, x, lo, hi: g.Neg(g.Clip(x, min=lo, max=hi)))
def turn_clip(g: RewriteBuilder, x: Value, lo: float, hi: float) -> Value:
    """-Clip(x, lo, hi) => Clip(-x, -hi, -lo)"""
    require(lo is not None and hi is not None, "open")
    return g.Clip(g.Neg(x), min=-hi, max=-lo)


@rule(lambda g, x, b, e, a: g.Neg(g.Slice(x, starts=b, ends=e, axes=a)))
def move_slice(g: RewriteBuilder, x: Value, b: list[int], e: list[int], a: list[int]) -> Value:
    """-x[b:e] => (-x)[b:e]"""
    return g.Slice(g.Neg(x), starts=b, ends=e, axes=a)


NUMBERS = {"s": -1.0, "t": 2.0, "i": [0], "j": [2], "k": [1]}
test_several_attributes_or_inputs = toys.using(turn_clip, move_slice, weights=NUMBERS).all_become("""
    Clip at 6 [opset=6; runs=False]: a = Clip<max=2.0, min=-1.0>(x) y = Neg(a) => a = Neg(x)
        y = Clip<max=1.0, min=-2.0>(a)
    Clip at 11 [opset=11]: a = Clip(x, s, t) y = Neg(a) => a = Neg(x) y = Clip(a, p, q)
    Clip at 18 [opset=18]: a = Clip(x, s, t) y = Neg(a) => a = Neg(x) y = Clip(a, p, q)
    Slice at 9 [opset=9]: a = Slice<axes=[1], ends=[2], starts=[0]>(x) y = Neg(a)
        => a = Neg(x) y = Slice<axes=[1], ends=[2], starts=[0]>(a)
    Slice at 13 [opset=13]: a = Slice(x, i, j, k) y = Neg(a) => a = Neg(x) y = Slice(a, p, q, r)
""")

BUILT: dict[str, tuple[Any, Any]] = {
    "Squeeze": (
        lambda g, x: g.Unsqueeze(g.Squeeze(g.Unsqueeze(x, axes=[0]), axes=[0]), axes=[1]),
        lambda x: x[:, None],
    ),
    "ReduceSum": (lambda g, x: g.ReduceSum(x, axes=[1], keepdims=1), lambda x: x.sum(1, keepdims=True)),
    "ReduceMax": (lambda g, x: g.ReduceMax(x, axes=[1], keepdims=1), lambda x: x.max(1, keepdims=True)),
    "Clip": (lambda g, x: g.Clip(x, min=-0.5, max=0.25), lambda x: np.clip(x, -0.5, 0.25)),
    "Clip above": (lambda g, x: g.Clip(x, max=0.25), lambda x: np.minimum(x, 0.25)),
    "Slice": (lambda g, x: g.Slice(x, starts=[1], ends=[3], axes=[1]), lambda x: x[:, 1:3]),
    "Pad": (lambda g, x: g.Pad(x, pads=[0, 1, 0, 2]), lambda x: np.pad(x, ((0, 0), (1, 2)))),
    "Split": (lambda g, x: g.Split(x, split=[1, 2], axis=1, outputs=2)[1], lambda x: x[:, 1:]),
    "equal Split": (lambda g, x: g.Split(g.Slice(x, [1], [3], [1]), axis=1, outputs=2)[1], lambda x: x[:, 2:]),
    "Squeeze by value": (
        lambda g, x: g.Squeeze(g.Unsqueeze(x, g.const(np.array([0]))), g.const(np.array([0]))),
        lambda x: x,
    ),
    "Clip by value": (lambda g, x: g.Clip(x, None, g.const(0.25, like=x)), lambda x: np.minimum(x, 0.25)),
    "Slice by value": (lambda g, x: g.Slice(x, *(g.const(np.array([n])) for n in (1, 3, 1))), lambda x: x[:, 1:3]),
}


@each("opset", [9, 11, 13, 18, 22])
@each(("build_it", "meant"), BUILT)
def test_built_for_the_opset_of_the_model(build_it: Any, meant: Any, opset: int) -> None:
    from onnx import checker
    from passwright.core.ort.backends import LoadedModel

    @rule(lambda g, x: g.Selu(x))
    def build(g: RewriteBuilder, x: Value) -> Value:
        """Selu(x) => what is to be built"""
        return build_it(g, x)

    result, change_log = apply_passes(load("g (float[2,3] x) => (float y) { a = Selu(x) y = Neg(a) }", opset), build)
    assert len(change_log.changes) == 1
    out = to_onnx(result)
    out.graph.output[0].type.tensor_type.ClearField("shape")
    for dim in "nmk"[: meant(np.zeros((2, 3))).ndim]:
        out.graph.output[0].type.tensor_type.shape.dim.add(dim_param=dim)
    checker.check_model(out, full_check=True)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (got,) = LoadedModel(out.SerializeToString()).run(["y"], {"x": x})
    np.testing.assert_allclose(got, -meant(x), rtol=1e-6)


@rule(lambda g, x: g.Mul(x, g.Sigmoid(x)))
def to_swish(g: RewriteBuilder, x: Value) -> Value:
    """x * Sigmoid(x) => Swish(x), an operator since opset 24"""
    return g.Swish(x)


@rule(lambda g, x: g.Neg(x))
def to_scatter(g: RewriteBuilder, x: Value) -> Value:
    """To an operator that is deprecated since opset 11"""
    return g.Upsample(x, g.const(np.ones(2, np.float32)))


@each(
    ("chosen", "body", "opset", "fires"),
    [
        (to_swish, "a = Sigmoid(x) y = Mul(a, x)", 23, False),
        (to_swish, "a = Sigmoid(x) y = Mul(a, x)", 24, True),
        (to_scatter, "y = Neg(x)", 9, True),
        (to_scatter, "y = Neg(x)", 10, False),
    ],
)
def test_rule_declines_if_opset_lacks_the_op(chosen: Rule, body: str, opset: int, fires: bool) -> None:
    model = load(f"{G} {{ {body} }}", opset)
    result, change_log = apply_passes(model, chosen)
    assert bool(change_log.changes) == fires
    assert fires or to_onnx(result) == model


test_inside_bodies = toys.using(add_negated_to_sub, weights={"t": np.bool_(True)}).all_become("""
    If, captured value [in_if]: a = Neg(x) z = Exp(x) y = Add(a, z) => z = Exp(x) y = Sub(z, x)
    Loop, own and captured value [graph=g (int64 n, float[2] x) => (float[2] y)]:
        y = Loop (n, t, x) <body = l (int64 j, bool c, float[2] s) => (bool d, float[2] e) { d = Identity(c) a = Neg(s)
        e = Add(x, a) }>
        => y = Loop (n, t, x) <body = l (int64 j, bool c, float[2] s) => (bool d, float[2] e) { d = Identity(c)
        e = Sub(x, s) }>
    Scan, own value [graph=g (float[3,2] x) => (float[3,2] y)]:
        y = Scan <num_scan_inputs=1, body = s (float[2] b) => (float[2] e) { a = Neg(b) z = Exp(b) e = Add(z, a) }>(x)
        => y = Scan <num_scan_inputs=1, body = s (float[2] b) => (float[2] e) { z = Exp(b) e = Sub(z, b) }>(x)
""")


def test_new_constants_of_a_body_are_its_own() -> None:
    text = (
        "g (bool c, float[2] x) => (float[2] y) {{ y = If (c) <then_branch = p () => (float[2] b) {} {{ {} }}, "
        "else_branch = e () => (float[2] d) {{ d = Exp(x) }}> }}"
    )
    becomes(text.format("", "b = Add(x, x)"), text.format("<float k = {2}>", "b = Mul(x, k)"), double)


@rule(lambda g, n, v, op, c=None: g.Loop(n, c, v) @ op)
def loop_of_no_negative_count(g: RewriteBuilder, n: Value, v: Value, op: Op) -> Value:
    """Loop(n, v) => Loop(Max(n, 0), v)"""
    require(n.producer is None, "done")
    return g.Loop(g.Max(n, g.const(0, like=n)), None, v, **op.attrs)


@rule(lambda g, c, op: g.If(c) @ op)
def if_of_truth(g: RewriteBuilder, c: Value, op: Op) -> Value:
    """If(c) => If(Not(Not(c)))"""
    require(c.producer is None, "done")
    return g.If(g.Not(g.Not(c)), **op.attrs)


@rule(lambda g, c, op: g.If(c) @ op)
def if_twice(g: RewriteBuilder, c: Value, op: Op) -> Value:
    """If(c) => If(c), Max of two of them"""
    return g.Max(g.If(c, **op.attrs), g.If(c, **op.attrs))


LOOP = """g (int64 n, float[2] v) => (float[2] y, float[2] z) {} {{
    z = Neg(k) {}
    y = Loop(m, , v) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] o) {{
        d = Identity(c) p = Mul(k, a) o = Tanh(p) }}> }}"""
BRANCHES = """g (bool c, float[2] v) => (float[2] y) {{ a = Abs(v) {} y = If(t)
    <then_branch = p () => (float[2] u) {{ u = Exp(a) }}, else_branch = e () => (float[2] w) {{ w = Neg(a) }}> }}"""


def test_new_ops_take_the_bodies_of_matched_ones() -> None:
    weights = "<float[2] k = {2,3}>"
    after = "m = Max(n, zero)"
    before = LOOP.format(weights, "").replace("Loop(m", "Loop(n")
    becomes(before, LOOP.format(weights.replace(">", ", int64 zero = {0}>"), after), loop_of_no_negative_count)
    double = "s = Not(c) t = Not(s)"
    becomes(BRANCHES.format("").replace("If(t)", "If(c)"), BRANCHES.format(double), if_of_truth)


def test_no_two_ops_have_one_body() -> None:
    with pytest.raises(RuleError, match="if_twice gave two ops the body of If y"):
        apply_passes(load(BRANCHES.format("").replace("If(t)", "If(c)")), if_twice)


def test_a_function_takes_variables_of_its_pattern() -> None:
    with pytest.raises(RuleError, match=r"wrong takes z, but the pattern binds only \['x', 'y'\]"):

        @rule(lambda g, x, y: g.Add(x, y))
        def wrong(g: RewriteBuilder, x: Value, z: Value) -> Value:
            """Takes one too many."""
            return g.Add(x, z)


@rule(lambda g, x, neg: g.Abs(g.Neg(x) @ neg), contract=EXACT)
def abs_of_negation(g: RewriteBuilder, neg: Op) -> Value:
    """Abs(Neg(x)) => Abs(x), a toy that takes one of two variables"""
    return g.Abs(neg.inputs[0])


def test_function_takes_used_variables_only() -> None:
    toys.using(abs_of_negation).becomes("a = Neg(x) y = Abs(a)", "y = Abs(x)")


@rule(
    lambda g, x: g.Sqrt(g.Mul(x, x)),
    lambda g, x, two: g.Sqrt(g.Pow(x, g.const(two))),
    lambda g, x: g.Abs(g.Abs(x)),
    contract=conditional("no square overflows or underflows"),
)
def root_of_square(g: RewriteBuilder, x: Value, two: Value | None = None) -> Value:
    """Sqrt(x * x), Sqrt(Pow(x, 2)), Abs(Abs(x)) => Abs(x), a toy with three spellings"""
    require(two is None or two.const.item() == 2, "another power")
    return g.Abs(x)


test_several_patterns = toys.using(root_of_square).all_become("""
    a product: a = Mul(x, x) y = Sqrt(a) => y = Abs(x)
    a power: c = Constant<value_float=2.0>() a = Pow(x, c) y = Sqrt(a) => y = Abs(x)
    twice: a = Abs(x) y = Abs(a) => y = Abs(x)
""")
test_other_patterns = toys.using(root_of_square).all_stay("""
    apart: a = Mul(x, x) b = Abs(a) y = Sqrt(b)
    another power: c = Constant<value_float=3.0>() a = Pow(x, c) y = Sqrt(a)
""")


def test_several_patterns_share_the_function_variables() -> None:
    assert root_of_square.root_types == ("Sqrt", "Abs")
    with pytest.raises(RuleError, match=r"of wrong does not bind two, .*, such as two=None \(test_rules"):

        @rule(lambda g, x, two: g.Pow(x, g.const(two)), lambda g, x: g.Mul(x, x))
        def wrong(g: RewriteBuilder, x: Value, two: Value) -> Value:
            """Takes a variable that its second pattern lacks."""
            return g.Mul(x, two)


def test_arrays_keep_their_type_where_no_operand_has_one() -> None:
    @rule(lambda g, x: g.Selu(x))
    def dequantize(g: RewriteBuilder, x: Value) -> Value:
        return g.Mul(x, g.DequantizeLinear(np.array([2, -4], np.int8), np.array(0.5, np.float32)))

    result, _ = apply_passes(load("g (float[2] x) => (float[2] y) { y = Selu(x) }"), dequantize)
    (found,) = (op for op in result.graph.ops("DequantizeLinear"))
    assert found.operand(0).dtype == np.int8
    assert run(to_onnx(result), {"x": np.float32([3, 1])})[0].tolist() == [3, -2]


def test_a_number_of_outputs_is_said_once() -> None:
    @rule(lambda g, x: g.Selu(x))
    def wrong(g: RewriteBuilder, x: Value) -> Value:
        return g.Split(x, num_outputs=2)[0]  # type: ignore[index]

    with pytest.raises(RuleError, match="Split with num_outputs=2 has 2 outputs: give outputs=2 alone"):
        apply_passes(load("g (float[2,3] x) => (float[2,3] y) { y = Selu(x) }"), wrong)


def test_a_rule_has_a_pattern() -> None:
    with pytest.raises(RuleError, match="cancel_negations has no pattern"):
        rule()(cancel_negations.build)


@cases(
    ("pattern", "says"),
    {
        "operator": (lambda g, x: g.ReLU(x), "never matches, because no opset has an operator ReLU; did you mean Relu"),
        "one of several": (lambda g, x: g.one_of("Neg", "Ngg")(x), "no opset has an operator Ngg"),
        "attribute": (lambda g, x: g.Relu(x, alpha=3), "Relu has no attribute alpha at any opset"),
        "inner": (lambda g, x: g.Neg(g.LeakyRelu(x, alpa=3)), "did you mean alpha?"),
        "too few": (lambda g, x: g.Add(x), "Add takes 2 inputs, not 1"),
        "too many": (lambda g, x: g.Clip(x, x, x, x), "Clip takes 1 to 3 inputs, not 4"),
        "too many beside others": (lambda g, x: g.Add(x, x, ..., x), "Add takes 2 inputs, not 3"),
        "starred parameter": (lambda g, *xs: g.Concat(*xs), "the star belongs to the inputs, not to the parameter *xs"),
        "unknown name": (lambda g, x: g.Add(x, undefined), "name 'undefined' is not defined"),  # noqa: F821
        "arithmetic": (lambda g, x: g.Neg(x % 2), "a pattern must call operators of g"),
        "an input and an attribute": (
            lambda g, x: g.Elu(g.Relu(x), alpha=g.attr(x, lambda a: a > 0)),
            "x is an attribute in one place and an input in another: use two parameters",
        ),
        "an input and an op": (lambda g, x: g.Neg(g.Relu(x) @ x), "x is an input in one place and an op in another"),
        "of two roots": (
            lambda g, x, a: (g.Elu(x, alpha=a), g.Add(x, a)),
            "a is an attribute in one place and an input in another",
        ),
        "operator to bind": (lambda g, x: g.Neg(g.Relu(x) @ g.inner), "@ takes a parameter of the lambda that binds"),
        "several without a star": (lambda g, x: g.Sum(g.each(g.Relu(x))), "with a star, such as *g.each(...), but got"),
        "with a star and without": (lambda g, x: g.Add(g.Concat(*x, axis=0), x), "x is an input in one place and seve"),
    },
)
def test_pattern_that_never_matches_is_an_error(pattern: Any, says: str) -> None:
    with pytest.raises(RuleError, match=r"^the pattern of break_down: ") as e:
        rule(pattern)(break_down.build)
    assert says in str(e.value)


def test_two_rules_of_one_name_in_a_module_are_an_error(tmp_path: Path) -> None:
    """The first one would vanish, but not where one is written in the other branch, or a module is loaded again."""
    one = "@rule(lambda g, x: g.Neg(g.Neg(x)))\ndef drop(g, x):\n    return x\n"
    head = "from passwright.core import rule\n"
    (tmp_path / "twice.py").write_text(head + one + one.replace("Neg", "Abs"))
    with pytest.raises(PluginError, match=r"twice\.py: .*two rules are named drop, in twice\.py:2 and twice\.py:5"):
        import_file(tmp_path / "twice.py")
    indented = one.replace("\n", "\n    ").rstrip(" ")
    (tmp_path / "either.py").write_text(f"{head}if 1:\n    {indented}else:\n    {indented}")
    module = import_file(tmp_path / "either.py")
    (tmp_path / "either.py").write_text(f"{head}\n\n{one}")
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)
    assert module.drop.name == "drop"


@each(
    "pattern",
    [
        lambda g, x: g.Squeeze(x, axes=[0]),
        lambda g, x: g.Squeeze(x, x),
        lambda g, x: g.Clip(x, min=0.0),
        lambda g, x, b=None: g.Gemm(x, x, b),
        lambda g, x: g.Upsample(x, scales=[1.0]),
        lambda g, x: g.BatchNormalization(x, x, x, x, x, spatial=0),
        lambda g, x: g.Concat(..., x),
        lambda g, x: g.domain("com.microsoft").Gelu(x),
        lambda g, x: g.domain("com.example").Anything(x, x, x, colour=3),
    ],
)
def test_patterns_of_any_opset_are_taken(pattern: Any) -> None:
    assert rule(pattern)(break_down.build).patterns


def test_contract_is_one() -> None:
    with pytest.raises(RuleError, match=r"^the contract of break_down must be EXACT, .* not 'exact' \(test_rules"):
        rule(lambda g, x: g.Neg(x), contract="exact")(break_down.build)  # type: ignore[arg-type]


def test_names_of_a_pass_stand_for_one_rule_each() -> None:
    twice = structs.replace(break_down, critical_values=(1.0,))
    with pytest.raises(
        RuleError, match=r"^mine has two rules named break_down, at test_rules.py:\d+ and at test_rules.py:\d+$"
    ):
        RulePass("mine", (break_down, cancel_negations, twice))
    RulePass("mine", (break_down, cancel_negations, break_down))


def test_pass_may_delegate_to_rules_that_decline() -> None:
    """Ops that a rule built before it declined are no change."""

    @rule(lambda g, x: g.Neg(x))
    def decline_late(g: RewriteBuilder, x: Value) -> Value:
        y = g.Sub(g.const(0, like=x), x)
        require(False, "it declines")
        return y

    class Delegating:
        name = "delegating"

        def run(self, graph: Graph, change_log: ChangeLog) -> int:
            return RulePass("inner", (decline_late,)).run(graph, change_log)

    result, change_log = apply_passes(load(f"{G} {{ y = Neg(x) }}"), Fixpoint("loop", (Delegating(),)))
    assert not change_log.changes
    assert op_types(to_onnx(result)) == ["Neg"]


def test_a_pattern_must_be_an_operator() -> None:
    with pytest.raises(RuleError):
        rule(lambda _, x: x)(cancel_negations.build)


@rule(lambda g, x: g.Neg(x))
def break_down(g: RewriteBuilder, x: Value) -> Value:
    """Fails: there is no such output."""
    return g.graph.outputs[3]


@rule(lambda g, x: g.Neg(x))
def give_a_number(g: RewriteBuilder, x: Value) -> Any:
    """Returns no value."""
    return 3


@rule(lambda g, x: g.Neg(x))
def give_no_value(g: RewriteBuilder, x: Value) -> Any:
    """No value for the only output."""
    return (None,)


@rule(lambda g, x: g.Neg(x))
def give_nothing(g: RewriteBuilder, x: Value) -> Any:
    """A forgotten return."""
    g.Neg(x)


@rule(lambda g, x: g.Neg(x))
def misspell_operator(g: RewriteBuilder, x: Value) -> Any:
    """An operator that no opset has."""
    return g.Ngg(x)


@rule(lambda g, x: g.Neg(x))
def misspell_attribute(g: RewriteBuilder, x: Value) -> Any:
    """An attribute that no opset has."""
    return g.LeakyRelu(x, alpa=3.0)


@rule(lambda g, x: g.Neg(x))
def give_one_operand(g: RewriteBuilder, x: Value) -> Any:
    """Too few inputs at all opsets."""
    return g.Add(x)


@rule(lambda g, x: g.Neg(x))
def give_three_operands(g: RewriteBuilder, x: Value) -> Any:
    """Too many inputs at all opsets."""
    return g.Add(x, x, x)


@rule(lambda g, x: g.Neg(x))
def edit_matched_op(g: RewriteBuilder, x: Value) -> Any:
    """A change of the graph, before it declines."""
    g.graph.set_inputs(g.root, [g.Abs(x)])
    require(False, "it declines")


@each(
    ("chosen", "says"),
    [
        (break_down, "IndexError"),
        (give_a_number, "3"),
        (too_many, "more values"),
        (give_nothing, "returned nothing"),
        (misspell_operator, "no opset has an operator Ngg; did you mean Neg"),
        (misspell_operator, " (g.Ngg(x) in test_rules.py:"),
        (give_one_operand, " (g.Add(x) in test_rules.py:"),
        (misspell_attribute, "LeakyRelu has no attribute alpa at any opset; did you mean alpha"),
        (give_one_operand, "Add takes 2 inputs, not 1"),
        (give_three_operands, "Add takes 2 inputs, not 3"),
        (edit_matched_op, "changed the graph"),
    ],
)
def test_error_names_the_rule(chosen: Rule, says: str) -> None:
    with pytest.raises(RuleError, match=chosen.name) as e:
        apply_passes(load(f"{G} {{ y = Neg(x) }}"), chosen)
    assert says in str(e.value)
    assert isinstance(e.value, PassesError)


@rule(lambda g, x: g.Neg(x))
def read_unknown_rank(g: RewriteBuilder, x: Value) -> Value:
    """Declines, as nothing is known of a value that it made."""
    made = g.domain("acme").Own(x)
    require(made.rank == 1, "another rank")
    return made


@rule(lambda g, x: g.Relu(x))
def refuse_relu(g: RewriteBuilder, x: Value) -> Value:
    """Declines, with the name of a variable."""
    raise MatchFailure(f"{x.name} is not it")


@each(
    ("chosen", "says"),
    [
        (read_unknown_rank, "the shape of the result of Own is unknown"),
        (refuse_relu, "x is not it"),  # of an op that a rewrite made
    ],
)
def test_declines_have_no_names_that_rewrites_made(chosen: Rule, says: str) -> None:
    graph = from_onnx(load(f"{G} {{ y = Neg(x) }}")).graph
    build = RewriteBuilder(graph, next(graph.ops("Neg")))
    relu = build.Relu(build.Abs(graph.inputs[0]))
    graph.insert_behind(graph.outputs[0], build.Add(graph.outputs[0], relu), build.added_ops)
    (match,) = chosen.matches(next(graph.ops(*chosen.root_types)))
    with pytest.raises(MatchFailure) as why:
        try_build(chosen, match)
    assert str(why.value) == says


@each(
    ("log", "says"),
    [
        (ChangeLog(), ""),
        (ChangeLog(exact_only=True), "it may round, and only exact changes are allowed"),
        (ChangeLog(limit=BisectLimit(after_changes=0)), "the run ends before this change"),
        (ChangeLog(limit=BisectLimit(before_change=0)), "the run ends before this change"),
        (ChangeLog(exclusions=Exclusions(changes={("r", "y"): 0})), "this change was found wrong, and is skipped"),
        (ChangeLog(exclusions=Exclusions(changes={("r", "z"): 0})), ""),
        (ChangeLog(exclusions=Exclusions(rules={"r"})), "changes of r were wrong, so all are skipped"),
    ],
)
def test_a_change_that_is_not_made_has_a_reason(log: ChangeLog, says: str) -> None:
    assert log.refusal("r", "y", exact=False) == says
    assert log.request_change("r", "y", exact=False) == (not says)


@rule(lambda g, x: g.Neg(x))
def lose_a_dim(g: RewriteBuilder, x: Value) -> Value:
    """A value of another rank."""
    return g.ReduceMax(x, axes=[0], keepdims=0)


@rule(lambda g, x: g.Neg(x))
def change_the_type(g: RewriteBuilder, x: Value) -> Value:
    """A value of another type."""
    return g.Cast(x, to=TensorProto.INT32)


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
@each(
    ("chosen", "says"),
    [
        (lose_a_dim, "it replaced y (float[2,3], rank 2) by a value of another rank (float[3], rank 1); "),
        (change_the_type, "it replaced y (float[2,3], rank 2) by a value of another type (int32[2,3], rank 2); "),
    ],
)
def test_a_replacement_of_another_type_is_said(chosen: Rule, says: str) -> None:
    found = optimize(load("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }"), plugin=[chosen], only=[chosen.name])
    (rejected,) = found.report.rejected
    assert rejected.message.startswith(says)


def test_rule_without_value_for_used_output_declines() -> None:
    toys.using(give_no_value).stays("y = Neg(x)")


@rule(lambda g, x, y: g.Add(x, y))
def swap(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """x + y => y + x, for ever"""
    return g.Add(y, x)


def test_rules_that_undo_each_other_raise_no_fixpoint() -> None:
    with pytest.raises(NoFixpoint, match="swap"):
        apply_passes(load(f"{G} {{ a = Neg(x) b = Neg(a) y = Add(b, w) }}"), RulePass("both", (cancel_negations, swap)))


@rule(lambda g, x: g.Exp(x), contract=ROUNDING)
def round_off(g: RewriteBuilder, x: Value) -> Value:
    """A rule that rounds."""
    return g.Exp(g.Abs(x))


@rule(lambda g, x: g.Relu(x), contract=conditional("x is not negative"))
def on_condition(g: RewriteBuilder, x: Value) -> Value:
    """A rule with a condition."""
    return x


@rule(lambda g, x: g.Neg(x))
def says_nothing(g: RewriteBuilder, x: Value) -> Value:
    """A rule without a contract."""
    return g.Abs(x)


@each(
    ("chosen", "body", "exact"),
    [
        (double, "y = Add(x, x)", True),
        (round_off, "a = Exp(x) y = Tanh(a)", False),
        (on_condition, "y = Relu(x)", False),
        (says_nothing, "y = Neg(x)", False),
    ],
)
def test_contracts(chosen: Rule, body: str, exact: bool) -> None:
    assert (chosen.contract == EXACT) == exact
    model = load(f"{G} {{ {body} }}")
    if chosen is not round_off:  # which would match its own result again
        _, change_log = apply_passes(model, chosen)
        assert change_log.changes
        assert change_log.is_exact == exact
    result, change_log = apply_passes(model, chosen, exact_only=True)
    assert bool(change_log.changes) == exact
    assert exact or to_onnx(result) == model


INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=by_dtype(INTEGERS, EXACT, otherwise=conditional("x is finite")))
def exact_for_integers(g: RewriteBuilder, x: Value) -> Value:
    """-(-x) => x, a toy whose contract depends on the element type"""
    return x


@each(("dtype", "exact"), [("int32", True), ("int64", True), ("float", False), ("int8", False)])
def test_a_contract_by_element_type(dtype: str, exact: bool) -> None:
    model = load(f"g ({dtype}[2] x) => ({dtype}[2] y) {{ a = Neg(x) y = Neg(a) }}")
    _, change_log = apply_passes(model, exact_for_integers)
    assert [c.exact for c in change_log.changes] == [exact]
    assert change_log.is_exact == exact
    _, change_log = apply_passes(model, exact_for_integers, exact_only=True)
    assert bool(change_log.changes) == exact
    assert contract_in(exact_for_integers, model) == (EXACT if exact else conditional("x is finite"))


@each(
    ("contract", "shown"),
    [
        (by_dtype(INTEGERS, EXACT), "exact for int32, int64, else rounding"),
        (by_dtype(INTEGERS, EXACT, otherwise=conditional("x > 0")), "exact for int32, int64, else conditional: x > 0"),
        (by_dtype({2, 3, 4, 5, 6, 7, 9}, EXACT), "exact for integers, bool, else rounding"),
    ],
)
def test_a_contract_by_element_type_is_shown(contract: Contract, shown: str) -> None:
    assert str(contract) == shown


def test_equation_and_contract_are_shown() -> None:
    assert double.name == "double"
    assert double.equation == "x + x => 2 x"
    assert str(double.contract) == "exact"
    assert str(on_condition.contract) == "conditional: x is not negative"


@rule(lambda g, x: g.Ceil(x), group="pieces")
def second_piece(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) => x"""
    return x


@rule(lambda g, x: g.Floor(x), group="pieces")
def first_piece(g: RewriteBuilder, x: Value) -> Value:
    """Floor(x) => x"""
    return x


def test_a_group_is_a_pass_in_the_order_of_definition() -> None:
    again = rule_pass(sys.modules[__name__], "pieces")
    assert again == rule_pass(__name__, "pieces") == RulePass("pieces", (second_piece, first_piece))
    with pytest.raises(RuleError, match=r"test_rules defines no rule with group='others'"):
        rule_pass(__name__, "others")


def test_imported_rules_of_a_group_do_not_count() -> None:
    module = ModuleType("importing")
    vars(module)["first_piece"] = first_piece
    with pytest.raises(RuleError, match="importing defines no rule"):
        rule_pass(module, "pieces")


@rule(lambda g, x: g.Relu(x), critical_values=(0, 6.0))
def with_knees(g: RewriteBuilder, x: Value) -> Value:
    """A rule that says where it might go wrong."""
    return x


@each(("chosen", "points"), [(with_knees, (0.0, 6.0)), (double, ())])
def test_critical_values_are_kept(chosen: Rule, points: tuple[float, ...]) -> None:
    assert chosen.critical_values == points
    assert all(isinstance(p, float) for p in chosen.critical_values)


def test_unused_new_constants_are_removed() -> None:
    @rule(lambda g, x: g.Neg(x), contract=EXACT)
    def waste(g: RewriteBuilder, x: Value) -> Value:
        """Neg(x) => 0 - x"""
        g.const(np.zeros(1000))
        return g.Sub(g.const(0, like=x), x)

    result, _ = apply_passes(load("g (float[2] x) => (float[2] y) { y = Neg(x) }"), waste)
    assert [a.size for a in initializers(to_onnx(result)).values()] == [1]


@given(st.lists(st.sampled_from(["Neg", "Abs"]), max_size=12))
def test_every_pair_cancels(ops: list[str]) -> None:
    left: list[str] = []
    for op in ops:
        if op == "Neg" and left[-1:] == ["Neg"]:
            left.pop()
        else:
            left.append(op)
    chain = [f"v{i + 1} = {op}(v{i})" for i, op in enumerate(ops)]
    text = "g (float[2] x) => (float[2] y) {{ v0 = Exp(x) {} y = Tanh(v{}) }}"
    after = [f"v{i + 1} = {op}(v{i})" for i, op in enumerate(left)]
    becomes(text.format(" ".join(chain), len(ops)), text.format(" ".join(after), len(left)), cancel_negations)


def test_rules_that_cannot_match_are_not_tried() -> None:
    """The producers of an op's inputs select the rules of its type that are tried."""
    tried: list[str] = []

    def watching(name: str, op_type: str) -> Rule:
        @rule(lambda g, x, y: g.Add(g.one_of(op_type)(x), y))
        def watched(g: RewriteBuilder, x: Value, y: Value) -> Value:
            tried.append(name)
            raise MatchFailure(name)

        return structs.replace(watched, name=f"watched {name}")

    others = ("Erf", "Sin", "Cos", "Tan", "Sqrt", "Floor", "Ceil", "Sign", "Log", "Round")
    rules = [watching(f"{t}{i}", t) for t in others for i in range(10)]
    model = from_onnx(load(f"{G} {{ a = Exp(x) b = Relu(w) y = Add(a, b) }}"))
    candidates = RuleIndex([*rules, watching("Exp", "Exp")])
    (add,) = model.graph.ops("Add")
    assert len(candidates.candidates_at(add)) == 1
    assert candidates.candidates_at(add) is candidates.candidates_at(add)
    RulePass("all", tuple(rules)).run(model.graph, ChangeLog())
    assert tried == []


def test_rule_with_list_attribute_is_hashable() -> None:
    @rule(lambda g, x: g.Relu(g.Transpose(x, perm=[1, 0])))
    def transpose_last(g: RewriteBuilder, x: Value) -> Value:
        return g.Transpose(g.Relu(x), perm=[1, 0])

    assert {transpose_last: "known"}[transpose_last] == "known"
