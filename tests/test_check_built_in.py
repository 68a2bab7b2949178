"""Contracts of the built-in rules, on models generated from their patterns and catalogue examples."""

import pytest
from passwright.core import Rule, RulePass
from passwright.passes.pipelines import BUILT_IN, DECOMPOSITION
from passwright.testing import examine
from passwright.testing.model_comparison import ComparisonProcess
from record import load_examples
from tiers import slow_unless

PASSES = [p for p in (*BUILT_IN, *DECOMPOSITION) if isinstance(p, RulePass)]
EXAMPLES = load_examples()
# Models per rule. With three seeds, 25 models find 86 % of the mistakes of tests/planted/, and 100 models 97 %.
BUDGETS = slow_unless({25}, (25, 100))
RULES = [(p, r) for p in PASSES for r in p.rules]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    ("tested", "other_rules"),
    [
        pytest.param(
            r, p.rules, id=f"{p.name}-{r.name}", marks=pytest.mark.slow if i % 36 or p in DECOMPOSITION else ()
        )
        for i, (p, r) in enumerate(RULES)
    ],
)
def test_rule_keeps_its_contract(
    tested: Rule, other_rules: tuple[Rule, ...], budget: int, comparison_process: ComparisonProcess
) -> None:
    checked = examine(
        tested,
        budget=budget,
        examples=[EXAMPLES[tested.name].model()],
        other_rules=other_rules,
        compare=comparison_process,
    )
    assert checked.is_sound, checked.report
