"""Analyses: what is in memory, dominators, and how results are kept."""

from __future__ import annotations

from collections.abc import Hashable

import networkx as nx
import onnx
import pytest
from passwright.core import Graph, Op, from_onnx
from passwright.core.analyses.dominance import Dominance
from passwright.core.analyses.liveness import Liveness
from rewriting import cases, load
from tiers import GOLDEN_SAMPLE

CHAIN = (
    "g (float[N,4] x) => (float[N,4] y) <float[4] w = {1,2,3,4}> { a = Neg(x) b = Add(a, w) c = Exp(b) y = Add(a, c) }"
)


SUM = """g (float[N,4] x, float[M] z) => (float[M] y) {
    a = Neg(x) b = Abs(a) s = ReduceSum<keepdims=0>(b) y = Add(z, s) }"""
VIEWS = """g (float[N,4] x) => (float[N,4] y) <int64[1] s = {-1}> {
    a = Neg(x) b = Reshape(a, s) c = Abs(b) z = Shape(x) y = Reshape(c, z) }"""
BODY = """g (bool k, float[N,4] x) => (float[N,4] y) {
    y = If (k) <then_branch = p () => (float[N,4] r) { a = Neg(x) b = Abs(a) r = Exp(b) },
                else_branch = q () => (float[N,4] s) { s = Neg(x) }> }"""


def graph(text: str) -> Graph:
    return from_onnx(load(text)).graph


def named(g: Graph) -> dict[str, Op]:
    return {op.outputs[0].name: op for op in g.ops()}


@cases(
    ("text", "peak"),
    {
        "chain": (CHAIN, "48*N"),
        "numbers": (CHAIN.replace("[N", "[2"), "96"),
        "the sizes decide": (SUM, "max(32*N, 4*M + 4)"),
        "a view": (VIEWS, "32*N + 16"),
        "a view of an input": ("g (float[N,4] x) => (float y) { b = Flatten(x) y = ReduceSum<keepdims=0>(b) }", "4"),
        "four bits": ("g (float[3] x, float s) => (float[3] y) { a = Neg(x) y = Abs(a) }", "24"),
        "a body": (BODY, "48*N"),
        "nothing": ("g (float[4] x) => (float[4] x) { }", "0"),
    },
)  # fmt: skip
def test_peak(text: str, peak: str) -> None:
    assert str(graph(text).analysis(Liveness).peak) == peak


def test_liveness() -> None:
    g = graph(CHAIN)
    ops, liveness = named(g), g.analysis(Liveness)
    assert [v.name for v in liveness.live_at(ops["c"])] == ["a", "b", "c"]
    assert liveness.last_reader(ops["a"].outputs[0]) is ops["y"]
    assert liveness.last_reader(ops["y"].outputs[0]) is None
    assert list(liveness.peaks) == [ops["c"]]
    assert str(Liveness(g, [ops["a"], ops["b"], ops["c"], ops["y"]]).peak) == "48*N"


def test_unknown_sizes_are_listed() -> None:
    g = graph("g (float[4] x) => (float[4] y) { a = com.example.Some(x) y = Add(a, x) }")
    liveness = g.analysis(Liveness)
    assert [v.name for v in liveness.unknown] == ["a"]
    assert liveness.peak == 16


def test_results_are_kept_until_a_change() -> None:
    g = graph(CHAIN)
    calls: list[Graph] = []

    def count(of: Graph) -> int:
        calls.append(of)
        return len(of)

    assert (g.analysis(count), g.analysis(count), calls) == (4, 4, [g])
    g.replace_uses(named(g)["b"].outputs[0], g.inputs[0])
    g.discard([named(g)["b"]])
    assert (g.analysis(count), len(calls)) == (3, 2)


def test_a_change_in_a_body_counts() -> None:
    g = graph(BODY)
    assert str(g.analysis(Liveness).peak) == "48*N"
    body = next(g.ops("If")).subgraphs[0]
    body.replace_uses(next(body.ops("Abs")).outputs[0], next(body.ops("Neg")).outputs[0])
    body.discard(body.ops("Abs"))
    assert str(g.analysis(Liveness).peak) == "48*N"
    body.replace_uses(next(body.ops("Neg")).outputs[0], g.inputs[1])
    body.discard(body.ops("Neg"))
    assert str(g.analysis(Liveness).peak) == "32*N"


@pytest.mark.parametrize("name", sorted(GOLDEN_SAMPLE - {"mixer_external"}))
def test_dominance_is_that_of_networkx(name: str) -> None:
    g = from_onnx(onnx.load(f"golden_models/{name}.onnx")).graph
    dominance = g.analysis(Dominance)
    after: nx.DiGraph[Hashable] = nx.DiGraph(g.nx.edges())
    before: nx.DiGraph[Hashable] = nx.DiGraph((u, v) for u, v in g.nx.edges() if getattr(u, "tensor", None) is None)
    before.add_edges_from(("", n) for n in list(before) if not before.in_degree(n))
    after.add_edges_from((n, "") for n in list(after) if not after.out_degree(n) or n in g.outputs)
    for net, found in ((before, dominance.immediate_dominator), (after.reverse(), dominance.immediate_postdominator)):
        dominators = nx.immediate_dominators(net, "")
        for node in net.nodes - {""}:
            assert found(node) is (None if dominators[node] == "" else dominators[node])


def test_dominates() -> None:
    g = graph(CHAIN)
    ops, dominance = named(g), g.analysis(Dominance)
    assert dominance.dominates(ops["a"], ops["y"])
    assert dominance.dominates(g.inputs[0], ops["c"])
    assert not dominance.dominates(ops["b"], ops["y"])
    assert dominance.postdominates(ops["y"], ops["b"])
    assert not dominance.postdominates(ops["b"], ops["a"])
    assert dominance.dominates(ops["b"], ops["b"])
