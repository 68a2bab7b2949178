"""Strengths of what a proof shows, without the imports of the proofs."""

from enum import StrEnum


class Guarantee(StrEnum):
    """The strength of a verdict, the strongest first but for REFUTED, which outweighs every other."""

    EXACT = "exact"
    REALS = "proved over the reals"
    DRAWN_INTEGERS = "tested for drawn integers"
    FEWER_INPUTS = "defined on fewer inputs"
    UNKNOWN = "unknown"
    REFUTED = "refuted"


STRENGTH = {g: -i for i, g in enumerate(Guarantee)}
PROOFS = frozenset({Guarantee.EXACT, Guarantee.REALS})
"""The guarantees that count as a proof."""
