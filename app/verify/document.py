"""Verdicts of comparisons with the original, in words, and the document of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.verify.verdict import OutputDifference, Verdict
from ..report.document import CARD, PAGE, TERMINAL, Block, Document, Lines, Table, table
from ..report.finding import Finding, Level
from ..report.number_text import plural

if TYPE_CHECKING:
    from ...core.verify.proof_guarantees import ProofCounts
    from ..measure.criterion import OutputFigures
    from .report import VerificationReport

BIT_IDENTICAL, WITHIN_TOLERANCE, WRONG, INVALID = "bit-identical", "within tolerance", "wrong", "invalid"
"""The verdicts: the first two are of correct models; `invalid` is a model to which the ONNX checker objects."""
NO_DIFFERENCE = "no difference seen"  # where bits were not compared
NOT_VERIFIED = "NOT VERIFIED, as requested"
MAX_SHOWN_OUTPUTS = 3
MAX_OUTPUT_ROWS, MAX_SHOWN_DIMS, MAX_SHOWN_SIZES = 20, 4, 10


def describe(report: VerificationReport) -> Document:
    """The document of a comparison of two models, with a finding for each difference."""
    verdict, accuracy, differences = report.verdict, report.accuracy, report.interface_differences
    findings = [
        Finding(Level.ERROR, "interface-changed", "the interface differs", d, report.other) for d in differences
    ]
    blocks: list[Block] = [Lines(differences)]
    evidence, details = list[Block](), Lines(())
    text = f"was not compared: {report.obstacle}"
    if verdict is not None and verdict.failure is not None:
        message, places = verdict.failure.describe("it"), [verdict.failure.cut_point, verdict.failure.output]
        text = f"is {WRONG}: {message}"
        findings.append(
            Finding(Level.ERROR, "wrong-result", "wrong result", message, report.other, list(filter(None, places)))
        )
        is_lossy = report.has_narrower_constants and verdict.failure.difference is not None
        blocks.append(Lines(["measure a model that differs on purpose: --budget 1%"] * is_lossy, "hint"))
    elif verdict is not None:
        text = f"{verdict_line(verdict)}; compared with {verdict.backend} without optimizations"
        details = Lines([*difference_lines(verdict)], on=TERMINAL | PAGE)
        blocks += [Lines(verdict.notes, "note"), output_table(verdict)]
    elif accuracy is not None:
        message = f"{accuracy.outcome}: {accuracy.figure_text}, on {accuracy.samples}"
        text = f"is {message}"
        evidence = [*figure_tables(accuracy.outputs)]
        blocks += [Lines([*unlimited_lines(accuracy.outputs)]), Lines(accuracy.notes, "note")]
        if not accuracy.is_within:
            findings.append(Finding(Level.ERROR, "over-budget", "over the budget", message, report.other))
    if differences:
        joint = "; its outputs agree otherwise:" if report.has_equal_values else ", and"
        text = f"{report.other} has another interface{joint} {text.removeprefix('verified: ')}"
    elif not text.startswith("verified"):
        text = f"{report.other} {text}"
    if report.proofs is not None:
        blocks.append(Lines([*proof_lines(report.proofs.counts)]))
    return Document(
        "passes verify",
        f"{report.other} against {Path(report.original).name}",
        text,
        "good" if report.agrees else "bad",
        details=details,
        evidence=evidence,
        blocks=blocks,
        findings=findings,
    )


def figure_tables(outputs: Mapping[str, OutputFigures]) -> Iterator[Table]:
    """The figures of each output, those with most noise first; a terminal shows a number of them."""
    headings = ("output", "largest\nerror", "mean\nerror", "largest\nvalue", "SNR\n(dB)", "agreement")
    ordered = sorted(outputs.items(), key=lambda item: (-item[1].relative_noise, item[1].agreement or 0))
    rows = [(name, *error_cells(o), share(o)) for name, o in ordered]
    yield table("Outputs", headings, rows[:MAX_OUTPUT_ROWS], splits=True, on=TERMINAL)
    yield table("Outputs", headings, rows, on=CARD | PAGE)


def error_cells(figures: OutputFigures) -> tuple[str, ...]:
    """The errors of an output, its largest value and its ratio of signal to noise, if it has floats."""
    if not figures.elements:
        return ("",) * 4
    errors = ("inf",) * 2 if figures.nonfinite else (f"{figures.largest_error:.2g}", f"{figures.mean_error:.2g}")
    return *errors, f"{figures.magnitude:.3g}", figures.snr_text


def share(figures: OutputFigures) -> str:
    """The share of rows or elements in which the models agree, if the output has any that count."""
    return "" if figures.agreement is None else f"{figures.agreement:.4g}"


def unlimited_lines(outputs: Mapping[str, OutputFigures]) -> Iterator[str]:
    """Why the noise of some outputs has no limit."""
    for name, o in outputs.items():
        if o.nonfinite:
            yield f"{name}: {o.nonfinite:,} of {o.elements:,} elements are NaN or infinite in one of the models alone"
        elif o.noise and not o.signal:
            yield f"{name}: all elements of the original are 0, those of the other model are not"
    if (more := len(outputs) - MAX_OUTPUT_ROWS) > 0:
        yield f"{plural(more, 'other output')} with less noise"


def proof_lines(proofs: ProofCounts) -> Iterator[str]:
    """The number of proved regions, and the reasons for which others are not."""
    if not proofs.changed:
        yield "proved: no region differs"
        return
    counts = [f"{n} {guarantee.removeprefix('proved ')}" for guarantee, n in proofs.proved.items()]
    if proofs.rounded_weights:
        weights = plural(proofs.rounded_weights, "folded weight")
        counts.append(f"with {weights} off by at most {ceil(proofs.ulps * 10) / 10:g} ulp")
    if proofs.extents:
        counts.append(f"at {proofs.extents} of symbols")
    proved = sum(proofs.proved.values())
    yield f"proved: {proved} of {plural(proofs.changed, 'changed region')}" + (
        f" ({', '.join(counts)})" if counts else ""
    )
    for reason, count in [*proofs.reasons.items()][:MAX_SHOWN_OUTPUTS]:
        yield f"{plural(count, 'region')} not proved: {reason}"


def output_table(verdict: Verdict) -> Table:
    """The difference of each output, and the allowed difference; outputs with the largest share of it come first."""
    ordered = sorted(verdict.differences.items(), key=lambda item: -item[1].share_of_allowed)
    rows = ((name, f"{d.error:.2g}", f"{d.allowed:.2g}", f"{d.share_of_allowed:.0%}") for name, d in ordered)
    return table("Outputs", ("output", "off by", "allowed", "of allowed"), rows, on=CARD | PAGE)


def verdict_line(verdict: Verdict | None) -> str:
    """The verdict of the comparison with the original, in one line."""
    if verdict is None:
        return NOT_VERIFIED
    excused = sum(d.excused for d in verdict.differences.values())
    parts = [f"verified: {agreement_text(verdict)}, on {input_sets_text(verdict.input_sets)}"]
    parts += [f"{plural(excused, 'element')} differ at discontinuities of the original"] * bool(excused)
    parts += [f"{plural(len(verdict.random), 'random output')} by type and rank only"] * bool(verdict.random)
    return "; ".join(parts)


def agreement_text(verdict: Verdict) -> str:
    """How closely the outputs agree: the largest error as a share of the one allowed, of all outputs."""
    if verdict.exact:
        return BIT_IDENTICAL
    worst = max(verdict.differences.values(), key=lambda d: d.share_of_allowed, default=OutputDifference())
    if worst.error:
        return f"{WITHIN_TOLERANCE} (largest error: {worst.share_of_allowed:.0%} of that allowed)"
    are_excused = any(d.excused for d in verdict.differences.values())
    return WITHIN_TOLERANCE if are_excused else NO_DIFFERENCE


def input_sets_text(labels: Sequence[str]) -> str:
    """The number of input sets, of generated ones or of samples that the user gave."""
    are_given = all(label.startswith("given") for label in labels)
    return plural(len(labels), "given sample") if labels and are_given else f"{plural(len(labels), 'set')} of inputs"


def sizes_text(sizes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """The sizes of each symbolic dim, of many some of them."""
    for symbol, found in [*sizes.items()][:MAX_SHOWN_DIMS]:
        shown = [*found[:5], "...", *found[-2:]] if len(found) > MAX_SHOWN_SIZES else found
        yield f"{symbol} of {', '.join(map(str, shown))}" + f" ({len(found)} sizes)" * (shown is not found)
    if (more := len(sizes) - MAX_SHOWN_DIMS) > 0:
        yield plural(more, "other dim")


def difference_lines(verdict: Verdict) -> Iterator[str]:
    """The outputs that differ most of what is allowed, a line each, the number of the others, and other comparisons."""
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
            yield f"{name}: {plural(d.excused, 'element')} differ at discontinuities of the original"
    if verdict.sizes:
        yield f"sizes: {'; '.join(sizes_text(verdict.sizes))}"
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: alike on {plural(len(verdict.nonfinite_input_sets), 'set')} of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
