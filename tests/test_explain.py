"""Explanations of why a rule fires or not, and their agreement with runs."""

from __future__ import annotations

import json
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from commands import invoke
from hypothesis import given
from onnx import TensorProto, helper
from operation_counts import count_calls
from passwright.app.cli.entry import app
from passwright.app.optimize.closest_match import closest_match
from passwright.app.optimize.match_report import MatchDiagnosis, diagnose_match, report_matches
from passwright.core import (
    EXACT,
    ChangeLog,
    Graph,
    PassesError,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    from_onnx,
    require,
    rule,
    run_pass,
    to_onnx,
)
from passwright.core.errors import UnknownNameError
from passwright.core.rewriting.change_log import BisectLimit
from passwright.core.rewriting.driver import rewrite
from passwright.core.rewriting.pattern import match_op
from passwright.core.support import supervision
from passwright.passes.pipelines import BUILT_IN, PIPELINES
from random_models import models
from rewriting import cases, each, load, table
from tiers import GOLDEN_SAMPLE, slow_unless
from typer.testing import CliRunner

from passwright import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from passwright.app.explain.explain import Explanation, RuleExplanation
    from passwright.app.optimize.match_report import MatchReport

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
GOLDEN = Path(__file__).parent.parent / "golden_models"
RULES = {r.name: r for p in BUILT_IN if isinstance(p, RulePass) for r in p.rules}
G = "g (float[2,3] x, float[2,3] w) => (float[n,m] y)"


