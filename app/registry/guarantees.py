"""Guarantees of the built-in rules, as `docs/catalogue/prove.py` recorded them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path


FILE = Path(__file__).with_name("guarantees.json")
PROVED = frozenset({"exact", "proved over the reals", "proved almost everywhere"})
"""The guarantees that count as proved, as `core.proof.verdict.PROOFS`, without the imports."""
NO_GUARANTEE = "not proved"


@dataclass(frozen=True, slots=True)
class RecordedProof:
    """The guarantee of a rule: the `text` has what it covers; `models` that hold, of so many on which the rule fired.

    `keeps_bits`: equal bits were shown. `reached_sites` are lines at which the rule returns, of all `sites`. `reasons`
    say why models are not proved.
    """

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
        return self.guarantee in PROVED


@cache
def recorded_proofs() -> Mapping[str, RecordedProof]:
    """The recorded guarantees by name of rule."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: RecordedProof(**{**row, "reasons": tuple(row["reasons"])}) for name, row in rows.items()}


def guarantee_of(rule: str) -> str:
    """The guarantee of a built-in rule in words; of another one, that there is none."""
    found = recorded_proofs().get(rule)
    return found.guarantee if found is not None else NO_GUARANTEE


def write_proofs(proofs: Mapping[str, RecordedProof]) -> None:
    """Write the table anew: a line for each rule, in the order of names."""
    rows = (f"{json.dumps(name)}: {json.dumps(asdict(proofs[name]))}" for name in sorted(proofs))
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
