"""The document of a profile: a timeline, and times by op and by node."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from msgspec import to_builtins
from rich.filesize import decimal

from ...core.ort.engines import ONNXRUNTIME
from ...core.run.report import Report
from ..optimize.document import run_sections, run_tiles
from ..report.document import TERMINAL, Block, Cell, Document, Lines, Section, Table, TableRow, Tile, Widget, table
from ..report.number_text import duration, plural, with_version
from ..report.visualization import Visualization
from .profile_report import NodeTime, Profile, ProfileReport, TypeTime

MAX_NODES = 25
"""Maximum number of nodes in the table of a page; its timeline has all."""
MAX_NAMES = 2  # in a cell


def describe(
    report: ProfileReport, limit: int = MAX_NODES, run: Report | None = None, visualization: Visualization | None = None
) -> Document:
    """Describe times by op and of the `limit` slowest nodes; add the page sections of our own `run`."""
    threads = plural(report.threads, "thread") if report.threads else "a thread for each core"
    sizes = "".join(f", {name}={size}" for name, size in report.sizes.items())
    last, was = report.profiles[-1], duration(report.before.seconds) if report.after is not None else ""
    tile = Tile("one run, profiled", duration(last.seconds), was, f"medians of {last.runs}")
    blocks: list[Block] = [
        Widget("timeline.html", {}, lambda: {"lanes": timeline_data(report)}),
        total_table(report),
        *filter(None, [load_table(report)]),
        type_table(report),
        *(b for p in report.profiles for b in (node_table(report, p, limit), Lines([_summary_line(report, p)]))),
        Lines([report.note] * bool(report.note), "note"),
    ]
    trace = report.before.trace
    timeline = [f"timeline in {trace}: open it in ui.perfetto.dev or chrome://tracing"] * (trace is not None)
    return Document(
        "passes profile",
        report.source,
        "",
        summary=f"{_engine_text(report)}, {threads}, a batch of {report.batch}{sizes}",
        tiles=[tile, *(run_tiles(run) if run is not None else ())],
        warnings=[f"skipped {text}" for text in report.rejected],
        blocks=[
            Section("profile", "Profile", blocks),
            Lines(timeline, on=TERMINAL),
            *(run_sections(run, visualization) if run is not None else ()),
        ],
        footer=[f"{name} {version}" for name, version in report.versions.items()],
    )


def timeline_data(report: ProfileReport) -> list[dict[str, Any]]:
    """A lane for each profile, with its nodes by start; an op precedes the nodes of its bodies."""
    lanes: list[dict[str, Any]] = []
    for side in report.profiles:
        nodes = [to_builtins(node) for node in sorted(side.nodes, key=lambda n: (n.start, -n.seconds))]
        lanes.append({"label": side.label, "seconds": side.seconds, "nodes": nodes})
    return lanes


def total_table(report: ProfileReport) -> Table:
    """The time of a run, in nodes and outside, including the profiler's own time."""
    rows = [
        TableRow((label, *(duration(getattr(p, name)) for p in report.profiles)))
        for label, name in {"in all": "seconds", "in nodes": "node_seconds", "outside nodes": "outside"}.items()
    ]
    if any(p.peak for p in report.profiles):
        copies = [(len(p.copies), sum(n.seconds for n in p.copies)) for p in report.profiles]
        texts = [f"{duration(seconds)} in {plural(count, 'node')}" if count else "none" for count, seconds in copies]
        rows.append(TableRow(("in copies", *texts)))
        rows.append(TableRow(("copied", *(decimal(sum(n.written for n in p.copies)) for p in report.profiles))))
        rows.append(TableRow(("memory at most", *(decimal(p.peak) for p in report.profiles))))
    rows.append(TableRow(("runs", *(str(p.runs) for p in report.profiles)), "muted"))
    return table("One run", ("one run", *(p.label for p in report.profiles)), rows)


def load_table(report: ProfileReport) -> Table | None:
    """The parts of the start of a session, before any run; None if the engine does not report them.

    Optimization and packing are differences between two starts, and may be less than their noise.
    """
    found = [p.loading for p in report.profiles if p.loading is not None]
    if len(found) < len(report.profiles):
        return None
    labels = {
        "read the file": "read",
        "optimize": "optimize",
        "initialize": "initialize",
        "pack weights": "pack",
        "first run": "first_run",
    }
    times = {label: [getattr(x, name) for x in found] for label, name in labels.items()}
    rows = [TableRow((label, *(duration(t) if t else "within noise" for t in own))) for label, own in times.items()]
    return table("Start of a session", ("start", *(p.label for p in report.profiles)), rows)


