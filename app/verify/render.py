"""What a comparison of two models came to."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from ...core.verify.verdict import Verdict
from ..terminal import Screen, add_row, table_of
from .verify import Comparison


def show_comparison(screen: Screen, comparison: Comparison) -> None:
    """Whether two models compute the same."""
    for line in comparison.interface:
        screen.line(f"{comparison.other}: {line}")
    verdict = comparison.verdict
    if verdict is not None and verdict.failure is not None:
        screen.line(f"{comparison.other} differs: {verdict.failure.told_of('it')}")
    elif verdict is not None:
        for line in verdict_lines(verdict):
            screen.line(line)


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """What the comparison with the original came to."""
    if verdict is None:
        yield "NOT VERIFIED, as asked"
        return
    how = "equal bit for bit" if verdict.exact else f"within tolerance ({largest(verdict)})"
    yield f"verified: {how} on {len(verdict.draws)} sets of inputs, against {verdict.backend} without optimizations"
    if verdict.nonfinite_draws:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_draws)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def difference_table(verdict: Verdict) -> Table:
    """How far each output is off at most, and how far the original's own moves where that was asked."""
    table = table_of("output", "max abs", "max relative", "ulps", "floor", "allowed", "verdict")
    for name, d in verdict.differences.items():
        numbers = (d.error, d.relative, d.ulps, d.floor, d.allowed)
        said = f"{d.share:.0%} of allowed" if d.allowed else "equal"
        add_row(table, name, *("" if n is None else f"{n:.2g}" for n in numbers), said)
    return table


def largest(verdict: Verdict) -> str:
    """The output that came closest to what is allowed."""
    if not verdict.differences:
        return "no outputs"
    name, worst = max(verdict.differences.items(), key=lambda item: item[1].share)
    return (
        f"{name} is off by up to {worst.error:.2g}, {worst.allowed:.2g} allowed"
        if worst.error
        else "no difference seen"
    )
