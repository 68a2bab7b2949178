"""The guarantees that proofs give, and their counts in reports, without the imports of the proofs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Guarantee(StrEnum):
    """How strong a verdict is, strongest first, except that REFUTED outweighs every other."""

    EXACT = "exact"
    REALS = "proved over the reals"
    DRAWN_INTEGERS = "tested for drawn integers"
    FEWER_INPUTS = "defined on fewer inputs"
    UNKNOWN = "unknown"
    REFUTED = "refuted"


STRENGTH = {g: -i for i, g in enumerate(Guarantee)}
PROOFS = frozenset({Guarantee.EXACT, Guarantee.REALS})
"""The guarantees that count as proofs."""


class ProofCounts(Struct, frozen=True):
    """The numbers of `changed` regions of a rewritten model and of proved ones by guarantee, and reasons for others.

    `rounded_weights` of proved regions were folded, and differ from exact ones by at most `ulps`. `extents` says at
    which extents of their symbols these were compared; "" without symbols.
    """

    changed: int
    proved: dict[str, int]
    reasons: dict[str, int]
    rounded_weights: int = 0
    ulps: float = 0.0
    extents: str = ""
