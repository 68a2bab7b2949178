"""Conditions of contracts that are said as expressions: shown, tried on inputs, and assumed by proofs."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from passwright.core import EXACT, Contract, Rule, Value, by_dtype, conditional, rule
from passwright.core.errors import RuleError, UnverifiableError
from passwright.core.proof.obligation import NotApplicable
from passwright.core.proof.prover import Prover, prove_rule
from passwright.core.proof.rule_condition import condition_of
from passwright.core.proof.verdict import Technique
from passwright.core.verify.proof_guarantees import Guarantee
from passwright.testing.case import Case, Fault, FaultKind
from passwright.testing.check import default_prover
from passwright.testing.fuzzing import apply_rule
from passwright.testing.model_comparison import compare_case, compare_models
from rewriting import cases, each, load, run

RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
NOT_NEGATIVE = conditional("no number is negative", assume=lambda g, x: g.GreaterOrEqual(x, 0))
SMALL_NEGATIVES = conditional(assume=lambda g, x: g.Greater(x, -1e-6))


def drop_relu(contract: Contract) -> Rule:
    @rule(lambda g, x: g.Relu(x), contract=contract)
    def drop(g: Any, x: Value) -> Value:
        """Relu(x) => x"""
        return x

    return drop


def fault_of(r: Rule, model: onnx.ModelProto) -> Fault | None:
    """The fault that numbers show. Raises UnverifiableError."""
    case = Case(model, "y")
    after = apply_rule(r, case).after
    assert after is not None
    return compare_case(r, case, after, compare_models)


@pytest.fixture(scope="module")
def prover() -> Prover:
    found = default_prover()
    return Prover({t: m for t, m in found.methods.items() if t is Technique.SMT}, found.replayer)


@each(
    ("contract", "shown"),
    [
        (NOT_NEGATIVE, "conditional: no number is negative (x >= 0)"),
        (SMALL_NEGATIVES, "conditional: x > -1e-06"),
        (
            conditional("finite", each=lambda g, v: g.Less(g.Abs(v), inf)),
            "conditional: finite (|v| < inf for each float v)",
        ),
        (
            conditional(assume=lambda g, x, a: g.Not(g.Or(g.IsNaN(x), g.Equal(g.Mul(g.Add(x, 1), 2), a)))),
            "conditional: not (IsNaN(x) or (x + 1) * 2 == a)",
        ),
        (
            by_dtype({TensorProto.INT32}, EXACT, otherwise=NOT_NEGATIVE),
            "exact for int32, else conditional: no number is negative (x >= 0)",
        ),
        (conditional(assume=lambda g, x, a: g.Greater(g.Softmax(x, axis=a), 0)), "conditional: Softmax(x, axis=a) > 0"),
    ],
)
def test_a_condition_is_shown(contract: Contract, shown: str) -> None:
    assert str(contract) == shown
    assert contract.at(TensorProto.FLOAT).assumption == contract.assumption


@each(
    ("make", "message"),
    {
        "nothing": (conditional, "a condition needs a text"),
        "no operator": (lambda: conditional(assume=NOT_A_PATTERN), "a pattern must be an operator"),
        "of Python": (lambda: conditional(assume=lambda _, x: 0 < x < 1), "numbers: lambda g, x: g.Greater"),
        "any inputs": (lambda: conditional(assume=lambda g, x: g.Greater(x, ...)), "consists of operators"),
        "two of each": (lambda: conditional(each=lambda g, x, z: g.Less(x, z)), "has one variable"),
        "both": (lambda: conditional(assume=RELU_OF, each=RELU_OF), "not both"),
        "unbound": (lambda: drop_relu(conditional(assume=lambda g, z: g.Greater(z, 0))), "takes z, but the pattern"),
    },
)
def test_a_condition_that_says_nothing_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuleError, match=message):
        make()


def NOT_A_PATTERN(g: Any, x: Any) -> Any:  # noqa: N802 - a constant of the cases above
    return 3


def RELU_OF(g: Any, x: Any) -> Any:  # noqa: N802 - a constant of the cases above
    return g.Relu(x)


def test_an_expression_without_bools_is_refused() -> None:
    with pytest.raises(RuleError, match=r"the assumption Neg\(x\) has no bool result \(test_assumptions.py:\d+\)"):
        conditional(assume=lambda g, x: g.Neg(x))
    with pytest.raises(RuleError, match="is not bool"):
        condition_of(drop_relu(conditional(assume=lambda g, x: g.Identity(x))), load(RELU))


def holds(r: Rule, text: str, **feeds: Any) -> bool:
    """Whether the condition of a rule on a model is true for inputs."""
    found = condition_of(r, load(text))
    assert found is not None
    return all(np.all(v) for v in run(found, {n: np.asarray(a, np.float32) for n, a in feeds.items()}))


def test_the_condition_covers_each_match() -> None:
    text = "g (float[N] x, float[N] z) => (float[N] y) { a = Relu(x) b = Relu(z) y = Add(a, b) }"
    assert holds(drop_relu(NOT_NEGATIVE), text, x=[1, 0], z=[2, 3])
    assert not holds(drop_relu(NOT_NEGATIVE), text, x=[1, 0], z=[2, -3])
    assert not holds(drop_relu(NOT_NEGATIVE), text, x=[-1, 0], z=[2, 3])


def test_each_float_of_a_match_is_covered() -> None:
    @rule(lambda g, x: g.Log(g.Exp(x)), contract=conditional(each=lambda g, v: g.Less(g.Abs(v), inf)))
    def drop(g: Any, x: Value) -> Value:
        """Log(Exp(x)) => x"""
        return x

    text = "g (float[N] x) => (float[N] y) { a = Exp(x) y = Log(a) }"
    assert holds(drop, text, x=[0, 88])
    assert not holds(drop, text, x=[0, 89])  # Exp(x) is infinite
    assert not holds(drop, text, x=[0, -200])  # Log(0) is
    assert fault_of(drop, load(text)) is None


def test_a_right_condition_is_checked_on_all_inputs_on_which_it_holds() -> None:
    assert fault_of(drop_relu(NOT_NEGATIVE), load(RELU)) is None


def test_a_condition_that_lets_too_much_through_is_found_by_numbers() -> None:
    fault = fault_of(drop_relu(SMALL_NEGATIVES), load(RELU))
    assert fault is not None
    assert fault.kind == FaultKind.WRONG


IN_A_BODY = """g (float[N] x, bool c) => (float[N] y) {
    y = If (c) <then_branch = t () => (float[N] p) { p = Relu(x) }, else_branch = e () => (float[N] q) { q = Neg(x) }>
}"""


@cases(
    "text", {"a body": IN_A_BODY, "a number that is none of the type": "g (int8[N] x) => (int8[N] y) { y = Relu(x) }"}
)
def test_a_condition_without_expression_decides_nothing(text: str, prover: Prover) -> None:
    r = drop_relu(conditional(assume=lambda g, x: g.Greater(x, 0.5)))
    with pytest.raises(NotApplicable, match="its condition is not said"):
        condition_of(r, load(text))
    with pytest.raises(UnverifiableError, match="cannot be evaluated"):
        fault_of(r, load(text))
    proof = prove_rule(r, [load(text)], prover)
    assert proof.guarantee is Guarantee.UNKNOWN
    assert "its condition is not said" in next(iter(proof.reasons))
    assert not any(m.contradicts for m in proof.models)


def test_a_proof_assumes_the_condition(prover: Prover) -> None:
    proof = prove_rule(drop_relu(NOT_NEGATIVE), [load(RELU)], prover)
    assert proof.guarantee is Guarantee.REALS
    assert "under its condition" in next(proof.lines())


def test_a_proof_that_needs_no_condition_does_not_claim_it(prover: Prover) -> None:
    r = drop_relu(conditional(assume=lambda g, x: g.Less(x, 1)))
    model = load("g (float[N] x) => (float[N] y) { a = Exp(x) y = Relu(a) }")
    proof = prove_rule(r, [model], prover)
    assert proof.guarantee is Guarantee.REALS
    assert "under its condition" not in next(proof.lines())


def test_a_wrong_condition_is_refuted(prover: Prover) -> None:
    proof = prove_rule(drop_relu(SMALL_NEGATIVES), [load(RELU)], prover)
    assert proof.guarantee is Guarantee.REFUTED
    (shown,) = (v.counterexample for m in proof.models for v in m.verdicts if v.counterexample is not None)
    assert ((shown["x"] > -1e-6) | (shown["x"] >= 0)).all()
    assert (shown["x"] < 0).any()


def test_random_points_prove_nothing_under_a_condition() -> None:
    """A condition that lets numbers through so seldom that no draw is among them."""
    proof = prove_rule(drop_relu(SMALL_NEGATIVES), [load(RELU)], Prover())
    assert proof.guarantee is Guarantee.UNKNOWN
    assert list(proof.reasons) == ["random points say nothing of the ends of a condition"]
