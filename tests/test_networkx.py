"""Models as networkx graphs that may be edited, and passes on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import onnx
import pytest
from passwright.core import NetworkxPass, from_networkx, from_onnx, networkx_pass, to_networkx, to_onnx
from passwright.core.errors import ModelError, UsageError
from passwright.core.io.model_source import model_source
from passwright.testing import becomes
from rewriting import apply_passes, cases, load, require_equivalent
from tiers import GOLDEN_SAMPLE, slow_unless

from passwright import explain, optimize

Net = nx.MultiDiGraph
GOLDEN = sorted(Path("golden_models").glob("*.onnx"))
QUICK = [p for p in GOLDEN if p.stem in GOLDEN_SAMPLE]
TWICE = "g (float[N,4] x) => (float[N,4] y) <float[4] w = {1,2,3,4}> { a = Relu(x) b = Relu(a) [sum] y = Add(b, w) }"
BODIES = """g (bool k, float[2] x) => (float[2] y) <float[2] w = {1,2}> { a = Neg(x)
    y = If (k) <then_branch = p () => (float[2] r) <float[2] c = {3,4}> { t = Mul(a, w) r = Add(t, c) },
                else_branch = q () => (float[2] s) { s = Sub(a, a) }> }"""


@pytest.mark.parametrize("path", slow_unless(QUICK, GOLDEN), ids=[p.stem for p in GOLDEN])
def test_conversion_loses_nothing(path: Path) -> None:
    source = model_source(path, inline=False)
    model = source.load()
    back = from_networkx(to_networkx(model))
    assert to_onnx(back) == to_onnx(source.load())
    ours, theirs = ([t for _, t in m.written_initializers()] for m in (model, back))
    assert all(a is b for a, b in zip(ours, theirs, strict=True))  # no weight is copied


@cases(
    "text",
    {
        "omitted operands": (
            "g (float[2] x, float m) => (float[2] y, int64[2] i) { y = Clip(x, , m) v, i = TopK<axis=0>(y, k) }"
            .replace("TopK<axis=0>(y, k)", "TopK<axis=0>(y, n)").replace("float m", "float m, int64[1] n")
        ),
        "omitted at the end": "g (float[2] x) => (float[2] y) { y, = Dropout(x, , ) }",
        "one value twice": "g (float[2] x) => (float[2] y, float[2] y2) { y = Sub(x, x) y2 = Sum(x, y, x) }",
        "an input as output": "g (float[2] x) => (float[2] x) { }",
        "an unused initializer": "g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { y = Neg(x) }",
        "a name for two nodes": "g (float[2] x) => (float[2] y) { [n] a = Neg(x) [n] y = Neg(a) }",
        "a value named as an op": 'g (float[2] x) => (float[2] "Neg a") { a = Neg(x) "Neg a" = Neg(a) }'
        .replace('"Neg a"', "Neg_a"),
        "bodies": BODIES,
        "an input with a default": "g (float[2] x, float[2] d = {1,2}) => (float[2] y) { y = Add(x, d) }",
        "a large constant": "g (float[300] x) => (float[300] y) { c = Constant<value = float[300] {" + "1," * 299
        + "1}>() y = Add(c, x) }",
    },
)  # fmt: skip
def test_conversion_keeps(text: str) -> None:
    model = load(text)
    assert to_onnx(from_networkx(to_networkx(model))) == to_onnx(from_onnx(model))
    net = to_networkx(model)
    relabelled = nx.convert_node_labels_to_integers(net)  # keys have no meaning
    assert to_onnx(from_networkx(relabelled)) == to_onnx(from_onnx(model))


def test_functions_and_external_data(tmp_path: Path) -> None:
    model = load(
        TWICE.replace("<float[4] w = {1,2,3,4}>", "")
        .replace("b, w", "b, c")
        .replace("float[N,4] x", "float[N,4] x, float[4] c")
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(4000, dtype="f4").reshape(1000, 4), "big"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    for source in (model_source(tmp_path / "m.onnx", inline=False), model_source(tmp_path / "m.onnx", inline=False)):
        assert to_onnx(from_networkx(to_networkx(source.load()))) == to_onnx(source.load())
    unloaded = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert to_onnx(from_networkx(to_networkx(unloaded))) == unloaded


def test_the_graph_is_one_for_networkx() -> None:
    net = to_networkx(load(TWICE))
    assert list(nx.topological_sort(net))[-1] == "y"
    assert net.nodes["Relu b"]["op_type"] == "Relu"
    assert net.nodes["Add sum"]["name"] == "sum"
    assert (net.nodes["a"]["shape"], net.nodes["w"]["nbytes"]) == (("N", 4), 16)
    assert net.edges["w", "Add sum", 1]["index"] == 1
    body = to_networkx(load(BODIES)).nodes["If y"]["attributes"]["then_branch"]
    assert {key: kind for key, kind in body.nodes(data="kind") if kind in {"outer", "initializer"}} == {
        "a": "outer", "w": "outer", "c": "initializer",
    }  # fmt: skip


@networkx_pass(exact=True)
def drop_second_relu(net: Net[Any]) -> Net[Any]:
    """Relu(Relu(x)) => Relu(x)."""
    for op in [n for n, kind in net.nodes(data="op_type") if kind == "Relu"]:
        (read,), (made,) = net.predecessors(op), net.successors(op)
        if any(net.nodes[n]["op_type"] == "Relu" for n in net.predecessors(read)):
            net.add_edges_from((read, user, key) for _, user, key in net.out_edges(made, keys=True))
            net.remove_nodes_from([op, made])
    return net


@networkx_pass(name="scale-everything")
def scale(net: Net[Any]) -> Net[Any]:
    """Every Add becomes Add and Mul by 1: a constant, an op and a value are added."""
    for op in [n for n, kind in net.nodes(data="op_type") if kind == "Add"]:
        (made,) = net.successors(op)
        net.remove_edge(op, made)
        net.add_node("one", kind="initializer", tensor=np.ones(1, np.float32), _note="for nobody")
        net.add_node("times", kind="op", op_type="Mul")
        net.add_node("inner", kind="value")
        net.add_edges_from([(op, "inner"), ("inner", "times", 0), ("one", "times", 1), ("times", made)])
    return net


def test_pass_is_one_change() -> None:
    model = load(TWICE)
    result, change_log = apply_passes(model, drop_second_relu)
    assert [op.type for op in result.graph.sorted_ops()] == ["Relu", "Add"]
    (change,) = change_log.changes
    assert (change.by, change.where, change.replaced, change.exact) == (
        "drop-second-relu", "as a whole", ("Relu b", "Add sum"), True,
    )  # fmt: skip
    require_equivalent(model, to_onnx(result), exact=True)
    assert apply_passes(to_onnx(result), drop_second_relu)[1].change_count == 0
    assert isinstance(drop_second_relu, NetworkxPass)
    assert drop_second_relu(to_networkx(model)).number_of_nodes() == 6


def test_pass_adds_nodes() -> None:
    model = load(TWICE)
    result, _ = apply_passes(model, scale)
    assert [op.type for op in result.graph.sorted_ops()] == ["Relu", "Relu", "Add", "Mul"]
    require_equivalent(model, to_onnx(result))


def test_pass_in_a_run() -> None:
    result = optimize(load(TWICE), plugin=[drop_second_relu, scale], only=["drop-second-relu"])
    assert result.report.passes[0].changes == 1
    explained = explain(
        load(TWICE), "drop-second-relu", plugin=[drop_second_relu], pipeline="none", enable=["drop-second-relu"]
    )
    assert [(p.summary, len(p.changes)) for p in explained.passes] == [("Relu(Relu(x)) => Relu(x).", 1)]


def test_wrong_pass_is_found_and_left_out() -> None:
    def drop_relu(net: Net[Any]) -> Net[Any]:
        net.nodes["Relu a"]["op_type"] = "Neg"
        return net

    wrong = NetworkxPass("negate", drop_relu)
    result = optimize(load(TWICE), plugin=[wrong, drop_second_relu], only=["negate", "drop-second-relu"])
    assert [q.by for q in result.report.rejected] == ["negate"]
    assert result.report.passes[-1].name == "drop-second-relu"


def test_pass_that_reorders() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(x) y = Add(a, b) }"

    @networkx_pass
    def reverse(net: Net[Any]) -> Net[Any]:
        found: Net[Any] = nx.MultiDiGraph(**net.graph)
        found.add_nodes_from(sorted(net.nodes(data=True), key=lambda item: item[1].get("op_type", "")))
        found.add_edges_from(net.edges(keys=True, data=True))
        return found

    result, change_log = apply_passes(load(text), reverse)
    assert [op.type for op in result.graph.sorted_ops()] == ["Abs", "Neg", "Add"]
    assert change_log.change_count == 1


@networkx_pass(exact=True)
def sink_transpose(net: Net[Any]) -> Net[Any]:
    """Relu(Transpose(x)) => Transpose(Relu(x)), with the value between them under its old name."""
    for op in [n for n, kind in net.nodes(data="op_type") if kind == "Relu"]:
        (read,), (made,) = net.predecessors(op), net.successors(op)
        (transpose,) = net.predecessors(read) if net.in_degree(read) else [op]
        if net.nodes[transpose]["op_type"] == "Transpose":
            (x,) = net.predecessors(transpose)
            net.remove_edges_from([(x, transpose), (transpose, read), (read, op), (op, made)])
            net.add_edges_from([(x, op, 0), (op, read, 0), (read, transpose, 0), (transpose, made, 0)])
    return net


def test_names_inside_may_get_another_meaning() -> None:
    before = "g (float[N,3] x) => (float[3,N] y) { a = Transpose<perm=[1,0]>(x) b = Relu(a) y = Exp(b) }"
    after = "g (float[N,3] x) => (float[3,N] y) { a = Relu(x) b = Transpose<perm=[1,0]>(a) y = Exp(b) }"
    becomes(before, after, sink_transpose)
    for more in ({}, {"strict": True}):
        report = optimize(load(before), plugin=[sink_transpose], only=["sink-transpose"], **more).report
        assert (report.rejected, report.passes[0].changes) == ([], 1)
        note = "values inside were not compared by name: sink-transpose gave names other meanings"
        assert note in report.verification.notes


def test_wrong_outputs_of_a_pass_that_reuses_names_are_found() -> None:
    @networkx_pass(exact=True)
    def sink_and_negate(net: Net[Any]) -> Net[Any]:
        net = sink_transpose(net)
        for data in net.nodes.values():
            data.update({"op_type": "Neg"} if data.get("op_type") == "Relu" else {})
        return net

    text = "g (float[N,3] x) => (float[3,N] y) { a = Transpose<perm=[1,0]>(x) b = Relu(a) y = Exp(b) }"
    report = optimize(load(text), plugin=[sink_and_negate], only=["sink-and-negate"]).report
    assert [q.by for q in report.rejected] == ["sink-and-negate"]
    assert not [n for n in report.verification.notes if "by name" in n]


def test_attributes_and_bodies_are_editable() -> None:
    net = to_networkx(load(BODIES))
    body = net.nodes["If y"]["attributes"]["else_branch"]
    body.nodes["Sub s"]["op_type"] = "Add"
    (node,) = (n for n in to_onnx(from_networkx(net)).graph.node if n.op_type == "If")
    assert [n.op_type for a in node.attribute for n in a.g.node] == ["Mul", "Add", "Add"]
    transposed = to_networkx(load("g (float[2,3] x) => (float[3,2] y) { y = Transpose<perm=[1,0]>(x) }"))
    transposed.nodes["Transpose y"]["attributes"] = {"perm": [0, 1]}
    transposed.graph["graph"].output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, [2, 3]))
    assert to_onnx(from_networkx(transposed)).graph.node[0].attribute[0].ints == [0, 1]


NESTED = """g (bool k, float[2] x) => (float[2] y, float[2] z) { a = Neg(x) b = Neg(x) c = Neg(x) z = Exp(a)
    y = If (k) <then_branch = p () => (float[2] r) { t = Add(a, b) r = If (k) <
                    then_branch = v () => (float[2] i) { i = Mul(b, t) }, else_branch = w () => (float[2] b) { }> },
                else_branch = q () => (float[2] s) { s = Sub(b, c) }> }"""


def test_bodies_read_what_edges_come_from() -> None:
    @networkx_pass(exact=True)
    def merge(net: Net[Any]) -> Net[Any]:
        for made in ("b", "c"):
            for _, user, key, data in list(net.out_edges(made, keys=True, data=True)):
                net.add_edge("a" if made == "b" else "z", user, key, **data)
        net.remove_nodes_from(["Neg b", "b", "Neg c", "c"])
        return net

    model = load(NESTED)
    (changed,) = (n for n in to_onnx(from_networkx(merge(to_networkx(model)))).graph.node if n.op_type == "If")
    outer, other = (a.g for a in changed.attribute)
    assert [list(n.input) for n in outer.node] == [["a", "a"], ["k"]]
    assert [list(n.input) for a in outer.node[1].attribute for n in a.g.node] == [["a", "t"]]
    assert [o.name for o in outer.node[1].attribute[1].g.output] == ["a"]
    assert [list(n.input) for n in other.node] == [["a", "z"]]


@cases(
    ("spoil", "message"),
    {
        "a cycle": (
            lambda net: net.add_edge("y", "Relu a", 0) or net.remove_edge("x", "Relu a"),
            "the graph has a cycle: Relu a <- Add sum <- Relu b",
        ),
        "a value without a producer": (
            lambda net: net.remove_node("Relu a"), "Relu b reads a, which no node, input or initializer provides"),
        "a missing operand": (lambda net: net.remove_edge("b", "Add sum"), "op 'Add sum' lacks its operand 0, A"),
        "too few operands": (lambda net: net.remove_edge("w", "Add sum"), "Add sum: number of inputs 1"),
        "no kind": (lambda net: net.add_node("z"), "node 'z' has the kind None, not one of op, input, initializer"),
        "unknown data": (
            lambda net: net.nodes["Add sum"].update(attrs={}), "node 'Add sum' has data 'attrs', which no op has"),
        "a typo": (lambda net: net.nodes["Add sum"].update(optype="Sub"), "did you mean op_type?"),
        "two names": (lambda net: net.nodes["a"].update(name="b"), "two values are named b: nodes 'a' and 'b'"),
        "two operands": (
            lambda net: net.add_edge("a", "Add sum", 1), "op 'Add sum' has two operands with index 1: "),
        "a wrong edge": (lambda net: net.add_edge("x", "a"), "the edge from 'x' to 'a' is invalid: edges connect"),
        "a wrong index": (lambda net: net.add_edge("x", "Add sum", "third"), "has the invalid operand index 'third'"),
        "no operator": (lambda net: net.nodes["Relu a"].pop("op_type"), "op 'Relu a' has no op_type"),
        "no tensor": (lambda net: net.nodes["w"].pop("tensor"), "initializer w has no tensor"),
        "a key that is no name": (
            lambda net: net.add_node(7, kind="value"), "value 7 needs a name, because its key is not a string"),
        "a wrong attribute": (
            lambda net: net.nodes["Relu a"]["attributes"].update(p={}), "op 'Relu a': its attribute p cannot be {}"),
        "an attribute that no opset has": (
            lambda net: net.nodes["Relu a"]["attributes"].update(p=1), "Relu a: its attribute p is none of the"),
        "an undeclared input": (
            lambda net: net.add_node("z", kind="input"), "input z is not declared in net.graph['graph'].input"),
        "no message": (lambda net: net.graph.clear(), "net.graph lacks the GraphProto 'graph'"),
        "no output": (lambda net: net.remove_node("y"), "no node provides output y"),
        "an output that is gone": (lambda net: net.nodes["y"].update(name="z"), "no node provides output y"),
    },
)  # fmt: skip
def test_bad_graphs(spoil: Callable[[Any], object], message: str) -> None:
    net = to_networkx(load(TWICE))
    spoil(net)
    with pytest.raises(ModelError) as caught:
        from_networkx(net)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

    def rewrite(given: Net[Any]) -> Net[Any]:
        spoil(given)
        return given

    report = optimize(load(TWICE), plugin=[NetworkxPass("spoils", rewrite)], only=["spoils"]).report
    (rejected,) = report.rejected
    assert rejected.by == "spoils"
    assert message in rejected.message
    assert rejected.message.startswith("spoils: ")


@cases("returned", {"None": None, "another class": nx.DiGraph(), "an undirected one": nx.MultiGraph()})
def test_other_results_are_refused(returned: Any) -> None:
    report = optimize(load(TWICE), plugin=[NetworkxPass("other", lambda _: returned)], only=["other"]).report
    (rejected,) = report.rejected
    assert rejected.message == f"other: a networkx.MultiDiGraph is needed, not {type(returned).__name__}"


def test_interface_stays() -> None:
    def rewrite(net: Net[Any]) -> Net[Any]:
        net.graph["graph"].output[0].name = "b"
        return net

    report = optimize(load(TWICE), plugin=[NetworkxPass("cuts", rewrite)], only=["cuts"]).report
    assert "cuts: " in report.rejected[0].message


def test_a_failing_function_names_its_line() -> None:
    @networkx_pass(name="fails")
    def fails(net: Net[Any]) -> Net[Any]:
        net.remove_node("nowhere")
        return net

    (rejected,) = optimize(load(TWICE), plugin=[fails], only=["fails"]).report.rejected
    assert re.search(r"The node nowhere is not in the digraph. \(test_networkx.py:\d+\)$", rejected.message)


def test_a_misspelt_operator_and_a_wrong_decorator_are_explained() -> None:
    def rewrite(net: Net[Any]) -> Net[Any]:
        net.nodes["Relu a"]["op_type"] = "Rellu"
        return net

    (rejected,) = optimize(load(TWICE), plugin=[NetworkxPass("spoils", rewrite)], only=["spoils"]).report.rejected
    assert "it added Rellu, which opset" in rejected.message
    assert "did you mean Relu" in rejected.message
    wrong: Any = networkx_pass
    with pytest.raises(
        UsageError, match=r"^networkx_pass takes a function, or a name and exact=True as a keyword, but"
    ):
        wrong(True)
