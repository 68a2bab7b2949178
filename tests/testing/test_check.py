"""Checks of rules: the kinds of faults, and complete reports of them."""

import itertools
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import TensorProto, parser
from passwright.core import EXACT, ROUNDING, Contract, Op, RewriteBuilder, Value, conditional, from_onnx, require, rule
from passwright.core.errors import UsageError
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify.input_generation import KINDS
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from passwright.testing import CheckInconclusive, RuleIsWrong, check_rule, examine
from passwright.testing.case import Case, FaultKind
from passwright.testing.fault_report import format_fault, write_repro
from passwright.testing.fuzzing import apply_rule
from passwright.testing.model_comparison import compare_case, compare_models
from rewriting import each, load

from passwright import verify

BUDGET = 60
CALLS = itertools.count()


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_negation(g: Any, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def raises(g: Any, x: Value) -> Value:
    """Abs(x) => none"""
    raise KeyError(x.name)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def ends_the_process(g: Any, x: Value) -> Value:
    """Abs(x) => none"""
    raise SystemExit(3)


@rule(lambda g, a, b, op: g.Sub(a, b) @ op, contract=EXACT)
def swaps_and_declines(g: Any, a: Value, b: Value, op: Op) -> Value:
    """a - b => b - a, unreported"""
    require(a is not b, "it is 0")
    g.graph.set_inputs(op, sorted((a, b), key=lambda v: v.name, reverse=True))
    require(False, "it is done")
    return op.outputs[0]


@rule(lambda g, a, b: g.Sub(a, g.Neg(b)), contract=EXACT)
def add_instead(g: Any, a: Value, b: Value) -> Value:
    """a - (-b) => a + b"""
    return g.Add(a, b)


@rule(lambda g, a, b: g.Add(a, b), contract=EXACT)
def subtract_negated(g: Any, a: Value, b: Value) -> Value:
    """a + b => a - (-b)"""
    require(a.dtype in {TensorProto.FLOAT, TensorProto.DOUBLE}, "nothing without a sign is negated")
    return g.Sub(a, g.Neg(b))


@rule(lambda g, c, x: g.Where(c, x, x), contract=EXACT)
def drop_choice_of_one(g: Any, c: Value, x: Value) -> Value:
    """Where(c, x, x) => x for bools, which onnxruntime does not support"""
    require(x.dtype == TensorProto.BOOL and c.shape == x.shape == (2,), "no truths")
    return x


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def never_ends(g: Any, x: Value) -> Value:
    """|x| => ||x||"""
    return g.Abs(g.Abs(x))


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def in_another_domain(g: Any, x: Value) -> Value:
    """|x| => an unknown operator"""
    return g.domain("nowhere").Abs(x)


@rule(lambda g, x: g.Neg(x), contract=EXACT)
def every_other_time(g: Any, x: Value) -> Value:
    """-x => 0 - x, or -1 * x"""
    return g.Sub(g.const(0, like=x), x) if next(CALLS) % 2 else g.Mul(x, g.const(-1, like=x))


@rule(lambda g, x: g.Relu(g.Neg(x)), contract=EXACT)
def relu_of_negated(g: Any, x: Value) -> Value:
    """Relu(-x) => Relu(x)"""
    return g.Relu(x)


@rule(lambda g, x: g.Exp(g.Neg(x)))
def reciprocal_of_exp(g: Any, x: Value) -> Value:
    """Exp(-x) => 1 / Exp(x), which is 0 where Exp(x) overflows"""
    return g.Reciprocal(g.Exp(x))


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def asks_too_much(g: Any, x: Value) -> Value:
    """Relu(x) => x, under a condition that no generated model meets"""
    require(len(x.name) > 1000, "its name is too short")
    return x


@each(
    ("wrong", "kind"),
    [
        (raises, FaultKind.RAISED),
        (ends_the_process, FaultKind.RAISED),
        (swaps_and_declines, FaultKind.RAISED),
        (never_ends, FaultKind.ENDLESS),
        (in_another_domain, FaultKind.REFUSED),
        (every_other_time, FaultKind.NONDETERMINISTIC),
        (relu_of_negated, FaultKind.WRONG),
        (reciprocal_of_exp, FaultKind.WRONG),
    ],
)
def test_faults(wrong: Any, kind: FaultKind) -> None:
    with pytest.raises(RuleIsWrong) as caught:
        check_rule(wrong, budget=BUDGET)
    fault = caught.value.result.fault
    assert fault is not None
    assert fault.kind == kind
    assert len(fault.case.model.graph.node) <= 2
    assert str(caught.value).startswith(f"{wrong.name} {kind}: ")


def test_sound_rule_has_no_fault() -> None:
    checked = check_rule(drop_negation, budget=BUDGET)
    assert checked.is_sound
    assert checked.fault is None
    assert 0 < checked.ran <= checked.fired <= checked.models <= BUDGET


def test_rules_that_undo_each_other_are_found() -> None:
    assert check_rule(subtract_negated, budget=BUDGET).is_sound
    fault = examine(subtract_negated, budget=BUDGET, other_rules=(subtract_negated, add_instead)).fault
    assert fault is not None
    assert fault.kind == FaultKind.ENDLESS_WITH_OTHERS
    assert "add_instead" in fault.message
    assert "subtract_negated" in fault.message
    report = format_fault(subtract_negated, fault)
    assert "examples=[MODEL], other_rules=[add_instead])" in report
    for name in ("subtract_negated", "add_instead"):
        assert f"from {__name__} import {name}" in report


def test_reference_runs_models_unsupported_by_onnxruntime() -> None:
    text = "g (bool[2] c, bool[2] x) => (bool[2] y) { y = Where(c, x, x) }"
    assert check_rule(drop_choice_of_one, budget=BUDGET, examples=[text]).is_sound


def test_rule_that_never_fires_is_inconclusive() -> None:
    with pytest.raises(CheckInconclusive, match=r"never fired in \d+ models \(its name is too short \(.*\)\): give"):
        check_rule(asks_too_much, budget=BUDGET)


@rule(lambda g, x, p, q, c: g.Pad(g.Pad(x, pads=p, constant_value=c), pads=q, constant_value=c), contract=EXACT)
def pad_once(g: Any, x: Value, p: list[int], q: list[int], c: float | str | None) -> Value:
    """Pad(Pad(x, p, c), q, c) => Pad(x, p + q, c)"""
    require(c is not None, "it pads with zeros")
    require(min(p + q) >= 0, "it cuts")
    PADDED_WITH.add(c)
    return g.Pad(x, pads=[m + n for m, n in zip(p, q, strict=True)], constant_value=c)


PADDED_WITH = set[object]()


def test_numbers_to_pad_with_are_drawn_by_name() -> None:
    assert check_rule(pad_once, budget=BUDGET).is_sound
    assert {type(c) for c in PADDED_WITH} >= {float, str}


def test_seed_determines_report() -> None:
    first, second = (examine(relu_of_negated, budget=BUDGET, seed=3) for _ in range(2))
    assert first.report == second.report
    assert (first.models, first.fired, first.ran) == (second.models, second.fired, second.ran)


@rule(lambda g, x, y: (g.Max(x, y), g.Min(x, y)), contract=EXACT)
def compare_and_choose(g: RewriteBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Max(x, y), Min(x, y) => Where(x < y, y, x), Where(x < y, x, y), of integers beyond 32 bits too"""
    require(x.dtype == np.int64, "it is not int64")
    less = g.Less(x, y)
    return g.Where(less, y, x), g.Where(less, x, y)


def test_report_says_where_onnxruntime_computes_the_model_otherwise_than_onnx() -> None:
    """onnxruntime 1.31 takes 911823 for the larger one of 3375995070 and 911823."""
    text = "g (int64[2,2,4] x, int64[2,2,4] y) => (int64[2,2,4] a, int64[2,2,4] b) { a = Max(x, y) b = Min(x, y) }"
    report = examine(compare_and_choose, budget=60, examples=[text]).report
    assert "the rewritten model as defined:\n    declare contract=ROUNDING" in report
    assert "as defined" not in examine(relu_of_negated, budget=BUDGET, seed=3).report


@rule(lambda g, x: g.Abs(x))
def root_of_square(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => Sqrt(x * x), which overflows in 16 bits"""
    require(x.dtype == np.float16, "it is not in half precision")
    return g.Sqrt(x * x)


def test_report_has_the_numbers_that_ops_of_16_bits_give() -> None:
    """onnxruntime computes both models in 32 bits, so that its results are alike."""
    report = examine(
        root_of_square, budget=BUDGET, examples=["g (float16[4] x) => (float16[4] y) { y = Abs(x) }"]
    ).report
    _, shown, numbers = report.partition("after, where each op rounds to its own type:\n")
    assert shown
    assert "inf" in numbers.partition("a test:")[0]


def test_report_is_complete() -> None:
    report = examine(relu_of_negated, budget=BUDGET).report
    for part in ("Relu(-x) => Relu(x)", "contract: exact", "Neg (x", "inputs (", "before:", "after:", "check_rule("):
        assert part in report
    assert f"from {__name__} import relu_of_negated" in report
    model = parser.parse_model(report.partition('MODEL = """')[2].partition('"""')[0])
    assert {n.op_type for n in model.graph.node} == {"Neg", "Relu"}
    with pytest.raises(RuleIsWrong):
        check_rule(relu_of_negated, examples=[model], budget=1)


FIRES = load("g (float[N] x) => (float[N] y) { a = Neg(x) y = Abs(a) }")


def test_unexpected_firing_is_a_fault() -> None:
    fault = apply_rule(drop_negation, Case(FIRES, "y", (), "somebody says so")).fault
    assert fault is not None
    assert fault.kind == FaultKind.FIRED_UNEXPECTEDLY
    assert "y was rewritten, but somebody says so" in fault.message
    assert apply_rule(drop_negation, Case(FIRES, "a", (), "somebody says so")).fault is None


def inverse_rule(outer: str, inner: str, contract: Contract) -> Any:
    @rule(lambda g, x: getattr(g, outer)(getattr(g, inner)(x)), contract=contract)
    def drop_inverse(g: Any, x: Value) -> Value:
        """Log(Exp(x)) => x, Exp(Log(x)) => x"""
        return x

    return drop_inverse


@each(
    ("outer", "inner", "contract", "kind"),
    {
        "exact": ("Log", "Exp", EXACT, FaultKind.WRONG),
        "rounding, and no overflow": ("Log", "Exp", ROUNDING, None),
        "rounding, and no NaN": ("Exp", "Log", ROUNDING, FaultKind.WRONG),
        "conditional": ("Exp", "Log", conditional("x is positive"), None),
    },
)
def test_contracts(outer: str, inner: str, contract: Contract, kind: FaultKind | None) -> None:
    text = f"g (float[N] x) => (float[N] y) {{ a = {inner}(x) y = {outer}(a) }}"
    r, case = inverse_rule(outer, inner, contract), Case(load(text), "y")
    after = apply_rule(r, case).after
    assert after is not None
    fault = compare_case(r, case, after, compare_models)
    assert (fault.kind if fault is not None else None) == kind


@each(("factor", "is_right"), [(1.0, True), (1.01, False)])
def test_kernels_of_bounded_functions_have_an_absolute_error(factor: float, is_right: bool) -> None:
    """Sigmoid(-9) is 1.2e-4, of which onnxruntime's kernel is off by 1.3e-8."""
    weights = {"one": np.float32(1), "k": np.float32(factor)}
    before = load(
        "g (float[N] x) => (float[N] y) { n = Neg(x) e = Exp(n) s = Add(e, one) y = Reciprocal(s) }", weights=weights
    )
    after = load("g (float[N] x) => (float[N] y) { g = Sigmoid(x) y = Mul(g, k) }", weights=weights)
    assert verify(before, after, inputs={"x": np.array([-9, -72.2], np.float32)}).agrees is is_right


def test_float16_is_not_compared_bit_for_bit() -> None:
    @rule(lambda g, x, c: g.Add(g.Add(x, g.const(c)), g.const(c)), contract=EXACT)
    def twice(g: Any, x: Value, c: Value) -> Value:
        """x + c + c => x + 2c"""
        return g.Add(x, g.const(c.const * 2, like=x))

    kinds: list[FaultKind | None] = []
    for t, dtype in (("float", np.float32), ("float16", np.float16)):
        case = Case(
            load(f"g ({t}[8] x) => ({t}[8] y) {{ a = Add(x, c) y = Add(a, c) }}", weights={"c": dtype(0.1)}), "y"
        )
        after = apply_rule(twice, case).after
        assert after is not None
        fault = compare_case(twice, case, after, compare_models)
        kinds.append(fault.kind if fault is not None else None)
    assert kinds == [FaultKind.WRONG, None]


@each("example", ["g (float[2] x) => (float[2] y) { y = Relu(", "", "model.onnx"])
def test_example_must_be_a_model(example: str) -> None:
    with pytest.raises(UsageError, match="an example is not ONNX text"):
        check_rule(drop_negation, examples=[example], budget=1)


def test_examples_of_module_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "a" * 1001
    text = f"g (float[2] {named}) => (float[2] y) {{ y = Relu({named}) }}"
    monkeypatch.setitem(globals(), "EXAMPLES", {"asks_too_much": [text]})
    with pytest.raises(RuleIsWrong):
        check_rule(asks_too_much, budget=1)
    monkeypatch.setitem(globals(), "EXAMPLES", {"asks_too_much": text})
    with pytest.raises(UsageError, match="EXAMPLES: a dict of lists"):
        check_rule(asks_too_much, budget=1)


def test_examples_of_the_package_around_a_module_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand beside PLUGIN, in __init__.py."""
    package = tmp_path / "long_names"
    package.mkdir()
    (package / "__init__.py").write_text("")
    code = """
from passwright.core import EXACT, require, rule
@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_named_negation(g, x):
    "Abs(-x) => Abs(x)"
    require(x.name == "of_example", "another name")
    return g.Abs(x)
"""
    (package / "rules.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    found = import_module("long_names.rules").drop_named_negation
    with pytest.raises(CheckInconclusive, match="never fired"):
        check_rule(found, budget=5)
    text = "g (float[2] of_example) => (float[2] y) { n = Neg(of_example) y = Abs(n) }"
    monkeypatch.setattr(sys.modules["long_names"], "EXAMPLES", {"drop_named_negation": [text]}, raising=False)
    assert check_rule(found, budget=5).fired > 0
    monkeypatch.setattr(sys.modules["long_names"], "EXAMPLES", {"drop_named_negation": text})
    with pytest.raises(UsageError, match=r"long_names\.EXAMPLES: a dict of lists"):
        check_rule(found, budget=1)


@each("budget", [0, -1])
def test_budget_is_at_least_one_model(budget: int) -> None:
    with pytest.raises(UsageError, match="at least one"):
        check_rule(drop_negation, budget=budget)


def test_repro_is_self_contained(tmp_path: Path) -> None:
    fault = examine(relu_of_negated, budget=BUDGET).fault
    assert fault is not None
    for _ in range(2):  # the second overwrites the first
        folder = write_repro(relu_of_negated, fault, tmp_path / "repros")
    assert folder.name == "relu_of_negated"
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "after.onnx", "before.onnx", "inputs.npz"]
    assert (folder / "README.md").read_text(encoding="utf-8") == format_fault(relu_of_negated, fault) + "\n"
    feeds = dict(np.load(folder / "inputs.npz"))
    names = [v.name for v in fault.case.model.graph.output]
    before, after = (LoadedModel(folder / f"{n}.onnx").run(names, feeds) for n in ("before", "after"))
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_parts_of_combined_inputs() -> None:
    model = load("g (float[N,3] x, float[N,3] z) => (float[N,3] y) <float c = {5}> { a = Mul(x, z) y = Min(a, c) }")
    spec = VerificationSpec.of(from_onnx(model))

    def combined(part: tuple[int, int]) -> list[str]:
        oracle = Oracle(model.SerializeToString(), replace(spec, combined_part=part))
        return [str(a.input_set) for a in oracle.runs if a.input_set.kind not in KINDS]

    everything = len(combined((0, 1)))
    parts = [len(combined((first, 6))) for first in range(6)]
    assert combined((0, 0)) == []
    assert all(everything / 12 < count < everything / 3 for count in parts)
    assert sum(parts) <= everything + 6