@rule(lambda g, x, y: g.Add(g.Neg(x), y), contract=EXACT)
def add_negated_to_sub(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """-x + y => y - x"""
    return g.Sub(y, x)


@rule(lambda g, x, y: g.Sub(g.Neg(x), y), contract=EXACT)
def negate_difference(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """-x - y => -(x + y)"""
    return g.Neg(g.Add(x, y))


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def scale(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x * c => x / (1 / c)"""
    require(c.const.size == 1, "c is not a scalar")
    return g.Div(x, g.const(1 / c.const, like=x))


@rule(lambda g, x: g.Mul(x, 2.0))
def halve(g: RewriteBuilder, x: Value) -> Value:
    """x * 2 => x / 0.5"""
    return g.Div(x, 0.5)


@rule(lambda g, x: g.Add(g.Neg(x), x), contract=EXACT)
def difference_with_itself(g: RewriteBuilder, x: Value) -> Value:
    """-x + x => x - x"""
    return g.Sub(x, x)


def without_replacement(name: str, pattern: Callable[..., Any]) -> Rule:
    """A rule of a pattern alone, which gives its variable x."""

    def build(g: RewriteBuilder, x: Value) -> Value:
        return x

    build.__name__ = name
    return rule(pattern)(build)


gemm_of_gemm = without_replacement("gemm_of_gemm", lambda g, x, b: g.Gemm(g.Gemm(x, b), b))
concat_of_one = without_replacement("concat_of_one", lambda g, x, k: g.Concat(x, axis=k))
second_softmax = without_replacement("second_softmax", lambda g, x: g.Softmax(x, axis=1))
negated_second_part = without_replacement("negated_second_part", lambda g, x: g.Neg(g.Split(x, axis=0)[1]))
difference_of_negation = without_replacement("difference_of_negation", lambda g, x: g.Sub(..., g.Neg(x), ...))
gelu_away = without_replacement("gelu_away", lambda g, x: g.Gelu(x))
constant_minus_square = without_replacement("constant_minus", lambda g, x, c: g.Sub(g.const(c), g.Mul(x, x)))
later_attribute = without_replacement("later_attribute", lambda g, x: g.Cast(x, round_mode="up", to=1))
turned = without_replacement("turned", lambda g, x: g.Transpose(x, perm=[1, 0]))
gemm_relu = without_replacement("gemm_relu", lambda g, x: g.Relu(g.Gemm(x, x)))
cancel_twice = without_replacement("cancel_twice", lambda g, x: g.Neg(g.Neg(x)))
quotient = without_replacement("quotient", lambda g, x, c: g.Div(g.const(c), g.Gemm(x, c)))


@rule(lambda g, x: g.Relu(x))
def relu_to_mish(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => Mish(x)"""
    return g.Mish(x)


@rule(lambda g, x, y: g.Div(x, y))
def divide_by_number(g: RewriteBuilder, x: Value, y: Value) -> Value:
    """x / y => x * (1 / y), where the pattern lacks g.const(y)"""
    return g.Mul(x, g.const(1 / y.const, like=x))


@rule(lambda g, x: g.Neg(g.Abs(x)))
def stumble_on_abs(g: RewriteBuilder, x: Value) -> Value:
    """declines"""
    require(x.rank == 7, "x has not seven axes")
    return x


@rule(lambda g, x: g.Neg(x))
def stumble(g: RewriteBuilder, x: Value) -> Value:
    """raises"""
    raise ZeroDivisionError("x is odd")


LINE = stumble.build.__code__.co_firstlineno + 3
STUMBLED = f"rule stumble failed at Neg y: ZeroDivisionError: x is odd (test_explain.py:{LINE})"


@rule(lambda g, x, axes: g.Neg(g.Unsqueeze(x, axes=axes)))
def squeeze_first(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """-Unsqueeze(x) => Unsqueeze(-x)"""
    return g.Unsqueeze(g.Neg(x), axes=axes)


def root_of(graph: Graph, name: str = "y") -> Any:
    return next(op for g in graph.with_subgraphs() for op in g.ops() if any(v.name == name for v in op.outputs))


def diagnosis(r: Rule, text: str, opset: int = 17, at: str = "y", **weights: Any) -> MatchDiagnosis:
    model = load(text, opset, weights)
    graph = from_onnx(model).graph
    return diagnose_match(r, root_of(graph, at))


PATTERNS = {name: r for name, r in globals().items() if isinstance(r, Rule)}


@each(
    ("r", "body", "matched", "why"),
    table(
        f"""
    fires: add_negated_to_sub => a = Neg(x) y = Add(w, a) => 2 of 2 => fires
    no matching operand: add_negated_to_sub => a = Abs(x) y = Add(w, a) => 1 of 2
          => no input of Add y comes from Neg: they come from an input of the graph and Abs a
    another root: add_negated_to_sub => y = Sub(x, w) => 0 of 2 => Sub y is not Add
    operands swapped: negate_difference => a = Neg(x) y = Sub(w, a) => 2 of 2
          => Sub y has its two inputs swapped
    no matching input: negate_difference => a = Abs(x) y = Sub(a, w) => 1 of 2
          => the first input of Sub y comes from Abs a, not from Neg
    used elsewhere: add_negated_to_sub => a = Neg(x) b = Abs(a) y = Add(a, b) => 2 of 2 => a is also used by Abs b
    inner value bound to a variable: add_negated_to_sub => a = Neg(x) y = Add(a, a) => 2 of 2
          => a is inside the match, and y too
    bound twice: difference_with_itself => a = Neg(x) y = Add(a, w) => 2 of 2
          => x would be bound to two values: x and, as the second input of Add y, w
    constant: scale => y = Mul(x, c) => 1 of 1 => fires
    an input is not constant: scale => y = Mul(x, w) => 1 of 1 => c (w) is not constant: it is an input of the graph
    a computed value is not constant: scale => k = Neg(w) y = Mul(k, x) => 1 of 1
          => c (x) is not constant: it is an input of the graph
    declines: scale => y = Mul(x, v) => 1 of 1 => c is not a scalar
    non-default attribute: gemm_of_gemm => s = Gemm(x, q) y = Gemm<alpha=0.5>(s, q) => 1 of 2
          => Gemm y has alpha=0.5; the pattern does not name it, so it must be the default 1.0
    more inputs: gemm_of_gemm => s = Gemm(x, q) y = Gemm(s, q, k) => 2 of 2
          => Gemm y has a third input, k; the pattern has 2
    any operand: difference_of_negation => a = Neg(x) y = Sub(w, a) => 2 of 2 => fires
    none of any operands: difference_of_negation => a = Abs(x) y = Sub(w, a) => 1 of 2
          => no input of Sub y comes from Neg: they come from an input of the graph and Abs a
    more operands: concat_of_one => y = Concat<axis=0>(x, w) => 1 of 1
          => Concat y has a second input, w; the pattern has 1
    other attribute: second_softmax => y = Softmax<axis=0>(x) => 0 of 1 => Softmax y has axis=0; the pattern requires 1
    default value: second_softmax => y = Softmax(x) => 0 of 1 => Softmax y has axis=-1; the pattern requires 1
    another output: negated_second_part => a, b = Split(x) y = Neg(a) => 1 of 2
          => the first input of Neg y is the first output of Split a, not its second
    constant and operator swapped: constant_minus_square => a = Mul(x, x) y = Sub(a, v) => 2 of 2
          => Sub y has its two inputs swapped
    an attribute of a later opset: later_attribute => y = Cast<to=1>(x) => 0 of 1
          => Cast has no attribute round_mode at opset 17
    unset: turned => y = Transpose(x) => 0 of 1 => Transpose y has no perm; the pattern requires [1, 0]
    later: relu_to_mish => y = Relu(x) => 1 of 1 => Mish does not exist at opset 17; it was added in opset 18
    raises: stumble => y = Neg(x) => 1 of 1 => {STUMBLED}
"""
    ),
)
def test_reasons(r: str, body: str, matched: str, why: str) -> None:
    weights = {
        "c": np.full(1, 2, np.float32), "v": np.ones(3, np.float32), "q": np.ones((3, 3), np.float32),
        "k": np.ones(3, np.float32),
    }  # fmt: skip
    found = diagnosis(PATTERNS[r], f"{G} {{ {body} }}", **{n: w for n, w in weights.items() if f"{n} =" not in body})
    assert f"{found.matched} of {found.size}" == matched
    assert [m.reason for m in found.failures] == ([] if why == "fires" else [why])


def test_declined_match_lists_bindings() -> None:
    found = diagnosis(scale, f"{G} {{ y = Mul(x, v) }}", v=np.ones(3, np.float32))
    assert found.failures[0].bindings == {"c": "constant float[3] [1.0, 1.0, 1.0]"}


def test_bindings_use_names_of_pattern() -> None:
    found = diagnosis(divide_by_number, f"{G} {{ y = Div(x, w) }}")
    assert [(m.reason, m.bindings) for m in found.failures] == [("w is not a constant", {"y": "w, float[2,3]"})]


def test_missing_operator_precedes_its_bindings() -> None:
    kinds = [m.kind.value for m in diagnosis(quotient, f"{G} {{ a = Neg(x) y = Div(a, w) }}").failures]
    assert kinds == ["operator", "constant"]


@pytest.mark.parametrize("name", slow_unless(GOLDEN_SAMPLE, [p.stem for p in sorted(GOLDEN.glob("*.onnx"))]))
def test_agrees_with_runs_on_golden_models(name: str) -> None:
    require_agreement(onnx.load(GOLDEN / f"{name}.onnx"))


@given(models())
def test_agrees_with_runs_on_random_models(model: onnx.ModelProto) -> None:
    require_agreement(model)


def require_agreement(proto: onnx.ModelProto) -> None:
    """Rules fire where reported, the explaining and the fast matcher agree, and the model is unchanged."""
    model = from_onnx(proto)
    written = to_onnx(model)
    ran = from_onnx(proto)
    for r in RULES.values():
        roots = [op for g in model.graph.with_subgraphs() for op in g.ops(*r.root_types)]
        for op in roots:
            for pattern in r.patterns:
                is_match = next(match_op(pattern, op), None) is not None
                assert is_match == (not closest_match(pattern, op).failures), (r.name, op)
        if roots:
            change_log = ChangeLog(record=True, limit=BisectLimit(after_changes=1))
            rewrite(ran.graph, [r], change_log)
            fires = report_matches(r, model.graph, 0).matches
            assert bool(fires) == bool(change_log.changes), r.name
            if change_log.changes:
                assert change_log.changes[0].replaced[0] == fires[0].root, r.name
                ran = from_onnx(proto)
    assert to_onnx(model) == written


@pytest.mark.parametrize(
    "name", slow_unless({"loop_if", "functions"}, ["bert", "swin", "loop_if", "recommender", "crnn", "functions"])
)
def test_no_rule_fires_after_run(name: str) -> None:
    model = from_onnx(onnx.load(GOLDEN / f"{name}.onnx"))
    run_pass(PIPELINES["basic"], model.graph, ChangeLog())
    assert [r.name for r in RULES.values() if report_matches(r, model.graph, 0).matches] == []


IF = """agraph (bool c, float[2] x) => (float[2] y) {
    a = Neg(x)
    i = If(c) <
        then_branch = t () => (float[2] p) { p = Relu(a) },
        else_branch = e () => (float[2] q) { n = Neg(x) q = Add(n, a) }
    >
    y = Add(a, i)
}"""
ONE, TWO = "g (float[2] x) => (float[2] y)", "g (float[2] x, float[2] c) => (float[2] y)"
BOUND_TWICE = "x would be bound to two values: x and, as the second input of Add q, a"
GEMM_OUTSIDE = "the first input of Relu p comes from Neg a, outside this body, not from Gemm"
INPUT_OUTSIDE = "the first input of Neg n is an input of the graph, outside this body, not from Neg"
NOT_TWO = "the second input of Mul y is not the number 2.0, which adds no dims: it is"
OVERRIDABLE = "c is not constant: it is an input with a default that callers may override"


@each(
    ("r", "text", "at", "why"),
    {
        "an inner value read in a body": (add_negated_to_sub, IF, "y", "a is read inside the body of If i"),
        "fires in a body": (add_negated_to_sub, IF, "q", None),
        "value from outside the body": (difference_with_itself, IF, "q", BOUND_TWICE),
        "operator outside the body": (gemm_relu, IF, "p", GEMM_OUTSIDE),
        "input outside the body": (cancel_twice, IF, "n", INPUT_OUTSIDE),
        "an output of the graph": (
            add_negated_to_sub,
            "g (float[2] x, float[2] w) => (float[2] y, float[2] a) { a = Neg(x) y = Add(a, w) }",
            "y",
            "a is an output of the graph",
        ),
        "other number": (halve, f"{ONE} <float c = {{3}}> {{ y = Mul(x, c) }}", "y", f"{NOT_TWO} c"),
        "no number": (halve, f"{TWO} {{ y = Mul(x, c) }}", "y", f"{NOT_TWO} an input of the graph"),
        "overridable": (scale, f"{TWO} <float[2] c = {{1.0, 2.0}}> {{ y = Mul(x, c) }}", "y", OVERRIDABLE),
        "computed axes": (
            squeeze_first, "g (float[2] x, int64[1] a) => (float[n,m] y) { u = Unsqueeze(x, a) y = Neg(u) }", "y",
            "axes of Unsqueeze u is not constant: it is an input of the graph",
        ),
        "dead": (
            add_negated_to_sub, f"{G} {{ n = Neg(x) d = Add(n, w) y = Relu(x) }}", "d", "no result of Add d is used",
        ),
    },
)  # fmt: skip
def test_reasons_around_op(r: Rule, text: str, at: str, why: str | None) -> None:
    found = diagnosis(r, text, at=at)
    assert {m.reason for m in found.failures} == ({why} if why else set())
    assert found.inside == (", inside If i" if at in "npq" else "")


@rule(lambda g, x, n: g.TopK(x, k=n))
def first_ones(g: RewriteBuilder, x: Value, n: int) -> tuple[Value, Value]:
    """TopK(x, k=n), of opset 1"""
    return g.TopK(x, [n])


def test_attribute_that_became_an_input_of_another_name() -> None:
    text = "g (float[4] x, int64[1] n) => (float[m] y, int64[m] i) { y, i = TopK(x, n) }"
    (why,) = {m.reason for m in diagnosis(first_ones, text, at="y").failures}
    assert why == (
        "TopK y has a second input, n; the pattern has 1, where k is an attribute; at opset 17 it is the input K"
    )


def test_another_domain() -> None:
    model = load("g (float[2] x) => (float[2] y) { a = my.Neg(x) y = Neg(a) }")
    model.opset_import.append(helper.make_opsetid("my", 1))
    root = root_of(from_onnx(model).graph)
    found = diagnose_match(RULES["cancel_negations"], root)
    assert (found.matched, [m.reason for m in found.failures]) == (
        1, ['Neg a is of domain my; the pattern requires ai.onnx (g.domain("my").Neg matches)'],
    )  # fmt: skip


def test_inexact_rule_is_excluded() -> None:
    model = from_onnx(load("g (float[2] x) => (float[2] y) <float c = {2.0}> { y = Mul(x, c) }"))
    found = diagnose_match(scale, root_of(model.graph), exact_only=True)
    assert [m.reason for m in found.failures] == ["--exact does not allow it: its contract is rounding"]


@each(
    ("r", "remark"),
    {
        "operator of a later opset": (gelu_away, "Gelu does not exist at opset 17; it was added in opset 20"),
        "no such op": (scale, "no op is Mul"),
    },
)  # fmt: skip
def test_no_root(r: Rule, remark: str) -> None:
    found = report_matches(r, from_onnx(load("g (float[2] x) => (float[2] y) { y = Neg(x) }")).graph, 5)
    assert (found.roots, found.remark) == (0, remark)


def test_nearest_misses_come_first() -> None:
    body = "a = Abs(x) b = Add(a, w) c = Neg(b) d = Add(c, w) e = Abs(c) f = Mul(d, e) y = Neg(f)"
    graph = from_onnx(load(f"{G} {{ {body} }}")).graph
    found = report_matches(add_negated_to_sub, graph, 5)
    assert [f.value for f in found.near_misses] == ["d", "b"]
    assert found.miss_counts == {"operator": 1, "shared": 1}
    assert [f.value for f in report_matches(add_negated_to_sub, graph, 1).near_misses] == ["d"]
    assert report_matches(add_negated_to_sub, graph, 0).miss_counts == found.miss_counts


def test_hanging_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[Any]()

    @rule(lambda g, x: g.Neg(x))
    def hang(g: RewriteBuilder, x: Value) -> Value:
        """returns once its op is told"""
        while len(told) < 2:
            sleep(0.01)
        return x

    monkeypatch.setattr(supervision, "_supervisors", lambda _: [lambda _, value: told.append(value)])
    graph = from_onnx(load("g (float[2] x) => (float[2] y) { y = Neg(x) }")).graph
    report_matches(hang, graph, 5, no_progress_timeout=9.0)
    assert "hang does not return at Neg y for 9 s" in {value and value[2].partition(";")[0] for value in told}


def test_time_is_linear() -> None:
    def explain(length: int) -> None:
        for name in ("matmul_add_to_gemm", "cancel_negations", "fuse_gelu", "fuse_rectifier"):
            report_matches(RULES[name], graphs[length], 10)

    graphs = {length: long_graph(length) for length in (150, 600)}
    assert count_calls(lambda: explain(600)) < 1.2 * 4 * count_calls(lambda: explain(150))


def long_graph(length: int) -> Graph:
    nodes = [helper.make_node(("Add", "Mul", "Neg")[i % 3], [f"v{i}", f"v{i // 2}"][: 1 + (i % 3 < 2)], [f"v{i + 1}"])
             for i in range(length)]  # fmt: skip
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, ["N"]) for v in ("v0", f"v{length}"))
    model = helper.make_model(helper.make_graph(nodes, "long", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    return from_onnx(model).graph


TEXT = "agraph (float[N,4] x) => (float[N,4] y) { m = MatMul(x, w) s = Add(m, c) t = Add(s, x) y = Relu(t) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "c": np.ones(4, np.float32)}


def explained(name: str = "matmul_add_to_gemm", **options: Any) -> Explanation:
    return explain(load(TEXT, weights=WEIGHTS), name, **options)


def only_rule(explanation: Explanation) -> tuple[RuleExplanation, MatchReport]:
    (r,) = explanation.rules
    assert r.match_report is not None
    return r, r.match_report


def test_explanation_of_run() -> None:
    r, report = only_rule(explained())
    assert [(c.by, c.place) for c in r.changes] == [("matmul_add_to_gemm", "s")]
    assert [(f.value, f.matched) for f in report.near_misses] == [("t", 1)]


def test_explanation_of_model_as_is() -> None:
    r, report = only_rule(explained(as_is=True))
    assert (r.changes, [f.value for f in report.matches], report.roots) == ([], ["s"], 2)


def test_pass_is_explained_by_its_rules() -> None:
    found = explained("fuse-gemm")
    assert [r.name for r in found.rules] == ["matmul_add_to_gemm"]
    assert found.passes == []


def test_rules_of_pipeline_are_ranked() -> None:
    found = explained("basic", at="t")
    assert found.is_group
    assert [r.rank for r in found.rules] == sorted(r.rank for r in found.rules)
    assert len(found.rules) == len(RULES)
    nearest = found.rules[0].match_report
    assert nearest is not None
    assert nearest.near_misses[0].value in {"t", "y"}


def test_rules_of_pass_are_ranked() -> None:
    model = load("g (float[2] x) => (float[2] y) { e = Abs(x) y = Neg(e) }")
    far = RulePass("both", (gemm_of_gemm, add_negated_to_sub, negated_second_part, stumble_on_abs))
    found = explain(model, "both", "none", plugin=[far])
    assert [r.name for r in found.rules][:2] == ["stumble_on_abs", "negated_second_part"]


def test_remark_names_change_that_removed_roots() -> None:
    model = load("g (float[2] x) => (float[2] y) { e = Exp(x) y = Relu(e) }")
    _, report = only_rule(explain(model, "relu_to_mish", plugin=[relu_to_mish]))
    assert report.remark == "no op is Relu; the file had 1, and the last was removed by drop_no_op_clamp at y (#0)"


def test_pass_without_rules() -> None:
    model = load("g (float[4] x) => (float[4] y) <float a = {1.0}> { b = Neg(a) y = Add(x, b) }")
    for as_is in (False, True):
        found = explain(model, "fold-constants", as_is=as_is)
        assert [[c.place for c in p.changes] for p in found.passes] == [["b"]]
        assert found.rules == []


def test_pass_without_rules_names_its_reasons(tmp_path: Path) -> None:
    rows = "float[1,8] u, float[1,8] v, float[1,8] w"
    turned = "a = Transpose(u) b = Transpose(v) c = Transpose(w) d = Add(x, a) e = Mul(d, b) y = Add(e, c)"
    weights = {name: np.full((1000, 4), n, np.float32) for n, name in enumerate("jkl")}
    products = "p = MatMul(x, j) q = MatMul(x, k) r = MatMul(x, l)"
    outputs = "float[m,n] y, float[m,o] p, float[m,o] q, float[m,o] r"
    model = load(f"g (float[8,1000] x, {rows}) => ({outputs}) {{ {turned} {products} }}", weights=weights)
    moves, split = "moves 64 kB to save 96 B: 12 us to save 1.5 us", "a Split into 3 moves 384 B in 1.2 us"
    for name, place, reason in [("move-transposes", "a", moves), ("merge-parallel-matmuls", "p", split)]:
        (found,) = explain(model, name, as_is=True).passes
        assert found.changes == []
        assert list(found.declines) == [place]
        assert found.declines[place].startswith(reason)
        assert not explain(model, name, as_is=True, at="y").passes[0].declines
    onnx.save(model, tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["explain", "move-transposes", str(tmp_path / "m.onnx"), "--as-is"])
    assert result.output.splitlines()[-2:] == ["    declined 1 change", f"        at a: {moves}"]


class Around:
    """A pass that runs another, with rules that it makes."""

    name = "around"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Run it to a fixpoint."""
        return run_pass(RulePass("inside", (relu_to_mish,)), graph, change_log)


def test_passes_that_a_pass_runs_are_explained_with_it() -> None:
    model = load("g (float[2] x) => (float[2] y) { r = Relu(x) y = Exp(r) }", opset=18)
    for as_is in (False, True):
        found = explain(model, "around", plugin=[Around()], as_is=as_is)
        assert [(r.name, r.pass_name, [c.place for c in r.changes]) for r in found.rules] == [
            ("relu_to_mish", "inside", ["r"])
        ]
        assert [p.name for p in found.passes] == ["around"]


@each(
    ("at", "made", "left"),
    {
        "a value": ("t", [], ["t"]),
        "replaced value": ("m", ["s"], []),
        "changed value": ("s", ["s"], ["t"]),
        "no root": ("y", [], []),
    },
)
def test_explanation_at_value(at: str, made: list[str], left: list[str]) -> None:
    found = explained(at=at)
    r, report = only_rule(found)
    assert ([c.place for c in r.changes], [f.value for f in report.near_misses]) == (made, left)
    gone = ["m no longer exists: matmul_add_to_gemm at s changed it last (#0)"]
    assert found.notes == (gone if at == "m" else [])


@each(
    ("name", "options", "message"),
    {
        "a rule": ("matmul_ad_to_gemm", {}, "did you mean matmul_add_to_gemm"),
        "a pass": ("fuse_gemm", {}, "did you mean fuse-gemm"),
        "an operator": (
            "layernorm",
            {},
            r"rules of [\w, -]*fuse-norm\b[\w, -]* are about it; see `passes list --search",
        ),
        "no similar name": ("q", {}, "no pass or rule is named q .see `passes list --search q`."),
        "pipeline": ("fuse-gemm", {"pipeline": "bsic"}, "no pass or pipeline is named bsic"),
        "part of another optimizer": ("ort:most", {}, "onnxruntime has the levels ort:basic"),
    },
)
def test_unknown_names(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        explained(name, **options)


def test_unknown_value() -> None:
    with pytest.raises(PassesError, match="no node or value is named matmul"):
        explained(at="matmul")


def test_external_optimizer() -> None:
    model = load("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }")
    found = explain(model, "onnxoptimizer", "none")
    assert found.is_group
    assert [p.changes for p in found.passes if p.changes] == []
    with pytest.raises(UnknownNameError, match="onnxoptimizer has no pass named 'nothing'"):
        explain(model, "onnxoptimizer:nothing", "none")


def test_pass_outside_pipeline() -> None:
    assert "not in the pipeline none" in explained(pipeline="none").notes[0]
    assert explained("debloat", enable=["debloat"]).notes == []


def test_failing_plugin_is_reported() -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    found = explain(model, "stumble", plugin=[stumble])
    assert [(q.by, q.place) for q in found.rejected] == [("stumble", "y")]
    assert [m.kind.value for f in only_rule(found)[1].near_misses for m in f.failures] == ["raised"]


def test_sizes_are_fixed_first() -> None:
    assert [f.value for f in only_rule(explained(as_is=True, at="s", dim={"N": 3}))[1].matches] == ["s"]


def test_json_is_complete(tmp_path: Path) -> None:
    found = explained(json=tmp_path / "e.json")
    data = json.loads((tmp_path / "e.json").read_text())
    assert data == json.loads(found.to_json())
    assert data.keys() == {
        "source", "subject", "is_group", "pipeline", "as_is", "at", "rules", "passes", "rejected", "notes",
        "seconds", "versions", "options",
    }  # fmt: skip
    (r,) = data["rules"]
    assert r["match_report"]["near_misses"][0]["failures"] == [
        {"kind": "operator", "op_label": "Add t", "bindings": None,
         "reason": "no input of Add t comes from MatMul: they come from Gemm s and an input of the graph"}
    ]  # fmt: skip


UNKNOWN = "error: no node or value is named matmul"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(load(TEXT, weights=WEIGHTS), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@cases(
    ("name", "line"),
    {
        "one of its passes": ("onnxoptimizer:eliminate_identity", "would make 1 change"),
        "all of its passes": ("onnxoptimizer", "would make 1 change"),
        "no change": ("onnxoptimizer:eliminate_nop_cast", "would make 0 changes"),
        "rules of another optimizer": ("onnxscript:default", "would make 0 changes"),
    },
)
def test_other_optimizers_outside_pipeline(tmp_path: Path, name: str, line: str) -> None:
    pytest.importorskip(name.partition(":")[0])
    path = tmp_path / "m.onnx"
    onnx.save(load("g (float[2] x) => (float[2] y) { t = Identity(x) y = Exp(t) }"), path)
    result = invoke("explain", name, path, "--as-is")
    assert line in map(str.strip, result.output.splitlines())
    assert "(no pattern to compare)" in result.output
    assert f"{name} is not in the pipeline basic" in result.output


@cases(
    ("arguments", "code", "lines"),
    {
        "in a run": ([], 0, ["applied once", "#0 at s, replacing Add s, MatMul m",
                             "no match at 1 remaining op: another op (1)", "Add t: 1 of 2 ops fit"]),
        "as it is": (["--as-is"], 0, ["would apply at 1 op", "Add s", "no match at 1 op: another op (1)"]),
        "no root": (["--at", "y"], 0, ["no op left to start from: no op there is Add"]),
        "none listed": (["--limit", "0"], 0, ["... and 1 more (--limit)"]),
        "place": (["--at", "matmul"], 1, [UNKNOWN]),
        "negative limit": (["--limit", "-1"], 2, []),
        "pipeline": (["--pipeline", "none"], 0, ["was not applied"]),
        "unknown symbol": (["--dim", "M=2"], 1, []),
    },
)  # fmt: skip
def test_command(path: Path, arguments: list[str], code: int, lines: list[str]) -> None:
    result = invoke("explain", "matmul_add_to_gemm", path, *arguments, code=code)
    printed = [line.strip() for line in result.output.splitlines()]
    assert set(lines) <= set(printed), result.output


def test_command_writes_json(path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", "fuse-gemm", str(path), "--json", "-"])
    assert json.loads(result.output)["subject"] == "fuse-gemm"
    result = CliRunner().invoke(app, ["explain", "fuse-gemm", str(path), "--json", str(path)])
    assert (result.exit_code, "would overwrite" in result.output) == (1, True)


@cases(
    ("name", "dims", "text"),
    {
        "small constant": ("v", 3, "constant float[3] [1.0, 1.0, 1.0]"),
        "large constant": ("u", (2, 3), "constant float[2,3]"),
    },
)
def test_descriptions_of_constants(tmp_path: Path, name: str, dims: Any, text: str) -> None:
    """The elements of small constants are shown, those of large constants are not read."""
    onnx.save(load(f"{G} {{ y = Mul(x, {name}) }}", weights={name: np.ones(dims, np.float32)}), tmp_path / "m.onnx")
    _, report = only_rule(explain(tmp_path / "m.onnx", "scale", "none", plugin=[scale]))
    assert [m.bindings for m in report.near_misses[0].failures] == [{"c": text}]


def test_command_on_pass_without_rules(path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", "remove-unused", str(path)])
    assert result.output.splitlines()[1:] == [
        "remove-unused  (no pattern to compare)",
        "    Ops and initializers that no output depends on. Inputs of the graph always stay.",
        "    made 0 changes",
    ]


def test_explain_does_not_change_files(path: Path) -> None:
    before = path.read_bytes()
    explain(path, "fuse-gemm", as_is=True)
    assert (path.read_bytes(), [p.name for p in path.parent.iterdir()]) == (before, ["m.onnx"])
