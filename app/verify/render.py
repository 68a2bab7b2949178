"""Verdicts of comparisons with the original, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from ...core.verify.verdict import Verdict
from ..terminal import Terminal, add_row, new_table
from .verify import VerificationReport

BIT_IDENTICAL, WITHIN_TOLERANCE, WRONG, INVALID = "bit-identical", "within tolerance", "wrong", "invalid"
"""The verdicts: the first two are of correct models; `invalid` is a model to which the ONNX checker objects."""


def show_verification(terminal: Terminal, report: VerificationReport) -> None:
    """Print the verdict on two models, or the differences of their interfaces."""
    for line in report.interface_differences:
        terminal.line(f"{report.other}: {line}")
    verdict = report.verdict
    if verdict is not None and verdict.failure is not None:
        terminal.line(f"{report.other} is {WRONG}: {verdict.failure.describe('it')}")
    elif verdict is not None:
        terminal.lines(verdict_lines(verdict))


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """The verdict of the comparison with the original."""
    if verdict is None:
        yield "NOT VERIFIED, as requested"
        return
    how = BIT_IDENTICAL if verdict.exact else f"{WITHIN_TOLERANCE} ({largest_difference_text(verdict)})"
    count = len(verdict.input_sets)
    yield f"verified: {how} on {count} sets of inputs, against {verdict.backend} without optimizations"
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_input_sets)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def difference_table(verdict: Verdict) -> Table:
    """The largest difference of each output, and that of the original under perturbation if it was computed."""
    table = new_table("output", "max abs", "max relative", "ulps", "floor", "allowed", "verdict")
    for name, d in verdict.differences.items():
        numbers = (d.error, d.relative, d.ulps, d.noise_floor, d.allowed)
        cell = f"{d.share_of_allowed:.0%} of allowed" if d.allowed else BIT_IDENTICAL
        add_row(table, name, *("" if n is None else f"{n:.2g}" for n in numbers), cell)
    return table


def largest_difference_text(verdict: Verdict) -> str:
    """The output with the largest share of the allowed difference, and the number of excused elements."""
    if not verdict.differences:
        return "no outputs"
    name, worst = max(verdict.differences.items(), key=lambda item: item[1].share_of_allowed)
    excused = [f"{d.excused} elements of {n} jump" for n, d in verdict.differences.items() if d.excused]
    if worst.error:
        excused.insert(0, f"{name} is off by up to {worst.error:.2g}, {worst.allowed:.2g} allowed")
    return "; ".join(excused) or "no difference seen"
