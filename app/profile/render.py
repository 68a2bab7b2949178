"""The tables of a profile."""

from __future__ import annotations

from collections import Counter

from rich.table import Table
from rich.text import Text

from ..terminal import Screen, add_row, plural, printable, table_of
from .profile_report import NodeTime, Profile, Profiled

NAMES = 2  # that a cell lists before it only counts
LONGEST = 30  # characters of a name in a table, where the terminal has no room for more
OTHERS = 50  # columns of a table of nodes that are not names


def show_profile(screen: Screen, profiled: Profiled, most: int) -> None:
    """What ran, time by type, time by node, and where the timeline is."""
    screen.line(
        f"{profiled.source}, onnxruntime {profiled.versions['onnxruntime']} at {profiled.level} with {_how(profiled)}"
    )
    screen.out.print(total_table(profiled))
    screen.out.print(type_table(profiled))
    for profile in profiled.profiles:
        if most:
            screen.out.print(node_table(profile, most, screen.out.width))
        screen.line(_account(profile))
    for line in (*(f"warning: left out {text}" for text in profiled.left_out), *filter(None, [profiled.note])):
        screen.err.print(Text(printable(line)), soft_wrap=True)
    if profiled.before.trace is not None:
        screen.line(f"timeline in {profiled.before.trace}: open it in ui.perfetto.dev or chrome://tracing")


def _how(profiled: Profiled) -> str:
    threads = plural(profiled.threads, "thread") if profiled.threads else "a thread for each core"
    sizes = "".join(f", {name}={size}" for name, size in profiled.sizes.items())
    return f"{profiled.provider}, {threads}, a batch of {profiled.batch}{sizes}"


def total_table(profiled: Profiled) -> Table:
    """A run, in nodes and outside them; the profiler's own time is in it."""
    table = table_of("one run, ms", *(p.label for p in profiled.profiles))
    rows = {"in all": "seconds", "in nodes": "in_nodes", "outside nodes": "outside"}
    for label, name in rows.items():
        add_row(table, label, *(_ms(getattr(p, name)) for p in profiled.profiles))
    add_row(table, "runs", *(str(p.runs) for p in profiled.profiles), style="dim")
    return table


def type_table(profiled: Profiled) -> Table:
    """Time by op type, each profile with its time, share and calls of one run; what is slowest in either first."""
    headings = [h for p in profiled.profiles for h in (f"{p.label} ms", "%", "calls")]
    table = table_of("op", *headings)
    by_op = [{t.op: t for t in p.types} for p in profiled.profiles]
    ops = {op: max(t[op].seconds for t in by_op if op in t) for types in by_op for op in types}
    for op in sorted(ops, key=lambda op: (-ops[op], op)):
        cells: list[str] = []
        for profile, types in zip(profiled.profiles, by_op, strict=True):
            found = types.get(op)
            told = (
                ["", "", ""]
                if found is None
                else [_ms(found.seconds), _share(found.seconds, profile), _count(found.calls)]
            )
            cells += told
        add_row(table, op, *cells)
    return table


def node_table(profile: Profile, most: int, width: int = 80) -> Table:
    """The slowest nodes: time and share, what they stand for in the original, and the rule that made that."""
    rules = any(node.rule for node in profile.nodes)
    longest = max(LONGEST, (width - OTHERS) // (1 + NAMES))
    table = Table()
    for heading in (f"node {profile.label}", "op"):
        table.add_column(heading, overflow="fold")
    for heading in ("ms", "%", "calls"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("stands for", "rule") if rules else ("stands for",):
        table.add_column(heading, overflow="fold")
    for node in profile.nodes[:most]:
        numbers = (_ms(node.seconds), _share(node.seconds, profile), _count(node.calls))
        texts = (
            _cut(node.name, longest),
            node.op,
            *numbers,
            _stood_for(node, longest),
            *([node.rule] if rules else []),
        )
        table.add_row(*(Text(printable(t)) for t in texts))
    return table


def _account(profile: Profile) -> str:
    added = sum(not node.stands_for for node in profile.nodes)
    on = Counter(node.provider for node in profile.nodes)
    where = ", ".join(name if len(on) == 1 else f"{name} ({n})" for name, n in on.most_common())
    told = f"{profile.label}: " + (f"{plural(len(profile.nodes), 'node')} ran on {where}" if where else "no node ran")
    told += f", {added} of them put in by onnxruntime" if added else ""
    return told + (f"; it left out or computed ahead {len(profile.idle)} of the file" if profile.idle else "")


def _stood_for(node: NodeTime, longest: int) -> str:
    """The nodes of the original behind a node, unless it is the one itself."""
    if node.origin == (node.name,):
        return ""
    rest = len(node.origin) - NAMES
    return ", ".join(_cut(name, longest) for name in node.origin[:NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"...{name[3 - longest :]}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _share(seconds: float, profile: Profile) -> str:
    return f"{seconds / profile.in_nodes:.1%}".removesuffix("%") if profile.in_nodes else ""


def _count(calls: float) -> str:
    return f"{calls:g}" if calls == round(calls) else f"{calls:.1f}"
