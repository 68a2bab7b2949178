"""Verdicts of proofs, worded to claim no more than was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any

import numpy as np

from ..verify.proof_guarantees import STRENGTH, Guarantee


class Technique(StrEnum):
    """The method behind a verdict."""

    FINITE_FIELD = "finite field"
    SMT = "z3"
    EXHAUSTION = "exhaustion"


@dataclass(frozen=True, slots=True)
class ProofVerdict:
    """The result of one technique on one obligation.

    `coverage` are descriptions of the domains covered: "every float16", "every float32", "every int64 with overflow"
    for EXACT. `sizes` are the sizes at which symbols in shapes were evaluated, if any. `reason` says why it is unknown,
    or what differs. `counterexample` has inputs by name for which onnxruntime returns another result; only REFUTED has
    them. `notes` are assumptions of a proof, for example that constants are roots that they round.
    """

    guarantee: Guarantee
    technique: Technique
    coverage: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    sizes: frozenset[int] = frozenset()
    counterexample: Mapping[str, np.ndarray[Any, Any]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if (self.guarantee is Guarantee.REFUTED) != (self.counterexample is not None):
            raise ValueError("a verdict must have a counterexample if and only if it is refuted")

    def __str__(self) -> str:
        details = self.reason or ", ".join((*self.coverage, *sizes_words(self.sizes)))
        if self.guarantee is Guarantee.EXACT and self.technique is Technique.SMT:
            details += " by z3"
        return f"{self.guarantee}: {details}" if details else str(self.guarantee)


def unknown(reason: object, technique: Technique = Technique.FINITE_FIELD) -> ProofVerdict:
    """The verdict of a technique that decides nothing."""
    return ProofVerdict(Guarantee.UNKNOWN, technique, reason=str(reason))


def sizes_words(sizes: Iterable[int], word: str = "size") -> tuple[str, ...]:
    """A description of sizes: `sizes 1 to 6 and 130`; empty if there are none."""
    ordered = sorted(set(sizes))
    if not ordered:
        return ()
    runs = [[n for _, n in run] for _, run in groupby(enumerate(ordered), key=lambda at: at[1] - at[0])]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    listed = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return (f"{word}{'s' * (len(ordered) > 1)} {listed}",)


def strongest(verdicts: Iterable[ProofVerdict]) -> ProofVerdict:
    """The most informative verdict on one obligation: a refutation, or otherwise the strongest guarantee.

    A proof over the reals outranks DRAWN_INTEGERS of the same obligation; a smaller domain outranks the proof.
    """
    found = list(verdicts)
    refuted = [v for v in found if v.guarantee is Guarantee.REFUTED]
    return refuted[0] if refuted else max(found, key=lambda v: STRENGTH[v.guarantee])
