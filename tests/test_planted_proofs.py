"""Proofs of the planted rules: none contradicts the fault of its rule.

A proof over the reals says nothing of rounding, overflow, NaN or the sign of zero, and one at some sizes nothing of
others; rules whose faults are of such a kind may have one.
"""

import numpy as np
import pytest
from passwright.core.proof.prover import Prover, prove_rule
from passwright.core.verify.proof_guarantees import PROOFS, Guarantee
from passwright.testing.check import default_prover
from planted import MISTAKES
from tiers import slow_unless

RIGHT_OVER_THE_REALS = {
    "arg_max_of_exp", "average_by_sum_in_half", "cube_in_half", "difference_overflows", "double_in_single",
    "doubles_beside_sentinel", "epsilon_before_indices", "half_of_positions_dropped", "island_of_halves",
    "layer_norm_by_squares", "mean_by_sum_in_half", "mean_square_in_half", "negation_as_difference",
    "positions_in_half", "quotient_of_square",
    "rounds_though_exact", "scale_after_product", "share_by_reciprocal", "shift_into_rounding_bias",
    "shift_into_rounding_constant", "shift_into_rounding_matrix", "softmax_in_half", "square_underflows",
    "variance_by_squares", "zero_added_to_minus_zero",
}  # fmt: skip
"""Mistakes of rounding, range, NaN or the sign of zero, or in values that its own outputs do not show."""
RIGHT_ALONE = {"inside_a_fixpoint", "inside_a_pipeline", "keeps_state", "rule_without_end", "rules_in_circles"}
"""Rules that are right, and wrong by what they do beside, or not at all."""
NO_REPLACEMENT = {
    "adds_an_object", "attribute_of_wrong_type", "changes_and_declines", "panics", "raises_at_one_place",
    "returns_a_number", "rule_without_end", "several_offenders", "unwritable_attribute",
}  # fmt: skip
"""Mistakes with a rule that returns none of valid ops, or finds the work of another."""
FIRST = {
    "batch_norm_without_epsilon", "bias_column_as_row", "boundary_left_out", "concat_in_wrong_order",
    "default_as_constant", "gelu_by_tanh", "last_of_ties", "less_or_equal_one_hot", "log_of_product",
    "island_of_halves", "nan_guard_dropped", "relu_of_clip",
}  # fmt: skip


@pytest.fixture(scope="module")
def prover() -> Prover:
    return default_prover()


@pytest.mark.parametrize("name", slow_unless(FIRST, MISTAKES))
def test_no_proof_contradicts_the_fault(name: str, prover: Prover) -> None:
    mistake = MISTAKES[name]
    for rule in (mistake.rules[by] for by, _ in mistake.wrong if by in mistake.rules):
        with np.errstate(all="ignore"):
            found = prove_rule(rule, [mistake.model], prover)
        assert found.models or name in NO_REPLACEMENT
        if name in RIGHT_ALONE:
            continue
        allowed = {Guarantee.REALS} if name in RIGHT_OVER_THE_REALS else set[Guarantee]()
        assert found.guarantee not in PROOFS - allowed, list(found.lines())
