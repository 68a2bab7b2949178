"""Results of checks of rules."""

from __future__ import annotations

from msgspec.structs import replace
from rich.table import Table

from ..report.card import Card
from ..report.finding import Document, Finding, Level
from ..report.number_text import duration
from ..report.terminal import Terminal, add_row, new_table, plural
from .rule_check import CheckReport, result_word

STYLES = {"wrong": "red", "inconclusive": "yellow"}


def show_check_report(terminal: Terminal, report: CheckReport) -> None:
    """Print a row for each rule, then a report on each that is wrong or inconclusive."""
    if report.checked:
        terminal.table(result_table(report))
    for c in report.checked if report.prove else ():
        terminal.lines([c.rule.name, *c.proof_lines])
    for c in (*report.wrong, *report.inconclusive):
        terminal.lines(c.report.split("\n"))
        if c.rule.name in report.repros:
            terminal.line(f"    shown by {report.repros[c.rule.name]}")
    for name in report.unchecked_passes:
        terminal.line(f"{name} is not a rule: it has no pattern to make models from, and was not checked")
    terminal.line(summary_line(report))


def result_table(report: CheckReport) -> Table:
    """A row for each rule."""
    table = new_table("rule", "models", "fired", "ran", "result", "time")
    for c in report.checked:
        word = result_word(c)
        counts = (str(c.models), str(c.fired), str(c.ran))
        add_row(table, c.rule.name, *counts, word, duration(c.seconds), style=STYLES.get(word, ""))
    return table


def summary_line(report: CheckReport) -> str:
    """The numbers of results."""
    wrong, inconclusive = len(report.wrong), len(report.inconclusive)
    sound = len(report.checked) - wrong - inconclusive
    proved = f"; {len(report.proved)} proved" if report.prove else ""
    return f"{plural(len(report.checked), 'rule')}: {sound} sound, {wrong} wrong, {inconclusive} inconclusive{proved}"


def check_document(report: CheckReport) -> Document:
    """The content of all formats: a finding at the line of each rule that is wrong or inconclusive."""
    findings = list[Finding]()
    for c in (*report.wrong, *report.inconclusive):
        message = f"{c.fault.kind}: {c.fault.message}" if c.fault is not None else c.report
        level = Level.ERROR if c.fault is not None else Level.WARNING
        code = c.rule.build.__code__
        found = Finding(level, c.rule.name, f"{c.rule.name} is {result_word(c)}", message, code.co_filename)
        findings.append(replace(found, line=code.co_firstlineno, about=c.rule.equation))
    tone = "bad" if report.wrong else "open" if report.inconclusive else "good"
    lines = [f"{f.title}: {f.message}" for f in findings]
    folds = [("Rules", result_table(report))]
    card = Card("passes check", "rules", tone, summary_line(report), warnings=lines, folds=folds)
    return Document([card], findings)
