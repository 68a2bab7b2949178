"""The document of a run: sizes, verdict, rewrites, graphs, skipped changes, and hints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.filesize import decimal

from ...core.run.report import ChangePlan, PipelineRace, Report, Savings
from ...core.support.printable_text import json_text
from ..registry.guarantees import recorded_guarantee
from ..report.charts import PairedBarChart
from ..report.descriptions import join_truncated
from ..report.document import (
    BRIEF,
    CARD,
    PAGE,
    TERMINAL,
    VERBOSE,
    Block,
    Charts,
    Document,
    Facts,
    Lines,
    Preformatted,
    Section,
    Table,
    TableRow,
    Tile,
    latency_tile,
    size_tile,
    table,
)  # fmt: skip
from ..report.finding import Finding, Level
from ..report.number_text import change, compact, duration, plural, time_against_original
from ..report.result_row import (
    NOT_VERIFIED,
    UNCHANGED,
    VERIFIED,
    WOULD_CHANGE,
    WRONG,
    ResultRow,
    latency_columns,
    verdict_columns,
)
from ..report.verdict_text import difference_lines, proof_lines, verdict_line

if TYPE_CHECKING:  # imports the layout of graphs
    from ..report.visualization import Visualization

MAX_HINTS = 3
MAX_NAMED_RULES = 5
MAX_REASONS = 30
"""Maximum number of decline reasons to show; JSON has all."""
MAX_BARS = 16
"""Maximum number of types in the chart of ops; the table has all."""
MAX_PLANNED = 20  # changes in a dry run


def describe(
    report: Report,
    *,
    end: str = "",
    limit: int = MAX_PLANNED,
    is_check: bool = False,
    in_notebook: bool = False,
    visualization: Visualization | None = None,
) -> Document:
    """Describe a run; `end` says where the result was written, and a plan lists `limit` changes.

    `is_check`: changes count as errors. In a notebook, the model is named without folders, and options are written as
    keywords of `optimize`.
    """
    verdict, would_change = report.verification, is_check and report.has_changes
    details = [] if verdict is None else [f"compared with {verdict.backend} without optimizations"]
    details += [] if verdict is None else difference_lines(verdict)
    if verdict is not None and verdict.failure is not None:
        text, tone = f"{WRONG}: {verdict.failure}", "bad"
    else:
        target = str(report.target) if report.target is not None else ""
        text = "; ".join(filter(None, (verdict_line(verdict), target)))
        text, tone = (f"would change; {text}", "bad") if would_change else (text, "good" if verdict else "open")
    verdict_notes = verdict.notes if verdict is not None else ()
    hints = [f"{h.text}: {keyword_of(h.option) if in_notebook else h.option}" for h in report.hints[:MAX_HINTS]]
    return Document(
        "passes run",
        (in_notebook and Path(report.source).name) or report.source,
        text,
        tone,
        summary=size_text(report),
        details=Lines(details, on=VERBOSE | PAGE),
        tiles=[*run_tiles(report)],
        warnings=[*left_out_lines(report)],
        evidence=[
            *(
                plan_blocks(report.plan, limit)
                if report.plan is not None
                else [ops_section(report), size_table(report), pass_table(report)]
            ),
            Section("statistics", "Statistics", [*statistics_blocks(report)], on=TERMINAL | PAGE),
        ],
        blocks=[
            Lines([f"{plural(len(verdict_notes), 'note')} with -v"] * bool(verdict_notes), on=BRIEF),
            Lines(report.notes, "note"),
            Lines(verdict_notes, "note", on=VERBOSE | CARD | PAGE),
            Lines([*guarantee_lines(report)], on=VERBOSE | CARD | PAGE),
            Lines([*proof_lines(report.proofs)] if report.proofs is not None else []),
            Lines([*transform_lines(report), *speed_lines(report), *map(str, [report.stop] * bool(report.stop))]),
            Lines([", ".join(report.nonstandard_ops)] * bool(report.nonstandard_ops), NONSTANDARD),
            Lines([end] * bool(end), on=TERMINAL),
            Lines(hints, "hint"),
            rewrite_table(report),
            *_drawn_sections(visualization),
            left_out_section(report),
        ],
        findings=[*run_findings(report, is_check=is_check)],
        footer=[f"{name} {version}" for name, version in report.versions.items()],
    )


NONSTANDARD = "not in the ONNX standard, so other runtimes may not run it"


def run_sections(report: Report, visualization: Visualization | None) -> list[Section]:
    """The sections of a run, for the page of another command."""
    return [ops_section(report), *_drawn_sections(visualization), left_out_section(report)]


def _drawn_sections(visualization: Visualization | None) -> Iterator[Section]:
    if visualization is not None:
        from ..report.rewrite_sections import rewrite_sections  # noqa: PLC0415 - imports the layout of graphs

        yield from rewrite_sections(visualization)


def size_text(report: Report) -> str:
    """Nodes and bytes before and after, and the opset if it has changed, in one line."""
    b, a = report.before, report.after
    if not report.has_changes:
        return f"unchanged ({plural(b.nodes, 'node')}, {decimal(b.bytes)})"
    more_nodes, more_bytes = (f" ({c})" if c else "" for c in (change(b.nodes, a.nodes), change(b.bytes, a.bytes)))
    opset = f"opset {b.opset} -> {a.opset}, " if a.opset != b.opset else ""
    nodes, size = f"{b.nodes:,} -> {a.nodes:,} nodes", f"{decimal(b.bytes)} -> {decimal(a.bytes)}"
    return f"{opset}{nodes}{more_nodes}, {size}{more_bytes}"


def size_line(report: Report) -> str:
    """The sizes of a model in a line."""
    return f"{report.source}: {size_text(report)}"


def run_tiles(report: Report) -> Iterator[Tile]:
    """Yield the sizes before and after, the number of rewrites, and the latency of the result if it was raced."""
    b, a = report.before, report.after
    yield size_tile("nodes", b.nodes, a.nodes, "{:,}".format)
    yield size_tile("file", b.bytes, a.bytes)
    yield size_tile("parameters", b.parameters, a.parameters, compact)
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", f"{changes:,}", note=f"of {plural(rules, 'rule')}")
    for race in report.speed.races if report.speed is not None else ():
        if not race.is_lost and race.ratio is not None:
            yield latency_tile(race.ratio)
    lost = report.speed.lost if report.speed is not None else []
    if left_out := len(report.rejected) + len(report.unfit) + len(lost):
        yield Tile("skipped", f"{left_out:,}", note="see below", tone="bad" if report.rejected or lost else "")


def left_out_lines(report: Report) -> Iterator[str]:
    """Yield a line for each skipped pass, change and result."""
    yield from map(str, report.unfit)
    for found in report.rejected:
        yield f"skipped {found.description}{f'; shown by {found.repro}' if found.repro else ''}"
    for race in report.speed.lost if report.speed is not None else ():
        yield f"discarded the result of {race.pipeline}: {race_text(race)}"


def guarantee_lines(report: Report) -> Iterator[str]:
    """Yield the guarantees of the rules that made the changes, with the number of changes for each."""
    if report.guarantees:
        yield f"guarantees: {', '.join(f'{n} {name}' for name, n in report.guarantees.items())}"


def transform_lines(report: Report) -> Iterator[str]:
    """Yield the transforms that changed the model before the comparison."""
    if made := [e.name for e in report.transforms if e.changes]:
        yield f"compared with the model after {', '.join(made)}"


def speed_lines(report: Report) -> Iterator[str]:
    """Yield the outcome of the race of the result that was used."""
    speed = report.speed
    if speed is None:
        return
    sizes = "".join(f", {name}={size}" for name, size in speed.sizes.items())
    for race in speed.races:
        if race.ratio is not None and not race.is_lost:
            yield f"speed: {race_text(race)}, with {plural(speed.threads, 'thread')}{sizes}"
            yield from (f"speed: {reason}" for reason in [race.ratio.inconclusive] if reason)
        elif not race.is_lost:
            yield f"speed: not measured: {race.failure}"
    if speed.lost:
        taken = f"the result of {report.pipeline}" if report.pipeline != "none" else "the original"
        yield f"speed: {taken} was kept instead of the result of {speed.races[0].pipeline}"
    elif not speed.races:
        yield "speed: not measured: the pipeline has no passes"


def race_text(race: PipelineRace) -> str:
    """The outcome of a race."""
    return race.failure if race.ratio is None else time_against_original(race.ratio)


def keyword_of(option: str) -> str:
    """The keyword of `optimize` for an option of the command, such as `opset=20` for `--opset 20`."""
    name, *values = shlex.split(option.removeprefix("--"))
    if name == "enable":
        return f"enable={values}"
    value = values[0] if values else "True"
    text = value if value == "True" or value.isdecimal() else repr(value)
    return f"{name.replace('-', '_')}={text}"


def ops_section(report: Report) -> Section:
    """The ops of each type before and after, starting with the largest changes."""
    before, after = report.before.ops, report.after.ops
    ops = [(op, before.get(op, 0), after.get(op, 0)) for op in before.keys() | after.keys()]
    ops.sort(key=lambda o: (-abs(o[2] - o[1]), -o[1], o[0]))
    rows = [(op, f"{b:,}", f"{a:,}", f"{a - b:+,}" if a != b else "") for op, b, a in ops]
    title = "Ops before and after"
    intro = f"{report.before.nodes:,} ops became {report.after.nodes:,}, bodies included"
    charts = [PairedBarChart("Ops by type", "the largest changes", ops[:MAX_BARS], "{:,.0f}".format)] if ops else []
    colours = {"before": "before", "after": "after"}
    headings = ("op", "before", "after", "change")
    counts = table(title, headings, rows, folded=True, on=VERBOSE | PAGE)
    changed = table(title, headings, [row for row in rows if row[-1]], on=CARD)
    return Section("ops", title, [Lines([intro], on=PAGE), Charts(charts, colours), counts, changed], "Ops")


def size_table(report: Report) -> Table:
    """Nodes, parameters and bytes before and after, and the opset if it has changed."""
    b, a = report.before, report.after
    sizes = (
        ("nodes", b.nodes, a.nodes, str),
        ("parameters", b.parameters, a.parameters, "{:,}".format),
        ("bytes", b.bytes, a.bytes, decimal),
    )
    rows = [(label, shown(x), shown(y), change(x, y)) for label, x, y, shown in sizes]
    opset = [("opset", str(b.opset), str(a.opset), "")] * (a.opset != b.opset)
    return table("Sizes", ("", "before", "after", "change"), [*rows, *opset], on=VERBOSE)


def pass_table(report: Report) -> Table:
    """The changes and time of each pass that changed something, and the changes and guarantees of its rules."""
    rows = list[TableRow]()
    for record in (p for p in report.passes if p.changes):
        rows.append(TableRow((record.name, str(record.changes), duration(record.seconds), "")))
        rows += [
            TableRow((f"  {rule}", str(n), "", recorded_guarantee(record.name, rule)))
            for rule, n in record.rules.items()
        ]
    rows.append(TableRow(("phases",), "muted"))
    rows += [TableRow((phase, "", duration(seconds), ""), "muted") for phase, seconds in report.seconds.items()]
    return table("Passes", ("pass", "changes", "time", "guarantee"), rows, on=VERBOSE)


def statistics_blocks(report: Report) -> Iterator[Block]:
    """Yield the counts of each pass and rule, and the reasons why they declined."""
    rows, reasons = list[TableRow](), list[TableRow]()
    for p in report.statistics:
        cells = (f"{p.runs:,}", "", "", f"{p.changes:,}", duration(p.seconds))
        rows.append(TableRow((p.name, *cells)))
        for r in sorted(p.rules, key=lambda r: (-r.changes, -r.matches, -r.tries)):
            counts = (f"{n:,}" for n in (r.tries, r.matches, r.changes))
            rows.append(TableRow((f"  {r.name}", "", *counts, duration(r.seconds))))
        for who, declines in ((p.name, p.declines), *((r.name, r.declines) for r in p.rules)):
            reasons += [TableRow((who, f"{d.places:,}", d.reason, d.example)) for d in declines]
    reasons.sort(key=lambda row: -int(str(row.cells[1]).replace(",", "")))
    headings = ("pass or rule", "runs", "tries", "matches", "changes", "time")
    yield table("Passes and rules", headings, rows, optional=("matches",))
    columns = ("declined by", "places", "reason", "example")
    yield table("Declines", columns, reasons[:MAX_REASONS], texts=("reason", "example"), optional=("example",))
    more = len(reasons) - MAX_REASONS
    yield Lines([f"... and {plural(more, 'other reason')} (all with --json)"] * (more > 0))


def rewrite_table(report: Report) -> Table:
    """The rewrites of each rule, or of a pass without rules, most frequent first."""
    counts = sorted(_changes_by_rule(report), key=lambda item: -item[1])
    title = f"{plural(sum(n for _, n in counts), 'rewrite')} by rule"
    return table(title, ("rule", "rewrites"), ((name, f"{n:,}") for name, n in counts), on=CARD)


def _changes_by_rule(report: Report) -> list[tuple[str, int]]:
    return [item for p in report.passes for item in (p.rules or {p.name: p.changes}).items() if item[1]]


def _all_changes(report: Report) -> list[tuple[str, int]]:
    """The changes of transforms, then of rules."""
    return [(t.name, t.changes) for t in report.transforms if t.changes] + _changes_by_rule(report)


def run_columns(report: Report) -> ResultRow:
    """The columns of a run in tables: outcome, sizes, rewrites, rejected changes, verdict and race."""
    by_rule = dict[str, int]()
    for rule, count in _all_changes(report):
        by_rule[rule] = by_rule.get(rule, 0) + count
    races = report.speed.races if report.speed is not None else []
    changed = WOULD_CHANGE if report.written_to is None else VERIFIED if report.verification else NOT_VERIFIED
    sides = (("before", report.before), ("after", report.after))
    return {
        "outcome": changed if report.has_changes else UNCHANGED,
        **{f"{name}_{when}": getattr(s, name) for name in ("nodes", "bytes", "opset") for when, s in sides},
        **verdict_columns(report.verification),
        **latency_columns(race.ratio for race in races if not race.is_lost),
        "rewrites": sum(by_rule.values()),
        "rules": json_text(by_rule, indent=None),
        "rejected": json_text([[q.by or q.pass_name, q.place] for q in report.rejected], indent=None),
    }


def left_out_section(report: Report) -> Section:
    """The changes, results and passes that were skipped."""
    blocks = list[Block]()
    for q in report.rejected:
        facts = {
            "kind": q.failure_kind.value,
            "shown on": q.input_set,
            "would have replaced": ", ".join(q.replaced),
            "to reproduce": q.repro,
        }
        blocks.append(Facts(q.label, {name: str(text) for name, text in facts.items() if text}, q.message))
    lost = report.speed.lost if report.speed is not None else []
    blocks.append(Facts("Results that were slower than the original", {r.pipeline: race_text(r) for r in lost}))
    blocks.append(Facts("Skipped for this model", {u.pass_name: u.reason for u in report.unfit}))
    if not (report.rejected or lost or report.unfit):
        held = ": every change agreed with the original" if report.verification is not None else ""
        blocks.append(Lines([f"Nothing was skipped{held}."]))
    return Section("left-out", "Left out", blocks, on=PAGE)


def plan_blocks(plan: ChangePlan, limit: int) -> list[Block]:
    """The savings of each rule, and the changes that save most."""
    rows = [
        TableRow((s.by, str(s.changes), str(s.saved.nodes), _bytes_text(s.saved.weight_bytes))) for s in plan.shares
    ]
    total = ("all", str(len(plan.changes)), str(plan.saved.nodes), _bytes_text(plan.saved.weight_bytes))
    lines = list[str]()
    for c in sorted(plan.changes, key=lambda c: (-c.nodes_saved, -c.weight_bytes_saved, c.ordinal))[:limit]:
        ops = " -> ".join(join_truncated(ops) for ops in (c.replaced, c.made) if ops)
        lines.append(f"#{c.ordinal} {c.by} {c.where}: {ops} ({_saving_text(Savings.of_change(c))})")
    if len(plan.changes) > limit:
        lines.append(f"... and {len(plan.changes) - limit} more (--limit, or all with --json)")
    other = [f"not reported by any pass: {_saving_text(plan.unattributed)}"] * (plan.unattributed != Savings())
    headings = ("rule", "changes", "nodes saved", "weights saved")
    return [
        table("Savings by rule", headings, [*rows, TableRow(total, "total")] if rows else [], on=TERMINAL),
        Preformatted("Changes", lines, on=TERMINAL),
        Lines(other, on=TERMINAL),
    ]


def _saving_text(saved: Savings) -> str:
    """Nodes and bytes, except those that are 0."""
    nodes = f"{'saves' if saved.nodes > 0 else 'adds'} {plural(abs(saved.nodes), 'node')}" if saved.nodes else ""
    weights = saved.weight_bytes
    size = f"{'saves' if weights > 0 else 'adds'} {decimal(abs(weights))} of weights" if weights else ""
    return ", ".join(filter(None, (nodes, size))) or "same size"


def _bytes_text(count: int) -> str:
    return f"-{decimal(-count)}" if count < 0 else decimal(count)


def run_findings(report: Report, *, is_check: bool) -> Iterator[Finding]:
    """Yield findings: the change in a check, everything skipped, a missing verification, and hints."""
    file = report.source
    if is_check and report.has_changes:
        yield Finding(Level.ERROR, "unoptimized-model", "would change", check_text(report), file)
    for q in report.rejected:
        places = [q.place] if q.place else []
        yield Finding(Level.WARNING, q.by, "a wrong change was skipped", q.description, file, places)
    for race in report.speed.lost if report.speed is not None else ():
        message = f"{race.pipeline}: {race_text(race)}"
        yield Finding(Level.WARNING, "slower-result", "a slower result was discarded", message, file)
    if report.verification is None:
        message = "the result was not compared with the original, as requested"
        yield Finding(Level.WARNING, "not-verified", "not verified", message, file)
    for unfit in report.unfit:
        yield Finding(Level.NOTE, unfit.pass_name, "a pass was skipped", unfit.reason, file)
    for hint in report.hints[:MAX_HINTS]:
        yield Finding(Level.NOTE, "hint", "hint", str(hint), file)


def check_text(report: Report) -> str:
    """Describe the changes in a check: sizes, and the transforms and rules with most changes."""
    counts = sorted(_all_changes(report), key=lambda item: -item[1])
    rules = [f"{name} ({count})" for name, count in counts[:MAX_NAMED_RULES]]
    more = len(counts) - MAX_NAMED_RULES
    return f"{size_line(report)}; by {', '.join(rules)}{f' and {more} others' if more > 0 else ''}"