def type_table(report: ProfileReport) -> Table:
    """Time, share and calls by op type in one run of each profile, slowest first."""
    headings = [h for p in report.profiles for h in (p.label, "%", "calls")]
    rows = (
        (op, *chain.from_iterable(_time_cells(t, p) if t is not None else ("", "", "") for t, p in sides))
        for op, sides in ((op, zip(times, report.profiles, strict=True)) for op, times in report.times_by_op())
    )
    return table("By op type", ("op", *headings), rows)


def node_table(report: ProfileReport, profile: Profile, limit: int) -> Table:
    """The slowest nodes: time, share, calls, new memory, the original nodes that they implement, and the rule."""
    rules = any(node.rule for node in profile.nodes)
    repeats = any(node.calls != 1 for node in profile.nodes)
    rows = list[tuple[Cell, ...]]()
    for node in profile.nodes[:limit]:
        rest = len(node.origin) - MAX_NAMES
        names = [*node.origin[:MAX_NAMES], *[f"and {rest} more"] * (rest > 0)]
        origin = "" if node.origin == (node.name,) else tuple(names)
        kernel = [node.provider] * (report.engine != ONNXRUNTIME)
        memory = [decimal(node.allocated) if node.allocated else ""] * bool(profile.peak)
        time, share, calls = _time_cells(node, profile)
        times = (time, share, *[calls] * repeats)
        rows.append((node.name, node.op, *kernel, *times, *memory, origin, *[node.rule] * rules))
    name = f"node {profile.label}"
    kernel = ["kernel"] * (report.engine != ONNXRUNTIME)
    memory = ["memory"] * bool(profile.peak)
    headings = (name, "op", *kernel, "time", "%", *["calls"] * repeats, *memory, "made from", *["rule"] * rules)
    title = f"By node, {profile.label}"
    if len(profile.nodes) > limit:
        title += f": the slowest {limit} of {len(profile.nodes):,}"
    texts, cut = ("op", *kernel, "made from", "rule"), (name, "made from")
    return table(title, headings, rows, texts=texts, cut=cut, folded=profile is not report.profiles[-1])


def _engine_text(report: ProfileReport) -> str:
    """The engine with its version, and its precision, or the level and provider of onnxruntime."""
    name = report.engine.partition(":")[0]
    text = with_version(name, report.versions)
    if report.engine == ONNXRUNTIME:
        return f"{text} at level {report.level} with {report.provider}"
    return f"{text} ({report.profiles[-1].precision})"


def _summary_line(report: ProfileReport, profile: Profile) -> str:
    if report.engine != ONNXRUNTIME:
        kernels = len({node.provider for node in profile.nodes})
        text = f"{profile.label}: {plural(len(profile.nodes), 'node')} ran in {plural(kernels, 'kernel')}"
        left_out = len(profile.eliminated_nodes)
        return text + f"; it fused, removed or folded {left_out} of the file" * bool(left_out)
    providers = Counter(node.provider for node in profile.nodes)
    ran = ", ".join(name if len(providers) == 1 else f"{name} ({n})" for name, n in providers.most_common())
    text = f"{profile.label}: " + (f"{plural(len(profile.nodes), 'node')} ran on {ran}" if ran else "no node ran")
    if inserted := sum(not node.file_nodes for node in profile.nodes):
        text += f", {inserted} of them inserted by onnxruntime"
    if profile.eliminated_nodes:
        text += f"; it removed or folded {len(profile.eliminated_nodes)} of the file"
    return text


def _time_cells(time: NodeTime | TypeTime, profile: Profile) -> tuple[str, str, str]:
    """Time, percentage of the time in nodes, and calls."""
    share = f"{time.seconds / profile.node_seconds:.1%}".removesuffix("%") if profile.node_seconds else ""
    calls = f"{time.calls:g}" if time.calls == round(time.calls) else f"{time.calls:.1f}"
    return duration(time.seconds), share, calls
