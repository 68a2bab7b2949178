"""Verdicts of comparisons with the original, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from rich.table import Table

from ...core.verify.verdict import OutputDifference, Verdict
from ..report.result_row import BIT_IDENTICAL, NO_DIFFERENCE, WITHIN_TOLERANCE, WRONG
from ..report.terminal import Terminal, new_table, plural

if TYPE_CHECKING:
    from ...core.verify.proof_guarantees import ProofCounts
    from .verify import VerificationReport

INVALID = "invalid"
"""The verdict on a model to which the ONNX checker objects."""
NOT_VERIFIED = "NOT VERIFIED, as requested"
MAX_SHOWN_OUTPUTS = 3


def show_verification(terminal: Terminal, report: VerificationReport) -> None:
    """Print the verdict on two models, or the differences of their interfaces."""
    terminal.lines(f"{report.other}: {line}" for line in report.interface_differences)
    verdict = report.verdict
    if verdict is not None and verdict.failure is not None:
        terminal.wrapped(f"{report.other} is {WRONG}: {verdict.failure.describe('it')}")
    elif verdict is not None:
        terminal.wrapped_lines(verdict_lines(verdict))
    terminal.wrapped_lines(proof_lines(None if report.proofs is None else report.proofs.counts))


def proof_lines(proofs: ProofCounts | None) -> Iterator[str]:
    """The number of proved regions, and the reasons for which others are not; nothing if no proofs were asked for."""
    if proofs is None:
        return
    if not proofs.changed:
        yield "proved: no region differs"
        return
    counts = [f"{n} {guarantee.removeprefix('proved ')}" for guarantee, n in proofs.proved.items()]
    if proofs.rounded_weights:
        weights = plural(proofs.rounded_weights, "folded weight")
        counts.append(f"with {weights} off by at most {ceil(proofs.ulps * 10) / 10:g} ulp")
    proved = sum(proofs.proved.values())
    yield f"proved: {proved} of {plural(proofs.changed, 'changed region')}" + (
        f" ({', '.join(counts)})" if counts else ""
    )
    for reason, count in [*proofs.reasons.items()][:MAX_SHOWN_OUTPUTS]:
        yield f"{plural(count, 'region')} not proved: {reason}"


def output_table(verdict: Verdict) -> Table:
    """The difference of each output, and the one allowed, those with the largest share of it first."""
    ordered = sorted(verdict.differences.items(), key=lambda item: -item[1].share_of_allowed)
    rows = ((name, f"{d.error:.2g}", f"{d.allowed:.2g}", f"{d.share_of_allowed:.0%}") for name, d in ordered)
    return new_table("output", "off by", "allowed", "of allowed", rows=rows)


def verdict_line(verdict: Verdict | None, *, with_notes: bool = False) -> str:
    """The verdict of the comparison with the original, in one line; the notes are counted unless they are beside it."""
    if verdict is None:
        return NOT_VERIFIED
    excused = sum(d.excused for d in verdict.differences.values())
    parts = [f"verified: {agreement_text(verdict)}, on {input_sets_text(verdict.input_sets)}"]
    parts += [f"{plural(excused, 'element')} differ where the original jumps too"] * bool(excused)
    parts += [f"{plural(len(verdict.random), 'random output')} by type and rank only"] * bool(verdict.random)
    parts += [f"{plural(len(verdict.notes), 'note')} with -v"] * bool(verdict.notes and not with_notes)
    return "; ".join(parts)


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """The verdict of the comparison with the original, the outputs that differ most, and all that it leaves open."""
    if verdict is None:
        yield NOT_VERIFIED
        return
    sets = input_sets_text(verdict.input_sets)
    yield f"verified: {agreement_text(verdict)}, on {sets}, against {verdict.backend} without optimizations"
    yield from difference_lines(verdict)
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_input_sets)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def agreement_text(verdict: Verdict) -> str:
    """How closely the outputs agree: the largest share of what rounding allows, of all outputs."""
    if verdict.exact:
        return BIT_IDENTICAL
    worst = max(verdict.differences.values(), key=lambda d: d.share_of_allowed, default=OutputDifference())
    if worst.error:
        return f"{WITHIN_TOLERANCE} (at most {worst.share_of_allowed:.0%} of what rounding allows)"
    are_excused = any(d.excused for d in verdict.differences.values())
    return WITHIN_TOLERANCE if are_excused else NO_DIFFERENCE


def input_sets_text(labels: Sequence[str]) -> str:
    """The number of input sets, of generated ones or of samples that the user gave."""
    are_given = all(label.startswith("given") for label in labels)
    return plural(len(labels), "given sample") if labels and are_given else f"{plural(len(labels), 'set')} of inputs"


def difference_lines(verdict: Verdict) -> Iterator[str]:
    """The outputs with the largest shares of the allowed difference, a line each, and the number of the others."""
    different = [(name, d) for name, d in verdict.differences.items() if d.error]
    different.sort(key=lambda item: -item[1].share_of_allowed)
    for name, d in different[:MAX_SHOWN_OUTPUTS]:
        of_allowed = f"{d.share_of_allowed:.0%} of the {d.allowed:.2g} allowed" if d.allowed else "none allowed"
        yield f"{name}: off by {d.error:.2g}, {of_allowed}"
    if (more := len(different) - MAX_SHOWN_OUTPUTS) > 0:
        yield f"{plural(more, 'other output')} off by less of what is allowed"
    if different and (alike := len(verdict.differences) - len(different)):
        yield f"{plural(alike, 'output')} with no difference"
    for name, d in verdict.differences.items():
        if d.excused:
            yield f"{name}: {plural(d.excused, 'element')} differ where the original jumps too"
