"""Findings and cards of comparisons with the original, for all formats."""

from __future__ import annotations

from ..report.card import Card
from ..report.finding import Document, Finding, Level
from .render import WRONG, output_table, proof_lines, verdict_line
from .verify import VerificationReport


def verification_card(report: VerificationReport) -> Card:
    """The card of a comparison of two models."""
    verdict = report.verdict
    folds = [("Outputs", output_table(verdict))] if verdict is not None else []
    notes = [f"note: {note}" for note in verdict.notes] if verdict is not None else []
    notes += proof_lines(None if report.proofs is None else report.proofs.counts)
    text = verdict_line(verdict, with_notes=True) if verdict is not None else "not compared: the interfaces differ"
    if verdict is not None and verdict.failure is not None:
        text = f"{WRONG}: {verdict.failure.describe('it')}"
    tone, subject = "good" if report.agrees else "bad", f"{report.other} against {report.original}"
    return Card("passes verify", subject, tone, text, warnings=report.interface_differences, notes=notes, folds=folds)


def verification_document(report: VerificationReport) -> Document:
    """The content of all formats: a finding for each difference."""
    findings = [
        Finding(Level.ERROR, "interface-changed", "the interface differs", line, report.other)
        for line in report.interface_differences
    ]
    if report.verdict is not None and (failure := report.verdict.failure) is not None:
        places = list(filter(None, (failure.cut_point, failure.output)))
        message = failure.describe("it")
        findings.append(Finding(Level.ERROR, "wrong-result", "wrong result", message, report.other, places))
    return Document([verification_card(report)], findings)
