"""Rows about many models: formatting, sums, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from rich.filesize import decimal

from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ..registry.environment import versions
from ..report.number_text import change, duration, ratio_with_bounds
from ..report.result_row import ResultRow

DONE_BEFORE = "done before"
"""The outcome that a terminal shows for a kept result."""


@dataclass(slots=True)
class RuleSummary:
    """The rewrites of a rule over all models: where it applied, and where its changes were skipped."""

    rule: str
    rewrites: int = 0
    models: list[str] = field(default_factory=list[str])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Summary(Struct, frozen=True):
    """The rows about many models, with their reports as JSON data if requested."""

    rows: Sequence[ResultRow]
    reports: Sequence[Mapping[str, Any] | None] = ()

    @property
    def by_outcome(self) -> dict[str, list[ResultRow]]:
        """The rows by outcome, most frequent first."""
        found = dict[str, list[ResultRow]]()
        for row in self.rows:
            found.setdefault(str(row["outcome"]), []).append(row)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    @property
    def counts(self) -> str:
        """The number of models by outcome, in words."""
        return ", ".join(f"{len(found):,} {outcome}" for outcome, found in self.by_outcome.items())

    @property
    def exit_code(self) -> int:
        """The highest exit code."""
        return max((int(row["exit_code"] or 0) for row in self.rows), default=0)

    @property
    def rules(self) -> list[RuleSummary]:
        """Rules that applied to a model or whose changes were skipped, sorted by the number of models."""
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

    def totals(self, name: str) -> tuple[int, int]:
        """The sums of nodes or bytes before and after, over the rows that have both."""
        pairs = [pair for row in self.rows if (pair := sizes(name, row)) is not None]
        return sum(before for before, _ in pairs), sum(after for _, after in pairs)

    def to_json(self) -> str:
        """The rows and reports, the number of models by outcome, and the highest exit code, as JSON text."""
        models = [{**row, "report": report} for row, report in zip_longest(self.rows, self.reports)]
        outcomes = {outcome: len(found) for outcome, found in self.by_outcome.items()}
        return json_text({"exit_code": self.exit_code, "outcomes": outcomes, "models": models, "versions": versions()})


def row_line(row: ResultRow) -> str:
    """The sizes before and after, the outcome and the time, in one line."""
    parts = [text for name in ("nodes", "bytes") if (text := _size_text(name, row))]
    verdict = f", {row['verdict']}" if row.get("verdict") else ""
    scheme = f" as {row['scheme']}" if row.get("scheme") else ""
    parts.append(f"{row['outcome']}{scheme}{verdict}")
    figures = [row.get(f"latency_{name}") for name in ("ratio", "low", "high")]
    if None not in figures:
        ratio, low, high = (float(f or 0) for f in figures)
        parts.append(f"latency ratio {ratio_with_bounds(RatioInterval(ratio, low, high))}")
    if isinstance(seconds := row.get("seconds"), int | float):
        parts.append(duration(seconds))
    return f"{row['model']}: {'; '.join(parts)}"


def _size_text(name: str, row: ResultRow) -> str:
    """The numbers of nodes or bytes before and after; "" if unknown."""
    if (pair := sizes(name, row)) is None:
        return ""
    before, after = pair
    if before == after:
        return decimal(before) if name == "bytes" else f"{before:,} node{'s' * (before != 1)}"
    return f"{arrow(name, pair)}{' nodes' * (name == 'nodes')} ({change(before, after)})"


def arrow(name: str, pair: tuple[int, int]) -> str:
    """The numbers of nodes or bytes before and after, in words."""
    return " -> ".join(decimal(n) if name == "bytes" else f"{n:,}" for n in pair)


def sizes(name: str, row: ResultRow) -> tuple[int, int] | None:
    """The numbers of nodes or bytes before and after; None if unknown."""
    before, after = row.get(f"{name}_before"), row.get(f"{name}_after")
    return (before, after) if isinstance(before, int) and isinstance(after, int) else None


def rejected(row: ResultRow) -> list[tuple[str, str]]:
    """The rules and places of skipped changes."""
    found: list[Any] = json.loads(str(row.get("rejected") or "[]"))
    return [(rule, place) for rule, place in found]


def rewrites(row: ResultRow) -> dict[str, int]:
    """The number of rewrites by rule."""
    return json.loads(str(row.get("rules") or "{}"))
