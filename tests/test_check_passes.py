"""Checks of passes and of rules that quantize, and what inconclusive ones say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from onnx import TensorProto
from passwright.core import (
    LOSSY,
    ChangeLog,
    Contract,
    Graph,
    Pass,
    Pipeline,
    QuantizationSpec,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    lossy,
    made_from,
    networkx_pass,
    require,
    rule,
)
from passwright.core.errors import UsageError
from passwright.testing import CheckInconclusive, RuleIsWrong, check_pass, check_rule
from rewriting import cases, load

from passwright import optimize

ADDS_NEGATED = "g (float[N] x, float[N] w) => (float[N] y) { a = Neg(x) y = Add(a, w) }"


@dataclass(frozen=True)
class SubtractNegated:
    """Add(Neg(a), b) => Sub(b, a), or the wrong way round."""

    is_right: bool = True
    name: str = "subtract-negated"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        found = [(g, op) for g in graph.with_subgraphs() for op in g.ops("Add")]
        return sum(self._rewrite(g, op, change_log) for g, op in found)

    def _rewrite(self, g: Graph, op: Any, change_log: ChangeLog) -> bool:
        neg = g.producer(op.inputs[0])
        if neg is None or neg.type != "Neg" or not change_log.request_change(self.name, op.outputs[0].name, [op, neg]):
            return False
        build = RewriteBuilder(g, op)
        sides = (op.inputs[1], neg.inputs[0]) if self.is_right else (neg.inputs[0], op.inputs[1])
        g.take_over(build.Sub(*sides), op.outputs[0])
        made_from(build.added_ops[0], self.name, [op, neg])
        g.discard([op, neg])
        return True


def test_right_pass() -> None:
    checked = check_pass(SubtractNegated(), budget=100, examples=[ADDS_NEGATED])
    assert checked.fired > 1


def test_wrong_pass_is_shown_by_a_small_model_and_a_test() -> None:
    with pytest.raises(RuleIsWrong, match="subtract-negated changes the results of the model") as e:
        check_pass(SubtractNegated(is_right=False), budget=1, examples=[ADDS_NEGATED])
    assert "check_pass(SubtractNegated(), examples=[MODEL])" in str(e.value)


@networkx_pass
def drop_negations(net: Any) -> Any:
    """Neg(x) => Abs(x)"""
    for data in net.nodes.values():
        if data.get("op_type") == "Neg":
            data["op_type"] = "Abs"
    return net


def test_the_test_of_a_function_of_networkx_is_right() -> None:
    with pytest.raises(RuleIsWrong, match=r"check_pass\(drop_negations, examples=\[MODEL\]\)"):
        check_pass(drop_negations, budget=1, examples=["g (float[N] x) => (float[N] y) { y = Neg(x) }"])


def test_a_pass_that_fails_is_not_said_to_raise() -> None:
    class GivesNone:
        name = "gives-none"

        def run(self, _graph: Graph, _change_log: ChangeLog) -> Any:
            return None

    with pytest.raises(RuleIsWrong, match=r"gives-none fails: run\(\) returned None, not the number of changes"):
        check_pass(GivesNone(), budget=1, examples=[ADDS_NEGATED])


def test_pass_that_changes_nothing() -> None:
    with pytest.raises(CheckInconclusive) as e:
        check_pass(SubtractNegated(), budget=1, examples=["g (float[N] x) => (float[N] y) { y = Add(x, x) }"])
    assert "it changed none of them" in str(e.value)
    assert "example 1 does not fire: nothing in it matches" in str(e.value)


def through_integers(levels: int, contract: Contract) -> Rule:
    """A rule that rounds the rows of a product to so many levels of their measured range."""

    @rule(lambda g, x, w: g.MatMul(g.Tanh(x), g.const(w)), contract=contract)
    def round_rows(g: RewriteBuilder, x: Value, w: Value) -> Value:
        """MatMul(Tanh(x), w) => MatMul(round(Tanh(x)), w)"""
        require(x.known_dtype == TensorProto.FLOAT, "only in single precision")
        spec = g.graph.context.quantization
        span = spec.ranges.get(g.root.inputs[0].name) if spec is not None else None
        require(span is not None and max(-span.low, span.high) > 0, "its range is not known")
        assert span is not None
        scale = max(-span.low, span.high) / levels
        return g.MatMul(g.Round(g.Tanh(x) / scale) * scale, w)

    return round_rows


def test_rule_that_quantizes() -> None:
    checked = check_rule(through_integers(127, lossy(0.05)), budget=60)
    assert checked.ran
    assert str(checked.rule.contract) == "lossy: off by up to 0.05 of the largest number"


@cases("contract", {"with a promise": lossy(0.001), "without": LOSSY})
def test_rule_that_loses_more_than_it_says(contract: Contract) -> None:
    with pytest.raises(RuleIsWrong) as found:
        check_rule(through_integers(1, contract), budget=60, quantization=QuantizationSpec())
    numbers = r"off by up to (\S+) \(allowed (\S+), (\S+) of (\S+), its largest number on ordinary inputs\)"
    said = re.search(numbers, str(found.value))
    assert said is not None
    error, allowed, part, largest = map(float, said.groups())
    assert part == contract.max_error
    assert allowed == pytest.approx(part * largest, rel=0.01)
    assert error > allowed


@rule(lambda g, x: g.Sigmoid(x), contract=LOSSY)
def harden_sigmoid(g: RewriteBuilder, x: Value) -> Value:
    """Sigmoid(x) => HardSigmoid(x, alpha=0.2, beta=0.5)"""
    return g.HardSigmoid(x, alpha=0.2, beta=0.5)


HARD = RulePass("hard", (harden_sigmoid,))


@cases(
    ("pipeline", "note"),
    {
        "does not quantize": (HARD, "hard/harden_sigmoid not applied: lossy rules need a pipeline that quantizes"),
        "quantizes": (
            Pipeline("quantizing", (HARD,), quantization=QuantizationSpec()),
            "changes of hard/harden_sigmoid skipped: lossy, so results differ",
        ),
    },
)
def test_runs_say_what_became_of_lossy_rules(pipeline: Pass, note: str) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Sigmoid(x) }")
    notes = optimize(model, pipeline).report.notes
    assert notes == [f"{note}; `passes quantize --plugin FILE` applies lossy rules, and measures their accuracy loss"]


@pytest.mark.parametrize("error", [0, 2, "a", None])
def test_promises_of_rules_that_quantize(error: Any) -> None:
    with pytest.raises(UsageError, match=r"^lossy takes a fraction of the largest number, such as"):
        lossy(error)


@rule(lambda g, x: g.Neg(x))
def ask_for_rank_seven(g: RewriteBuilder, x: Value) -> Value:
    """Neg(x) => x"""
    require(x.rank == 7, "its rank is not 7")
    return x


def test_example_that_does_not_fire_is_named() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    with pytest.raises(
        CheckInconclusive, match=r"example 1 does not fire: its rank is not 7 \(test_check_passes.py:\d+\)"
    ):
        check_rule(ask_for_rank_seven, budget=1, examples=[text])


@dataclass(frozen=True, slots=True)
class KeepNegations:
    """A pass that declines everything, and says why."""

    name: str = "keep-negations"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Record a decline for each Neg."""
        for op in graph.ops("Neg"):
            change_log.record_decline(self.name, op.label, "a Neg is kept")
            change_log.note("there are Negs")
        return 0


def test_reasons_of_a_pass_for_its_example_are_named() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    with pytest.raises(CheckInconclusive, match="example 1 does not fire: a Neg is kept; there are Negs"):
        check_pass(KeepNegations(), budget=1, examples=[text])


@rule(lambda g, x: g.Ceil(x))
def drop_ceil(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) => x, on a type that no kernel has"""
    require(x.known_dtype == TensorProto.BFLOAT16, "it is not bfloat16")
    return x


def test_reasons_of_models_that_do_not_run() -> None:
    text = "g (bfloat16[N] x) => (bfloat16[N] y) { y = Ceil(x) }"
    with pytest.raises((CheckInconclusive, RuleIsWrong)) as e:
        check_rule(drop_ceil, budget=1, examples=[text])
    assert "none of which runs (" in str(e.value) or "drop_ceil changes" in str(e.value)
