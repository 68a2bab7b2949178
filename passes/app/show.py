"""What the command prints: a progress line, tables, JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from ...core.pipeline import Fixpoint, Pass, Pipeline, RulePass
from ...core.plugins import Found
from ...core.report import Report
from ...core.verify.verdict import Verdict
from .suspicion import Suspicion
from .verification import Comparison


class Screen:
    """The terminal, or a pipe: colours and a spinner only where someone looks."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.out = Console(quiet=quiet, highlight=False)
        self.err = Console(stderr=True, highlight=False)

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """A line that says what is being done, while it is done."""
        if not self.err.is_terminal:
            yield lambda _: None
            return
        with self.err.status("starting") as status:
            yield lambda phase: status.update(f"{phase} ...")

    def report(self, report: Report, output: Path | None, *, verbose: bool) -> None:
        """The tables of a run and its verdict."""
        self.line(report.source)
        for table in (op_table(report), size_table(report), pass_table(report, verbose=verbose)):
            self.out.print(table)
        if report.verification is not None and any(d.error for d in report.verification.differences.values()):
            self.out.print(difference_table(report.verification))
        self.left_out(report)
        for line in verdict_lines(report.verification):
            self.line(line)
        self.line(f"written to {output}" if output is not None else "not written: give -o FILE to keep it")

    def left_out(self, report: Report) -> None:
        """A warning for each change that was left out."""
        for found in report.quarantined:
            self.err.print(Text(f"warning: left out {found.label}: {found.message}"), soft_wrap=True)
            if found.repro:
                self.err.print(Text(f"    shown by {found.repro}"), soft_wrap=True)

    def bisection(self, report: Report) -> None:
        """What broke the model, and the verdict on the rest."""
        for found in report.quarantined:
            self.line(f"{found.label}: {found.message}")
            for name in found.replaced:
                self.line(f"    replaced {name}")
            if found.repro:
                self.line(f"    shown by {found.repro}")
        if not report.quarantined:
            self.line("nothing is wrong")
        changes = sum(p.changes for p in report.passes)
        self.line(f"{plural(changes, 'change')} kept, {plural(report.replays, 'replay')}")
        for line in verdict_lines(report.verification):
            self.line(line)

    def suspicion(self, suspicion: Suspicion) -> None:
        """Which of onnxruntime's optimizers are to blame."""
        who = f"onnxruntime {suspicion.versions['onnxruntime']} at {suspicion.level}"
        blame = suspicion.blame
        if blame is None:
            self.line(f"{who} agrees with itself unoptimized on {plural(len(suspicion.draws), 'set')} of inputs")
            return
        self.line(f"{who} is wrong: {blame.failure}")
        for culprit in blame.culprits:
            self.line(f"    {culprit.optimizer}: {culprit.failure}")
            if culprit.partners:
                self.line(f"        only together with {', '.join(culprit.partners)}")
        names = ", ".join(f'"{name}"' for name in blame.optimizers)
        said = f"right with disabled_optimizers=[{names}]" if blame.culprits else blame.remark
        self.line(f"{said} ({plural(blame.runs, 'probe')})")

    def comparison(self, comparison: Comparison) -> None:
        """Whether two models compute the same."""
        for line in comparison.interface:
            self.line(f"{comparison.other}: {line}")
        verdict = comparison.verdict
        if verdict is not None and verdict.failure is not None:
            self.line(f"{comparison.other} differs: {verdict.failure.told_of('it')}")
        elif verdict is not None:
            for line in verdict_lines(verdict):
                self.line(line)

    def catalogue(self, found: Mapping[str, Found], pipelines: Mapping[str, Pass]) -> None:
        """All passes and rules."""
        for name, entry in found.items():
            p = entry.item
            rules = p.rules if isinstance(p, RulePass) else ()
            summary = "" if rules else (type(p).__doc__ or "").partition("\n")[0]
            self.line(f"{name}  ({entry.source})")
            if summary:
                self.line(f"    {summary}")
            for r in rules:
                self.line(f"    {r.name}  [{r.contract}]")
                self.line(f"        {r.equation}")
        for name, p in pipelines.items():
            inner = [q.name for q in p.passes] if isinstance(p, Pipeline | Fixpoint) else [p.name]
            again = ", until nothing changes" if isinstance(p, Fixpoint) else ""
            self.line(f"pipeline {name}: {', '.join(inner) or 'no passes'}{again}")

    def line(self, text: str) -> None:
        """One line of plain text, however long."""
        self.out.print(Text(text), soft_wrap=True)


