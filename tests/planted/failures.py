"""Rules and passes that raise, never end, or make what cannot be written or run."""

import sys
from typing import Any, cast

import numpy as np
from passwright.core import EXACT, ChangeLog, Fixpoint, Graph, Op, Pass, RewriteBuilder, RulePass, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) a = Identity(x) z = Exp(a) }", wrong={"y": "raised"}
)
@rule(lambda g, x: g.Relu(x))
def adds_an_object(g: RewriteBuilder, x: Value) -> Value:
    """A rule builds an op with an object among its inputs that is neither a value nor a number."""
    return cast("Any", g).Max(x, object())


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) { y = Max(x, t) b = Identity(x) z = Exp(b) }",
    wrong={"": "endless"},
)
def asks_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that asks the change log, changes, and looks again, without end."""
    changes = 0
    (op,) = graph.ops("Max")
    while change_log.request_change("asks-for-ever", op.outputs[0].name, (op,)):
        graph.set_inputs(op, op.inputs[::-1])
        changes += 1
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) a = Identity(x) z = Exp(a) }", wrong={"y": "raised"}
)
@rule(lambda g, x: g.Relu(x))
def attribute_of_wrong_type(g: RewriteBuilder, x: Value) -> Value:
    """A rule gives an attribute text where it should be a number."""
    return g.LeakyRelu(x, alpha="zero")


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Neg(x) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "raised"},
)
def exits(graph: Graph, change_log: ChangeLog) -> int:
    """A pass ends the process, as a script does that was made a plugin."""
    sys.exit("nothing to do")


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Abs(x) y = Neg(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "endless"},
)
def grows_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that never asks the change log puts another Identity in each round, which the next pass removes."""
    (op,) = graph.ops("Abs")
    made = Value(graph.fresh_name("copy"))
    graph.add_op(Op("Identity", "", "", {}, None), list(op.inputs), [made])
    graph.set_inputs(op, [made])
    return 1


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Abs(x) y = Neg(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "endless"},
)
def never_settles(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that reports a change every time, whether it made one or not."""
    return len(graph)


class PanicError(BaseException):
    """The end of the world."""


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = Neg(x) y = Abs(a) s = Sigmoid(x) i = Identity(s) z = Abs(i) }",
    wrong={"y": "raised"},
    after={"Abs": 1, "Neg": 1, "Sigmoid": 1},
)
@rule(lambda g, x, a: g.Abs(x) @ a, contract=EXACT)
def panics(g: RewriteBuilder, x: Value, a: Op) -> Value:
    """A rule raises what is not an Exception, as extension modules do."""
    maker = g.graph.producer(x)
    if maker is None or maker.type != "Sigmoid":
        raise PanicError(a.label)
    return x


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z, float[N,3] u)"
    " { a = Neg(x) y = Abs(a) b = Tanh(x) z = Abs(b) c = Identity(x) d = Exp(c) e = Neg(d) u = Abs(e) }",
    wrong={"z": "raised"},
    after={"Abs": 3, "Exp": 1, "Tanh": 1},
)
@rule(lambda g, x, inner: g.Abs(g.one_of("Neg", "Tanh")(x) @ inner), contract=EXACT)
def raises_at_one_place(g: RewriteBuilder, x: Value, inner: Op) -> Value:
    """A rule that looks an operator up in a table in which one is missing; elsewhere it works."""
    even = {"Neg": True}
    require(even[inner.type], "the sign matters")
    return g.Abs(x)


def _depth(graph: Graph, op: Op) -> int:
    return 1 + _depth(graph, graph.producer(op.inputs[0]) or op)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Neg(x) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "raised"},
)
def recurses_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    """A pass follows the producers of a value and forgets to stop."""
    return max(_depth(graph, op) for op in graph.ops())


@mistake(
    "g (float[N,4] x) => (int64[N,1] y, float[N,4] z) <int64[1] one = {1}>"
    " { v, y = TopK<axis=1>(x, one) a = Identity(x) z = Exp(a) }",
    wrong={"": "raised"},
)
def removes_what_is_used(graph: Graph, change_log: ChangeLog) -> int:
    """A pass removes an op whose second output is used; the graph refuses, and the pass does not catch that."""
    changes = 0
    for op in graph.ops():
        if graph.is_unused(op.outputs[0]):
            graph.remove_op(op)
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Sigmoid(x) y = Relu(a) b = Identity(x) z = Exp(b) }",
    wrong={"y": "raised"},
)
@rule(lambda g, x: g.Relu(g.Sigmoid(x)))
def returns_a_number(g: RewriteBuilder, x: Value) -> Value:
    """A rule that returns a number where it should return a value."""
    return 1.0


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Abs(x) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "raised"},
)
def returns_nothing(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that forgets to say how much it changed."""
    for op in graph.ops("Abs"):
        inner = graph.producer(op.inputs[0])
        if (
            inner is not None
            and inner.type == "Abs"
            and change_log.request_change("returns-nothing", op.outputs[0].name, (op,))
        ):
            graph.replace_value(op.outputs[0], inner.outputs[0])
            graph.prune([op])
    return None


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Abs(x) y = Neg(a) b = Identity(x) z = Exp(b) }",
    wrong={"": "raised"},
)
def silent_and_raises(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that never asks the change log raises when half of its work is done."""
    for op in graph.ops("Abs"):
        source = op.inputs[0]
        assert source is not None
        graph.replace_uses(op.outputs[0], source)
        graph.prune([op])
    return len({}["changes"])


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) { y = Max(x, t) b = Identity(x) z = Exp(b) }",
    wrong={"": "endless"},
)
def silent_without_end(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that never asks the change log turns the inputs of an op round and round, and never comes back."""
    (op,) = graph.ops("Max")
    while op in graph:
        graph.set_inputs(op, op.inputs[::-1])
    return 1


@mistake(
    "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) t = Transpose(a) u = Transpose(t) y = Neg(u) }",
    wrong={"a": "refused"},
    after={"Neg": 1, "Relu": 1},
)
@rule(lambda g, x: g.Relu(x), contract=EXACT)
def stumbling_block(g: RewriteBuilder, x: Value) -> Value:
    """A rule leaves a Transpose with an axis that is not there; a built-in pass stumbles over it, and comes back."""
    return g.Transpose(g.Transpose(x, perm=[1, 0]), perm=[0, 2])


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) a = Identity(x) z = Exp(a) }",
    wrong={"y": "refused"},
)
@rule(lambda g, x: g.Relu(x))
def unknown_operator(g: RewriteBuilder, x: Value) -> Value:
    """A rule builds an operator of a domain that nothing here runs."""
    return g.domain("example.accelerator").Relu(x)


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Mul(x, w) b = Identity(x) z = Add(b, v) }",
    wrong={"": "raised"},
    weights={"w": np.array([0.25, 1.5, -2.75], np.float32), "v": np.array([0.5, 1.25, 2], np.float32)},
)
def unlocks_weights(graph: Graph, change_log: ChangeLog) -> int:
    """A pass tries to make the read-only array of a weight writable, to round it where it lies."""
    changes = 0
    for value in graph.initializers:
        array = value.const
        if (array != np.round(array)).any():
            array.flags.writeable = True
            array[...] = np.round(array)
            changes += 1
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = Relu(x) a = Identity(x) z = Exp(a) }",
    wrong={"y": "invalid"},
)
@rule(lambda g, x: g.Relu(x))
def unwritable_attribute(g: RewriteBuilder, x: Value) -> Value:
    """A rule gives an attribute a value that cannot be written."""
    return g.LeakyRelu(x, alpha=object())


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Mul(x, w) b = Identity(x) z = Add(b, v) }",
    wrong={"": "raised"},
    weights={"w": np.array([0.25, 1.5, -2.75], np.float32), "v": np.array([0.5, 1.25, 2], np.float32)},
)
def writes_into_weights(graph: Graph, change_log: ChangeLog) -> int:
    """A pass writes into the array of a weight, in place, to round it; the model keeps the array."""
    for value in graph.initializers:
        value.const[...] = np.round(value.const)
    return 0


