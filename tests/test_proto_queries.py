"""Queries on protobuf messages: order of nodes in bodies, and both names of the standard domain."""

import onnx
import pytest
from onnx import helper, parser
from passwright.core.io.convert import from_onnx
from passwright.core.serialization.proto_queries import (
    all_nodes,
    opset_versions,
    read_names,
    undefined_operators,
    used_operators,
)
from passwright.core.verify.oracle import serialized_supports_empty_tensors
from passwright.core.verify.seeded_session import add_seeds
from rewriting import cases

NESTED = """<ir_version: 10, opset_import: ["" : 17]> g (bool c, float x) => (float y) {
    a = Neg(x)
    y = If(c) <then_branch = t () => (float u) { v = Abs(a) u = If(c) <then_branch = s () => (float p) { p = Exp(v) },
                                                                      else_branch = r () => (float q) { q = Sin(v) }> },
              else_branch = e () => (float w) { w = Cos(a) }>
    z = Log(y)
}"""


def renamed_domain(text: str, *, of_nodes: bool) -> onnx.ModelProto:
    """The model at opset 17, imported by the other name of the standard domain."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}')
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node if of_nodes else ():
        node.domain = "ai.onnx"
    return model


def test_nodes_come_before_those_inside_them() -> None:
    nodes = [n.op_type for n in all_nodes(parser.parse_model(NESTED).graph.node)]
    assert nodes == ["Neg", "If", "Abs", "If", "Exp", "Sin", "Cos", "Log"]


def test_names_captured_by_bodies_are_read() -> None:
    graph = parser.parse_graph("""g (float[N] x, float[N] z, bool c) => (float[N] y) { y = If(c) <
        then_branch = t () => (float[N] p) { o = Neg(x) p = Relu(o) },
        else_branch = e () => (float[N] z) { unused = Exp(x) }> }""")
    assert list(read_names(graph.node[0])) == ["c", "x", "x", "z"]


def test_graphs_in_lists_are_visited() -> None:
    bodies = [helper.make_graph([helper.make_node(t, ["x"], ["y"])], t, [], []) for t in ("Abs", "Neg")]
    nodes = [helper.make_node("Custom", ["x"], ["z"], domain="my", bodies=bodies), helper.make_node("Exp", ["z"], [])]
    assert [n.op_type for n in all_nodes(nodes)] == ["Custom", "Abs", "Neg", "Exp"]


def test_deep_nesting_is_visited() -> None:
    node = helper.make_node("Abs", ["x"], ["y"])
    for _ in range(30):
        node = helper.make_node("If", ["c"], ["y"], then_branch=helper.make_graph([node], "g", [], []))
    assert sum(1 for _ in all_nodes([node])) == 31


@pytest.mark.parametrize("of_nodes", [False, True])
def test_both_names_of_the_standard_domain_are_one(of_nodes: bool) -> None:
    model = renamed_domain("g (float[N] x) => (float[N] y) { y = Relu(x) }", of_nodes=of_nodes)
    assert opset_versions(model) == {"": 17}
    assert list(used_operators(model.graph)) == [("", "Relu")]
    assert not undefined_operators(model)


@pytest.mark.parametrize("of_nodes", [False, True])
@cases(
    "text",
    {
        "RandomNormal": "g () => (float[2] y) { y = RandomNormal<shape=[2]>() }",
        "Dropout in training form": "g (float[2] x) => (float[2] y) <bool t = {1}> { y = Dropout(x, , t) }",
    },
)
def test_random_ops_get_seeds_under_both_domain_names(text: str, of_nodes: bool) -> None:
    seeded = add_seeds(renamed_domain(text, of_nodes=of_nodes).SerializeToString())
    assert list(seeded.seeds) == ["y"]
    assert not seeded.unseeded_outputs


@pytest.mark.parametrize("of_nodes", [False, True])
def test_empty_sums_are_found_under_both_domain_names(of_nodes: bool) -> None:
    text = "g (float[N,1,5] x, float[1,C,3] w) => (float[N,1,3] y) { y = Conv(x, w) }"
    assert not serialized_supports_empty_tensors(renamed_domain(text, of_nodes=of_nodes).SerializeToString())


@pytest.mark.parametrize("of_nodes", [False, True])
def test_a_function_named_like_an_operator_stays_a_call(of_nodes: bool) -> None:
    model = renamed_domain("g (float[N] x) => (float[N] y) { y = Gelu(x) }", of_nodes=of_nodes)
    model.opset_import[0].version = 20
    body = [helper.make_node("Identity", ["x"], ["y"])]
    domain = "ai.onnx" if of_nodes else ""
    model.functions.append(helper.make_function(domain, "Gelu", ["x"], ["y"], body, [helper.make_opsetid("", 20)]))
    assert [op.type for op in from_onnx(model, inline=True).graph.ops()] == ["Gelu"]
