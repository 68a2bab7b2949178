"""Changes of bodies and local functions by passes, and their notes."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper
from passwright.core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, from_onnx, made_from, to_onnx
from passwright.core.errors import GraphError
from rewriting import cases, load, op_types

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
    with pytest.raises(GraphError, match="has 1 outputs, and would have 0"):
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
    with pytest.raises(MatchFailure, match="from IR version 8 on"):
        from_onnx(old).graph.add_function(function("Add"))
