"""Files with the summary of a folder's results: a table with a row for each model, and a page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...core.errors import ModelError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ..cli.options import report_file
from ..cli.report_output import echo_json, full_disk_behind_standard_output
from ..cli.standard_streams import STANDARD_OUTPUT
from ..report.terminal import Terminal
from .batch_page import batch_page
from .batch_settings import OutputLocations
from .finished_jobs import FILE, FinishedJobs
from .many_render import ModelRow, show_summary
from .result_row import COLUMNS
from .summary import Summary
from .tables import require_format, write_table

TABLE_NAME, PAGE_NAME = "results.csv", "results.html"


def summary_paths(places: OutputLocations, others: Iterable[Path | None] = ()) -> OutputPaths:
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
    if os.path.realpath(places.folder / FILE) in taken:
        raise ModelError(f"{places.folder / FILE} is the record of the folder; choose another name for the result")
    return paths


def write_summary(summary: Summary, places: OutputLocations, paths: OutputPaths, asked: Summary) -> None:
    """Write the table and the page, and the rows that were `asked` for as JSON, or print them. Raises ModelError."""
    assert paths.table is not None
    write_table(paths.table, summary.rows, COLUMNS)
    publish_text(paths.page, lambda: batch_page(summary))
    publish_text(paths.report, asked.to_json)
    with full_disk_behind_standard_output():
        echo_json(places.json, asked)


def summarize_folder(places: OutputLocations, *, quiet: bool) -> None:
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
