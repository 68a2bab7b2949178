"""Rules whose contract has a condition: kept where the model differs only where it may be false, with a note."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.report.verdict_text import verdict_line
from passwright.core import EXACT, Contract, RewriteBuilder, Rule, Value, conditional, rule
from passwright.core.errors import VerificationError
from passwright.core.serialization.provenance import read_conditions, with_conditions
from rewriting import load, op_types

from passwright import Result, optimize, verify

pytestmark = pytest.mark.usefixtures("_verifies_in_process")

NO_NAN = conditional("nothing is NaN")
GUARDED = "n = IsNaN(x) g = Where(n, zero, x)"
HEAD = "g (float[N, 4] x) => (float[N, 4] y)"
ZERO = {"zero": np.array(0, np.float32)}
BOUNDS = {"low": np.array(-1e6, np.float32), "high": np.array(1e6, np.float32)}
CLIPPED = "c = Clip(x, low, high) n = Neg(c) d = Clip(n, low, high) y = Abs(d)"
CLIPPED_OPS = ["Clip", "Neg", "Abs"]


def guard_dropper(contract: Contract) -> Rule:
    """Where(IsNaN(x), 0, x) => x, of some contract."""

    @rule(lambda g, x, z: g.Where(g.IsNaN(x), z, x), contract=contract)
    def drop_guard(g: RewriteBuilder, x: Value, z: Value) -> Value:
        """Where(IsNaN(x), z, x) => x"""
        return x

    return drop_guard


@rule(lambda g, x: g.Elu(x), contract=conditional("no number is negative"))
def drop_elu(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => x"""
    return x


def run(body: str, *rules: Rule, strict: bool = False, output: Path | None = None, inputs: Any = None) -> Result:
    model = load(f"{HEAD} {{ {body} }}", weights=ZERO | BOUNDS)
    return optimize(model, pipeline="remove-unused", plugin=list(rules), strict=strict, output=output, inputs=inputs)


@rule(
    lambda g, x, low, high: g.Clip(x, g.const(low), g.const(high)),
    contract=conditional("no number is beyond 1e6", assume=lambda g, x: g.LessOrEqual(g.Abs(x), 1e6)),
)
def drop_clip(g: RewriteBuilder, x: Value, low: Value, high: Value) -> Value:
    """Clip(x, low, high) => x"""
    return x


