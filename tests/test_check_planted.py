"""Detection of the wrong rules of `tests/planted/` from their patterns alone, with several seeds."""

import pytest
from passwright.core import Rule
from passwright.testing import examine
from passwright.testing.case import Fault, FaultKind
from passwright.testing.check import DEFAULT_BUDGET
from passwright.testing.fuzzing import RuleTester
from passwright.testing.model_comparison import ComparisonProcess
from planted import MISTAKES
from planted.mistake import Mistake
from rewriting import cases
from tiers import part_of, slow_unless

SEEDS = slow_unless({0}, range(3))
# Wrong rules that are found in a run alone: where a 16-bit op rounds its result, which onnxruntime does not; where the
# check makes no model on which they fire, as of strings that are compared, of a Range with a step of -3, or of a
# one-sided DFT, or none with such constants, as those that round to whole numbers and the lowest float; and where
# another rule undoes what is right.
FOUND_IN_RUNS = {
    "add_negated", "case_of_words", "cube_in_half", "highest_frequency_dropped", "island_of_halves",
    "masks_bounded_one_by_one", "mean_by_sum_in_half", "mean_square_in_half", "shift_into_rounding_constant",
    "shift_into_rounding_matrix", "softmax_in_half", "steps_backwards",
}  # fmt: skip
# Rules and seeds whose models do not show the fault; those of another seed do.
NOT_SHOWN = set[tuple[str, int]]()
# Rules that undo each other.
UNDOING_RULES = {"inside_a_fixpoint": ("add_negated", "subtract"), "rules_in_circles": ("add_negated", "subtract")}


def is_wrong(mistake: Mistake, rule: str) -> bool:
    """Whether the mistake is in this rule, not in a pass or another rule."""
    return rule == mistake.name or any(by == rule for by, _ in mistake.wrong)


ALL_RULES = [(m, r) for m in MISTAKES.values() for r in m.rules.values()]
WRONG = [
    pytest.param(r, id=f"{m.name}-{r.name}", marks=[pytest.mark.slow] if part_of(m.name, 8) != 1 else [])
    for m, r in ALL_RULES
    if is_wrong(m, r.name) and r.name not in FOUND_IN_RUNS
]  # test_planted has others that are not slow
RIGHT = {r.name: r for m, r in ALL_RULES if not is_wrong(m, r.name)}


@pytest.fixture
def _without_minimization(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the search for a smaller model."""

    def keep(self: RuleTester, fault: Fault, choice_sequence: object) -> Fault:
        return fault

    monkeypatch.setattr(RuleTester, "minimize", keep)


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_rule_is_found(wrong: Rule, seed: int, comparison_process: ComparisonProcess) -> None:
    checked = examine(wrong, seed=seed, compare=comparison_process)
    assert (checked.fault is None) == ((wrong.name, seed) in NOT_SHOWN), checked.report


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("budget", slow_unless({25}, (25, DEFAULT_BUDGET)))
@cases("right", RIGHT)
def test_sound_rule_is_not_reported(right: Rule, budget: int, comparison_process: ComparisonProcess) -> None:
    checked = examine(right, budget=budget, compare=comparison_process)
    assert checked.is_sound, checked.report


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", UNDOING_RULES)
def test_mutually_undoing_rules_are_found(name: str, seed: int, comparison_process: ComparisonProcess) -> None:
    one, *others = (MISTAKES[name].rules[r] for r in reversed(UNDOING_RULES[name]))
    checked = examine(one, seed=seed, other_rules=[one, *others], compare=comparison_process)
    assert checked.fault is not None
    assert checked.fault.kind is FaultKind.ENDLESS_WITH_OTHERS


def test_tables_name_existing_rules() -> None:
    assert {(name, r) for name, both in UNDOING_RULES.items() for r in both} <= {(m.name, r.name) for m, r in ALL_RULES}
    assert {r.name for _, r in ALL_RULES} >= FOUND_IN_RUNS | {name for name, _ in NOT_SHOWN}
