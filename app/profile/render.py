"""Tables of profiles."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from rich.table import Table
from rich.text import Text

from ...core.support.printable_text import printable
from ..report.number_text import duration
from ..report.terminal import Terminal, add_row, cell, new_table, plural
from .profile_report import NodeTime, Profile, ProfileReport, TypeTime

MAX_NAMES = 2  # in a cell
MIN_NAME_WIDTH = 30  # characters of a name in a narrow terminal
OTHER_COLUMNS_WIDTH = 50  # characters of the columns without names


def show_profile(terminal: Terminal, report: ProfileReport, limit: int) -> None:
    """Print the conditions, time by type, time by node, and the file of the timeline."""
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    sizes = "".join(f", {name}={size}" for name, size in report.sizes.items())
    terminal.line(
        f"{report.source}, onnxruntime {report.versions['onnxruntime']} at {report.level} "
        f"with {report.provider}, {threads}, a batch of {report.batch}{sizes}"
    )
    terminal.table(total_table(report))
    terminal.table(type_table(report))
    for profile in report.profiles:
        if limit:
            terminal.table(node_table(profile, limit, terminal.out.width))
        terminal.line(_summary_line(profile))
    for line in (*(f"warning: left out {text}" for text in report.rejected), *filter(None, [report.note])):
        terminal.warning(line)
    if report.before.trace is not None:
        terminal.line(f"timeline in {report.before.trace}: open it in ui.perfetto.dev or chrome://tracing")


def total_table(report: ProfileReport) -> Table:
    """The time of a run, in nodes and outside them, the profiler's own time included."""
    table = new_table("one run", *(p.label for p in report.profiles))
    rows = {"in all": "seconds", "in nodes": "node_seconds", "outside nodes": "outside"}
    for label, name in rows.items():
        add_row(table, label, *(duration(getattr(p, name)) for p in report.profiles))
    add_row(table, "runs", *(str(p.runs) for p in report.profiles), style="dim")
    return table


def type_table(report: ProfileReport) -> Table:
    """Time, share and calls by op type in one run of each profile, the slowest type first."""
    headings = [h for p in report.profiles for h in (p.label, "%", "calls")]
    table = new_table("op", *headings)
    for op, times in report.times_by_op():
        sides = zip(times, report.profiles, strict=True)
        cells = (_time_cells(time, p) if time is not None else ["", "", ""] for time, p in sides)
        add_row(table, op, *chain.from_iterable(cells))
    return table


def node_table(profile: Profile, limit: int, width: int = 80) -> Table:
    """The slowest nodes: time, share and calls, the original nodes whose work they do, and the rule that made them."""
    rules = any(node.rule for node in profile.nodes)
    longest = max(MIN_NAME_WIDTH, (width - OTHER_COLUMNS_WIDTH) // (1 + MAX_NAMES))
    table = Table()
    for heading in (f"node {profile.label}", "op"):
        table.add_column(cell(heading), overflow="fold")
    for heading in ("time", "%", "calls"):
        table.add_column(cell(heading), justify="right", no_wrap=True)
    for heading in ("made from", "rule") if rules else ("made from",):
        table.add_column(cell(heading), overflow="fold")
    for node in profile.nodes[:limit]:
        rest = len(node.origin) - MAX_NAMES
        origin = ", ".join(_cut_start(name, longest) for name in node.origin[:MAX_NAMES])
        origin = "" if node.origin == (node.name,) else f"{origin} and {rest} more" if rest > 0 else origin
        texts = (_cut_start(node.name, longest), node.op, *_time_cells(node, profile), origin)
        table.add_row(*(Text(printable(t)) for t in (*texts, *([node.rule] if rules else []))))
    return table


def _summary_line(profile: Profile) -> str:
    providers = Counter(node.provider for node in profile.nodes)
    ran = ", ".join(name if len(providers) == 1 else f"{name} ({n})" for name, n in providers.most_common())
    text = f"{profile.label}: " + (f"{plural(len(profile.nodes), 'node')} ran on {ran}" if ran else "no node ran")
    if inserted := sum(not node.file_nodes for node in profile.nodes):
        text += f", {inserted} of them inserted by onnxruntime"
    if profile.eliminated_nodes:
        text += f"; it left out or computed ahead {len(profile.eliminated_nodes)} of the file"
    return text


def _cut_start(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"...{name[3 - longest :]}"


def _time_cells(time: NodeTime | TypeTime, profile: Profile) -> list[str]:
    """Time, percents of the time in nodes, and calls."""
    share = f"{time.seconds / profile.node_seconds:.1%}".removesuffix("%") if profile.node_seconds else ""
    calls = f"{time.calls:g}" if time.calls == round(time.calls) else f"{time.calls:.1f}"
    return [duration(time.seconds), share, calls]
