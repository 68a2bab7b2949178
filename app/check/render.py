"""What checking rules came to."""

from __future__ import annotations

from ...testing.check import Checked
from ..terminal import Screen, add_row, milliseconds, plural, table_of
from .rule_check import Checking


def show_checking(screen: Screen, found: Checking) -> None:
    """A row for each rule, then the story of each that is wrong or was not put to the test."""
    if found.checked:
        table = table_of("rule", "models", "fired", "ran", "result", "time")
        for c in found.checked:
            add_row(table, c.rule.name, str(c.models), str(c.fired), str(c.ran), _result(c), milliseconds(c.seconds))
        screen.out.print(table)
    for c in (*found.wrong, *found.untold):
        for line in c.story.split("\n"):
            screen.line(line)
        if c.rule.name in found.repros:
            screen.line(f"    shown by {found.repros[c.rule.name]}")
    for name in found.others:
        screen.line(f"{name} is no rule: it has no pattern to make models from, and was not checked")
    sound = len(found.checked) - len(found.wrong) - len(found.untold)
    screen.line(
        f"{plural(len(found.checked), 'rule')}: {sound} sound, {len(found.wrong)} wrong, {len(found.untold)} not told"
    )


def _result(checked: Checked) -> str:
    if checked.fault is not None:
        return "[red]wrong[/red]"
    return "sound" if checked.is_sound else "[yellow]not told[/yellow]"
