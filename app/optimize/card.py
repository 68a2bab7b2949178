"""Cards of runs."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.table import Table

from ...core.run.report import Report
from ..report.card import Card
from ..report.terminal import new_table, plural
from ..verify.render import proof_lines, verdict_line
from .render import MAX_HINTS, guarantee_lines, hint_lines, left_out_lines, op_changes, speed_lines, transform_line
from .tiles import run_tiles


def run_card(report: Report, *, in_notebook: bool = False) -> Card:
    """The card of a run: sizes, verdict, transforms, all that was left out, hints, and the rewrites by rule.

    In a notebook, the model has the name of its file without folders, and options are keywords of `optimize`.
    """
    warnings = [*left_out_lines(report)]
    verdict = report.verification
    remarks = [f"note: {note}" for note in (*report.notes, *(verdict.notes if verdict is not None else ()))]
    hints = [f"hint: {h.text}: {keyword_of(h.option)}" for h in report.hints[:MAX_HINTS]]
    hints = hints if in_notebook else [*hint_lines(report)]
    told = (guarantee_lines, transform_line, speed_lines)
    notes = [*(line for lines in told for line in lines(report)), *proof_lines(report.proofs), *remarks, *hints]
    changes = sum(p.changes for p in report.passes)
    folds = [
        (f"{plural(changes, 'rewrite')} by rule", rewrite_table(report)),
        ("Ops before and after", op_change_table(report)),
    ]
    tone = "open" if verdict is None else "good"
    subject = (in_notebook and Path(report.source).name) or report.source
    return Card(
        "passes run",
        subject,
        tone,
        verdict_line(verdict, with_notes=True),
        list(run_tiles(report)),
        warnings,
        notes,
        folds,
    )


def notebook_card(report: Report) -> Card:
    """The card of a run in a notebook."""
    return run_card(report, in_notebook=True)


def keyword_of(option: str) -> str:
    """The keyword of `optimize` for an option of the command, as `opset=20` for `--opset 20`."""
    name, *values = shlex.split(option.removeprefix("--"))
    if name == "enable":
        return f"enable={values}"
    value = values[0] if values else "True"
    text = value if value == "True" or value.isdecimal() else repr(value)
    return f"{name.replace('-', '_')}={text}"


def rewrite_table(report: Report) -> Table:
    """The rewrites of each rule, or of a pass without rules, the most first."""
    rules = [item for p in report.passes for item in (p.rules or {p.name: p.changes}).items() if item[1]]
    rows = ((name, f"{count:,}") for name, count in sorted(rules, key=lambda rule: -rule[1]))
    return new_table("rule", "rewrites", rows=rows)


def op_change_table(report: Report) -> Table:
    """The types of ops whose number changed, those that changed most first."""
    changed = (row for row in op_changes(report) if row[1] != row[2])
    rows = ((op, f"{before:,}", f"{after:,}", f"{after - before:+,}") for op, before, after in changed)
    return new_table("op", "before", "after", "change", rows=rows)
