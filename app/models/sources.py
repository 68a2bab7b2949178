"""Models named by the sources of a batch, with the paths of their results, and the options of those in tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.support.suggestions import did_you_mean
from ..cli.settings import key_of, may_run_code, moved_paths
from .model_files import ModelJob, is_folder, is_pattern, model_jobs, require_distinct
from .remote_files import is_remote
from .tables import CSV, read_table

MODEL, OUTPUT, OTHER = "model", "output", "other"
"""Columns of a table that are not options."""
WORDS = {True: {"true", "yes", "1"}, False: {"false", "no", "0"}}


class Sources(Struct, frozen=True):
    """Sources of a batch: models, folders, patterns and tables.

    `options` are those that a table may set, by name; `is_trusted` allows those that may run code.
    """

    names: Sequence[Path]
    options: Mapping[str, Any]
    is_trusted: bool

    def jobs(self, output_dir: Path, other_dir: Path | None) -> list[ModelJob]:
        """A job for each distinct model; results keep their relative paths below the common folder of all models.

        A table may name another path for a result, and a model more than once. Raises UsageError.
        """
        tables = [name for name in self.names if name.suffix.casefold() == CSV and not is_folder(name)]
        rows = [row for table in tables for row in self._rows(table)]
        by_model = dict[str, ModelJob]()  # jobs without a path of their own
        for row in rows:
            if row.output is None and (first := by_model.setdefault(_absolute(row.model), row)) is not row:
                raise UsageError(f"{row.place}: {row.model} is in {first.place}, too: give each an {OUTPUT}")
        to_place = [*(name for name in self.names if name not in tables), *(row.model for row in by_model.values())]
        placed = model_jobs(to_place, output_dir) if to_place else []
        jobs = [replace(by_model.get(_absolute(job.model), job), output=job.output) for job in placed]
        jobs += [replace(row, output=output_dir / row.output) for row in rows if row.output is not None]
        require_distinct(jobs)
        if other_dir is None:
            return jobs
        others = (other_dir / cast("Path", job.output).relative_to(output_dir) for job in jobs)
        return [replace(job, other=job.other or other) for job, other in zip(jobs, others, strict=True)]

    def _rows(self, table: Path) -> Iterator[ModelJob]:
        """The models of a table; paths of results are relative."""
        for number, row in enumerate(read_table(table), 1):
            place = f"{table}, row {number}"
            for name in (name for name, cell in row.items() if "\0" in (cell or "")):
                raise UsageError(f"{place}: {name} has a null character")
            if not (model := row.pop(MODEL, "")):
                raise UsageError(f"{place}: no {MODEL}; the column {MODEL} must have a path in each row")
            path = _below(table.parent, model)
            if is_folder(path) or is_pattern(path):
                raise UsageError(f"{place}: {model} is not a single model")
            output, other = (row.pop(name, "") for name in (OUTPUT, OTHER))
            if output and (Path(output).is_absolute() or ".." in Path(output).parts):
                raise UsageError(f"{place}: {OUTPUT} {output} is not below the folder of the results")
            arguments = tuple(a for name, cell in row.items() for a in self._arguments(table, place, name, cell))
            second = _below(table.parent, other) if other else None
            yield ModelJob(path, Path(output) if output else None, arguments, place, second)

    def _arguments(self, table: Path, place: str, column: str, cell: str) -> Iterator[str]:
        """The arguments for a cell: none if it is empty, several for a list, only the flag if it takes no value."""
        option = self.options.get(column)
        if option is None:
            near = did_you_mean(column, self.options)
            raise UsageError(f"{table}: the column {column} is not an option of the command{near}")
        if not cell:
            return
        if option.is_flag:
            word = cell.casefold()
            if word not in WORDS[True] | WORDS[False]:
                raise UsageError(f"{place}: {column} must be true or false, not {cell}")
            yield from [f"--{key_of(option)}"] * (word in WORDS[True])
            return
        for value in _values(cell):
            moved = moved_paths(option.name, option.about, value, table.parent)
            if not self.is_trusted and may_run_code(option.name, option.about, moved):
                raise UsageError(f"{place}: {column} may run code: add --trust-settings if you trust the table")
            yield f"--{key_of(option)}={moved}"


def _values(cell: str) -> list[str]:
    """The values in a cell: the cell itself, or the elements of a JSON list."""
    if cell.startswith("["):
        with suppress(ValueError):
            return [str(value) for value in json.loads(cell)]
    return [cell]


def _absolute(path: Path) -> str:
    """The absolute path; links are kept."""
    return os.path.abspath(path)  # noqa: PTH100


def _below(folder: Path, name: str) -> Path:
    """The path relative to a folder; URLs are kept."""
    if is_remote(name):
        return Path(name)
    return Path(os.path.normpath(folder / name)) if folder != Path() else Path(name)
