"""Ops by type, before and after."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ....core.report import Report
from .charts import paired_chart

MOST_BARS = 16
"""Types in the chart; all are in the table."""


@dataclass(frozen=True, slots=True)
class OpCount:
    """How many ops of a type there were, and are."""

    op: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """How many more there are."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Histogram:
    """All types, those that changed most first, and a chart of the first of them."""

    ops: list[OpCount]
    chart: Markup
    charted: int


def histogram_of(report: Report) -> Histogram | None:
    """None for a model with no ops."""
    before, after = report.before.ops, report.after.ops
    ops = [OpCount(op, before.get(op, 0), after.get(op, 0)) for op in before.keys() | after.keys()]
    ops.sort(key=lambda o: (-abs(o.change), -o.before, o.op))
    first = ops[:MOST_BARS]
    if not first:
        return None
    drawn = paired_chart(
        "Ops by type, before and after",
        [o.op for o in first],
        [o.before for o in first],
        [o.after for o in first],
        lambda n: f"{n:,.0f}",
    )
    return Histogram(ops, drawn, len(first))
