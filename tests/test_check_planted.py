"""Detection of the wrong rules of `tests/planted/` from their patterns alone, with any seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pass_loading import passes_from_file
from passwright.core import Rule
from passwright.core.plugins.pass_registry import FILE_MODULE_PREFIX, all_rules
from passwright.testing import examine
from passwright.testing.case import Fault, FaultKind
from passwright.testing.check import DEFAULT_BUDGET
from passwright.testing.fuzzing import RuleTester
from passwright.testing.model_comparison import ComparisonProcess
from tiers import part_of, slow_unless

FOLDER = Path(__file__).parent / "planted"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))
SEEDS = slow_unless({0}, range(3))
LIMIT = 30.0  # seconds for a model
# Wrong rules that WRONG does not name, and the reason.
UNNAMED = {
    ("changes_and_declines", "sorted_operands"): "WRONG names the pass that contains it",
}
# Wrong rules that are found in a run alone: where a 16-bit op rounds its result, which onnxruntime does not; where the
# check makes no model on which they fire, as of strings that are compared, or of a Range with a step of -3; and where
# another rule undoes what is right.
FOUND_IN_RUNS = {"in_half", "stay_in_half", "compare_as_is", "count_whole_steps", "add_negated"}
# Rules that undo each other.
UNDOING_RULES = {
    "inside_a_fixpoint": ("add_negated", "subtract"),
    "rules_in_circles": ("add_negated", "subtract"),
}


def rules(name: str) -> dict[str, Rule]:
    """The rules of a file, by name."""
    return {r.name: r for found in passes_from_file(FOLDER / f"{name}.py").values() for r in all_rules(found.item)}


def is_wrong(name: str, rule: str) -> bool:
    """Whether the mistake is in this rule, not in a pass."""
    return (name, rule) in UNNAMED or any(by == rule for by, _ in sys.modules[f"{FILE_MODULE_PREFIX}{name}"].WRONG)


ALL_RULES = [(name, r) for name in NAMES for r in rules(name).values()]
WRONG = [
    pytest.param(r, id=f"{name}-{r.name}", marks=[pytest.mark.slow] if part_of(name, 8) != 1 else [])
    for name, r in ALL_RULES
    if is_wrong(name, r.name) and r.name not in FOUND_IN_RUNS
]  # test_planted has others that are not slow
RIGHT = [pytest.param(r, id=f"{name}-{r.name}") for name, r in ALL_RULES if not is_wrong(name, r.name)]


@pytest.fixture(scope="module")
def process() -> Iterator[ComparisonProcess]:
    with ComparisonProcess(LIMIT) as process:
        yield process


@pytest.fixture
def _without_minimization(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the search for a smaller model."""

    def keep(self: RuleTester, fault: Fault, tape: object, seed: int) -> Fault:
        return fault

    monkeypatch.setattr(RuleTester, "minimize", keep)


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_rule_is_found(wrong: Rule, seed: int, process: ComparisonProcess) -> None:
    checked = examine(wrong, seed=seed, compare=process)
    assert checked.fault is not None, checked.report


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("budget", slow_unless({25}, (25, DEFAULT_BUDGET)))
@pytest.mark.parametrize("right", RIGHT)
def test_sound_rule_is_not_reported(right: Rule, budget: int, process: ComparisonProcess) -> None:
    checked = examine(right, budget=budget, compare=process)
    assert checked.is_sound, checked.report


@pytest.mark.usefixtures("_without_minimization")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", UNDOING_RULES)
def test_mutually_undoing_rules_are_found(name: str, seed: int, process: ComparisonProcess) -> None:
    one, *others = (rules(name)[r] for r in reversed(UNDOING_RULES[name]))
    checked = examine(one, seed=seed, other_rules=[one, *others], compare=process)
    assert checked.fault is not None
    assert checked.fault.kind is FaultKind.ENDLESS_WITH_OTHERS


def test_tables_name_existing_rules() -> None:
    named = {*UNNAMED, *((name, r) for name, both in UNDOING_RULES.items() for r in both)}
    assert named <= {(name, r.name) for name, r in ALL_RULES}
