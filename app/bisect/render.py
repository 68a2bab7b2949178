"""What is to blame."""

from __future__ import annotations

from ...core.pass_manager.report import Report
from ..run.render import show_unfit
from ..terminal import Screen, plural
from ..verify.render import verdict_lines
from .ort_bisect import Suspicion


def show_bisection(screen: Screen, report: Report) -> None:
    """What broke the model, and the verdict on the rest."""
    show_unfit(screen, report)
    for found in report.quarantined:
        screen.line(f"{found.label}: {found.message}")
        for name in found.replaced:
            screen.line(f"    replaced {name}")
        if found.repro:
            screen.line(f"    shown by {found.repro}")
    if not report.quarantined:
        screen.line("nothing is wrong")
    changes = sum(p.changes for p in report.passes)
    screen.line(f"{plural(changes, 'change')} kept, {plural(report.replays, 'replay')}")
    for line in verdict_lines(report.verification):
        screen.line(line)


def show_suspicion(screen: Screen, suspicion: Suspicion) -> None:
    """Which of onnxruntime's optimizers are to blame."""
    who = f"onnxruntime {suspicion.versions['onnxruntime']} at {suspicion.level}"
    blame = suspicion.blame
    if blame is None:
        screen.line(f"{who} agrees with itself unoptimized on {plural(len(suspicion.draws), 'set')} of inputs")
        return
    screen.line(f"{who} is wrong: {blame.failure}")
    for culprit in blame.culprits:
        screen.line(f"    {culprit.optimizer}: {culprit.failure}")
        if culprit.partners:
            screen.line(f"        only together with {', '.join(culprit.partners)}")
    names = ", ".join(f'"{name}"' for name in blame.optimizers)
    said = f"right with disabled_optimizers=[{names}]" if blame.culprits else blame.remark
    screen.line(f"{said} ({plural(blame.runs, 'probe')})")
