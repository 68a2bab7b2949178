"""Files with the results of many models."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from msgspec import Struct

from ...core.errors import ModelError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ..cli.report_output import echo_json, full_disk_behind_standard_output
from ..cli.standard_streams import STANDARD_OUTPUT
from ..report.page import page_html
from ..report.result_row import COLUMNS
from .display import Display
from .document import describe
from .journal import FILE, ResultJournal
from .model_files import ModelJob
from .rows import Summary
from .tables import require_format, write_table

TABLE_NAME, PAGE_NAME = "results.csv", "results.html"


class ResultFiles(Struct, frozen=True):
    """The files about all results: a table, a page and JSON, as far as they are requested."""

    paths: OutputPaths
    json: Path | None

    @classmethod
    def of(cls, jobs: Iterable[ModelJob], folder: Path | None, json: Path | None, **others: Path) -> Self:
        """The files of a command with these jobs, whose journal is in `folder`; `others` are `table` and `page`.

        Raises UsageError for an unknown format, and ModelError for a file that cannot be written or is already in use.
        """
        if "table" in others:
            require_format(others["table"])
        paths = OutputPaths.of(**others, report=None if json == STANDARD_OUTPUT else json)
        paths.require_distinct([])
        taken = {os.path.realpath(path) for job in jobs for path in (job.model, job.output) if path is not None}
        for file in (paths.table, paths.page, paths.report):
            if file is not None and str(file.target) in taken:
                raise ModelError(f"{file.path} is a model or the place of a result; choose another name")
        if folder is not None and os.path.realpath(folder / FILE) in taken:
            raise ModelError(f"{folder / FILE} is the journal of the folder; choose another name for the result")
        return cls(paths, json)

    @classmethod
    def in_folder(
        cls, folder: Path, table: Path | None, page: Path | None, json: Path | None, jobs: Iterable[ModelJob] = ()
    ) -> Self:
        """The files of a results folder, whose table and page have default names; see `of`."""
        return cls.of(jobs, folder, json, table=table or folder / TABLE_NAME, page=page or folder / PAGE_NAME)

    def write(self, summary: Summary, asked: Summary) -> None:
        """Write the table and page of all rows, and the `asked` rows as JSON. Raises ModelError."""
        if self.paths.table is not None:
            write_table(self.paths.table, summary.rows, COLUMNS)
        publish_text(self.paths.page, lambda: page_html(describe(summary)))
        publish_text(self.paths.report, asked.to_json)
        with full_disk_behind_standard_output():
            echo_json(self.json, asked)


def summarize_folder(folder: Path, table: Path | None, page: Path | None, display: Display) -> None:
    """Rewrite the table and page from a folder's results. Raises ModelError."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder")
    summary = Summary(ResultJournal(folder).rows)
    if not summary.rows:
        raise ModelError(f"{folder} has no journal of results")
    ResultFiles.in_folder(folder, table, page, display.json).write(summary, summary)
    with full_disk_behind_standard_output():
        display.terminal().show(describe(summary, f"table and page written to {folder}"))
