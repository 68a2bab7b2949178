"""Options of a comparison with the original."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from .input_generation import InputSet


class ComparisonOptions(Struct, frozen=True, kw_only=True):
    """The demands on a model that is compared: bit for bit if `exact`.

    `input_sets` restricts the comparison; the others count as equal already. `compare_regions`: each changed region is
    compared too, with the original's values at its boundary, for a model in which names have the meaning that they have
    in the original, as after rewriting; with another engine, each op of a model that differs. `explain_by_regions`:
    they may explain a difference of outputs in any model, as values of another meaning explain none. Unless changes
    `may_round`, outputs may not differ beyond their tolerance because a 16-bit float is rounded once less.
    `avoids_empty`: another backend, too, is given empty inputs only where all operators are known to support them.
    Without `finds_limits`, no inputs are searched for at which changed comparisons are near their limits.
    """

    exact: bool = False
    input_sets: Collection[InputSet] | None = None
    compare_regions: bool = False
    explain_by_regions: bool = True
    may_round: bool = True
    avoids_empty: bool = False
    finds_limits: bool = True


USUAL = ComparisonOptions()
"""The options of a comparison of outputs alone, on all input sets."""
