"""Passes that misuse the graph or the change log."""

from dataclasses import dataclass

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, Op, Pass, RewriteBuilder, RulePass, Tensor, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = Neg(x) y = Abs(a) b = Sub(a, x) i = Identity(b) z = Exp(i) }",
    wrong={("changes_and_declines", "b"): "raised"},
)
@rule(lambda g, a, b, op: g.Sub(a, b) @ op, contract=EXACT)
def changes_and_declines(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """A rule changes the graph with its own hands, and then declines."""
    g.graph.set_inputs(op, sorted((b, a), key=lambda v: v.name, reverse=True))
    require(False, "it is done")
    return op.outputs[0]


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Neg(x) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"y": "invalid"},
)
def dangling_edge(graph: Graph, change_log: ChangeLog) -> int:
    """A pass writes to `Op.inputs` itself, so that values do not know their readers any more; it asks before."""
    changes = 0
    for op in graph.ops("Abs"):
        inner = graph.producer(op.inputs[0])
        if (
            inner is None
            or inner.type != "Neg"
            or not change_log.request_change("dangling-edge", op.outputs[0].name, (op,))
        ):
            continue
        op.inputs = inner.inputs
        graph.mark_changed()
        changes += 1
    return changes


@mistake(
    "g (float[2] x, bool c) => (float[2] y, float[2] z) <float[2] w = {1.0,2.0}>"
    " { y = If(c) < then_branch = t () => (float[2] p) { p = Add(x, w) },"
    " else_branch = e () => (float[2] q) { q = Abs(x) } > a = Identity(x) z = Exp(a) }",
    wrong={"w": "invalid"},
)
def drops_a_captured_constant(graph: Graph, change_log: ChangeLog) -> int:
    """A constant that only the branch of an If reads is dropped, as if nothing read it."""
    changes = 0
    for value in tuple(graph.initializers):
        if all(op.graph is not graph for op in value.consumers) and change_log.request_change(
            "drops-a-captured-constant", value.name, (value,)
        ):
            del graph.initializers[value]
            graph.mark_changed()
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Abs(x) y = Neg(a) b = Identity(x) z = Exp(b) }", wrong=""
)
def ignores_the_answer(graph: Graph, change_log: ChangeLog) -> int:
    """A pass asks the change log and goes ahead whatever it says."""
    changes = 0
    for op in graph.ops("Abs"):
        source = op.inputs[0]
        assert source is not None
        change_log.request_change("ignores-the-answer", op.outputs[0].name, (op,))
        graph.replace_value(op.outputs[0], source)
        changes += graph.prune([op])
    return changes


@dataclass(frozen=True)
class KeepsState:
    """Abs(x) => x, once"""

    seen: list[str]
    name: str = "keeps-state"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in () if self.seen else tuple(graph.ops("Abs"))[:1]:
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                self.seen.append(op.label)
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


