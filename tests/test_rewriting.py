"""Test helpers for plugin authors: messages of `becomes` and `stays`."""

import re

import pytest
from passwright.core import EXACT, ChangeLog, Graph, RewriteBuilder, RulePass, Value, require, rule
from passwright.core.errors import UsageError, VerificationError
from passwright.testing.rewriting import becomes, canonical_nodes, load, stays
from rewriting import cases

NEGATIONS = "g (float[N] x) => (float[N] y) { a = Neg(x) y = Neg(a) }"
NOTHING = "g (float[N] x) => (float[N] y) { y = Identity(x) }"


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def miscount(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => Neg(x), which is wrong"""
    return g.Neg(x)


class Quiet:
    """A pass that changes the graph without a change log entry."""

    name = "quiet"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - every pass is given it
        for op in tuple(graph.ops("Neg")):
            graph.set_inputs(op, graph.inputs)
        return 0


def test_becomes_takes_models_with_a_header_and_says_what_is_no_model() -> None:
    head = '<ir_version: 10, opset_import: ["" : 13]>'
    made = becomes(f"{head} {NEGATIONS}", f"{head} {NOTHING}", cancel)
    assert [(i.domain, i.version) for i in made.opset_import] == [("", 13)]
    with pytest.raises(UsageError, match="it is not ONNX text: "):
        becomes("g (float[N] x) => (float[N] y) { y = Neg( }", NOTHING, cancel)


def test_becomes_says_why_a_rule_declined() -> None:
    @rule(lambda g, x: g.Relu(x))
    def lower(g: RewriteBuilder, x: Value) -> Value:
        require(x.rank == 2, f"{x.name} has rank {x.rank}")
        return g.Abs(x)

    head = "g (float[N] x) => (float[N] y)"
    with pytest.raises(AssertionError, match="lower declined: x has rank 1"):
        becomes(f"{head} {{ y = Relu(x) }}", f"{head} {{ y = Abs(x) }}", lower)


def test_becomes_accepts_rules_and_passes() -> None:
    assert [n.op_type for n in becomes(NEGATIONS, NOTHING, cancel).graph.node] == ["Identity"]
    becomes(NEGATIONS, NOTHING, RulePass("cancel", (cancel,)))


def test_unexpected_ops_are_shown() -> None:
    wanted = "g (float[N] x) => (float[N] y) { y = Abs(x) }"
    with pytest.raises(
        AssertionError, match=r"(?s)wanted \(-\) and got \(\+\):.*- y = Abs \(x\).*\+ y = Identity \(x\)"
    ):
        becomes(NEGATIONS, wanted, cancel)


def test_wrong_values_are_reported_first() -> None:
    with pytest.raises(VerificationError, match="y: "):
        becomes(NEGATIONS, "g (float[N] x) => (float[N] y) { y = Neg(x) }", miscount)


def test_stays_accepts_unchanged_models() -> None:
    stays("g (float[N] x) => (float[N] y) { y = Neg(x) }", cancel)


def test_stays_names_the_changing_rule() -> None:
    with pytest.raises(AssertionError, match="it was changed by cancel at y"):
        stays(NEGATIONS, cancel)
    with pytest.raises(AssertionError, match="it was changed, but no change was recorded"):
        stays(NEGATIONS, Quiet())


@cases(
    ("a", "b"),
    {
        "as many constants as one likes": (
            "<float k = {1}> { p = Add(x, k) q = Abs(p) y = Mul(q, k) }",
            "<float k = {2}, float l = {3}> { p = Add(x, k) q = Abs(p) y = Mul(q, l) }",
        ),
        "other names": ("{ p = Abs(x) y = Neg(p) }", "{ other = Abs(x) y = Neg(other) }"),
        "constants of an enclosing graph": (
            (
                "<float k = {1}> { y = If(c) <then_branch = t () => (float[N] z) { z = Add(x, k) },"
                "else_branch = e () => (float[N] w) { w = Abs(x) }> }"
            ),
            (
                "<float l = {1}> { y = If(c) <then_branch = t () => (float[N] z) { z = Add(x, l) },"
                "else_branch = e () => (float[N] w) { w = Abs(x) }> }"
            ),
        ),
    },
)
def test_only_structure_is_compared(a: str, b: str) -> None:
    first, second = (canonical_nodes(load(f"g (float[N] x, bool c) => (float[N] y) {text}").graph) for text in (a, b))
    assert first == second


@cases(
    ("a", "b"),
    {
        "operator": ("{ y = Abs(x) }", "{ y = Neg(x) }"),
        "order of operands": ("{ y = Sub(x, u) }", "{ y = Sub(u, x) }"),
        "attribute": ("{ y = Elu(x) }", "{ y = Elu <alpha = 2.0> (x) }"),
        "constant or input": ("<float k = {1}> { y = Add(x, k) }", "{ y = Add(x, u) }"),
    },
)
def test_structure_is_compared(a: str, b: str) -> None:
    first, second = (
        canonical_nodes(load(f"g (float[N] x, float[N] u) => (float[N] y) {text}").graph) for text in (a, b)
    )
    assert first != second


def test_hypothesis_is_not_needed() -> None:
    import subprocess
    import sys

    code = "import sys; sys.modules['hypothesis'] = None; import passwright.testing.rewriting; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert re.fullmatch(r"imported\s*", done.stdout)
