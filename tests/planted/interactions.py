"""Mistakes beside each other and beside right rules."""

from dataclasses import dataclass

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, Op, Pass, Pipeline, RewriteBuilder, RulePass, Value, require, rule

from planted.mistake import mistake


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def absolute_of_negated(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)


@dataclass(frozen=True)
class DropRounding:
    """Ceil(x) => x"""

    name: str = "drop-rounding"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Ceil"):
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Neg(x) y = Abs(a) s = Exp(x) i = Identity(s) z = Ceil(i) }",
    wrong={("drop-rounding", "z"): "wrong"},
    after={"Abs": 1, "Ceil": 1, "Exp": 1},
)
def inside_a_pipeline() -> list[Pass]:
    """A wrong pass and a right one that a plugin put into a pipeline of its own."""
    return [Pipeline("mine", (RulePass("absolutes", (absolute_of_negated,)), DropRounding()))]


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_both(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => x"""
    return x


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = Neg(x) y = Abs(a) s = Sigmoid(x) b = Neg(s) i = Identity(b) z = Abs(i) }",
    wrong={("drop_both", "y"): "wrong"},
    after={"Abs": 1, "Sigmoid": 1},
)
def right_rule_behind_wrong() -> list[Pass]:
    """A wrong rule and a right one want the same op; the right one gets it once the wrong one is left out there."""
    return [RulePass("right-rule-behind-wrong", (drop_both, absolute_of_negated))]


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x"""
    return x


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def abs_to_relu(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => Relu(x)"""
    return g.Relu(x)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Abs(x) a = Identity(x) z = Exp(a) }",
    wrong={("drop_abs", "y"): "wrong", ("abs_to_relu", "y"): "wrong"},
)
def two_wrong_at_one_place() -> list[Pass]:
    """Two wrong rules want the same op; when one is left out, the other has its turn."""
    return [RulePass("two-wrong-at-one-place", (drop_abs, abs_to_relu))]


@rule(lambda g, a, b: g.Sub(a, b), contract=EXACT)
def subtract_backwards(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a - b => b + -a"""
    return g.Add(b, g.Neg(a))


@rule(lambda g, x, inner: g.Round(g.one_of("Floor", "Tanh")(x) @ inner), contract=EXACT)
def drop_round(g: RewriteBuilder, x: Value, inner: Op) -> Value:
    """Round(Floor(x)) => Floor(x)"""
    whole = {"Floor": True}
    require(whole[inner.type], "not whole")
    return inner.outputs[0]


@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c))
def integer_product(g: RewriteBuilder, a: Value, b: Value, c: Value) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    return g.Gemm(a, b, c)


@mistake(
    "g (float[N,4] x, int32[N,3] t) => (float[N,4] y, float[N,4] u, float[N,4] q, float[N,4] v, int32[N,2] z)"
    " <float[4] w = {1.0,2.0,3.0,4.0}, int32[3,2] i = {1,2,3,4,5,6}, int32[2] j = {7,8}>"
    " { a = Abs(x) y = Ceil(a) s = Sigmoid(x) b = Abs(s) u = Sub(b, w) f = Floor(x) q = Round(f) h = Tanh(x)"
    " v = Round(h) p = MatMul(t, i) z = Add(p, j) }",
    wrong={
        ("drop_abs", "a"): "wrong",
        ("subtract_backwards", "u"): "wrong",
        ("drop_round", "v"): "raised",
        ("integer_product", "z"): "refused",
    },
    after={"Abs": 1, "Add": 1, "Ceil": 1, "Floor": 1, "MatMul": 1, "Round": 1, "Sigmoid": 1, "Sub": 1, "Tanh": 1},
)
def several_offenders() -> list[Pass]:
    """Mistakes of three kinds: two rules give wrong values, one gives what nothing runs, and one raises."""
    return [RulePass("several-offenders", (drop_abs, subtract_backwards, drop_round, integer_product))]


@mistake(
    f"g (float[N,4] x) => ({', '.join(f'float[N,4] y{i}' for i in range(22))}, float[N,4] z) {{"
    + " ".join(f"a{i} = Add(x, c{i}) y{i} = Abs(a{i})" for i in range(22))
    + " b = Identity(x) z = Exp(b) }",
    wrong=[*(f"y{i}" for i in range(20)), ""],
    weights={f"c{i}": np.array(i, np.float32) for i in range(22)},
)
@rule(lambda g, x: g.Abs(x))
def wrong_everywhere(g: RewriteBuilder, x: Value) -> Value:
    """A rule that is wrong in more places than anyone wants to hear of is left out as a whole."""
    return x
