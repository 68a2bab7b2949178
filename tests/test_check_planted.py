"""The wrong rules of `tests/planted/` are caught by what their own patterns say alone, with any seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pass_loading import passes_from_file
from passwright.core import Rule
from passwright.core.plugins.discovery import FILE_MODULE_PREFIX, all_rules
from passwright.testing import examine
from passwright.testing.case import Fault, FaultKind
from passwright.testing.check import DEFAULT_BUDGET
from passwright.testing.comparison_process import ComparisonProcess
from passwright.testing.fuzzing import RuleTester
from tiers import slow_unless

FOLDER = Path(__file__).parent / "planted"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))
SEEDS = slow_unless({0}, range(3))
LIMIT = 30.0  # seconds for a model
# What WRONG does not name, and why it is wrong.
UNNAMED = {
    ("changes_and_declines", "sorted_operands"): "WRONG names the pass that is made of it",
    ("inside_a_fixpoint", "add_negated"): "beside the mistake planted there: unsigned integers have no Neg",
}
# Rules that undo each other.
TOGETHER = {
    "inside_a_fixpoint": ("add_negated", "subtract"),
    "rules_in_circles": ("add_negated", "subtract"),
}


def rules(name: str) -> dict[str, Rule]:
    """The rules of a file, by name."""
    return {r.name: r for found in passes_from_file(FOLDER / f"{name}.py").values() for r in all_rules(found.item)}


def is_wrong(name: str, rule: str) -> bool:
    """Whether the mistake is in this very rule; in other files it is in a pass."""
    return (name, rule) in UNNAMED or any(by == rule for by, _ in sys.modules[f"{FILE_MODULE_PREFIX}{name}"].WRONG)


EVERY = [(name, r) for name in NAMES for r in rules(name).values()]
WRONG = [pytest.param(r, id=f"{name}-{r.name}") for name, r in EVERY if is_wrong(name, r.name)]
RIGHT = [pytest.param(r, id=f"{name}-{r.name}") for name, r in EVERY if not is_wrong(name, r.name)]


@pytest.fixture(scope="module")
def judge() -> Iterator[ComparisonProcess]:
    with ComparisonProcess(LIMIT) as judge:
        yield judge


@pytest.fixture
def _as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """No smaller model is looked for."""

    def same(self: RuleTester, fault: Fault, tape: object, seed: int) -> Fault:
        return fault

    monkeypatch.setattr(RuleTester, "minimize", same)


@pytest.mark.usefixtures("_as_found")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_it_is_caught(wrong: Rule, seed: int, judge: ComparisonProcess) -> None:
    checked = examine(wrong, seed=seed, compare=judge)
    assert checked.fault is not None, checked.report


@pytest.mark.usefixtures("_as_found")
@pytest.mark.parametrize("budget", slow_unless({100}, (100, DEFAULT_BUDGET)))
@pytest.mark.parametrize("right", RIGHT)
def test_what_is_right_is_not(right: Rule, budget: int, judge: ComparisonProcess) -> None:
    checked = examine(right, budget=budget, compare=judge)
    assert checked.is_sound, checked.report


@pytest.mark.usefixtures("_as_found")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TOGETHER)
def test_rules_that_undo_each_other_are_caught_together(name: str, seed: int, judge: ComparisonProcess) -> None:
    one, *others = (rules(name)[r] for r in reversed(TOGETHER[name]))
    checked = examine(one, seed=seed, other_rules=[one, *others], compare=judge)
    assert checked.fault is not None
    assert checked.fault.kind is FaultKind.ENDLESS_WITH_OTHERS


def test_the_tables_name_rules() -> None:
    named = {*UNNAMED, *((name, r) for name, both in TOGETHER.items() for r in both)}
    assert named <= {(name, r.name) for name, r in EVERY}
