"""Findings of runs, and their cards, for all formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ...core.run.report import Report
from ..report.card import Card
from ..report.finding import Document, Failure, Finding, Level
from .card import run_card
from .render import hint_lines, race_text, size_line

MAX_NAMED_RULES = 5


def run_document(outcomes: Sequence[Report | Failure | Card], *, is_check: bool) -> Document:
    """The content of all formats for some runs, and cards of models that were not run.

    `is_check`: changes count as errors.
    """
    levels, findings, cards = list(Level), list[Finding](), list[Card]()
    for outcome in outcomes:
        if isinstance(outcome, Report):
            findings += _run_findings(outcome, is_check)
            cards.append(_card(outcome, is_check))
        elif isinstance(outcome, Failure):
            findings.append(outcome.finding)
            cards.append(outcome.card)
        else:
            cards.append(outcome)
    return Document(cards, sorted(findings, key=lambda f: levels.index(f.level)))


def _run_findings(report: Report, is_check: bool) -> Iterator[Finding]:
    """The change of a check, all that was left out, a missing verification, and hints."""
    file = report.source
    if is_check and report.has_changes:
        yield Finding(Level.ERROR, "unoptimized-model", "would change", change_text(report), file)
    for q in report.rejected:
        places = [q.place] if q.place else []
        yield Finding(Level.WARNING, q.by, "a wrong change was left out", q.description, file, places)
    for race in report.speed.lost if report.speed is not None else ():
        message = f"{race.pipeline}: {race_text(race)}"
        yield Finding(Level.WARNING, "slower-result", "a slower result was left out", message, file)
    if report.verification is None:
        message = "the result was not compared with the original, as requested"
        yield Finding(Level.WARNING, "not-verified", "not verified", message, file)
    for unfit in report.unfit:
        yield Finding(Level.NOTE, unfit.pass_name, "a pass was left out", unfit.reason, file)
    for line in hint_lines(report):
        yield Finding(Level.NOTE, "hint", "hint", line.removeprefix("hint: "), file)


def change_text(report: Report) -> str:
    """The change of a check: sizes, and the transforms and rules that change most."""
    by = [{e.name: e.changes} for e in report.transforms] + [p.rules or {p.name: p.changes} for p in report.passes]
    counts = [item for changes in by for item in changes.items() if item[1]]
    counts.sort(key=lambda item: -item[1])
    rules = [f"{name} ({count})" for name, count in counts[:MAX_NAMED_RULES]]
    more = len(counts) - MAX_NAMED_RULES
    return f"{size_line(report)}; by {', '.join(rules)}{f' and {more} others' if more > 0 else ''}"


def _card(report: Report, is_check: bool) -> Card:
    card, would_change = run_card(report), is_check and report.has_changes
    return replace(card, tone="bad", verdict=f"would change; {card.verdict}") if would_change else card
