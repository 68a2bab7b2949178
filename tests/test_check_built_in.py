"""Every built-in rule keeps its promises on models made from its own pattern and from its example in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from passwright.core import Rule, RulePass
from passwright.passes.pipelines import BUILT_IN
from passwright.testing import examine
from passwright.testing.comparison_process import Isolated
from record import recorded

PASSES = [p for p in BUILT_IN if isinstance(p, RulePass)]
EXAMPLES = recorded()
BUDGET = 100  # models a rule: half a second each


@pytest.fixture(scope="module")
def judge() -> Iterator[Isolated]:
    with Isolated() as judge:
        yield judge


@pytest.mark.parametrize(
    ("wanted", "beside"), [pytest.param(r, p.rules, id=f"{p.name}-{r.name}") for p in PASSES for r in p.rules]
)
def test_it_keeps_its_promise(wanted: Rule, beside: tuple[Rule, ...], judge: Isolated) -> None:
    checked = examine(wanted, budget=BUDGET, examples=[EXAMPLES[wanted.name].model()], beside=beside, judge=judge)
    assert checked.is_sound, checked.story
