"""The document of a check of rules."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ...testing.check import CheckResult
from ..report.document import CARD, TERMINAL, Document, Lines, Preformatted, TableRow, table
from ..report.finding import Finding, Level
from ..report.number_text import duration, plural
from .rule_check import CheckReport, result_word

LEFT_OUT = "sound, but `passes run` rejects changes that show this difference, unless the contract is `conditional`"
TONES = {"wrong": "wrong", "inconclusive": "open"}


def describe(report: CheckReport) -> Document:
    """Describe each rule in a row, each wrong or inconclusive rule in detail, and each finding at its line."""
    findings = [*rule_findings(report)]
    rows = [
        TableRow(
            (c.rule.name, str(c.models), str(c.fired), str(c.ran), result_word(c), duration(c.seconds)),
            TONES.get(result_word(c), ""),
        )
        for c in report.checked
    ]
    unchecked = "was not checked; name it to check it (transforms and other tools cannot be checked)"
    return Document(
        "passes check",
        "rules",
        summary_line(report),
        "bad" if report.wrong else "open" if report.inconclusive or not report.checked else "good",
        errors=[f"{f.title}: {f.message}" for f in findings if f.level is not Level.ERROR] * (not report.wrong),
        evidence=[
            table("Rules", ("rule", "models", "fired", "ran", "result", "time"), rows),
            Preformatted("Reports", [*_report_lines(report)], on=TERMINAL),
            Lines([f"{c.rule.name}: {note}" for c in report.checked if c.is_sound for note in c.example_notes]),
            Lines([f"{c.rule.name}: {LEFT_OUT}: {c.left_out}" for c in report.checked if c.is_sound and c.left_out]),
            Lines([f"{name} {unchecked}" for name in report.unchecked_passes]),
            Lines([f"{file} has nothing to check, only {contents}" for file, contents in report.empty_files.items()]),
            Lines([f"{name}: not checked (interrupted)" for name in report.unfinished]),
        ],
        blocks=[Lines([f"{f.title}: {f.message}" for f in findings], on=CARD)],
        findings=findings,
    )


def _report_lines(report: CheckReport) -> Iterator[str]:
    for c in report.checked if report.prove else ():
        if c.is_sound:  # other results include their proofs
            yield from (c.rule.name, *c.proof_lines)
    for c in (*report.wrong, *report.inconclusive):
        yield from c.report.split("\n")
        if c.rule.name in report.repros:
            yield f"    shown by {report.repros[c.rule.name]}"


def result_line(checked: CheckResult) -> str:
    """One result in a line, to be shown as soon as it is known."""
    word = result_word(checked)
    why = f": {_complaint(checked)}" if word != "sound" else ""
    ran = f"{checked.ran} of {plural(checked.models, 'model')} ran"
    return f"{checked.rule.name}: {word} ({ran}, {duration(checked.seconds)}){why}"


def summary_line(report: CheckReport) -> str:
    """The number of results of each kind."""
    wrong, inconclusive = len(report.wrong), len(report.inconclusive)
    sound = len(report.checked) - wrong - inconclusive
    proved = f"; {len(report.proved)} proved" if report.prove else ""
    passes = sum(not c.rule.patterns for c in report.checked)
    rules = len(report.checked) - passes
    also = f" and {passes} pass{'es' * (passes != 1)}" if passes else ""
    checked = f"{plural(rules, 'rule')}{also}"
    return f"{checked}: {sound} sound, {wrong} wrong, {inconclusive} inconclusive{proved}"


def _complaint(checked: CheckResult) -> str:
    fault = checked.fault
    return f"{fault.kind}: {fault.message}" if fault is not None else checked.report


def rule_findings(report: CheckReport) -> Iterator[Finding]:
    """Yield a finding at the line of each rule that is wrong or inconclusive."""
    for c in (*report.wrong, *report.inconclusive):
        message = _complaint(c)
        level = Level.ERROR if c.fault is not None else Level.WARNING
        code = c.rule.build.__code__
        found = Finding(level, c.rule.name, f"{c.rule.name} is {result_word(c)}", message, code.co_filename)
        yield replace(found, line=code.co_firstlineno, about=c.rule.equation)
