"""Decision of the techniques to try on an obligation, and of the verdict that they amount to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .obligation import NotApplicable, Obligation
from .verdict import Guarantee, Technique, Verdict

Backend = Callable[[Obligation], Sequence[Verdict]]
"""One technique: its verdicts on an obligation. Raises NotApplicable."""


def attempt_proof(obligation: Obligation, technique: Technique, backend: Backend) -> list[Verdict]:
    """The verdicts of one technique, or an unknown one with the reason for which it does not apply."""
    try:
        return list(backend(obligation))
    except NotApplicable as why:
        return [Verdict(Guarantee.UNKNOWN, technique, reason=str(why))]
