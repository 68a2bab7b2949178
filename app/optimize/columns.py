"""Columns of tables about runs."""

from __future__ import annotations

from ...core.run.report import Report
from ...core.support.printable_text import json_text
from ..report.result_row import (
    NOT_VERIFIED,
    UNCHANGED,
    VERIFIED,
    WOULD_CHANGE,
    ResultRow,
    latency_columns,
    verdict_columns,
)


def run_columns(report: Report) -> ResultRow:
    """The outcome, sizes, rewrites, rejected changes, verdict and race of a run."""
    counts = [{t.name: t.changes} for t in report.transforms] + [p.rules or {p.name: p.changes} for p in report.passes]
    by_rule = dict[str, int]()
    for rule, count in (item for counted in counts for item in counted.items() if item[1]):
        by_rule[rule] = by_rule.get(rule, 0) + count
    races = report.speed.races if report.speed is not None else []
    changed = WOULD_CHANGE if report.written_to is None else VERIFIED if report.verification else NOT_VERIFIED
    return {
        "outcome": changed if report.has_changes else UNCHANGED,
        **{
            f"{name}_{when}": getattr(stats, name)
            for name in ("nodes", "bytes", "opset")
            for when, stats in (("before", report.before), ("after", report.after))
        },
        **verdict_columns(report.verification),
        **latency_columns(race.ratio for race in races if not race.is_lost),
        "rewrites": sum(by_rule.values()),
        "rules": json_text(by_rule, indent=None),
        "rejected": json_text([[q.by or q.pass_name, q.place] for q in report.rejected], indent=None),
    }
