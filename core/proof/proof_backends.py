"""The techniques beside the finite field that are installed here."""

from __future__ import annotations

from collections.abc import Mapping

from .exhaustion import Exhaustion
from .prover import Backend
from .smt import SmtProver, is_available
from .verdict import Technique


def default_backends(*, float32: bool = False) -> Mapping[Technique, Backend]:
    """Exhaustion over float16, over float32 too if asked for, and z3 where it is installed."""
    found: dict[Technique, Backend] = {}
    if is_available():
        found[Technique.SMT] = SmtProver().prove
    found[Technique.EXHAUSTION] = Exhaustion(float32).prove
    return found