def _table(first: str, *others: str) -> Table:
    """A table as narrow as its contents: text, then numbers."""
    table = Table(first)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _row(table: Table, name: str, *cells: str, style: str = "") -> None:
    """A row whose name is text, not markup: models may call things [red]."""
    table.add_row(Text(name, style=style), *cells)


def op_table(report: Report) -> Table:
    """Ops by type, before and after."""
    table = _table("op", "before", "after", "change")
    before, after = report.before.ops, report.after.ops
    for op in sorted(before.keys() | after.keys()):
        b, a = before.get(op, 0), after.get(op, 0)
        _row(table, op, str(b), str(a), f"{a - b:+d}" if a != b else "")
    return table


def size_table(report: Report) -> Table:
    """Nodes, parameters and bytes, before and after."""
    table = _table("", "before", "after", "change")
    b, a = report.before, report.after
    for label, x, y, shown in (
        ("nodes", b.nodes, a.nodes, str),
        ("parameters", b.parameters, a.parameters, "{:,}".format),
        ("bytes", b.bytes, a.bytes, decimal),
    ):
        _row(table, label, shown(x), shown(y), f"{(y - x) / x:+.1%}" if x and x != y else "")
    return table


def pass_table(report: Report, *, verbose: bool) -> Table:
    """What each pass changed, and how long it took; those that changed nothing only if `verbose`."""
    table = _table("pass", "changes", "time")
    for record in report.passes:
        if record.changes or verbose:
            _row(table, record.name, str(record.changes), milliseconds(record.seconds))
        for rule, n in record.rules.items() if verbose else ():
            _row(table, f"  {rule}", str(n), "")
    for phase, seconds in report.seconds.items():
        _row(table, phase, "", milliseconds(seconds), style="dim")
    return table


def plural(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}{'s' * (n != 1)}"


def milliseconds(seconds: float) -> str:
    """A time as the tables show it."""
    return f"{seconds * 1e3:.1f} ms"


def verdict_lines(verdict: Verdict | None) -> Iterator[str]:
    """What the comparison with the original came to."""
    if verdict is None:
        yield "NOT VERIFIED, as asked"
        return
    how = "equal bit for bit" if verdict.exact else f"within tolerance ({largest(verdict)})"
    yield f"verified: {how} on {len(verdict.draws)} sets of inputs, against {verdict.backend} without optimizations"
    if verdict.nonfinite_draws:
        yield f"NaN and infinite inputs: alike on {len(verdict.nonfinite_draws)} sets of them"
    if verdict.random:
        yield f"random, so compared by type and rank only: {', '.join(verdict.random)}"
    yield from (f"note: {note}" for note in verdict.notes)


def difference_table(verdict: Verdict) -> Table:
    """How far each output is off at most, and how far the original's own moves where that was asked."""
    table = _table("output", "max abs", "max relative", "ulps", "floor", "allowed", "verdict")
    for name, d in verdict.differences.items():
        numbers = (d.error, d.relative, d.ulps, d.floor, d.allowed)
        said = f"{d.share:.0%} of allowed" if d.allowed else "equal"
        _row(table, name, *("" if n is None else f"{n:.2g}" for n in numbers), said)
    return table


def largest(verdict: Verdict) -> str:
    """The output that came closest to what is allowed."""
    if not verdict.differences:
        return "no outputs"
    name, worst = max(verdict.differences.items(), key=lambda item: item[1].share)
    return (
        f"{name} is off by up to {worst.error:.2g}, {worst.allowed:.2g} allowed"
        if worst.error
        else "no difference seen"
    )


def log_to_stderr() -> None:
    """Show what the passes have to say."""
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], format="%(message)s")
