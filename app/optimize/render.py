"""Tables of runs and dry runs."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from rich.filesize import decimal
from rich.table import Table

from ...core.run.report import ChangePlan, PipelineRace, Report, Savings
from ..registry.guarantees import proved_text, recorded_guarantee
from ..report.descriptions import join_truncated
from ..report.number_text import duration, ratio_with_bounds
from ..report.terminal import Terminal, add_row, new_table, plural
from ..verify.render import proof_lines, verdict_line, verdict_lines

MAX_HINTS = 3


def show_plan(terminal: Terminal, report: Report, *, limit: int) -> None:
    """Print the savings of each rule, the changes, and the verdict of a dry run."""
    plan = report.plan
    assert plan is not None
    terminal.line(report.source)
    terminal.table(savings_table(plan))
    for c in sorted(plan.changes, key=lambda c: (-c.nodes_saved, -c.weight_bytes_saved, c.ordinal))[:limit]:
        ops = " -> ".join(join_truncated(ops) for ops in (c.replaced, c.made) if ops)
        terminal.line(f"#{c.ordinal} {c.by} {c.where}: {ops} ({_saving_text(Savings.of_change(c))})")
    if len(plan.changes) > limit:
        terminal.line(f"... and {len(plan.changes) - limit} more (--limit, or all with --json)")
    terminal.table(size_table(report))
    if plan.unattributed != Savings():
        terminal.line(f"not reported by any pass: {_saving_text(plan.unattributed)}")
    show_left_out(terminal, report)
    terminal.wrapped("; ".join(filter(None, (verdict_line(report.verification), proved_text(report.guarantees)))))
    terminal.wrapped_lines(transform_line(report))
    terminal.lines(speed_lines(report))
    terminal.line("nothing written: this was a dry run")


def savings_table(plan: ChangePlan) -> Table:
    """Rules and passes with their savings, and the total."""
    table = new_table("rule", "changes", "nodes saved", "weights saved", folds=False)
    for s in plan.shares:
        add_row(table, s.by, str(s.changes), str(s.saved.nodes), _bytes_text(s.saved.weight_bytes))
    total = plan.saved
    add_row(table, "all", str(len(plan.changes)), str(total.nodes), _bytes_text(total.weight_bytes), style="bold")
    return table


def _saving_text(saved: Savings) -> str:
    """Nodes and bytes, without those that are 0."""
    nodes = f"{'saves' if saved.nodes > 0 else 'adds'} {plural(abs(saved.nodes), 'node')}" if saved.nodes else ""
    weights = saved.weight_bytes
    size = f"{'saves' if weights > 0 else 'adds'} {decimal(abs(weights))} of weights" if weights else ""
    return ", ".join(filter(None, (nodes, size))) or "as large as before"


def _bytes_text(count: int) -> str:
    return f"-{decimal(-count)}" if count < 0 else decimal(count)


def show_report(terminal: Terminal, report: Report, *, end: str, verbose: bool, quiet: bool) -> None:
    """Print the sizes before and after, the verdict and the line `end`; with tables and notes if `verbose`.

    If `quiet`, only warnings are printed.
    """
    if verbose:
        terminal.line(report.source)
        for table in (op_table(report), size_table(report), pass_table(report)):
            terminal.table(table)
    show_left_out(terminal, report)
    if quiet:
        return
    if verbose:
        terminal.wrapped_lines(verdict_lines(report.verification))
        terminal.wrapped_lines(guarantee_lines(report))
    else:
        terminal.wrapped(size_line(report))
        terminal.wrapped("; ".join(filter(None, (verdict_line(report.verification), proved_text(report.guarantees)))))
    terminal.wrapped_lines(proof_lines(report.proofs))
    terminal.wrapped_lines(transform_line(report))
    terminal.lines(speed_lines(report))
    if report.nonstandard_ops:
        terminal.line(
            f"not in the ONNX standard, so other runtimes may not run it: {', '.join(report.nonstandard_ops)}"
        )
    terminal.line(end)
    terminal.lines(hint_lines(report))


def guarantee_lines(report: Report) -> Iterator[str]:
    """The guarantees of the rules that made the changes, with the number of changes of each."""
    if text := proved_text(report.guarantees):
        yield f"{text}: {', '.join(f'{n} {name}' for name, n in report.guarantees.items())}"


def hint_lines(report: Report) -> Iterator[str]:
    """Options that would change the result, at most MAX_HINTS."""
    yield from (f"hint: {hint}" for hint in report.hints[:MAX_HINTS])


def transform_line(report: Report) -> Iterator[str]:
    """The transforms that changed the model, with which the result was compared."""
    if made := [e.name for e in report.transforms if e.changes]:
        yield f"compared with the model after {', '.join(made)}"


def size_line(report: Report) -> str:
    """Nodes and bytes before and after, and the opset if it is another one, in a line."""
    b, a = report.before, report.after
    if not report.has_changes:
        return f"{report.source}: no change to its {plural(b.nodes, 'node')}, {decimal(b.bytes)}"
    more_nodes, more_bytes = (
        f" ({c})" if c else "" for c in (change_text(b.nodes, a.nodes), change_text(b.bytes, a.bytes))
    )
    opset = f"opset {b.opset} -> {a.opset}, " if a.opset != b.opset else ""
    nodes, size = f"{b.nodes:,} -> {a.nodes:,} nodes", f"{decimal(b.bytes)} -> {decimal(a.bytes)}"
    return f"{report.source}: {opset}{nodes}{more_nodes}, {size}{more_bytes}"


def show_left_out(terminal: Terminal, report: Report) -> None:
    """Print a warning for each pass, each change and each result that was left out, and the notes of passes."""
    for line in warning_lines(report):
        terminal.warning(line)


def warning_lines(report: Report) -> Iterator[str]:
    """Warnings of passes, changes and results that were left out, and the notes of passes."""
    yield from (f"warning: {line}" for line in left_out_lines(report))
    yield from (f"note: {note}" for note in report.notes)


def left_out_lines(report: Report) -> Iterator[str]:
    """Each pass, each change and each result that was left out."""
    yield from map(str, report.unfit)
    for found in report.rejected:
        yield f"left out {found.description}{f'; shown by {found.repro}' if found.repro else ''}"
    for race in report.speed.lost if report.speed is not None else ():
        yield f"left out the result of {race.pipeline}: {race_text(race)}"


def speed_lines(report: Report) -> Iterator[str]:
    """The outcome of the race of the result that was taken."""
    speed = report.speed
    if speed is None:
        return
    sizes = "".join(f", {name}={size}" for name, size in speed.sizes.items())
    for race in speed.races:
        if race.ratio is not None and not race.is_lost:
            yield f"speed: {race_text(race)}, with {plural(speed.threads, 'thread')}{sizes}"
        elif not race.is_lost:
            yield f"speed: not measured: {race.failure}"
    if speed.lost:
        taken = f"the result of {report.pipeline}" if report.pipeline != "none" else "the original"
        yield f"speed: {taken} is taken, in place of that of {speed.races[0].pipeline}"
    elif not speed.races:
        yield "speed: not measured: the pipeline has no passes"


def race_text(race: PipelineRace) -> str:
    """The outcome of a race."""
    if race.ratio is None:
        return race.failure
    relation = "of" if race.ratio.is_significant else "to"
    return f"with ORT ALL {ratio_with_bounds(race.ratio)} {relation} the original's time"


def show_unfit(terminal: Terminal, report: Report) -> None:
    """Print a warning for each pass that does not fit the model."""
    for unfit in report.unfit:
        terminal.warning(f"warning: {unfit}")


def op_table(report: Report) -> Table:
    """Ops by type, before and after."""
    table = new_table("op", "before", "after", "change")
    before, after = report.before.ops, report.after.ops
    for op in sorted(before.keys() | after.keys()):
        b, a = before.get(op, 0), after.get(op, 0)
        add_row(table, op, str(b), str(a), f"{a - b:+d}" if a != b else "")
    return table


def op_changes(report: Report) -> list[tuple[str, int, int]]:
    """Ops by type, before and after, those that changed most first."""
    before, after = report.before.ops, report.after.ops
    ops = [(op, before.get(op, 0), after.get(op, 0)) for op in before.keys() | after.keys()]
    return sorted(ops, key=lambda o: (-abs(o[2] - o[1]), -o[1], o[0]))


def size_table(report: Report) -> Table:
    """Nodes, parameters and bytes, before and after, and the opset if it is another one."""
    table = new_table("", "before", "after", "change")
    b, a = report.before, report.after
    for label, x, y, shown in (
        ("nodes", b.nodes, a.nodes, str),
        ("parameters", b.parameters, a.parameters, "{:,}".format),
        ("bytes", b.bytes, a.bytes, decimal),
    ):
        add_row(table, label, shown(x), shown(y), change_text(x, y))
    if a.opset != b.opset:
        add_row(table, "opset", str(b.opset), str(a.opset), "")
    return table


def change_text(before: int, after: int) -> str:
    """The relative change; empty if there is none."""
    if not before or after == before:
        return ""
    text = f"{(after - before) / before:+.1%}"
    return text if text[1:] != "0.0%" else "<0.1%"


def pass_table(report: Report) -> Table:
    """The changes and the time of each pass that changed something, and the changes and guarantees of its rules."""
    table = new_table("pass", "changes", "time", "guarantee", folds=False)
    for record in filter(attrgetter("changes"), report.passes):
        add_row(table, record.name, str(record.changes), duration(record.seconds), "")
        for rule, n in record.rules.items():
            add_row(table, f"  {rule}", str(n), "", recorded_guarantee(record.name, rule))
    table.add_section()
    for phase, seconds in report.seconds.items():
        add_row(table, phase, "", duration(seconds), "", style="dim")
    return table
