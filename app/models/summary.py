"""Summary of the results of many models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from ...core.support.printable_text import json_text
from ..registry.environment import versions
from .batch_render import rejected, rewrites
from .result_row import ResultRow


@dataclass(slots=True)
class RuleSummary:
    """The rewrites of a rule over all models, those where it applied, and those where changes of it were left out."""

    rule: str
    rewrites: int = 0
    models: list[str] = field(default_factory=list[str])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Summary(Struct, frozen=True):
    """The rows about all results of a folder."""

    rows: Sequence[ResultRow]

    @property
    def outcomes(self) -> Counter[str]:
        """The number of models by outcome, the most first."""
        return Counter(dict(Counter(str(row["outcome"]) for row in self.rows).most_common()))

    @property
    def rules(self) -> list[RuleSummary]:
        """Rules that applied to some model or were left out, those of the most models first."""
        found = dict[str, RuleSummary]()
        for row in self.rows:
            model = str(row["model"])
            for rule, count in rewrites(row).items():
                summary = found.setdefault(rule, RuleSummary(rule))
                summary.rewrites += count
                summary.models.append(model)
            for rule, place in rejected(row):
                found.setdefault(rule, RuleSummary(rule)).left_out.append((model, place))
        return sorted(found.values(), key=lambda s: (-len(s.models), -s.rewrites, s.rule))

    def to_json(self) -> str:
        """The rows, the number of models by outcome, and the highest exit code, as JSON text."""
        code = max((int(row["exit_code"] or 0) for row in self.rows), default=0)
        return json_text({"exit_code": code, "outcomes": self.outcomes, "models": self.rows, "versions": versions()})

    def total(self, column: str) -> int:
        """The sum of a column over the rows that have a number both before and after."""
        pair = [column, column.replace("before", "after"), column.replace("after", "before")]
        rows = [row for row in self.rows if all(row.get(name) is not None for name in pair)]
        return sum(int(row[column] or 0) for row in rows)
