"""Options of a comparison with the original."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from .input_generation import InputSet


class ComparisonOptions(Struct, frozen=True, kw_only=True):
    """Requirements for a model that is compared.

    Attributes:
        exact: outputs must be bit-identical.
        input_sets: restricts the comparison; the outputs on other input sets are assumed to be equal.
        compare_regions: also compare each changed region, using the original's values at its boundary. This requires
            that names have the same meaning in both models, as after rewriting. For another engine, compare each op.
        explain_by_regions: regions may explain a difference of outputs; regions whose names differ in meaning explain
            none.
        may_round: outputs may differ beyond their tolerance because a 16-bit float is rounded once less.
        avoids_empty: give another backend empty inputs only if all operators are known to support them.
        finds_limits: search for inputs at which changed comparisons are near their limits.
    """

    exact: bool = False
    input_sets: Collection[InputSet] | None = None
    compare_regions: bool = False
    explain_by_regions: bool = True
    may_round: bool = True
    avoids_empty: bool = False
    finds_limits: bool = True


USUAL = ComparisonOptions()
"""The options for comparing only outputs, on all input sets."""
