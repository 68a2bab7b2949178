"""The documents of bisections."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.run.report import Report
from ..report.document import Document, Lines, Preformatted
from ..report.number_text import plural, with_version
from ..report.verdict_text import difference_lines, input_sets_text, verdict_line
from .engine_bisect import EngineBisectReport
from .ort_bisect import OrtBisectReport

MAX_NOTES = 5
"""The `left_out` ops were not compared; each has a note."""


def describe(report: Report | EngineBisectReport | OrtBisectReport) -> Document:
    """Describe wrong changes, wrong ops of an engine, or wrong optimizers of onnxruntime."""
    if isinstance(report, EngineBisectReport):
        return _describe_engine(report)
    if isinstance(report, OrtBisectReport):
        return _describe_ort(report)
    changes = sum(p.changes for p in report.passes)
    verdict = report.verification
    return Document(
        "passes bisect",
        report.source,
        plural(len(report.rejected), "wrong change") if report.rejected else "nothing is wrong",
        "bad" if report.rejected else "good",
        warnings=[str(unfit) for unfit in report.unfit],
        evidence=[Preformatted("Wrong changes", [*_wrong_lines(report)])],
        blocks=[
            Lines([f"{plural(changes, 'change')} kept, {plural(report.replays, 'replay')}", verdict_line(verdict)]),
            Lines([*difference_lines(verdict)] if verdict is not None else []),
            Lines(verdict.notes if verdict is not None else [], "note"),
        ],
    )


def _wrong_lines(report: Report) -> Iterator[str]:
    for found in report.rejected:
        yield found.description
        yield from (f"    replaced {name}" for name in found.replaced)
        if found.repro:
            yield f"    shown by {found.repro}"


def _describe_engine(report: EngineBisectReport) -> Document:
    """The ops that an engine computes wrongly."""
    subject = with_version(report.engine, report.versions)
    lines = [f"    {op.op_type} {op.place}: {op.failure}" for op in report.wrong_ops]
    left_out = [note for note in report.notes if "not compared" in note]
    shown = [note for note in report.notes if note not in left_out[MAX_NOTES:]]
    if len(left_out) > MAX_NOTES:
        shown.append(f"{len(left_out) - MAX_NOTES} other ops were not compared")
    notes, is_right = Lines(shown, "note"), report.failure is None and not lines
    if is_right:
        verdict = f"{subject} agrees with onnxruntime unoptimized on {input_sets_text(report.input_sets)}"
        return Document("passes bisect", subject, verdict, blocks=[notes])
    text = f"{subject} is wrong: {report.failure or 'ops differ on inputs from onnxruntime, but the outputs agree'}"
    if report.together:
        lines = [f"    only in combination: {', '.join(report.together)}"]
    title = Preformatted("Wrong ops", lines or ["    no single op is wrong on inputs computed by onnxruntime"])
    return Document("passes bisect", subject, text, "bad", blocks=[title, notes])


def _describe_ort(report: OrtBisectReport) -> Document:
    """The wrong optimizers of onnxruntime."""
    subject, blame = f"onnxruntime {report.versions['onnxruntime']} at level {report.level}", report.blame
    if blame is None:
        verdict = f"{subject} agrees with itself unoptimized on {input_sets_text(report.input_sets)}"
        return Document("passes bisect", subject, verdict)
    lines = [f"    {culprit.optimizer}: {culprit.failure}" for culprit in blame.culprits]
    names = ", ".join(f'"{name}"' for name in blame.optimizers)
    remedy = f"correct with disabled_optimizers=[{names}]" if blame.culprits else blame.remark
    return Document(
        "passes bisect",
        subject,
        f"{subject} is wrong: {blame.failure}",
        "bad",
        blocks=[Preformatted("Wrong optimizers", lines), Lines([f"{remedy} ({plural(blame.runs, 'probe')})"])],
    )
