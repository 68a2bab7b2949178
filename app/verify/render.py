"""What a comparison of two models came to."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from ...core.verify.verdict import Verdict
from ..terminal import Terminal, add_row, new_table
from .verify import VerificationReport


def show_verification(terminal: Terminal, report: VerificationReport) -> None:
    """Whether two models compute the same."""
    for line in report.interface_differences:
        terminal.line(f"{report.other}: {line}")
    verdict = report.verdict
    if verdict is not None and verdict.failure is not None:
        terminal.line(f"{report.other} differs: {verdict.failure.describe('it')}")
    elif verdict is not None:
        for line in verdict_lines(verdict):
            terminal.line(line)


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """What the comparison with the original came to."""
    if verdict is None:
        yield "NOT VERIFIED, as asked"
        return
    how = "equal bit for bit" if verdict.exact else f"within tolerance ({largest_difference_text(verdict)})"
    count = len(verdict.input_sets)
    yield f"verified: {how} on {count} sets of inputs, against {verdict.backend} without optimizations"
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_input_sets)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def difference_table(verdict: Verdict) -> Table:
    """How far each output is off at most, and how far the original's own moves where that was asked."""
    table = new_table("output", "max abs", "max relative", "ulps", "floor", "allowed", "verdict")
    for name, d in verdict.differences.items():
        numbers = (d.error, d.relative, d.ulps, d.noise_floor, d.allowed)
        said = f"{d.share_of_allowed:.0%} of allowed" if d.allowed else "equal"
        add_row(table, name, *("" if n is None else f"{n:.2g}" for n in numbers), said)
    return table


def largest_difference_text(verdict: Verdict) -> str:
    """The output that came closest to what is allowed."""
    if not verdict.differences:
        return "no outputs"
    name, worst = max(verdict.differences.items(), key=lambda item: item[1].share_of_allowed)
    return (
        f"{name} is off by up to {worst.error:.2g}, {worst.allowed:.2g} allowed"
        if worst.error
        else "no difference seen"
    )
