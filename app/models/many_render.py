"""Lines and tables about the runs of many models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from msgspec import Struct
from rich.filesize import decimal
from rich.table import Table

from ...core.run.report import Report
from ..cli.exit_codes import UNVERIFIED, WRONG
from ..optimize.render import change_text, size_line
from ..report.terminal import Terminal, add_row, new_table, plural

VERIFIED, NOT_VERIFIED, UNCHANGED, WOULD_CHANGE, DONE_BEFORE = (
    "verified", "not verified", "unchanged", "would change", "done before",
)  # fmt: skip
FAILURES = {WRONG: "wrong", UNVERIFIED: "unverifiable"}
FAILED = "failed"
SIZES = ("nodes", "bytes")
MAX_ROWS = 40  # of a table with a row for each model
FULL_WIDTH = 70  # columns of a terminal for a table with sizes before and after


class ModelRow(Struct, frozen=True):
    """The outcome for a model, and its nodes and bytes before and after; (0, 0) for a failure."""

    model: str
    outcome: str
    nodes: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, model: str, report: Report, *, is_planned: bool) -> Self:
        """The row for a run; `is_planned`: nothing is written."""
        outcome = UNCHANGED
        if report.has_changes:
            outcome = WOULD_CHANGE if is_planned else VERIFIED if report.verification is not None else NOT_VERIFIED
        before, after = report.before, report.after
        return cls(model, outcome, (before.nodes, after.nodes), (before.bytes, after.bytes))

    @classmethod
    def of_result(cls, model: str, outcome: str, row: Mapping[str, Any]) -> Self:
        """The row for a model with a result of which another row is kept."""
        nodes, size = (tuple(int(row.get(f"{name}_{when}") or 0) for when in ("before", "after")) for name in SIZES)
        return cls(model, outcome, (nodes[0], nodes[1]), (size[0], size[1]))


def outcome_line(report: Report, row: ModelRow) -> str:
    """The sizes before and after, and the outcome."""
    verdict = VERIFIED if row.outcome == UNCHANGED and report.verification is not None else row.outcome
    exact = report.verification is not None and report.verification.exact
    return f"{size_line(report)}; {verdict}{', bit-identical' * exact}"


def show_summary(terminal: Terminal, rows: Sequence[ModelRow], end: str) -> None:
    """Print a table of all models, or of all outcomes where there are many, and the counts with the line `end`."""
    by_outcome: dict[str, list[ModelRow]] = {}
    for row in rows:
        by_outcome.setdefault(row.outcome, []).append(row)
    is_wide = terminal.out.width >= FULL_WIDTH
    if len(rows) <= MAX_ROWS:
        table = _table("model", is_wide)
        for row in rows:
            _add(table, row.model, [row], row.outcome, is_wide)
    else:
        table = _table("outcome", is_wide)
        for outcome, found in by_outcome.items():
            _add(table, outcome, found, str(len(found)), is_wide)
    table.add_section()
    _add(table, f"all {len(rows)}", rows, "", is_wide)
    terminal.out.print(table)
    counts = ", ".join(f"{len(found)} {outcome}" for outcome, found in by_outcome.items())
    terminal.line(f"{plural(len(rows), 'model')}: {counts}; {end}")


def _table(first: str, is_wide: bool) -> Table:
    return new_table(first, "nodes", *["bytes"] * is_wide, "outcome" if first == "model" else "models")


def _add(table: Table, name: str, rows: Collection[ModelRow], last: str, is_wide: bool) -> None:
    """Add a row with the sums of nodes and bytes of some models that ran."""
    ran = [row for row in rows if row.nodes[0]]
    nodes = [sum(row.nodes[i] for row in ran) for i in (0, 1)]
    size = [sum(row.bytes[i] for row in ran) for i in (0, 1)]
    if not ran:
        add_row(table, name, *[""] * (1 + is_wide), last)
    elif is_wide:
        add_row(table, name, f"{nodes[0]:,} -> {nodes[1]:,}", f"{decimal(size[0])} -> {decimal(size[1])}", last)
    else:
        add_row(table, name, change_text(*nodes) or f"{nodes[1]:,}", last)


def option_hints(hints: Iterable[tuple[str, str]], limit: int) -> Iterator[str]:
    """The options that would change most models, with an example of each, from models and their hints."""
    found = [(model, *hint.removeprefix("hint: ").rpartition(": ")) for model, hint in hints]
    counts = Counter(option for *_, option in found)
    examples = {option: f"{model}: {text}" for model, text, _, option in reversed(found)}
    for option, count in counts.most_common(limit):
        yield f"hint: {option} would change {plural(count, 'model')}, as {examples[option]}"
