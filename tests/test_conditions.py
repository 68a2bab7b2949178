"""Rules whose contract has a condition: kept where the model differs only beyond finite numbers, with a note."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from passwright.core import EXACT, Build, Contract, Rule, Value, conditional, rule
from passwright.core.errors import VerificationError
from rewriting import load, op_types

from passwright import Result, optimize

NO_NAN = conditional("nothing is NaN")
GUARDED = "n = IsNaN(x) g = Where(n, zero, x)"
HEAD = "g (float[N, 4] x) => (float[N, 4] y)"
ZERO = {"zero": np.array(0, np.float32)}


def guard_dropper(contract: Contract) -> Rule:
    """Where(IsNaN(x), 0, x) => x, of some contract."""

    @rule(lambda g, x, z: g.Where(g.IsNaN(x), z, x), contract=contract)
    def drop_guard(g: Build, x: Value, z: Value) -> Value:
        """Where(IsNaN(x), z, x) => x"""
        return x

    return drop_guard


@rule(lambda g, x: g.Elu(x), contract=conditional("no number is negative"))
def drop_elu(g: Build, x: Value) -> Value:
    """Elu(x) => x"""
    return x


def run(body: str, *rules: Rule, strict: bool = False, output: Path | None = None) -> Result:
    model = load(f"{HEAD} {{ {body} }}", weights=ZERO)
    return optimize(model, pipeline="remove-unused", plugins=list(rules), strict=strict, output=output)


def notes(result: Result) -> list[str]:
    assert result.report.verification is not None
    return [note for note in result.report.verification.notes if "on condition" in note]


def test_rule_is_judged_under_its_condition(tmp_path: Path) -> None:
    result = run(f"{GUARDED} y = Neg(g)", guard_dropper(NO_NAN), strict=True, output=tmp_path / "m.onnx")
    assert op_types(result.model) == ["Neg"]
    assert op_types(onnx.load(tmp_path / "m.onnx")) == ["Neg"]
    assert result.report.quarantined == []
    (note,) = notes(result)
    assert "drop_guard #" in note
    assert "holds on condition that nothing is NaN; else y: " in note
    assert "(finite inputs agree)" in note


def test_rule_without_condition_is_left_out() -> None:
    result = run(f"{GUARDED} y = Neg(g)", guard_dropper(EXACT))
    assert op_types(result.model) == ["IsNaN", "Where", "Neg"]
    assert [q.by for q in result.report.quarantined] == ["drop_guard"]
    with pytest.raises(VerificationError, match=r"first broken by .*drop_guard"):
        run(f"{GUARDED} y = Neg(g)", guard_dropper(EXACT), strict=True)


def test_rule_is_left_out_where_finite_numbers_differ() -> None:
    result = run(f"{GUARDED} e = Elu(g) a = Abs(g) f = Elu(a) y = Add(e, f)", guard_dropper(NO_NAN), drop_elu)
    assert [(q.by, q.place) for q in result.report.quarantined] == [("drop_elu", "e")]
    assert sorted(op_types(result.model)) == ["Abs", "Add", "Elu"]
    assert len(notes(result)) == 1


def test_other_rules_are_verified_on_all_numbers() -> None:
    """Beside a rule with a condition, a rule without one that differs on the same inputs is left out."""

    @rule(lambda g, x, z: g.Where(g.IsInf(x), z, x), contract=EXACT)
    def drop_other_guard(g: Build, x: Value, z: Value) -> Value:
        """Where(IsInf(x), z, x) => x"""
        return x

    body = f"{GUARDED} i = IsInf(x) h = Where(i, zero, x) b = Greater(h, zero) c = GreaterOrEqual(g, zero)"
    body += " d = Xor(b, c) y = Cast <to=1> (d)"
    result = run(body, guard_dropper(conditional("no number is special")), drop_other_guard)
    assert [q.by for q in result.report.quarantined] == ["drop_other_guard"]
    assert "IsInf" in op_types(result.model)
    assert "IsNaN" not in op_types(result.model)
    assert len(notes(result)) == 1


def test_length_of_zero_is_excused_by_the_condition_of_the_norm() -> None:
    result = optimize(load(f"{HEAD} {{ n = ReduceL2 <axes=[1]> (x) r = Reciprocal(n) y = Mul(x, r) }}"))
    assert op_types(result.model) == ["LpNormalization"]
    assert "holds on condition that no length is 0" in notes(result)[0]
