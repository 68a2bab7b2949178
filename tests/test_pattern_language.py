"""The language of patterns: signs, alternatives, inputs that are alike, conditions, several roots, enclosing graphs."""
# ruff: noqa: ARG005 - patterns are functions of g

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from passwright.app.optimize.match_report import diagnose_match
from passwright.core import (
    EXACT,
    ChangeLog,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    conditional,
    from_onnx,
    require,
    rule,
)
from passwright.core.errors import RuleError, UsageError
from passwright.testing import RuleIsWrong, check_rule
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load

ROW = Rewrites("g (float[N] x, float[N] w) => (float[n] y)")
IMAGE = Rewrites("g (float[2,3,4] x) => (float[a,b,c] y)")


@rule(lambda g, x: -abs(x), contract=EXACT)
def cancel_signs(g: RewriteBuilder, x: Value) -> Value:
    """-|x| => -|-x|"""
    require(x.producer is None, "it is done")
    return -abs(-x)


@rule(lambda g, x, c: x * g.const(c) - 1.0)
def move_sign(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c - 1 => -1 - (-x * c)"""
    return -1.0 - (-x) * c


@rule(lambda g, x, y: y / abs(x) ** 2.0)
def multiply_for_power(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """y / |x| ** 2 => y / (x * x)"""
    return y / (x * x)


test_signs = ROW.using(cancel_signs, move_sign, multiply_for_power, weights={"c": 2.0, "one": 1.0}).all_become("""
    signs: a = Abs(x) y = Neg(a) => a = Neg(x) b = Abs(a) y = Neg(b)
    arithmetic: a = Mul(c, x) y = Sub(a, one) => a = Neg(x) b = Mul(a, c) y = Sub(k, b)
    a power: a = Abs(x) b = Pow(a, c) y = Div(w, b) => a = Mul(x, x) y = Div(w, a)
""")


@rule(lambda g, x: g.Mul(x, g.any_of(g.Sigmoid(x), g.HardSigmoid(x))))
def activate(g: RewriteBuilder, x: Value) -> Value:
    """Mul(x, Sigmoid(x)) => Tanh(x), a toy"""
    return g.Tanh(x)


@rule(lambda g, x, y: g.Exp(g.Add(g.any_of(g.Neg(x), g.Abs(x), x), g.any_of(g.Neg(y), y))), contract=EXACT)
def add_first(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """Exp(Add(x, y)) => Mul(x, y), a toy with six spellings"""
    return g.Mul(x, y)


@rule(lambda g, x, k=None: g.Relu(g.any_of(g.Mul(x, g.const(k)), g.Neg(x))), contract=EXACT)
def lacks_a_variable(g: RewriteBuilder, x: Value, k: Value | None = None) -> Value:
    """Relu(Mul(x, k)) => x; Relu(Neg(x)) => Abs(x), a toy"""
    return g.Abs(x) if k is None else g.Identity(x)


ALTERNATIVES = {
    "the first": (activate, "a = Sigmoid(x) y = Mul(x, a)", "y = Tanh(x)"),
    "the second, swapped": (activate, "a = HardSigmoid(x) y = Mul(a, x)", "y = Tanh(x)"),
    "none": (activate, "a = Exp(x) y = Mul(a, x)", None),
    "of another value": (activate, "a = Sigmoid(w) y = Mul(a, x)", None),
    "two": (add_first, "a = Abs(x) c = Add(a, w) y = Exp(c)", "y = Mul(x, w)"),
    "two variables": (add_first, "c = Add(x, w) y = Exp(c)", "y = Mul(x, w)"),
    "a variable of one": (lacks_a_variable, "a = Neg(x) y = Relu(a)", "y = Abs(x)"),
}


def require_ops(chosen: Rule, before: str, after: str | None, head: str = "g (float[N] x, float[N] w)") -> None:
    """Toys need not be true: only the operators are compared."""
    result, change_log = apply_passes(load(f"{head} => (float[n] y) {{ {before} }}"), chosen)
    assert bool(change_log.changes) == (after is not None)
    expected = from_onnx(load(f"{head} => (float[n] y) {{ {after or before} }}"))
    found: list[list[Any]] = []
    for m in (result, expected):
        operands = ((op, [None if v is None else v.producer for v in op.inputs]) for op in m.graph.sorted_ops())
        found.append([(op.type, [None if p is None else p.type for p in makers]) for op, makers in operands])
    assert found[0] == found[1]


@each(("chosen", "before", "after"), ALTERNATIVES)
def test_alternatives(chosen: Rule, before: str, after: str | None) -> None:
    require_ops(chosen, before, after)


def test_alternatives_are_spellings() -> None:
    assert len(add_first.patterns) == 6
    with pytest.raises(RuleError, match="have 128 combinations; at most 64 are allowed"):
        rule(lambda g, x: g.Sum(*(g.any_of(g.Neg(x), x) for _ in range(7))))(cancel_signs.build)
    with pytest.raises(RuleError, match="one of the patterns of f does not bind k, so it needs a default"):

        @rule(lambda g, x, k: g.Relu(g.any_of(g.Mul(x, k), x)))
        def f(g: RewriteBuilder, x: Value, k: Value) -> Value:
            return x


@rule(lambda g, x, a: g.Concat(*g.each(g.Relu(x)), axis=a), contract=EXACT)
def activate_once(g: RewriteBuilder, x: tuple[Value, ...], a: int) -> Value:
    """Concat(Relu(x), Relu(y), ...) => Relu(Concat(x, y, ...))"""
    return g.Relu(g.Concat(*x, axis=a))


@rule(lambda g, x, p: g.Sum(*g.each(g.Transpose(x, perm=p))))
def transpose_once(g: RewriteBuilder, x: tuple[Value, ...], p: list[int]) -> Value:
    """Sum(Transpose(x), Transpose(y), ...) => Transpose(Sum(x, y, ...))"""
    return g.Transpose(g.Sum(*x), perm=p)


@rule(lambda g, op, first: g.Concat(first, *g.each(g.Neg(...) @ op), axis=0), contract=EXACT)
def negate_once(g: RewriteBuilder, op: tuple[Any, ...], first: Value) -> Value:
    """Concat(z, Neg(x), Neg(y), ...) => Concat(z, Neg(Concat(x, y, ...)))"""
    require(len(op) > 1, "there is only one")
    return g.Concat(first, g.Neg(g.Concat(*(o.inputs[0] for o in op), axis=0)), axis=0)


@rule(lambda g: g.Sum(*g.each(g.Neg)))
def count_only(g: RewriteBuilder) -> Value:
    """Sum(Neg(x), ...), unbound"""
    return g.Abs(g.root.inputs[0])


test_each_becomes = ROW.using(activate_once, negate_once).all_become("""
    three: a = Relu(x) b = Relu(w) c = Relu(x) y = Concat<axis=0>(a, b, c) => a = Concat<axis=0>(x, w, x) y = Relu(a)
    one: a = Relu(x) y = Concat<axis=0>(a) => a = Concat<axis=0>(x) y = Relu(a)
    after another: a = Neg(x) b = Neg(w) y = Concat<axis=0>(x, a, b)
        => a = Concat<axis=0>(x, w) b = Neg(a) y = Concat<axis=0>(x, b)
""")
test_each_stays = ROW.using(activate_once, negate_once, count_only).all_stay("""
    one is another: a = Relu(x) b = Abs(w) y = Concat<axis=0>(a, b)
    one is an input: a = Relu(x) y = Concat<axis=0>(a, w)
    one is read elsewhere: a = Relu(x) b = Relu(w) c = Concat<axis=0>(a, b) d = Exp(a) y = Concat<axis=0>(c, d)
    none: y = Concat<axis=0>(x)
""")
test_each_has_one_attribute = IMAGE.using(transpose_once).all_become("""
    alike: a = Neg(x) b = Transpose<perm=[0,2,1]>(a) c = Transpose<perm=[0,2,1]>(x) y = Sum(b, c)
        => a = Neg(x) b = Sum(a, x) y = Transpose<perm=[0,2,1]>(b)
""")
test_each_has_other_attributes = (
    Rewrites("g (float[3,3,3] x) => (float[a,b,c] y)")
    .using(transpose_once)
    .all_stay("""
    others: a = Neg(x) b = Transpose<perm=[1,0,2]>(a) c = Transpose<perm=[0,2,1]>(x) y = Sum(b, c)
""")
)


def test_each_without_variables() -> None:
    require_ops(count_only, "a = Neg(x) b = Neg(w) y = Sum(a, b)", "a = Neg(x) y = Abs(a)")


@rule(lambda g, x, p: g.Neg(g.Transpose(x, perm=g.attr(p, lambda p: p[:1] == [0]))), contract=EXACT)
def negate_batches(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """Neg(Transpose(x)) => Transpose(Neg(x)), where the first axis stays"""
    return g.Transpose(-x, perm=p)


@rule(lambda g, x: g.Exp(g.LeakyRelu(x, alpha=lambda a: a > 0.5)))
def steep(g: RewriteBuilder, x: Value) -> Value:
    """Exp(LeakyRelu(x)) => Abs(x), a toy"""
    return abs(x)


test_conditions = IMAGE.using(negate_batches).all_become("""
    fulfilled: a = Transpose<perm=[0,2,1]>(x) y = Neg(a) => a = Neg(x) y = Transpose<perm=[0,2,1]>(a)
""")
test_conditions_stay = IMAGE.using(negate_batches, steep).all_stay("""
    not fulfilled: a = Transpose<perm=[1,0,2]>(x) y = Neg(a)
    the default: a = LeakyRelu(x) y = Exp(a)
""")


def test_condition_without_a_variable() -> None:
    require_ops(steep, "a = LeakyRelu<alpha=0.75>(x) y = Exp(a)", "y = Abs(x)")


def test_failing_condition_names_its_line() -> None:
    @rule(lambda g, x: g.LeakyRelu(x, alpha=lambda a: a.missing))
    def wrong(g: RewriteBuilder, x: Value) -> Value:
        return x

    graph = from_onnx(load("g (float[N] x) => (float[N] y) { y = LeakyRelu(x) }")).graph
    with pytest.raises(RuleError, match=r"on alpha of LeakyRelu y, which is .* \(test_pattern_language.py:"):
        RulePass("wrong", (wrong,)).run(graph, ChangeLog())


CONDITIONS: dict[str, Any] = {"an index": lambda p: p[7] == 0, "two arguments": lambda a, b: a == b}


@each("condition", CONDITIONS)
def test_checks_show_a_condition_that_always_fails(condition: Any) -> None:
    @rule(lambda g, x: g.Relu(g.Transpose(x, perm=condition)))
    def wrong(g: RewriteBuilder, x: Value) -> Value:
        return x

    with pytest.raises(RuleIsWrong, match=r"on perm of Transpose .* fails: .* \(test_pattern_language.py:\d+\)"):
        check_rule(wrong, budget=20)


def test_checks_make_values_for_a_condition() -> None:
    @rule(lambda g, x: g.Neg(g.Transpose(x, perm=lambda p: len(p) == 2)))
    def negate_first(g: RewriteBuilder, x: Value) -> Value:
        return g.Transpose(-x, perm=[1, 0])

    with pytest.raises(RuleIsWrong):  # of the permutation [0, 1]
        check_rule(negate_first)


@rule(lambda g, x, v, w: (g.MatMul(x, g.const(v)), g.MatMul(x, g.const(w))))
def multiply_once(g: RewriteBuilder, x: Value, v: Value, w: Value) -> tuple[Value, ...]:
    """MatMul(x, v), MatMul(x, w) => Split(MatMul(x, [v w]))"""
    require(v.const.ndim == w.const.ndim == 2, "a weight is not a matrix")
    whole = g.MatMul(x, g.const(np.concatenate([v.const, w.const], -1)))
    return g.Split(whole, axis=-1, split=[v.const.shape[-1], w.const.shape[-1]], outputs=2)


TWO = Rewrites("g (float[N,2] x) => (float[a,b] y, float[a,c] z)")
TWO_WEIGHTS = {"v": np.ones((2, 3), np.float32), "w": np.ones((2, 1), np.float32), "q": np.ones((3, 2), np.float32)}
test_roots_become = TWO.using(multiply_once, weights=TWO_WEIGHTS).all_become("""
    two: y = MatMul(x, v) z = MatMul(x, w) => a = MatMul(x, k) y, z = Split<axis=-1>(a, s)
    one is not an output: y = MatMul(x, v) b = MatMul(x, w) z = Neg(b)
        => a = MatMul(x, k) y, b = Split<axis=-1>(a, s) z = Neg(b)
""")
test_roots_stay = TWO.using(multiply_once, weights=TWO_WEIGHTS).all_stay("""
    one: y = MatMul(x, v) z = Neg(x)
    of two values: a = Neg(x) y = MatMul(x, v) z = MatMul(a, w)
    in two graphs [graph=g (bool c, float[N,2] x) => (float[a,b] y, float[d,e] z)]: z = MatMul(x, v)
        y = If (c) <then_branch = p () => (float[f,h] b) { b = MatMul(x, v) }, else_branch = e ()
        => (float[i,j] d) { d = Exp(x) }>
""")


@rule(lambda g, x, y, z: (g.Add(x, y), g.Mul(x, z)), contract=EXACT)
def read_both(g: RewriteBuilder, x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """Add(x, y), Mul(x, z) => one op of both, a toy"""
    both = g.Sub(y, z)
    return g.Abs(both), g.Neg(both)


@each(
    ("before", "fires"),
    {
        "apart": ("a = Add(x, w) b = Mul(x, w) y = Exp(a) z = Exp(b)", True),
        "one computed from the other": ("a = Add(x, w) b = Exp(a) y = Mul(x, b) z = Exp(y)", False),
        "the other way round": ("a = Mul(x, w) b = Exp(a) y = Add(x, b) z = Exp(y)", False),
    },
)
def test_roots_do_not_depend_on_each_other(before: str, fires: bool) -> None:
    text = f"g (float[N] x, float[N] w) => (float[n] y, float[n] z) {{ {before} }}"
    result, change_log = apply_passes(load(text), read_both)
    assert bool(change_log.changes) == fires
    result.graph.validate()


def test_roots_return_a_value_each() -> None:
    @rule(lambda g, x: (g.Neg(x), g.Abs(x)))
    def wrong(g: RewriteBuilder, x: Value) -> Value:
        return g.Exp(x)

    graph = from_onnx(load("g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }")).graph
    with pytest.raises(RuleError, match=r"wrong returned Value.* instead of a tuple with a value, .* its 2 roots"):
        RulePass("wrong", (wrong,)).run(graph, ChangeLog())


@rule(lambda g, x, y: g.Add(g.outer(g.Neg(x)), y), contract=EXACT)
def subtract(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """-x + y => y - x"""
    return y - x


BODY = "g (bool c, float[N] x, float[N] w) => (float[n] y)"
IF = "y = If (c) <then_branch = p () => (float[k] b) {{ {} }}, else_branch = e () => (float[d] d) {{ d = Exp(x) }}>"
test_enclosing_graphs = (
    Rewrites(BODY)
    .using(subtract)
    .all_become(f"""
    outside: a = Neg(x) {IF.format("b = Add(a, w)")} => {IF.format("b = Sub(w, x)")}
    inside: {IF.format("a = Neg(x) b = Add(a, w)")} => {IF.format("b = Sub(w, x)")}
""")
)
test_shared_ops_of_enclosing_graphs = (
    Rewrites(BODY)
    .using(subtract)
    .all_stay(f"""
    read elsewhere: a = Neg(x) {IF.format("t = Add(a, w) b = Mul(t, a)")}
""")
)


@each("chosen", [cancel_signs, activate_once, transpose_once, negate_batches, subtract])
def test_checks_generate_matches(chosen: Rule) -> None:
    assert check_rule(chosen, budget=80).fired


def test_checks_of_several_roots() -> None:
    assert check_rule(multiply_once, budget=300).fired


def build(g: RewriteBuilder) -> Value:
    return g.root.inputs[0]


@each(
    ("pattern", "message"),
    {
        "chain": (lambda g, x: 0 < x < 1, "a part of a pattern has no truth value"),
        "name": (lambda g, x: g.Neg("x"), "g.Neg takes variables of the lambda, operators .* but got 'x'"),
        "list": (lambda g, x: g.Neg([x]), "g.Neg takes variables of the lambda"),
        "roots apart": (lambda g, x, y: (g.Neg(x), g.Abs(y)), "each root after the first must share an input"),
        "each and elsewhere": (lambda g, x: g.Sum(x, *g.each(g.Neg(x))), "x is one value for each input in g.each"),
        "each in each": (lambda g, x: g.Sum(*g.each(g.Sum(*g.each(g.Neg(x))))), "g.each takes a pattern without"),
        "no alternative": (lambda g, x: g.Neg(g.any_of()), "g.any_of has no alternative"),
        "alternatives as a list": (lambda g, x: g.any_of([g.Neg(x), g.Abs(x)]), "g.any_of takes several patterns"),
        "operators for names": (lambda g, x: g.one_of(g.Neg, g.Abs)(x), "g.one_of takes names, such as"),
        "attribute by its name": (lambda g, x: g.Sum(x, p=g.attr("p", bool)), "g.attr takes a parameter of the lambda"),
        "attribute without a condition": (lambda g, x, p: g.Sum(x, p=g.attr(p, 3)), "g.attr takes a function"),
        "constant by a number": (lambda g, x: g.Neg(g.const(3)), "g.const takes a parameter of the lambda"),
        "variable outside": (lambda g, x: g.Neg(g.outer(x)), "g.outer takes an operator"),
        "each variable": (lambda g, x: g.Sum(*g.each(x)), "g.each takes an operator"),
        "variable as an op": (lambda g, x, m: g.Neg(g.any_of(x, g.Abs(x)) @ m), "@ binds an op, .* only a variable"),
    },
)  # fmt: skip
def test_wrong_patterns(pattern: Any, message: str) -> None:
    with pytest.raises(RuleError, match=f"^the pattern of build: {message}"):
        rule(pattern)(build)


def test_signs_in_contracts() -> None:
    found = conditional(assume=lambda g, x: x * 2 > 1)
    assert str(found) == "conditional: x * 2 > 1"
    with pytest.raises(RuleError, match=r"^an assumption consists of operators"):
        conditional(assume=lambda g, x: g.any_of(x > 1, x < -1))


def test_signs_outside_of_rules() -> None:
    graph = from_onnx(load("g (float[N] x) => (float[N] y) { y = Neg(x) }")).graph
    with pytest.raises(UsageError, match=r"elsewhere use RewriteBuilder\(graph, op\).Mul"):
        graph.inputs[0] * 2


@rule(lambda g, x: (g.ReduceMax(x, keepdims=0), g.ReduceMin(x, keepdims=0)))
def reduce_both(g: RewriteBuilder, x: Value) -> tuple[Value, Value]:
    """ReduceMax(x), ReduceMin(x) => themselves, of which only the match is read"""
    return g.ReduceMax(x, keepdims=0), g.ReduceMin(x, keepdims=0)


SECOND = "the second input of Concat y comes from Abs"
CONDITION = r"perm=\[1, 0, 2\], which does not satisfy the condition at test_pattern_language.py:\d+$"


@each(
    ("chosen", "text", "reason"),
    {
        "condition": (negate_batches, "a = Transpose<perm=[1,0,2]>(x) y = Neg(a)", CONDITION),
        "each": (activate_once, "a = Relu(x) b = Abs(x) y = Concat<axis=0>(a, b)", SECOND),
        "root": (read_both, "y = Add(x, x)", "no other op that reads a value of the match is Mul"),
        "nearly the root": (reduce_both, "y = ReduceMax<keepdims=0>(x) b = ReduceMin<keepdims=1>(x)", "keepdims"),
        "alternative": (activate, "a = Exp(x) y = Mul(x, a)", "Sigmoid"),
    },
)
def test_reasons(chosen: Rule, text: str, reason: str) -> None:
    graph = from_onnx(load(f"g (float[2,3,4] x) => (float[a,b,c] y) {{ {text} }}")).graph
    found = diagnose_match(chosen, next(graph.ops(*chosen.root_types)))
    assert any(re.search(reason, f.reason) for f in found.failures), found.failures
