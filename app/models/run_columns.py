"""Columns of tables about many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...core.support.printable_text import json_text
from ..verify.render import BIT_IDENTICAL, NO_DIFFERENCE, WITHIN_TOLERANCE
from .result_row import ResultRow


def run_columns(report: Mapping[str, Any]) -> ResultRow:
    """The sizes, rewrites, rejected changes, verdict and race in the JSON of a run's report."""
    sizes = {
        f"{name}_{when}": report[when][name] for name in ("nodes", "bytes", "opset") for when in ("before", "after")
    }
    by_rule = dict[str, int]()
    for record in (*report["transforms"], *report["passes"]):
        for rule, count in (record.get("rules") or {record["name"]: record["changes"]}).items():
            by_rule[rule] = by_rule.get(rule, 0) + count
    by_rule = {rule: count for rule, count in by_rule.items() if count}
    left_out = [[q["by"] or q["pass_name"], q["place"]] for q in report["rejected"]]
    races: list[dict[str, Any]] = [] if report["speed"] is None else report["speed"]["races"]
    return {
        **sizes,
        **verdict_columns(report["verification"]),
        **latency_columns(race["ratio"] for race in races if not race["is_lost"]),
        "rewrites": sum(by_rule.values()),
        "rules": json_text(by_rule, indent=None),
        "rejected": json_text(left_out, indent=None),
        "seconds": round(sum(report["seconds"].values()), 6),
    }


def verdict_columns(verdict: Mapping[str, Any] | None) -> ResultRow:
    """The verdict on outputs that agree, and the largest share of the allowed difference."""
    if verdict is None or verdict["failure"] is not None:
        return {}
    differences = verdict["differences"].values()
    share = max((d["share_of_allowed"] for d in differences if d["share_of_allowed"] is not None), default=0.0)
    is_different = any(d["error"] or d["excused"] for d in differences)
    text = BIT_IDENTICAL if verdict["exact"] else WITHIN_TOLERANCE if is_different else NO_DIFFERENCE
    return {"verdict": text, "share_of_allowed": share}


def latency_columns(ratios: Iterable[Mapping[str, Any] | None]) -> ResultRow:
    """The first ratio of latencies, with its interval."""
    ratio = next((r for r in ratios if r is not None), None)
    return {} if ratio is None else {f"latency_{name}": ratio[name] for name in ("ratio", "low", "high")}
