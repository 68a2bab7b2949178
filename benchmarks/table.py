"""Markdown tables of the measurements of passwright and its peers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from measured_runs import ModelRow, ToolRuns

OURS = "passwright"
MEGABYTE = 1e6
MEMORY_FACTOR, MEMORY_BASE = 1.5, 150e6  # the memory allowed: a multiple of the file size, and a constant
GROWTH_SIZES = (20_000, 100_000)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, its first column text, the others numbers."""
    yield f"| {' | '.join(header)} |"
    yield f"|---|{'---:|' * (len(header) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def report(rows: Sequence[ModelRow]) -> Iterator[str]:
    """All lines: the figures, then the conclusions."""
    tools = list(rows[0].tools)
    header = ["model", "nodes", "MB", *(f"{tool} {unit}" for tool in tools for unit in ("s", "MB", "nodes"))]
    yield from markdown(header, map(_metric_cells, rows))
    yield ""
    if OURS in tools:
        header = ["model", "best peer", f"{OURS} / best peer", f"{OURS} peak MB", "limit MB", "same results"]
        yield from markdown(header, map(_comparison_cells, rows))
        yield ""
    yield f"- imports, not counted above: {', '.join(_import_seconds(rows, tool) for tool in tools)}"
    for tool in tools:
        if (growth := growth_factor(rows, tool)) is not None:
            sizes = f"{GROWTH_SIZES[0]} to {GROWTH_SIZES[1]} nodes"
            yield f"- growth of time over growth of nodes, {sizes}, {tool}: {growth:.2f}"


def best_peer(row: ModelRow) -> tuple[str, float] | None:
    """The fastest of the others and its seconds; None if none got through."""
    times = {tool: runs.seconds for tool, runs in row.tools.items() if tool != OURS}
    return min(((t, s) for t, s in times.items() if s is not None), key=lambda p: p[1], default=None)


def growth_factor(rows: Sequence[ModelRow], tool: str) -> float | None:
    """The ratio of the growth of time to that of nodes; 1 is linear."""
    small, large = (next((r.tools[tool].seconds for r in rows if r.nodes == n), None) for n in GROWTH_SIZES)
    return large / small / (GROWTH_SIZES[1] / GROWTH_SIZES[0]) if small and large else None


def memory_limit(row: ModelRow) -> float:
    """Bytes that passwright may use."""
    return MEMORY_FACTOR * row.bytes + MEMORY_BASE


def _metric_cells(row: ModelRow) -> list[str]:
    cells = [row.model, str(row.nodes), f"{row.bytes / MEGABYTE:.2f}"]
    for runs in row.tools.values():
        cells += _run_cells(runs)
    return cells


def _run_cells(runs: ToolRuns) -> list[str]:
    if runs.seconds is None:
        return [(runs.failure or "").replace("|", "\\|")[:100], "", ""]
    return [f"{runs.seconds:.3f}", f"{runs.peak_bytes / MEGABYTE:.0f}", str(runs.nodes)]


def _comparison_cells(row: ModelRow) -> list[str]:
    runs, best = row.tools[OURS], best_peer(row)
    agreement = "not tried" if row.difference is None else row.difference or "yes"
    ratio = f"{runs.seconds / best[1]:.2f}" if runs.seconds is not None and best else ""
    peak = f"{runs.peak_bytes / MEGABYTE:.0f}" if runs.completed else ""
    return [row.model, best[0] if best else "", ratio, peak, f"{memory_limit(row) / MEGABYTE:.0f}", agreement]


def _import_seconds(rows: Sequence[ModelRow], tool: str) -> str:
    times = [s for row in rows if (s := row.tools[tool].import_seconds) is not None]
    return f"{tool} {min(times):.2f} s" if times else f"{tool} fails"