@rule(lambda g, x: g.Relu(x), contract=conditional("x > 0", assume=lambda g, x: g.Greater(x, 0)))
def drop_relu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => x"""
    return x


def notes(result: Result) -> list[str]:
    assert result.report.verification is not None
    return [note for note in result.report.verification.notes if "on condition" in note]


def test_rule_is_judged_under_its_condition(tmp_path: Path) -> None:
    result = run(f"{GUARDED} y = Neg(g)", guard_dropper(NO_NAN), strict=True, output=tmp_path / "m.onnx")
    assert op_types(result.model) == ["Neg"]
    assert op_types(onnx.load(tmp_path / "m.onnx")) == ["Neg"]
    assert result.report.rejected == []
    (note,) = notes(result)
    assert "drop_guard #" in note
    assert "holds on condition that nothing is NaN; else y: " in note
    assert "(finite inputs agree)" in note


def test_rule_without_condition_is_left_out() -> None:
    result = run(f"{GUARDED} y = Neg(g)", guard_dropper(EXACT))
    assert op_types(result.model) == ["IsNaN", "Where", "Neg"]
    assert [q.by for q in result.report.rejected] == ["drop_guard"]
    with pytest.raises(VerificationError, match=r"first broken by .*drop_guard"):
        run(f"{GUARDED} y = Neg(g)", guard_dropper(EXACT), strict=True)


def test_rule_is_left_out_where_finite_numbers_differ() -> None:
    result = run(f"{GUARDED} e = Elu(g) a = Abs(g) f = Elu(a) y = Add(e, f)", guard_dropper(NO_NAN), drop_elu)
    assert [(q.by, q.place) for q in result.report.rejected] == [("drop_elu", "e")]
    assert sorted(op_types(result.model)) == ["Abs", "Add", "Elu"]
    assert len(notes(result)) == 1


def test_other_rules_are_verified_on_all_numbers() -> None:
    """Beside a rule with a condition, a rule without one that differs on the same inputs is left out."""

    @rule(lambda g, x, z: g.Where(g.IsInf(x), z, x), contract=EXACT)
    def drop_other_guard(g: RewriteBuilder, x: Value, z: Value) -> Value:
        """Where(IsInf(x), z, x) => x"""
        return x

    body = f"{GUARDED} i = IsInf(x) h = Where(i, zero, x) b = Greater(h, zero) c = GreaterOrEqual(g, zero)"
    body += " d = Xor(b, c) y = Cast <to=1> (d)"
    result = run(body, guard_dropper(conditional("no number is special")), drop_other_guard)
    assert [q.by for q in result.report.rejected] == ["drop_other_guard"]
    assert "IsInf" in op_types(result.model)
    assert "IsNaN" not in op_types(result.model)
    assert len(notes(result)) == 1


def test_length_of_zero_is_excused_by_the_condition_of_the_norm() -> None:
    result = optimize(load(f"{HEAD} {{ n = ReduceL2 <axes=[1]> (x) r = Reciprocal(n) y = Mul(x, r) }}"))
    assert op_types(result.model) == ["LpNormalization"]
    assert "holds on condition that no length is 0" in notes(result)[0]


@pytest.mark.parametrize(
    ("body", "wrong", "ops"), [(CLIPPED, drop_clip, CLIPPED_OPS), ("y = Relu(x)", drop_relu, ["Relu"])]
)
def test_a_condition_excuses_no_finite_numbers(body: str, wrong: Rule, ops: list[str]) -> None:
    result = run(body, wrong)
    assert op_types(result.model) == ops
    assert {q.by for q in result.report.rejected} == {wrong.name}


def test_a_condition_of_finite_numbers_may_hold_on_given_inputs() -> None:
    result = run(CLIPPED, drop_clip, strict=True, inputs={"x": np.array([[1, 2, -3, 4e5]], np.float32)})
    assert op_types(result.model) == ["Neg", "Abs"]


def test_result_states_its_conditions_which_excuse_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """A comparison accepts under a condition the same as a run keeps under it, and nothing else."""
    model = load(f"{HEAD} {{ {GUARDED} y = Neg(g) }}", weights=ZERO)
    onnx.save(run(f"{GUARDED} y = Neg(g)", guard_dropper(NO_NAN)).model, tmp_path / "m.onnx")
    stated = onnx.load(tmp_path / "m.onnx")
    assert read_conditions(stated) == ("drop_guard: nothing is NaN",)
    verdict = verify(model, stated).verdict
    assert verdict is not None
    assert verdict.failure is None
    assert verdict.excused_sets > 0
    assert verdict.conditions == ("drop_guard: nothing is NaN",)
    assert any("which a condition of the model permits" in note for note in verdict.notes)
    assert "the outputs differ at NaN or infinite values, which conditions of the model permit" in verdict_line(verdict)
    given = verify(model, stated, inputs={"x": np.array([[1, 2, 3, np.nan]], np.float32)})
    assert not given.agrees
    assert verify(stated, model).verdict.failure.is_nonfinite_only


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("y = Neg(x)", "a = Add(x, one) y = Neg(a)", id="finite numbers"),
        pytest.param("y = Abs(x)", "n = IsNaN(x) g = Where(n, one, x) h = Relu(g) y = Abs(h)", id="both"),
    ],
)
def test_statement_of_a_condition_excuses_no_other_mistake(before: str, after: str) -> None:
    weights = {"one": np.array(1, np.float32)}
    wrong = with_conditions(load(f"{HEAD} {{ {after} }}", weights=weights), ["mine: nothing is NaN"])
    assert not verify(load(f"{HEAD} {{ {before} }}"), wrong).agrees


def test_a_condition_excuses_nothing_on_given_inputs() -> None:
    given = {"x": np.array([[1, 2, 3, 4e7]], np.float32)}
    result = run(CLIPPED, drop_clip, inputs=given)
    assert op_types(result.model) == ["Clip", "Neg", "Abs"]
    assert [q.by for q in result.report.rejected] == ["drop_clip"]


@rule(lambda g, x: g.Neg(x), contract=NO_NAN)
def guard_neg(g: RewriteBuilder, x: Value) -> Value:
    """Neg(x) => Where(IsNaN(x), 0, 0 - x)"""
    zero = g.const(np.float32(0))
    return g.Where(g.IsNaN(x), zero, g.Sub(zero, x))


@pytest.mark.parametrize("given", [None, {"x": np.array([[1, 2, 3, np.nan]], np.float32)}])
def test_numbers_instead_of_nan_are_excused_where_inputs_are_not_given(given: Any) -> None:
    result = run("y = Neg(x)", guard_neg, inputs=given)
    assert [q.by for q in result.report.rejected] == ([] if given is None else ["guard_neg"])
    assert len(notes(result)) == (given is None)


def test_other_wrong_changes_are_left_out_beside_an_excused_one() -> None:
    result = run(f"{GUARDED} n2 = Neg(g) y = Elu(n2)", guard_dropper(NO_NAN), drop_elu)
    assert op_types(result.model) == ["Neg", "Elu"]
    assert [q.by for q in result.report.rejected] == ["drop_elu"]
    assert len(notes(result)) == 1
