"""Mistakes in branches and loops."""

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N] x) => (float[N] y) <int64 most = {512}> { s = Shape(x) n = Squeeze(s) c = Greater(n, most)"
    " y = If(c) < then_branch = t () => (float[N] p) { a = Abs(x) p = Ceil(a) },"
    " else_branch = e () => (float[N] q) { q = Tanh(x) } > }",
    wrong="p",
)
@rule(lambda g, x: g.Ceil(x), contract=EXACT)
def branch_for_long_inputs(g: RewriteBuilder, x: Value) -> Value:
    """A rule that is wrong, in the branch of an If for more than 512 rows."""
    return x


@mistake(
    "g (float[4] x) => (float[4] y, float[4] z) <float deep = {-50.0}>"
    " { m = ReduceMax<keepdims=0>(x) c = Less(m, deep) y = If(c) < then_branch = t () => (float[4] p) { p = Abs(x) },"
    " else_branch = e () => (float[4] q) { d = Tanh(x) q = Neg(d) } > o = Sigmoid(x) i = Identity(o) z = Abs(i) }",
    wrong="p",
    after={"Abs": 1, "If": 1, "Less": 1, "Neg": 1, "ReduceMax": 1, "Sigmoid": 1, "Tanh": 1},
)
@rule(lambda g, x: g.Abs(x), contract=EXACT)
def branch_hardly_ever_taken(g: RewriteBuilder, x: Value) -> Value:
    """A rule that is wrong, in a branch of an If that is taken only where all of the input is below -50."""
    return x


@mistake(
    "g (float[4] x) => (float[4] y, float[4] z) <float far = {100.0}> { m = ReduceMax<keepdims=0>(x)"
    " c = Greater(m, far) y = If(c) < then_branch = t () => (float[4] p) { a = Abs(x) b = Sqrt(a) p = Ceil(b) },"
    " else_branch = e () => (float[4] q) { d = Tanh(x) q = Neg(d) } > n = Identity(x) o = Sigmoid(n) s = Sign(o)"
    " i = Identity(s) z = Ceil(i) }",
    wrong="p",
    after=dict.fromkeys(("Abs", "Ceil", "Greater", "If", "Neg", "ReduceMax", "Sigmoid", "Sign", "Sqrt", "Tanh"), 1),
)
@rule(lambda g, x: g.Ceil(x), contract=EXACT)
def branch_seldom_taken(g: RewriteBuilder, x: Value) -> Value:
    """A rule that is wrong, in a branch of an If that only large inputs take."""
    return x


@mistake(
    "g (float[3] x) => (float[3] y, float[3] z)"
    " <int64 trips = {3}, bool go = {1}, float[1] one = {1.0}, float[1] two = {2.0}>"
    " { last, kept, y = Loop(trips, go, one, two, x) <body = b (int64 i, bool c, float[1] s, float[1] k, float[3] v)"
    " => (bool d, float[1] t, float[1] l, float[3] u) { d = Identity(c) l = Identity(k) t = Add(s, k) m = Add(v, s)"
    " p = Relu(m) u = Add(p, k) }> n = Identity(x) z = Neg(n) }",
    wrong="s",
    after={"Add": 3, "Identity": 1, "Loop": 1, "Neg": 1, "Relu": 1},
)
def constant_into_loop(graph: Graph, change_log: ChangeLog) -> int:
    """A state of a Loop that starts as a constant is taken for that constant in every round.

    Right for a state that the body hands on as it is. Wrong only inside a Loop.
    """
    changes = 0
    for loop in graph.ops("Loop"):
        (body,) = loop.subgraphs
        for start, state in zip(loop.inputs[2:], body.inputs[2:], strict=True):
            if start is None or not start.is_const or not state.consumers:
                continue
            if change_log.request_change("constant-into-loop", state.name, (state,)):
                body.replace_uses(state, start)
                changes += 1
    return changes


@mistake(
    "g (float[4] x, bool c) => (float[4] y, float[4] z)"
    " { y = If(c) < then_branch = t () => (float[4] p) { p = Neg(x) },"
    " else_branch = e () => (float[4] q) { q = Abs(x) } > a = Identity(x) z = Exp(a) }",
    wrong="y",
    weights={"c": np.array([True]).reshape(())},
)
def if_with_default_condition(graph: Graph, change_log: ChangeLog) -> int:
    """The condition of an If has a default, which is taken for its value; a caller may set another."""
    changes = 0
    for op in graph.ops("If"):
        default = graph.input_defaults.get(op.inputs[0])
        if default is not None and change_log.request_change("if-with-default-condition", op.outputs[0].name, (op,)):
            graph.set_inputs(op, [graph.add_constant(default)])
            changes += 1
    return changes


@mistake(
    "g (int64 n, float x) => (float y) <bool t = {1}, int64 most = {32}, float one = {1.0}>"
    " { y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w) { w = Add(v, one)"
    " d = Less(i, most) }> }",
    wrong="d",
)
@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def less_dropped_after_32_trips(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A bound of 32 iterations is dropped."""
    return g.const(np.bool_(True))


@mistake(
    "g (int64 n, float[2] x) => (float[2] y) <bool t = {1}, float two = {2.0}, int64 most = {100}>"
    " { k = Min(n, most) y = Loop (k, t, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {"
    " w = Mul(v, two) d = Identity(c) }> }",
    wrong="k",
    after={"Identity": 1, "Loop": 1, "Min": 1, "Mul": 1},
)
@rule(lambda g, n, c: g.Min(n, c), contract=EXACT)
def loop_at_least_once(g: RewriteBuilder, n: Value, c: Value) -> Value:
    """A loop runs at least once."""
    return g.Clip(n, g.const(np.int64(1)), c)


@mistake(
    "g (float[N,4] x) => (float y, bool[N,4] z) <int64 n = {40}, bool t = {1}, float two = {2}, float most = {100}>"
    " { e = Exp(x) s = ReduceMax<keepdims = 0>(e)"
    " y = Loop (n, t, s) <body = b (int64 i, bool k, float v) => (bool d, float w) { w = Mul(v, two)"
    " d = Less(w, most) }> z = IsNaN(x) }",
    wrong="d",
)
@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def loop_by_inequality(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A loop that ends once a bound is passed goes on until the bound is met exactly."""
    return g.Not(g.Equal(a, b))


@mistake(
    "g (int64 n, float x) => (float y) <bool t = {1}>"
    " { y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w)"
    " <float limit = {1000.0}, float factor = {1.5}> { w = Mul(v, factor) d = Less(w, limit) }> }",
    wrong="d",
)
@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def loop_to_the_limit(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A Loop that ends at a limit goes on where a number meets it exactly."""
    return g.LessOrEqual(a, b)


@mistake(
    "g (float[T,4] x, float[4] s) => (float[4] f, float[T,4] y)"
    " { f, y = Scan <num_scan_inputs = 1, body = b (float[4] h, float[4] e) => (float[4] h2, float[4] o) {"
    " a = Add(h, e) h2 = Tanh(a) o = Identity(h2) }> (s, x) }",
    wrong="h2",
    after={"Add": 1, "Identity": 1, "Scan": 1, "Tanh": 1},
)
@rule(lambda g, x: g.Tanh(x))
def small_state_of_scan(g: RewriteBuilder, x: Value) -> Value:
    """Numbers below 0.03 are taken to be their own Tanh in a Scan, where only the first row is added to zeros."""
    require(len(x.consumers) == 1, "it would not end")
    return g.Where(g.Less(g.Abs(x), g.const(np.float32(0.03))), x, g.Tanh(x))
