"""What checking rules came to."""

from __future__ import annotations

from ...testing.check import CheckResult
from ..terminal import Terminal, add_row, milliseconds_text, new_table, plural
from .rule_check import CheckReport


def show_check_report(terminal: Terminal, report: CheckReport) -> None:
    """A row for each rule, then the story of each that is wrong or was not put to the test."""
    if report.checked:
        table = new_table("rule", "models", "fired", "ran", "result", "time")
        for c in report.checked:
            add_row(
                table,
                c.rule.name,
                str(c.models),
                str(c.fired),
                str(c.ran),
                _result_cell(c),
                milliseconds_text(c.seconds),
            )
        terminal.out.print(table)
    for c in (*report.wrong, *report.inconclusive):
        for line in c.report.split("\n"):
            terminal.line(line)
        if c.rule.name in report.repros:
            terminal.line(f"    shown by {report.repros[c.rule.name]}")
    for name in report.unchecked_passes:
        terminal.line(f"{name} is no rule: it has no pattern to make models from, and was not checked")
    sound = len(report.checked) - len(report.wrong) - len(report.inconclusive)
    terminal.line(
        f"{plural(len(report.checked), 'rule')}: {sound} sound, {len(report.wrong)} wrong, "
        f"{len(report.inconclusive)} inconclusive"
    )


def _result_cell(checked: CheckResult) -> str:
    if checked.fault is not None:
        return "[red]wrong[/red]"
    return "sound" if checked.is_sound else "[yellow]inconclusive[/yellow]"
