"""Columns of tables about reports of several commands, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cli.exit_codes import UNVERIFIED
from ..compare.comparison_report import ORIGINAL, OURS
from ..verify.render import NO_DIFFERENCE, WITHIN_TOLERANCE, WRONG
from .many_render import FAILURES, NOT_VERIFIED, UNCHANGED, VERIFIED
from .result_row import ResultRow
from .run_columns import latency_columns, run_columns, verdict_columns

COMPRESSED, TUNED, KEPT, COMPARED = "compressed", "tuned", "original kept", "compared"


def optimization_columns(report: Mapping[str, Any]) -> ResultRow:
    """The columns about `passes run`."""
    columns = run_columns(report)
    changed = VERIFIED if report["verification"] is not None else NOT_VERIFIED
    return {**columns, "outcome": changed if columns["rewrites"] else UNCHANGED}


def verification_columns(report: Mapping[str, Any]) -> ResultRow:
    """The columns about `passes verify`; the error is the difference."""
    differences, verdict = report["interface_differences"], report["verdict"]
    failure = verdict and verdict["failure"]
    error = "; ".join(differences) if differences else failure and f"{failure['output']}: {failure['reason']}"
    return {**verdict_columns(verdict), "outcome": VERIFIED if report["agrees"] else WRONG, "error": error or None}


def quantization_columns(report: Mapping[str, Any]) -> ResultRow:
    """The columns about `passes quantize`."""
    result = report["result"]
    return {
        "outcome": COMPRESSED if report["scheme"] else KEPT,
        "scheme": " ".join(filter(None, (report["scheme"], report["variant"]))) or None,
        "bytes_before": report["original"]["bytes"],
        "bytes_after": result["bytes"],
        **latency_columns(result["ratios"].values()),
    }


def tuning_columns(report: Mapping[str, Any]) -> ResultRow:
    """The columns about `passes tune`."""
    before, after, recipe = report["original"], report["result"], report["configuration"]["recipe"]
    is_original = report["configuration"] == report["start"]
    return {
        "outcome": KEPT if is_original else TUNED,
        "scheme": None if is_original else recipe["scheme"] or recipe["pipeline"],
        "bytes_before": before["bytes"],
        "bytes_after": after["bytes"],
        **verdict_columns(report["verdict"]),
        **latency_columns([] if is_original else [after["time"], after["ratio"]]),
    }


def comparison_columns(report: Mapping[str, Any]) -> ResultRow:
    """The columns about `passes compare`: those of our result beside the original, both under ORT ALL."""
    rows = {(row["made_by"], row["online"]): row for row in report["rows"]}
    columns: ResultRow = {"outcome": COMPARED if report["is_verified"] else FAILURES[UNVERIFIED]}
    for when, made_by in (("before", ORIGINAL), ("after", OURS)):
        if (stats := rows.get((made_by, False), {}).get("stats")) is not None:
            columns |= {f"nodes_{when}": stats["nodes"], f"bytes_{when}": stats["bytes"]}
    if (ours := rows.get((OURS, True))) is None:
        return columns
    if (verdict := ours["verdict"]) is not None and not verdict["wrong"]:
        columns["verdict"] = WITHIN_TOLERANCE if verdict["error"] or verdict["excused"] else NO_DIFFERENCE
    wrong = verdict["wrong"] if verdict is not None else ""
    return columns | latency_columns(ours["ratios"].values()) | {"error": ours["failure"] or wrong or None}
