"""Every built-in rule keeps its promises on models made from its own pattern and from its example in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from passwright.core import Rule, RulePass
from passwright.passes.pipelines import BUILT_IN
from passwright.testing import examine
from passwright.testing.comparison_process import ComparisonProcess
from record import load_examples
from tiers import slow_unless

PASSES = [p for p in BUILT_IN if isinstance(p, RulePass)]
EXAMPLES = load_examples()
# Models a rule. Of the mistakes of tests/planted/, with three seeds, 25 models show 86 %, and 100 models 97 %.
BUDGETS = slow_unless({25}, (25, 100))
RULES = [(p, r) for p in PASSES for r in p.rules]


@pytest.fixture(scope="module")
def judge() -> Iterator[ComparisonProcess]:
    with ComparisonProcess() as judge:
        yield judge


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    ("wanted", "beside"),
    [
        pytest.param(r, p.rules, id=f"{p.name}-{r.name}", marks=pytest.mark.slow if i % 3 else ())
        for i, (p, r) in enumerate(RULES)
    ],
)
def test_it_keeps_its_promise(wanted: Rule, beside: tuple[Rule, ...], budget: int, judge: ComparisonProcess) -> None:
    checked = examine(
        wanted, budget=budget, examples=[EXAMPLES[wanted.name].model()], other_rules=beside, compare=judge
    )
    assert checked.is_sound, checked.report
