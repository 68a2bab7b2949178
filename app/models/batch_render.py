"""Lines about the models of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.filesize import decimal

from ...core.support.confidence_intervals import RatioInterval
from ..optimize.render import change_text
from ..report.number_text import duration, ratio_with_bounds
from .result_row import ResultRow


def row_line(row: ResultRow) -> str:
    """The sizes before and after, the outcome and the time, in a line."""
    parts = [text for name in ("nodes", "bytes") if (text := _size_text(name, row))]
    outcome = str(row["outcome"])
    verdict = f", {row['verdict']}" if row.get("verdict") else ""
    scheme = f" as {row['scheme']}" if row.get("scheme") else ""
    parts.append(f"{outcome}{scheme}{verdict}")
    if (ratio := latency_ratio(row)) is not None:
        parts.append(f"latency ratio {ratio_with_bounds(ratio)}")
    if isinstance(seconds := row.get("seconds"), int | float):
        parts.append(duration(seconds))
    return f"{row['model']}: {'; '.join(parts)}"


def _size_text(name: str, row: ResultRow) -> str:
    """The numbers of nodes or bytes before and after; "" where they are not known."""
    before, after = row.get(f"{name}_before"), row.get(f"{name}_after")
    if not isinstance(before, int) or not isinstance(after, int):
        return ""
    texts = [decimal(n) if name == "bytes" else f"{n:,}" for n in (before, after)]
    unit = " nodes" if name == "nodes" else ""
    if before == after:
        return f"{texts[0]}{unit}"
    return f"{texts[0]} -> {texts[1]}{unit} ({change_text(before, after)})"


def latency_ratio(row: ResultRow) -> RatioInterval | None:
    """The latency divided by that of the original."""
    bounds = [row.get(f"latency_{name}") for name in ("ratio", "low", "high")]
    ratio, low, high = (float(n) if n is not None else None for n in bounds)
    return None if ratio is None or low is None or high is None else RatioInterval(ratio, low, high)


def left_out_lines(row: ResultRow) -> Iterator[str]:
    """The wrong changes that were left out, a line each."""
    for rule, place in rejected(row):
        yield f"{row['model']}: warning: left out {rule}{f' at {place}' if place else ''}"


def rejected(row: ResultRow) -> list[tuple[str, str]]:
    """The rules and places of changes that were left out."""
    found: list[Any] = json.loads(str(row.get("rejected") or "[]"))
    return [(rule, place) for rule, place in found]


def rewrites(row: ResultRow) -> dict[str, int]:
    """The number of rewrites by rule."""
    return json.loads(str(row.get("rules") or "{}"))
