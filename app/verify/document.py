"""The document of a comparison of two models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.verify.verdict import Verdict
from ..report.document import CARD, PAGE, TERMINAL, Block, Document, Lines, Table, table
from ..report.finding import Finding, Level
from ..report.number_text import plural
from ..report.result_row import WRONG
from ..report.verdict_text import difference_lines, proof_lines, verdict_line

if TYPE_CHECKING:
    from ..measure.agreement import OutputFigures
    from .report import VerificationReport

MAX_OUTPUT_ROWS = 20


def describe(report: VerificationReport) -> Document:
    """Describe a comparison of two models, with a finding for each difference."""
    verdict, accuracy, differences = report.verdict, report.accuracy, report.interface_differences
    findings = [
        Finding(Level.ERROR, "interface-changed", "the interface differs", d, report.other) for d in differences
    ]
    blocks: list[Block] = [Lines(differences)]
    evidence, details = list[Block](), Lines(())
    text, engine = f"was not compared: {report.obstacle}", report.engine_text
    subject = f"{report.other} in {engine}" if engine else report.other
    if verdict is not None and engine and verdict.failure is not None and not verdict.failure.output:
        failure = verdict.failure
        text = f"does not run{'' if failure.input_set is None else f' on {failure.input_set}'}: {failure.reason}"
        findings.append(Finding(Level.ERROR, "does-not-run", "does not run", f"it {text}", report.other))
        blocks.append(Lines(verdict.notes, "note"))
    elif verdict is not None and verdict.failure is not None:
        message, places = verdict.failure.describe("it"), [verdict.failure.cut_point, verdict.failure.output]
        if report.wrong_op:
            message += f"; the first wrong op is {report.wrong_op}, given input values from {verdict.backend}"
        text = f"is {WRONG}: {message}"
        findings.append(
            Finding(Level.ERROR, "wrong-result", "wrong result", message, report.other, list(filter(None, places)))
        )
        is_lossy = report.has_narrower_constants and verdict.failure.difference is not None
        blocks.append(Lines(["to measure a model that differs on purpose: --budget 1%"] * is_lossy, "hint"))
        rounds = bool(engine) and (d := verdict.failure.difference) is not None and d.error > 0
        blocks.append(Lines(["to measure an engine that rounds differently: --budget 1%"] * rounds, "hint"))
        blocks.append(Lines(verdict.notes, "note"))
    elif verdict is not None:
        compared = f"{engine} was compared" if engine else "compared"
        text = f"{verdict_line(verdict)}; {compared} with {verdict.backend} without optimizations"
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
        joint = "; its outputs agree:" if report.has_equal_values else ", and"
        text = f"{subject} has a different interface{joint} {text.removeprefix('verified: ')}"
    elif not text.startswith("verified"):
        text = f"{subject} {text}"
    if report.proofs is not None:
        blocks.append(Lines([*proof_lines(report.proofs.counts)]))
    return Document(
        "passes verify",
        f"{subject} against {Path(report.original).name}",
        text,
        "good" if report.agrees else "bad",
        details=details,
        evidence=evidence,
        blocks=blocks,
        findings=findings,
    )


def figure_tables(outputs: Mapping[str, OutputFigures]) -> Iterator[Table]:
    """Yield tables of the figures of each output, most noise first; a terminal shows only some."""
    headings = ("output", "largest\nerror", "mean\nerror", "largest\nvalue", "SNR\n(dB)", "agreement")
    ordered = sorted(outputs.items(), key=lambda item: (-item[1].relative_noise, item[1].agreement or 0))
    rows = [(name, *error_cells(o), share(o)) for name, o in ordered]
    yield table("Outputs", headings, rows[:MAX_OUTPUT_ROWS], splits=True, on=TERMINAL)
    yield table("Outputs", headings, rows, on=CARD | PAGE)


def error_cells(figures: OutputFigures) -> tuple[str, ...]:
    """The errors of an output, its largest value and its signal-to-noise ratio, if it has floats."""
    if not figures.elements:
        return ("",) * 4
    errors = ("inf",) * 2 if figures.nonfinite else (f"{figures.largest_error:.2g}", f"{figures.mean_error:.2g}")
    return *errors, f"{figures.magnitude:.3g}", figures.snr_text


def share(figures: OutputFigures) -> str:
    """The share of rows or elements in which the models agree, if it applies to the output."""
    return "" if figures.agreement is None else f"{figures.agreement:.4g}"


def unlimited_lines(outputs: Mapping[str, OutputFigures]) -> Iterator[str]:
    """Why the noise of some outputs is unlimited."""
    for name, o in outputs.items():
        if o.nonfinite:
            yield f"{name}: {o.nonfinite:,} of {o.elements:,} elements are NaN or infinite in only one of the models"
        elif o.noise and not o.signal:
            yield f"{name}: all elements of the original are 0, those of the other model are not"
    if (more := len(outputs) - MAX_OUTPUT_ROWS) > 0:
        yield f"{plural(more, 'other output')} with less noise"


def output_table(verdict: Verdict) -> Table:
    """The difference of each output, and the allowed difference; largest share of it first."""
    ordered = sorted(verdict.differences.items(), key=lambda item: -item[1].share_of_allowed)
    rows = ((name, f"{d.error:.2g}", f"{d.allowed:.2g}", f"{d.share_of_allowed:.0%}") for name, d in ordered)
    return table("Outputs", ("output", "off by", "allowed", "of allowed"), rows, on=CARD | PAGE)
