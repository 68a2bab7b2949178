"""Summary of the results of a folder: a table with a row for each model, and a page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...core.errors import ModelError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.support.printable_text import json_text
from ..environment import versions
from ..exit_codes import STANDARD_OUTPUT, echo_json, full_disk_behind_standard_output
from ..jobs.finished_jobs import FinishedJobs
from ..jobs.result_row import COLUMNS, ResultRow
from ..options import report_file
from ..run.many_render import ModelRow, show_summary
from ..terminal import Terminal
from .batch_settings import Places
from .render import quarantined, rewrites
from .tables import require_format, write_table

TABLE_NAME, PAGE_NAME = "results.csv", "results.html"


@dataclass(slots=True)
class RuleSummary:
    """The rewrites of a rule over all models, those where it applied, and those where changes of it were left out."""

    rule: str
    rewrites: int = 0
    models: list[str] = field(default_factory=list[str])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows about all results of a folder."""

    rows: Sequence[ResultRow]

    @property
    def outcomes(self) -> Counter[str]:
        """The number of models by outcome, the most first."""
        return Counter(dict(Counter(str(row["outcome"]) for row in self.rows).most_common()))

    @property
    def rules(self) -> list[RuleSummary]:
        """Rules that applied to some model or were left out, those of the most models first."""
        found = dict[str, RuleSummary]()
        for row in self.rows:
            model = str(row["model"])
            for rule, count in rewrites(row).items():
                summary = found.setdefault(rule, RuleSummary(rule))
                summary.rewrites += count
                summary.models.append(model)
            for rule, place in quarantined(row):
                found.setdefault(rule, RuleSummary(rule)).left_out.append((model, place))
        return sorted(found.values(), key=lambda s: (-len(s.models), -s.rewrites, s.rule))

    def to_json(self) -> str:
        """The rows, the number of models by outcome, and the highest exit code, as JSON text."""
        code = max((int(row["exit_code"] or 0) for row in self.rows), default=0)
        return json_text({"exit_code": code, "outcomes": self.outcomes, "models": self.rows, "versions": versions()})

    def total(self, column: str) -> int:
        """The sum of a column over the rows that have a number both before and after."""
        pair = [column, column.replace("before", "after"), column.replace("after", "before")]
        rows = [row for row in self.rows if all(row.get(name) is not None for name in pair)]
        return sum(int(row[column] or 0) for row in rows)


def summary_paths(places: Places, others: Iterable[Path | None] = ()) -> OutputPaths:
    """The files of the table, the page and the report. Raises UsageError for an unknown format.

    Raises ModelError if one cannot be written or is one of the `others`.
    """
    table = places.table or places.folder / TABLE_NAME
    require_format(table)
    page, report = places.page or places.folder / PAGE_NAME, report_file(places.json)
    paths = OutputPaths.of(table=table, page=page, report=report)
    paths.require_distinct([])
    taken = {os.path.realpath(other) for other in others if other is not None}
    for file in (paths.table, paths.page, paths.report):
        if file is not None and str(file.target) in taken:
            raise ModelError(f"{file.path} is a model or the place of a result; choose another name")
    return paths


def write_summary(summary: Summary, places: Places, paths: OutputPaths, asked: Summary) -> None:
    """Write the table and the page, and the rows that were `asked` for as JSON, or print them. Raises ModelError."""
    from .page import batch_page  # noqa: PLC0415 - imports jinja2 and pygal

    assert paths.table is not None
    write_table(paths.table, summary.rows, COLUMNS)
    publish_text(paths.page, lambda: batch_page(summary))
    publish_text(paths.report, asked.to_json)
    with full_disk_behind_standard_output():
        echo_json(places.json, asked)


def summarize_folder(places: Places, *, quiet: bool) -> None:
    """Write the table and the page of a folder's results again. Raises ModelError."""
    if not places.folder.is_dir():
        raise ModelError(f"{places.folder} is not a folder")
    rows = FinishedJobs(places.folder).rows
    if not rows:
        raise ModelError(f"{places.folder} has no record of results")
    write_summary(Summary(rows), places, summary_paths(places), Summary(rows))
    with full_disk_behind_standard_output():
        terminal = Terminal(quiet=quiet or places.json == STANDARD_OUTPUT)
        shown = [ModelRow.of_result(str(row["model"]), str(row["outcome"]), row) for row in rows]
        show_summary(terminal, shown, f"table and page written to {places.folder}")
