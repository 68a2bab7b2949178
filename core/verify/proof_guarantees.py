"""Strengths of what proofs show, and their counts in reports, without the imports of the proofs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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


class ProofCounts(Struct, frozen=True):
    """How many regions of a rewritten model `changed`, how many are proved by guarantee, and the reasons for others.

    `rounded_weights` of proved ones were folded, and are off from exact ones by `ulps` at most. `extents` says at which
    extents of their symbols these were compared; "" without symbols.
    """

    changed: int
    proved: dict[str, int]
    reasons: dict[str, int]
    rounded_weights: int = 0
    ulps: float = 0.0
    extents: str = ""
