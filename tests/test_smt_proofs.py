"""Proofs by z3, their counterexamples in onnxruntime, and the traps in which a proof claims more than was shown."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from passwright.core.proof import smt
from passwright.core.proof.obligation import Fragment, NotApplicable, Obligation, input_types
from passwright.core.proof.replay import replay
from passwright.core.proof.smt import SmtProver
from passwright.core.proof.smt_answer import AnswerKind
from passwright.core.proof.verdict import ProofVerdict
from passwright.core.rewriting.rules import EXACT, LOSSY, ROUNDING, Contract, conditional
from passwright.core.verify.proof_guarantees import Guarantee
from rewriting import load

SIZES = frozenset(range(1, 7))
UNKNOWN, REFUTED, FEWER = Guarantee.UNKNOWN, Guarantee.REFUTED, Guarantee.FEWER_INPUTS


@pytest.fixture(scope="module")
def prover() -> Iterator[SmtProver]:
    with SmtProver(seconds=60, element_seconds=5) as prover:
        yield prover


def obligation(types: str, before: str, after: str, contract: Contract = EXACT, condition: str = "") -> Obligation:
    """The obligation that two graphs of the same interface compute the same."""
    first, second = (
        load(f"g ({types.partition('=>')[0]}) => ({types.partition('=>')[2]}) {g}") for g in (before, after)
    )
    assumed = load(f"g ({types.partition('=>')[0]}) => (bool[c] holds) {condition}") if condition else None
    return Obligation(Fragment(first), Fragment(second), input_types(first), contract, assumed)


def verdict_on(prover: SmtProver, *texts: Any) -> ProofVerdict:
    (found,) = prover.prove(obligation(*texts))
    return found


X, XY = "float[N] x => float[N] y", "float[N] x, float[N] z => float[N] y"
BOOL, INT = "float[N] x, float[N] z => bool[N] y", "int32[N] x => int32[N] y"
ONE, ZERO = "<float one = {1.0}>", "<float zero = {0.0}>"


@pytest.mark.parametrize(
    ("types", "before", "after"),
    [
        pytest.param(X, "{ a = Neg(x) y = Neg(a) }", "{ y = Identity(x) }", id="negations cancel"),
        pytest.param(X, "{ a = Relu(x) y = Relu(a) }", "{ y = Relu(x) }", id="Relu twice"),
        pytest.param(X, ONE + "{ y = Mul(x, one) }", "{ y = Identity(x) }", id="times 1"),
        pytest.param(X, "<float two = {2.0}> { y = Mul(x, two) }", "{ y = Add(x, x) }", id="twice"),
        pytest.param(XY, "{ y = Add(x, z) }", "{ y = Add(z, x) }", id="sums commute"),
        pytest.param(XY, "{ a = Neg(z) y = Add(x, a) }", "{ y = Sub(x, z) }", id="minus"),
        pytest.param(BOOL, "{ a = Less(x, z) y = Not(a) }", "{ b = Less(x, z) y = Not(b) }", id="comparison"),
        pytest.param(INT, "{ a = BitwiseNot(x) y = BitwiseNot(a) }", "{ y = Identity(x) }", id="bits"),
        pytest.param(X, "{ a = Abs(x) b = Exp(a) y = Floor(b) }", "{ c = Abs(x) d = Exp(c) y = Floor(d) }", id="Exp"),
        pytest.param(
            "float[2,N] x => float[N,2] y",
            "{ a = Relu(x) y = Transpose<perm=[1,0]>(a) }",
            "{ a = Transpose<perm=[1,0]>(x) y = Relu(a) }",
            id="movement",
        ),
    ],
)
def test_exact(prover: SmtProver, types: str, before: str, after: str) -> None:
    found = verdict_on(prover, types, before, after)
    assert found.guarantee is Guarantee.EXACT, str(found)
    assert found.coverage[0] in {"every float32", "every int32 with overflow"}
    assert found.sizes == SIZES


@pytest.mark.parametrize(
    ("types", "before", "after"),
    [
        pytest.param(X, "{ a = Floor(x) y = Ceil(a) }", "{ y = Floor(x) }", id="rounding"),
        pytest.param(XY, "{ a = Max(x, z) b = Min(x, z) y = Add(a, b) }", "{ y = Add(x, z) }", id="order"),
        pytest.param(X, "{ a = Exp(x) y = Relu(a) }", "{ y = Exp(x) }", id="Exp is positive"),
        pytest.param(X, "{ a = Sigmoid(x) b = Sqrt(a) y = Mul(b, b) }", "{ y = Sigmoid(x) }", id="Sqrt squared"),
        pytest.param(XY, "{ a = Tanh(x) b = Tanh(z) y = Max(a, b) }", "{ c = Max(x, z) y = Tanh(c) }", id="monotone"),
        pytest.param(X, "<float c = {0.1}> { a = Mul(x, c) y = Mul(a, c) }", "<float d = {0.01}> { y = Mul(x, d) }",
                     id="constants are the simplest fractions"),
        pytest.param(
            "float[N] x, bool[N] c => float[N] y",
            ZERO + "{ b = Equal(x, zero) d = Div(x, x) y = Where(b, x, d) }",
            "<float zero = {0.0}, float one = {1.0}> { b = Equal(x, zero) y = Where(b, x, one) }",
            id="the element that is not chosen need not be defined",
        ),
    ],
)  # fmt: skip
def test_proved_over_the_reals(prover: SmtProver, types: str, before: str, after: str) -> None:
    found = verdict_on(prover, types, before, after, ROUNDING)
    assert found.guarantee is Guarantee.REALS, str(found)
    assert found.sizes == SIZES


FORMULAS = [
    pytest.param("float[1,1,3] x, float[2,1,2] w, float[2,1,1] s => float[1,2,2] y",
                 "<int64[3] r = {1, 2, 1}> { a = Conv(x, w) b = Reshape(s, r) y = Mul(a, b) }",
                 "{ v = Mul(w, s) y = Conv(x, v) }", id="Conv"),
    pytest.param("float[1,1,4] x => float[1,1,2] y", "{ y = AveragePool<kernel_shape=[2], strides=[2]>(x) }",
                 "<int64[4] r = {1, 1, 2, 2}> { b = Reshape(x, r) y = ReduceMean<keepdims=0, axes=[3]>(b) }",
                 id="AveragePool"),
    pytest.param("float[2,2] x, float[2] g, float[2] b => float[2,2] y",
                 "{ y = LayerNormalization<epsilon=0.5>(x, g, b) }",
                 "<float e = {0.5}> { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) "
                 "v = ReduceMean<axes=[1]>(q) w = Add(v, e) s = Sqrt(w) n = Div(d, s) o = Mul(n, g) y = Add(o, b) }",
                 id="LayerNormalization"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "before", "after"), FORMULAS)
def test_proved_by_formulas(prover: SmtProver, types: str, before: str, after: str) -> None:
    found = verdict_on(prover, types, before, after, ROUNDING)
    assert found.guarantee is Guarantee.REALS, str(found)
    alone = prover.ask(obligation(types, before, after, ROUNDING), over_reals=True)
    assert alone.outcome is not AnswerKind.PROVED


@pytest.mark.parametrize(
    ("types", "before", "after"),
    [
        pytest.param("float[2,2] x => float[2,2] y", "{ y = Softmax(x) }", "{ y = Softmax<axis=0>(x) }", id="axis"),
        pytest.param("float[1,1,3] x, float[2,1,2] w, float[2,1,1] s => float[1,2,2] y",
                     "<int64[3] r = {1, 2, 1}> { a = Conv(x, w) b = Reshape(s, r) y = Add(a, b) }",
                     "{ v = Add(w, s) y = Conv(x, v) }", id="Conv"),
        pytest.param("float[1,1,4] x => float[1,1,2] y", "{ y = AveragePool<kernel_shape=[2], strides=[2]>(x) }",
                     "{ y = MaxPool<kernel_shape=[2], strides=[2]>(x) }", id="pool"),
    ],
)  # fmt: skip
def test_formulas_prove_nothing_wrong(prover: SmtProver, types: str, before: str, after: str) -> None:
    assert verdict_on(prover, types, before, after, ROUNDING).guarantee in {REFUTED, UNKNOWN}
    answer = prover.ask(obligation(types, before, after, ROUNDING), over_reals=True, by_formula=True)
    assert answer.outcome is not AnswerKind.PROVED


TRAPS = [
    pytest.param(BOOL, "{ y = Less(x, z) }", "{ y = LessOrEqual(x, z) }", ROUNDING, REFUTED, id="measure zero"),
    pytest.param(X, "{ y = Round(x) }", "<float h = {0.5}> { a = Add(x, h) y = Floor(a) }", ROUNDING, REFUTED,
                 id="ties of rounding"),
    pytest.param(X, "{ y = Sign(x) }", "<float zero = {0.0}, float m = {-1.0}, float one = {1.0}> "
                 "{ a = Less(x, zero) y = Where(a, m, one) }", ROUNDING, REFUTED, id="sign of zero"),
    pytest.param(XY, "{ a = Mul(x, z) y = Log(a) }", "{ a = Log(x) b = Log(z) y = Add(a, b) }", ROUNDING, FEWER,
                 id="logarithm of a product"),
    pytest.param(X, "<float c = {3.0}> { y = Pow(x, c) }",
                 "<float c = {3.0}> { a = Log(x) b = Mul(a, c) y = Exp(b) }", ROUNDING, FEWER, id="power by logarithm"),
    pytest.param(X, "<float e = {0.00001}> { a = Sqrt(x) y = Add(a, e) }",
                 "<float e = {0.00001}> { a = Add(x, e) y = Sqrt(a) }", ROUNDING, REFUTED, id="epsilon elsewhere"),
    pytest.param("float[N,M] x => float[N,M] y", "{ a = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(a) }",
                 "{ y = Transpose<perm=[1,0]>(x) }", ROUNDING, REFUTED, id="right for square sizes and shapes alone"),
    pytest.param("int32[N] x => bool[N] y", "<int32 one = {1}> { a = Add(x, one) y = Greater(a, x) }",
                 "{ y = Equal(x, x) }", EXACT, REFUTED, id="overflow"),
    pytest.param(INT, "{ a = Neg(x) y = Abs(a) }", "{ a = Abs(x) b = Relu(a) y = Identity(b) }", EXACT, REFUTED,
                 id="absolute of the least"),
    pytest.param(X, "{ y = Sigmoid(x) }", ONE + "{ a = Neg(x) b = Exp(a) c = Add(b, one) y = Div(one, c) }", ROUNDING,
                 UNKNOWN, id="z3 chooses values of unknown functions"),
    pytest.param(X, ZERO + "{ y = Mul(x, zero) }", ZERO + "{ a = Sub(x, x) y = Mul(a, zero) }",
                 ROUNDING, Guarantee.REALS, id="the reals have no infinity"),
    pytest.param(X, ZERO + "{ y = Mul(x, zero) }", ZERO + "{ a = Abs(x) y = Mul(a, zero) }",
                 EXACT, REFUTED, id="the sign of zero"),
    pytest.param(X, ZERO + "{ y = Add(x, zero) }", "{ y = Identity(x) }", EXACT, REFUTED, id="-0 + 0"),
    pytest.param(X, "{ y = Sub(x, x) }", ZERO + "{ y = Mul(x, zero) }", EXACT, REFUTED, id="bits of -0"),
    pytest.param(
        "float[N] x => bool[N] y",
        "{ y = Equal(x, x) }",
        "{ a = IsNaN(x) y = Not(a) }",
        EXACT,
        Guarantee.EXACT,
        id="NaN",
    ),
    pytest.param(XY, "{ a = Add(x, z) y = Sub(a, z) }", "{ y = Identity(x) }", EXACT, REFUTED, id="rounding of a sum"),
    pytest.param(XY, "{ y = Max(x, z) }", "{ y = Max(z, x) }", EXACT, REFUTED, id="the maximum of two zeros"),
    pytest.param("float[2,3] x => int64[2] y", "{ y = ArgMax<axis=1, keepdims=0>(x) }",
                 "{ y = ArgMax<axis=1, keepdims=0, select_last_index=1>(x) }", ROUNDING, REFUTED, id="ties of ArgMax"),
    pytest.param("float[2,3] x => float[2,3] y", "{ y = Exp(x) }",
                 "{ a = Transpose<perm=[1,0]>(x) b = Exp(a) y = Transpose<perm=[1,0]>(b) }", EXACT, Guarantee.REALS,
                 id="kernels with vector instructions give other bits elsewhere"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "before", "after", "contract", "wanted"), TRAPS)
def test_trap(prover: SmtProver, types: str, before: str, after: str, contract: Contract, wanted: Guarantee) -> None:
    found = verdict_on(prover, types, before, after, contract)
    # Where z3 finds no longer defined elements, onnxruntime may show NaN on the numbers that it chose.
    assert found.guarantee in {wanted, REFUTED if wanted is FEWER else wanted}, str(found)
    if found.guarantee is REFUTED:
        assert found.counterexample is not None
        assert replay(obligation(types, before, after, contract), found.counterexample) == found.reason


def test_a_condition_is_assumed(prover: SmtProver) -> None:
    before, after = "{ a = Log(x) y = Exp(a) }", "{ y = Abs(x) }"
    assert verdict_on(prover, X, before, after, conditional("x > 0")).guarantee is UNKNOWN
    halves = ZERO + "{ a = Mul(x, x) b = Sqrt(a) y = Identity(b) }", "{ y = Identity(x) }"
    given = obligation(X, *halves, conditional("x > 0"), ZERO + "{ holds = Greater(x, zero) }")
    assert prover.prove(given)[0].guarantee is Guarantee.REALS
    assert prover.prove(replace(given, condition=None))[0].guarantee is UNKNOWN


@pytest.mark.parametrize("contract", [conditional("no zero"), LOSSY])
def test_prose_and_loss_are_never_refuted(prover: SmtProver, contract: Contract) -> None:
    found = verdict_on(prover, BOOL, "{ y = Less(x, z) }", "{ y = LessOrEqual(x, z) }", contract)
    assert found.guarantee is UNKNOWN


POOLED, PADS = "int8[1,1,N] x => int8[1,1,M] y", "<int64[6] p = {0,0,1,0,0,1}, int8 low = {-128}>"
CONVOLVED = "uint8[1,2,4] x => int32[1,1,M] y"
WEIGHTS = "<int64[6] p = {0,0,1,0,0,1}, uint8[1,2,2] w = {1,2,3,4}, uint8 z = {3}>"
QUANTIZED, SCALE = "float[N] x => uint8[N] y", "<float s = {0.1}, uint8 z = {0}, float low = {0}, float high = {%s}>"


@pytest.mark.parametrize(
    ("types", "before", "after", "wanted"),
    [
        pytest.param(
            POOLED, PADS + "{ t = Pad(x, p, low) y = MaxPool <kernel_shape=[2]> (t) }",
            "{ y = MaxPool <kernel_shape=[2], pads=[1,1]> (x) }", Guarantee.EXACT, id="maximum of integers"),
        pytest.param(
            POOLED, PADS + "{ t = Pad(x, p) y = MaxPool <kernel_shape=[2]> (t) }",
            "{ y = MaxPool <kernel_shape=[2], pads=[1,1]> (x) }", REFUTED, id="padding that is the greatest"),
        pytest.param(
            CONVOLVED, WEIGHTS + "{ t = Pad(x, p, z) y = ConvInteger(t, w, z) }",
            WEIGHTS + "{ y = ConvInteger <pads=[1,1]> (x, w, z) }", Guarantee.EXACT, id="convolution of integers"),
        pytest.param(
            CONVOLVED, WEIGHTS + "{ t = Pad(x, p) y = ConvInteger(t, w, z) }",
            WEIGHTS + "{ y = ConvInteger <pads=[1,1]> (x, w, z) }", REFUTED, id="padding beside the zero point"),
        pytest.param(
            QUANTIZED, SCALE % 25.5 + "{ a = Relu(x) y = QuantizeLinear(a, s, z) }",
            SCALE % 25.5 + "{ y = QuantizeLinear(x, s, z) }", Guarantee.REALS, id="clamp beyond the codes"),
        pytest.param(
            QUANTIZED, SCALE % 25.4 + "{ a = Clip(x, low, high) y = QuantizeLinear(a, s, z) }",
            SCALE % 25.4 + "{ y = QuantizeLinear(x, s, z) }", REFUTED, id="clamp within the codes"),
    ],
)  # fmt: skip
def test_integers(prover: SmtProver, types: str, before: str, after: str, wanted: Guarantee) -> None:
    contract = ROUNDING if wanted is Guarantee.REALS else EXACT
    assert verdict_on(prover, types, before, after, contract).guarantee is wanted


def test_floats_between_integers_are_no_reals(prover: SmtProver) -> None:
    """Distinct integers may be equal floats: a proof over the reals keeps no bits, whatever the inputs are."""
    types = "int8[N] x, int8[N] z => bool[N] y"
    before = "{ a = Cast <to=1> (x) b = Cast <to=1> (z) y = Less(a, b) }"
    found = verdict_on(prover, types, before, "{ y = Less(x, z) }", ROUNDING)
    assert found.guarantee is Guarantee.REALS


def test_a_shape_that_changes_is_refuted(prover: SmtProver) -> None:
    types = "float[N,1] x => float[a,b] y"
    found = verdict_on(prover, types, "{ y = Identity(x) }", "{ y = Transpose<perm=[1,0]>(x) }", ROUNDING)
    assert found.guarantee is REFUTED
    assert "y is float32[2, 1], then float32[1, 2]" in found.reason


HARD = obligation(
    "int64[1] x, int64[1] z, int64[1] w => bool[1] y",
    "{ a = Mul(x, x) b = Mul(a, x) c = Mul(z, z) d = Mul(c, z) e = Add(b, d) f = Mul(w, w) g = Mul(f, w) "
    "y = Equal(e, g) }",
    "{ a = Mul(x, z) b = Mul(a, w) c = Mul(b, b) d = Mul(c, w) e = Mul(z, z) y = Equal(d, e) }",
)
EASY = obligation(X, "{ a = Neg(x) y = Neg(a) }", "{ y = Identity(x) }")


def test_z3_is_stopped_when_its_time_is_over() -> None:
    with SmtProver(seconds=0.01, element_seconds=600) as stopped:
        answer = stopped.ask(HARD, over_reals=False)
        assert answer.outcome is AnswerKind.UNKNOWN
        assert "z3 did not end within" in answer.reason


def test_z3_without_memory_gives_no_answer() -> None:
    with SmtProver(memory=1 << 20) as prover:
        answer = prover.ask(HARD, over_reals=False)
    assert answer.outcome is AnswerKind.UNKNOWN
    assert "memory" in answer.reason or "z3 crashed" in answer.reason


def test_without_z3_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "is_available", lambda: False)
    with SmtProver() as prover, pytest.raises(NotApplicable, match=r"pip install 'passwright\[prove\]'"):
        prover.prove(obligation(X, "{ y = Identity(x) }", "{ y = Identity(x) }"))


def test_replay_needs_inputs_of_the_contract() -> None:
    given = obligation(BOOL, "{ y = Less(x, z) }", "{ y = LessOrEqual(x, z) }", ROUNDING)
    same = {"x": np.zeros(2, np.float32), "z": np.zeros(2, np.float32)}
    assert replay(given, same) == "y[0] is False, then True, at x = float32[2] [0.0, 0.0], z = float32[2] [0.0, 0.0]"
    assert not replay(given, {**same, "z": np.ones(2, np.float32)})
    assumed = load("g (float[N] x, float[N] z) => (bool[c] h) { e = Equal(x, z) h = Not(e) }")
    assert not replay(replace(given, condition=assumed), same)
    infinite = {"x": np.full(2, np.inf, np.float32), "z": np.zeros(2, np.float32)}
    moved = obligation(X, "{ y = Sub(x, x) }", ZERO + "{ y = Mul(x, zero) }", ROUNDING)
    assert not replay(moved, infinite)
