"""What a run would change."""

from __future__ import annotations

from rich.filesize import decimal
from rich.table import Table

from ....core.changes import Change
from ....core.explaining.words import listed
from ....core.plan import Plan, Saved
from ....core.report import Report
from .report import show_left_out, size_table
from .tables import add_row, plural, table_of
from .terminal import Screen
from .verdict import verdict_lines


def show_plan(screen: Screen, report: Report, plan: Plan, most: int) -> None:
    """What each rule would change in all, then the changes, and whether it is proven."""
    screen.line(report.source)
    screen.out.print(share_table(plan))
    for c in plan.changes[:most]:
        screen.line(_told(c))
    if len(plan.changes) > most:
        screen.line(f"... and {len(plan.changes) - most} more (--most, or all with --json)")
    screen.out.print(size_table(report))
    if plan.unattributed != Saved():
        screen.line(f"not told by any pass: {_saving(plan.unattributed)}")
    show_left_out(screen, report)
    for line in verdict_lines(report.verification):
        screen.line(line)
    screen.line("nothing written: this was a dry run")


def share_table(plan: Plan) -> Table:
    """Rules and passes with what they save, and the total."""
    table = table_of("rule", "changes", "nodes saved", "weights saved")
    for s in plan.shares:
        add_row(table, s.by, str(s.changes), str(s.saved.nodes), _size(s.saved.weight_bytes))
    total = plan.saved
    add_row(table, "all", str(len(plan.changes)), str(total.nodes), _size(total.weight_bytes), style="bold")
    return table


def _told(c: Change) -> str:
    what = " -> ".join(listed(ops) for ops in (c.replaced, c.made) if ops)
    return f"#{c.ordinal} {c.by} {c.where}: {what} ({_saving(Saved.by(c))})"


def _saving(saved: Saved) -> str:
    """Nodes and bytes, those that are nought left out."""
    nodes = f"{'saves' if saved.nodes > 0 else 'adds'} {plural(abs(saved.nodes), 'node')}" if saved.nodes else ""
    weights = saved.weight_bytes
    size = f"{'saves' if weights > 0 else 'adds'} {decimal(abs(weights))} of weights" if weights else ""
    return ", ".join(filter(None, (nodes, size))) or "as large as before"


def _size(count: int) -> str:
    return f"-{decimal(-count)}" if count < 0 else decimal(count)
