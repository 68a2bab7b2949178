"""Verdicts of comparisons with the original, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.verify.verdict import OutputDifference, Verdict
from ..terminal import Terminal, plural
from .verify import VerificationReport

BIT_IDENTICAL, WITHIN_TOLERANCE, WRONG, INVALID = "bit-identical", "within tolerance", "wrong", "invalid"
"""The verdicts: the first two are of correct models; `invalid` is a model to which the ONNX checker objects."""
NOT_VERIFIED = "NOT VERIFIED, as requested"


def show_verification(terminal: Terminal, report: VerificationReport) -> None:
    """Print the verdict on two models, or the differences of their interfaces."""
    for line in report.interface_differences:
        terminal.line(f"{report.other}: {line}")
    verdict = report.verdict
    if verdict is not None and verdict.failure is not None:
        terminal.line(f"{report.other} is {WRONG}: {verdict.failure.describe('it')}")
    elif verdict is not None:
        terminal.lines(verdict_lines(verdict))


MAX_SHOWN_OUTPUTS = 3


def verdict_line(verdict: Verdict | None) -> str:
    """The verdict of the comparison with the original, in one line."""
    if verdict is None:
        return NOT_VERIFIED
    how, excused = BIT_IDENTICAL, sum(d.excused for d in verdict.differences.values())
    if not verdict.exact:
        worst = max(verdict.differences.values(), key=lambda d: d.share_of_allowed, default=OutputDifference())
        how = f"{WITHIN_TOLERANCE} (at most {worst.share_of_allowed:.0%} of what rounding allows)"
        how = how if worst.error else WITHIN_TOLERANCE if excused else "no difference seen"
    parts = [f"verified: {how}, on {plural(len(verdict.input_sets), 'set')} of inputs"]
    parts += [f"{plural(excused, 'element')} differ where the original jumps too"] * bool(excused)
    parts += [f"{plural(len(verdict.random), 'random output')} by type and rank only"] * bool(verdict.random)
    parts += [f"{plural(len(verdict.notes), 'note')} with -v"] * bool(verdict.notes)
    return "; ".join(parts)


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """The verdict of the comparison with the original."""
    if verdict is None:
        yield NOT_VERIFIED
        return
    how = BIT_IDENTICAL if verdict.exact else f"{WITHIN_TOLERANCE} ({largest_difference_text(verdict)})"
    count = len(verdict.input_sets)
    yield f"verified: {how} on {count} sets of inputs, against {verdict.backend} without optimizations"
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_input_sets)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def difference_lines(verdict: Verdict) -> Iterator[str]:
    """The outputs with the largest shares of the allowed difference, a line each, and the number of the others."""
    different = [(name, d) for name, d in verdict.differences.items() if d.error]
    different.sort(key=lambda item: -item[1].share_of_allowed)
    for name, d in different[:MAX_SHOWN_OUTPUTS]:
        of_allowed = f"{d.share_of_allowed:.0%} of the {d.allowed:.2g} allowed" if d.allowed else "none allowed"
        yield f"{name}: off by {d.error:.2g}, {of_allowed}"
    if (more := len(different) - MAX_SHOWN_OUTPUTS) > 0:
        yield f"{plural(more, 'other output')} off by less of what is allowed"
    if alike := len(verdict.differences) - len(different):
        yield f"{plural(alike, 'output')} with no difference"


def largest_difference_text(verdict: Verdict) -> str:
    """The output with the largest share of the allowed difference, and the number of excused elements."""
    if not verdict.differences:
        return "no outputs"
    name, worst = max(verdict.differences.items(), key=lambda item: item[1].share_of_allowed)
    excused = [f"{d.excused} elements of {n} jump" for n, d in verdict.differences.items() if d.excused]
    if worst.error:
        excused.insert(0, f"{name} is off by up to {worst.error:.2g}, {worst.allowed:.2g} allowed")
    return "; ".join(excused) or "no difference seen"