@rule(lambda g, x: g.Abs(g.Exp(x)), contract=EXACT)
def exponent_is_positive(g: RewriteBuilder, x: Value) -> Value:
    """Abs(Exp(x)) => Exp(x)"""
    return g.Exp(x)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Neg(x) y = Abs(a) b = Identity(x) e = Exp(b) z = Abs(e) }",
    wrong={("keeps-state", ""): "wrong"},
    after={"Abs": 1, "Exp": 1, "Neg": 1},
)
def keeps_state() -> list[Pass]:
    """A pass that remembers what it did before: each run is another one, and a replay shows nothing."""
    return [KeepsState([]), RulePass("later", (exponent_is_positive,))]


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z)"
    " { a = Add(x, t) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"a": "invalid"},
)
def makes_a_cycle(graph: Graph, change_log: ChangeLog) -> int:
    """A pass feeds an op what is computed from its own output."""
    changes = 0
    for op in graph.ops("Add"):
        last = graph.outputs[0]
        if op.inputs[1] is not last and change_log.request_change("makes-a-cycle", op.outputs[0].name, (op,)):
            graph.set_inputs(op, [op.inputs[0], last])
            changes += 1
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { s = Sigmoid(x) y = Abs(s) i = Identity(x) z = Abs(i) }",
    wrong="model",
    after={"Abs": 1, "Sigmoid": 1},
)
def one_place_for_all(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that names the same place for all its changes; the second of two is wrong."""
    changes = 0
    for op in graph.ops("Abs"):
        source = op.inputs[0]
        if source is not None and change_log.request_change("one-place-for-all", "model", (op,)):
            graph.replace_value(op.outputs[0], source)
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Neg(x) y = Abs(a) b = Identity(a) z = Exp(b) }",
    wrong={"y": "invalid"},
)
def reuses_a_name(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that asks the change log gives a new value a name that another one has."""
    changes = 0
    for op in graph.ops("Abs"):
        if change_log.request_change("reuses-a-name", op.outputs[0].name, (op,)):
            minus = Value("a")
            graph.add_op(Op("Neg", "", "", {}, None), op.inputs, [minus])
            both = graph.add_op(Op("Max", "", "", {}, None), [op.inputs[0], minus], [Value(graph.fresh_name("m"))])
            graph.replace_value(op.outputs[0], both.outputs[0])
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Mul(x, w) b = Identity(x) z = Add(b, v) }",
    wrong="",
    weights={"w": np.array([0.25, 1.5, -2.75], np.float32), "v": np.array([0.5, 1.25, 2], np.float32)},
)
def rounds_weights_unsaid(graph: Graph, change_log: ChangeLog) -> int:
    """A pass exchanges weights for rounded ones and reports that it changed nothing."""
    for value in graph.initializers:
        value.set_constant(Tensor.from_array(np.round(value.const)))
    return 0


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z)"
    " { a = Cast<to=6>(x) y = Cast<to=1>(a) n = Neg(x) b = Identity(n) z = Abs(b) }",
    wrong="",
)
def silent_casts(graph: Graph, change_log: ChangeLog) -> int:
    """A pass that never asks the change log drops all Casts that come back to their type, right and wrong ones."""
    changes = 0
    for op in graph.ops("Cast"):
        inner = graph.producer(op.inputs[0])
        if inner is not None and inner.type == "Cast" and inner.inputs[0] is not None:
            graph.replace_value(op.outputs[0], inner.inputs[0])
            changes += graph.prune([op])
    return changes


def _is_redundant(graph: Graph, op: Op) -> bool:
    before = graph.producer(op.inputs[0])
    return (before is not None and before.type == "Abs") or any(u.type == "Abs" for u in op.outputs[0].consumers)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = Abs(x) y = Abs(a) s = Sigmoid(x) b = Abs(s) c = Abs(b) z = Neg(c) }",
    wrong="y",
    after={"Abs": 1, "Neg": 1, "Sigmoid": 1},
)
def stale_analysis(graph: Graph, change_log: ChangeLog) -> int:
    """A pass finds out first what is redundant, then drops all of it.

    Of two that make each other so, one has to stay.
    """
    changes = 0
    for op in [op for op in graph.ops("Abs") if _is_redundant(graph, op)]:
        source = op.inputs[0]
        assert source is not None
        if change_log.request_change("stale-analysis", op.outputs[0].name, (op,)):
            graph.replace_value(op.outputs[0], source)
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z)"
    " { a = Sum(x, t) y = Abs(a) b = Identity(x) z = Exp(b) }",
    wrong={"a": "invalid"},
)
def stale_index(graph: Graph, change_log: ChangeLog) -> int:
    """A pass turns one operator into another by writing its type, which the index by type does not learn of."""
    changes = 0
    for op in graph.ops("Sum"):
        if op.type == "Sum" and change_log.request_change("stale-index", op.outputs[0].name, (op,)):
            op.type = "Add"
            graph.mark_changed()
            changes += 1
    return changes
