"""Results of checks of rules."""

from __future__ import annotations

from ..number_text import duration
from ..terminal import Terminal, add_row, new_table, plural
from .rule_check import CheckReport, result_word

RESULT_STYLES = {"wrong": "[red]{}[/red]", "inconclusive": "[yellow]{}[/yellow]", "sound": "{}"}


def show_check_report(terminal: Terminal, report: CheckReport) -> None:
    """Print a row for each rule, then a report on each that is wrong or inconclusive."""
    if report.checked:
        table = new_table("rule", "models", "fired", "ran", "result", "time")
        for c in report.checked:
            counts = (str(c.models), str(c.fired), str(c.ran))
            result = RESULT_STYLES[result_word(c)].format(result_word(c))
            add_row(table, c.rule.name, *counts, result, duration(c.seconds))
        terminal.out.print(table)
    for c in (*report.wrong, *report.inconclusive):
        terminal.lines(c.report.split("\n"))
        if c.rule.name in report.repros:
            terminal.line(f"    shown by {report.repros[c.rule.name]}")
    for name in report.unchecked_passes:
        terminal.line(f"{name} is not a rule: it has no pattern to make models from, and was not checked")
    sound = len(report.checked) - len(report.wrong) - len(report.inconclusive)
    terminal.line(
        f"{plural(len(report.checked), 'rule')}: {sound} sound, {len(report.wrong)} wrong, "
        f"{len(report.inconclusive)} inconclusive"
    )