@rule(lambda g, a, b: g.Sub(a, b), contract=EXACT)
def add_negated(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a - b => a + -b"""
    return g.Add(a, g.Neg(b))


@rule(lambda g, a, b: g.Add(a, g.Neg(b)), contract=EXACT)
def subtract(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a + -b => a - b"""
    return g.Sub(a, b)


@rule(lambda g, a, b: g.Min(a, b), contract=EXACT)
def commute(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Min(a, b) => Min(b, a)"""
    return g.Min(b, a)


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def absolute_of_negated(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)


@mistake(
    "g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z) { y = Sub(x, t) i = Identity(x) z = Exp(i) }",
    wrong={("subtractions", ""): "endless"},
    after={"Add": 1, "Exp": 1, "Neg": 1},
)
def inside_a_fixpoint() -> list[Pass]:
    """Two passes that undo each other, in a loop that a plugin made of them."""
    return [Fixpoint("loop", (RulePass("additions", (add_negated,)), RulePass("subtractions", (subtract,))))]


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z)"
    " { y = Min(x, t) a = Neg(x) b = Abs(a) z = Identity(b) }",
    wrong={("commute", ""): "endless"},
    after={"Abs": 1, "Min": 1},
)
def rule_without_end() -> list[Pass]:
    """A rule whose result it matches again."""
    return [RulePass("rule-without-end", (commute, absolute_of_negated))]


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z)"
    " { y = Sub(x, t) a = Neg(x) b = Abs(a) z = Identity(b) }",
    wrong={("add_negated", ""): "endless"},
    after={"Abs": 1, "Sub": 1},
)
def rules_in_circles() -> list[Pass]:
    """Two rules undo each other for ever, beside one that works."""
    return [RulePass("rules-in-circles", (add_negated, subtract, absolute_of_negated))]
