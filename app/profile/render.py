"""The tables of a profile."""

from __future__ import annotations

from collections import Counter

from rich.table import Table
from rich.text import Text

from ..terminal import Terminal, add_row, new_table, plural, printable
from .profile_report import NodeTime, Profile, ProfileReport

MAX_NAMES = 2  # that a cell lists before it only counts
MIN_NAME_WIDTH = 30  # characters of a name in a table, where the terminal has no room for more
OTHER_COLUMNS_WIDTH = 50  # columns of a table of nodes that are not names


def show_profile(terminal: Terminal, report: ProfileReport, limit: int) -> None:
    """What ran, time by type, time by node, and where the timeline is."""
    terminal.line(
        f"{report.source}, onnxruntime {report.versions['onnxruntime']} at {report.level} "
        f"with {_configuration_text(report)}"
    )
    terminal.out.print(total_table(report))
    terminal.out.print(type_table(report))
    for profile in report.profiles:
        if limit:
            terminal.out.print(node_table(profile, limit, terminal.out.width))
        terminal.line(_summary_line(profile))
    for line in (*(f"warning: left out {text}" for text in report.quarantined), *filter(None, [report.note])):
        terminal.err.print(Text(printable(line)), soft_wrap=True)
    if report.before.trace is not None:
        terminal.line(f"timeline in {report.before.trace}: open it in ui.perfetto.dev or chrome://tracing")


def _configuration_text(report: ProfileReport) -> str:
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    sizes = "".join(f", {name}={size}" for name, size in report.sizes.items())
    return f"{report.provider}, {threads}, a batch of {report.batch}{sizes}"


def total_table(report: ProfileReport) -> Table:
    """A run, in nodes and outside them; the profiler's own time is in it."""
    table = new_table("one run, ms", *(p.label for p in report.profiles))
    rows = {"in all": "seconds", "in nodes": "node_seconds", "outside nodes": "outside"}
    for label, name in rows.items():
        add_row(table, label, *(_ms(getattr(p, name)) for p in report.profiles))
    add_row(table, "runs", *(str(p.runs) for p in report.profiles), style="dim")
    return table


def type_table(report: ProfileReport) -> Table:
    """Time by op type, each profile with its time, share and calls of one run; what is slowest in either first."""
    headings = [h for p in report.profiles for h in (f"{p.label} ms", "%", "calls")]
    table = new_table("op", *headings)
    by_op = [{t.op: t for t in p.types} for p in report.profiles]
    ops = {op: max(t[op].seconds for t in by_op if op in t) for types in by_op for op in types}
    for op in sorted(ops, key=lambda op: (-ops[op], op)):
        cells: list[str] = []
        for profile, types in zip(report.profiles, by_op, strict=True):
            found = types.get(op)
            told = (
                ["", "", ""]
                if found is None
                else [_ms(found.seconds), _share_text(found.seconds, profile), _calls_text(found.calls)]
            )
            cells += told
        add_row(table, op, *cells)
    return table


def node_table(profile: Profile, limit: int, width: int = 80) -> Table:
    """The slowest nodes: time and share, what they stand for in the original, and the rule that made that."""
    rules = any(node.rule for node in profile.nodes)
    longest = max(MIN_NAME_WIDTH, (width - OTHER_COLUMNS_WIDTH) // (1 + MAX_NAMES))
    table = Table()
    for heading in (f"node {profile.label}", "op"):
        table.add_column(heading, overflow="fold")
    for heading in ("ms", "%", "calls"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("stands for", "rule") if rules else ("stands for",):
        table.add_column(heading, overflow="fold")
    for node in profile.nodes[:limit]:
        numbers = (_ms(node.seconds), _share_text(node.seconds, profile), _calls_text(node.calls))
        texts = (
            _cut_start(node.name, longest),
            node.op,
            *numbers,
            _origin_text(node, longest),
            *([node.rule] if rules else []),
        )
        table.add_row(*(Text(printable(t)) for t in texts))
    return table


def _summary_line(profile: Profile) -> str:
    added = sum(not node.file_nodes for node in profile.nodes)
    on = Counter(node.provider for node in profile.nodes)
    where = ", ".join(name if len(on) == 1 else f"{name} ({n})" for name, n in on.most_common())
    told = f"{profile.label}: " + (f"{plural(len(profile.nodes), 'node')} ran on {where}" if where else "no node ran")
    told += f", {added} of them put in by onnxruntime" if added else ""
    return told + (
        f"; it left out or computed ahead {len(profile.eliminated_nodes)} of the file"
        if profile.eliminated_nodes
        else ""
    )


def _origin_text(node: NodeTime, longest: int) -> str:
    """The nodes of the original behind a node, unless it is the one itself."""
    if node.origin == (node.name,):
        return ""
    rest = len(node.origin) - MAX_NAMES
    return ", ".join(_cut_start(name, longest) for name in node.origin[:MAX_NAMES]) + (
        f" and {rest} more" if rest > 0 else ""
    )


def _cut_start(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"...{name[3 - longest :]}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _share_text(seconds: float, profile: Profile) -> str:
    return f"{seconds / profile.node_seconds:.1%}".removesuffix("%") if profile.node_seconds else ""


def _calls_text(calls: float) -> str:
    return f"{calls:g}" if calls == round(calls) else f"{calls:.1f}"
