"""Rows about the results of commands, for journals and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...core.support.confidence_intervals import RatioInterval
from ...core.verify.verdict import Verdict

VERIFIED, NOT_VERIFIED, UNCHANGED, WOULD_CHANGE = "verified", "not verified", "unchanged", "would change"
COMPRESSED, TUNED, KEPT, COMPARED = "compressed", "tuned", "original kept", "compared"
WRONG, UNVERIFIABLE, FAILED, CRASHED, LATE = "wrong", "unverifiable", "failed", "crashed", "timed out"
"""The outcomes; each row has one."""
BIT_IDENTICAL, WITHIN_TOLERANCE, NO_DIFFERENCE = "bit-identical", "within tolerance", "no difference seen"
"""The verdicts on outputs that agree; the last one is for comparisons without bits."""
Cell = str | int | float | None
ResultRow = dict[str, Cell]
COLUMNS: Mapping[str, type[str | int | float]] = {
    "model": str,
    "do": str,
    "outcome": str,
    "exit_code": int,
    "error": str,
    "output": str,
    "verdict": str,
    "share_of_allowed": float,
    "nodes_before": int,
    "nodes_after": int,
    "bytes_before": int,
    "bytes_after": int,
    "opset_before": int,
    "opset_after": int,
    "latency_ratio": float,
    "latency_low": float,
    "latency_high": float,
    "scheme": str,
    "rewrites": int,
    "rules": str,
    "rejected": str,
    "seconds": float,
    "repeated": str,
    "options": str,
}
"""The columns of a row and their types.

`share_of_allowed`: the largest difference divided by the allowed one. `latency_ratio`: the latency divided by that of
the original, with its 95 % interval. `rules`: the number of rewrites by rule, a JSON object. `rejected`: the rules and
places of skipped changes, a JSON list of pairs. `repeated`: how the first process ended, if a second one did the job.
`options`: the options for this model.
"""


def latency_columns(ratios: Iterable[RatioInterval | None]) -> ResultRow:
    """The first latency ratio, with its interval."""
    ratio = next((r for r in ratios if r is not None), None)
    return {} if ratio is None else {f"latency_{name}": getattr(ratio, name) for name in ("ratio", "low", "high")}


def verdict_columns(verdict: Verdict | None) -> ResultRow:
    """The verdict on outputs that agree, and the largest share of the allowed difference."""
    if verdict is None or verdict.failure is not None:
        return {}
    differences = verdict.differences.values()
    is_different = any(d.error or d.excused for d in differences)
    text = BIT_IDENTICAL if verdict.exact else WITHIN_TOLERANCE if is_different else NO_DIFFERENCE
    return {"verdict": text, "share_of_allowed": max((d.share_of_allowed for d in differences), default=0.0)}
