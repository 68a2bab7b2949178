"""Guarantees of the built-in rules, recorded by `docs/catalogue/prove.py`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...core.verify.proof_guarantees import PROOFS

if TYPE_CHECKING:
    from ...core.rewriting.rules import Rule
    from ...core.run.report import PassRecord

OWN_PACKAGE = f"{__name__.partition('.app.')[0]}.passes."
FILE = Path(__file__).with_name("guarantees.json")
NO_GUARANTEE = "not proved"
BOOKKEEPING = frozenset({"lift-constants", "merge-constants", "sink-weights"})
"""Passes that move or merge constants."""


class RecordedProof(Struct, frozen=True):
    """The guarantee of a rule of a pass; the `text` includes its coverage.

    It holds on `models` of the models on which the rule `fired`. `keeps_bits`: results were proved bit-identical.
    `reached_sites` are lines at which the rule returns, of all `sites`. `reasons` say why models are not proved.
    """

    pass_name: str
    guarantee: str
    text: str
    keeps_bits: bool
    models: int
    fired: int
    reached_sites: int = 0
    sites: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether the rule counts as proved."""
        return self.guarantee in PROOFS


@cache
def recorded_proofs() -> Mapping[str, RecordedProof]:
    """The recorded guarantees by rule name."""
    if not FILE.exists():
        return {}
    rows: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    for row in rows.values():
        row["reasons"] = tuple(row["reasons"])
    return {name: RecordedProof(**row) for name, row in rows.items()}


def recorded_proof(rule: Rule) -> RecordedProof | None:
    """The recorded proof of a built-in rule; None for any other rule, even with the same name."""
    return recorded_proofs().get(rule.name) if rule.build.__module__.startswith(OWN_PACKAGE) else None


def recorded_guarantee(pass_name: str, rule: str) -> str:
    """The recorded guarantee of a pass's rule; NO_GUARANTEE for other rules and passes without rules."""
    proof = recorded_proofs().get(rule)
    return proof.guarantee if proof is not None and proof.pass_name == pass_name else NO_GUARANTEE


def guarantee_counts(passes: Iterable[PassRecord]) -> dict[str, int]:
    """The changes of a run by the recorded guarantees of their rules; other changes have none.

    Constants that were moved or merged compute nothing, and do not count.
    """
    found: Counter[str] = Counter()
    for record in passes:
        for name, changes in record.rules.items() if record.name not in BOOKKEEPING else ():
            found[recorded_guarantee(record.name, name)] += changes
    return dict(found.most_common())
