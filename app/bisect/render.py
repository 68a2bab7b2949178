"""Results of bisections, in words."""

from __future__ import annotations

from ...core.run.report import Report
from ..optimize.render import show_unfit
from ..report.terminal import Terminal, plural
from ..verify.render import input_sets_text, verdict_lines
from .ort_bisect import OrtBisectReport


def show_bisection(terminal: Terminal, report: Report) -> None:
    """Print the wrong changes, and the verdict on the others."""
    show_unfit(terminal, report)
    for found in report.rejected:
        terminal.line(found.description)
        terminal.lines(f"    replaced {name}" for name in found.replaced)
        if found.repro:
            terminal.line(f"    shown by {found.repro}")
    if not report.rejected:
        terminal.line("nothing is wrong")
    changes = sum(p.changes for p in report.passes)
    terminal.line(f"{plural(changes, 'change')} kept, {plural(report.replays, 'replay')}")
    terminal.wrapped_lines(verdict_lines(report.verification))


def show_ort_bisect(terminal: Terminal, report: OrtBisectReport) -> None:
    """Print the wrong optimizers of onnxruntime."""
    subject = f"onnxruntime {report.versions['onnxruntime']} at {report.level}"
    blame = report.blame
    if blame is None:
        terminal.line(f"{subject} agrees with itself unoptimized on {input_sets_text(report.input_sets)}")
        return
    terminal.line(f"{subject} is wrong: {blame.failure}")
    for culprit in blame.culprits:
        terminal.line(f"    {culprit.optimizer}: {culprit.failure}")
    names = ", ".join(f'"{name}"' for name in blame.optimizers)
    remedy = f"right with disabled_optimizers=[{names}]" if blame.culprits else blame.remark
    terminal.line(f"{remedy} ({plural(blame.runs, 'probe')})")
