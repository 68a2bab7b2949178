"""Changes of bodies and local functions by passes, and their notes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from passwright.core import (
    ChangeLog,
    Graph,
    MatchFailure,
    Op,
    RewriteBuilder,
    Value,
    from_onnx,
    made_from,
    require,
    rule,
    to_onnx,
)
from passwright.core.errors import GraphError
from rewriting import canonical_nodes, cases, load, op_types

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

BODIES = """g (bool c, float[N] x) => (float[n] y) { a = Neg(x)
    y = If (c) <then_branch = t () => (float[k] b) { b = Abs(x) }, else_branch = e () => (float[m] d) { d = Exp(x) }>
}"""
TEXT = "g (float[N] x, float[N] w) => (float[N] y) { a = Add(x, w) y = Relu(a) }"


def function(operator: str, name: str = "Mine") -> onnx.FunctionProto:
    nodes = [helper.make_node(operator, ["a", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    return helper.make_function("own", name, ["a", "b"], ["y"], nodes, [helper.make_opsetid("", 17)])


def bodies(graph: Graph) -> tuple[Op, Graph, Graph]:
    (op,) = graph.ops("If")
    then, other = op.subgraphs
    return op, then, other


def test_outputs_of_a_body_are_replaced() -> None:
    model = from_onnx(load(BODIES))
    _, then, _ = bodies(model.graph)
    negated = next(model.graph.ops("Neg")).outputs[0]
    assert not negated.consumers
    then.set_outputs([negated])
    (identity,) = negated.consumers
    assert (identity.type, identity.graph, then.outputs) == ("Identity", then, identity.outputs)
    then.prune([o for o in then.ops() if o is not identity])
    model.graph.validate()
    written = to_onnx(model)
    onnx.checker.check_model(written, full_check=True)
    assert [n.op_type for n in written.graph.node[1].attribute[0].g.node] == ["Identity"]
    (absolute,) = bodies(from_onnx(load(BODIES)).graph)[1].outputs
    assert absolute.name == "b"


def test_outputs_keep_their_number_and_those_of_the_model() -> None:
    graph = from_onnx(load(BODIES)).graph
    with pytest.raises(GraphError, match="the outputs of a model keep their names"):
        graph.set_outputs(graph.outputs)
    with pytest.raises(GraphError, match="has 1 outputs, not 0"):
        bodies(graph)[1].set_outputs([])


class Outline:
    """Relu(Add(a, b)) => own.Mine(a, b)"""

    name = "outline"

    def __init__(self, operator: str) -> None:
        self.function = function(operator)

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        found, changes = [(op, graph.producer(op.inputs[0])) for op in graph.ops("Relu")], 0
        for op, add in found:
            assert add is not None
            change_log.note("it outlines")
            if change_log.request_change(self.name, op.outputs[0].name, [op, add]):
                graph.add_function(self.function)
                build = RewriteBuilder(graph, op)
                graph.take_over(build.domain("own").Mine(*add.inputs), op.outputs[0])
                made_from(build.added_ops[0], self.name, [op, add])
                graph.discard([op, add])
                changes += 1
        return changes


@cases(("operator", "expected"), {"right": ("Add", ["Mine"]), "wrong": ("Sub", ["Add", "Relu"])})
def test_functions_of_passes_are_compared(operator: str, expected: list[str]) -> None:
    found = optimize(load(TEXT), plugin=[Outline(operator)], only=["outline"])
    assert op_types(found.model) == expected
    assert [f.name for f in found.model.functions] == expected[:1] * (operator == "Add")
    assert len(found.report.rejected) == (operator == "Sub")
    assert found.report.notes == ["it outlines"]


def test_names_of_functions_stand_for_one_each() -> None:
    graph = from_onnx(load(TEXT)).graph
    graph.add_function(function("Add"))
    graph.add_function(function("Add"))
    with pytest.raises(GraphError, match=r"the model has another function own.Mine"):
        graph.add_function(function("Sub"))
    assert to_onnx(from_onnx(load(TEXT))).functions == []


def test_functions_that_nothing_calls_are_not_written() -> None:
    model = from_onnx(load(TEXT))
    model.graph.add_function(function("Add"))
    assert len(to_onnx(model).functions) == 0


def test_models_before_functions() -> None:
    old = load(TEXT)
    old.ir_version = 7
    with pytest.raises(MatchFailure, match="since IR version 8"):
        from_onnx(old).graph.add_function(function("Add"))


def behind(graph: Graph, name: str, *, kept: bool = False) -> None:
    """Put two ops behind the value of that name; with `kept`, its consumers read what they read before."""
    value = next(v for op in graph.ops() for v in (*op.inputs, *op.outputs) if v is not None and v.name == name)
    build = RewriteBuilder(graph, value.producer or next(iter(value.consumers)))
    new = build.Abs(build.Neg(value))
    graph.insert_behind(value, new, [*build.added_ops, *(value.consumers if kept else ())])


@cases(
    ("name", "kept", "expected"),
    {
        "output": ("y", False, "a = Exp(x) p = Tanh(a) q = Neg(p) y = Abs(q) z = Sin(y) t = Cos(a)"),
        "output, consumers keep": ("y", True, "a = Exp(x) p = Tanh(a) q = Neg(p) y = Abs(q) z = Sin(p) t = Cos(a)"),
        "inner": ("a", False, "p = Exp(x) q = Neg(p) a = Abs(q) y = Tanh(a) z = Sin(y) t = Cos(a)"),
        "input": ("x", False, "q = Neg(x) p = Abs(q) a = Exp(p) y = Tanh(a) z = Sin(y) t = Cos(a)"),
    },
)
def test_ops_come_behind_a_value(name: str, kept: bool, expected: str) -> None:
    head = "g (float[N] x) => (float[N] y, float[N] z, float[N] t)"
    model = from_onnx(load(f"{head} {{ a = Exp(x) y = Tanh(a) z = Sin(y) t = Cos(a) }}"))
    assert all(v.shape == ("N",) for op in model.graph.ops() for v in op.outputs)  # inferred before
    behind(model.graph, name, kept=kept)
    model.graph.validate()
    written = to_onnx(model)
    onnx.checker.check_model(written, full_check=True)
    wanted = to_onnx(from_onnx(load(f"{head} {{ {expected} }}")))
    assert canonical_nodes(written.graph) == canonical_nodes(wanted.graph)
    assert all(v.shape == ("N",) for op in model.graph.ops() for v in op.outputs)


def test_ops_come_behind_what_bodies_read_and_return() -> None:
    text = BODIES.replace("b = Abs(x)", "b = Abs(a)").replace("{ d = Exp(x) }", "{ d = Exp(x) }")
    model = from_onnx(load(text))
    bodies(model.graph)[2].set_outputs([next(model.graph.ops("Neg")).outputs[0]])
    behind(model.graph, "a")
    behind(model.graph, "x")
    behind(model.graph, "y")
    model.graph.validate()
    onnx.checker.check_model(to_onnx(model), full_check=True)
    op, then, other = bodies(model.graph)
    made = next(o for o in model.graph.ops("Abs") if o.outputs[0].name == "a")
    assert [next(then.ops()).operand().producer, next(other.ops("Identity")).operand().producer] == [made, made]
    assert [v.name for v in model.graph.outputs] == ["y"]
    assert op.outputs[0].name != "y"


def test_a_value_has_the_type_of_the_op_that_comes_behind() -> None:
    graph = from_onnx(load("g (float[N] x) => (double[N] y) { a = Exp(x) b = Neg(a) y = Cast <to = 11> (b) }")).graph
    neg = next(graph.ops("Neg"))
    assert neg.outputs[0].dtype == np.float32
    build = RewriteBuilder(graph, neg)
    graph.insert_behind(neg.operand(), build.Cast(neg.operand(), to=11), build.added_ops)
    assert (build.added_ops[0].operand().dtype, neg.operand().dtype) == (np.float32, np.float64)


def test_no_op_comes_between_an_input_and_an_output_of_one_name() -> None:
    graph = from_onnx(load("g (float[N] x) => (float[N] x, float[N] y) { y = Abs(x) }")).graph
    with pytest.raises(GraphError, match="no op can be inserted between the input x and the output with that name"):
        behind(graph, "x")


@rule(lambda g, x: g.Softmax(x))
def clip_behind(g: RewriteBuilder, x: Value) -> Value:
    """Softmax(x) => Clip(Softmax(x), 0, 1)"""
    shares = g.root.outputs[0]
    require(all(op.type != "Clip" for op in shares.consumers), "it is clipped")
    return g.Clip(shares, 0.0, 1.0)


def test_a_replacement_reads_what_its_root_computes() -> None:
    model = load("g (float[N,4] x) => (float[N,4] y, float[N,4] z) { [shares] y = Softmax(x) z = Neg(y) }")
    found = optimize(model, plugin=[clip_behind], only=["clip_behind"], strict=True).model
    assert op_types(found) == ["Softmax", "Clip", "Neg"]
    assert [n.name for n in found.graph.node][:2] == ["shares", ""]
    assert [list(n.input)[:1] for n in found.graph.node][1:] == [list(found.graph.node[0].output), ["y"]]


class Negate:
    """If(c, t, e) => If(Not(c), e, t)"""

    name = "negate"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        op, then, other = bodies(graph)
        if next(then.ops()).type == "Exp" or not change_log.request_change(self.name, "y", [op], exact=True):
            return 0
        build = RewriteBuilder(graph, op)
        new = build.If(build.Not(op.operand()), then_branch=other, else_branch=then)
        assert isinstance(new, Value)
        graph.take_over(new, op.outputs[0])
        graph.discard([op])
        return 1


def test_the_builder_of_a_pass_hands_bodies_on() -> None:
    found = optimize(load(BODIES), plugin=[Negate()], only=["negate"], strict=True)
    assert op_types(found.model) == ["Neg", "Not", "If"]
    assert [a.g.node[0].op_type for a in found.model.graph.node[2].attribute] == ["Exp", "Abs"]
