"""Models that the sources of a batch name, with options of their own, and the places of their results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ...core.errors import UsageError
from ...core.support.suggestions import did_you_mean
from ..cli.settings import key_of, may_run_code, moved_paths
from .model_files import ModelJob, is_folder, is_pattern, model_jobs, require_distinct
from .output_locations import is_remote
from .tables import SUFFIXES, read_source, read_table

LIST_SUFFIXES = (".txt", ".list")
MAX_BYTES = 1 << 26  # of a list
MODEL, OUTPUT, OTHER = "model", "output", "other"
"""Columns of a table that are no options."""
WORDS = {True: {"true", "yes", "1"}, False: {"false", "no", "0"}}


class BatchJob(Struct, frozen=True):
    """A model with the place of its result, arguments for the command of its own, and where they stand.

    `other` is the second model of a command that has one.
    """

    job: ModelJob
    arguments: tuple[str, ...] = ()
    place: str = ""
    other: Path | None = None


class _Row(Struct, frozen=True):
    """A row of a table."""

    model: Path
    output: str
    other: str
    arguments: tuple[str, ...]
    place: str


class Sources(Struct, frozen=True):
    """Sources of a batch: models, folders of them, patterns, lists and tables.

    `options` are those that a table may have, by name; `is_trusted`: also those that may run code.
    """

    names: Sequence[Path]
    options: Mapping[str, Any]
    is_trusted: bool

    def jobs(self, output_dir: Path, other_dir: Path | None) -> list[BatchJob]:
        """A job for each model, each once, whose results keep their places below the folder that all have in common.

        A table may name another place, and a model more than once. Raises UsageError.
        """
        plain, rows = list[Path](), list[_Row]()
        for name in self.names:
            suffix = name.suffix.casefold()
            if suffix in SUFFIXES and not is_folder(name):
                rows += self._rows(name)
            elif suffix in LIST_SUFFIXES and not is_folder(name):
                plain += _listed(name)
            else:
                plain.append(name)
        to_place = [*plain, *(row.model for row in rows if not row.output)]
        placed = model_jobs(to_place, output_dir) if to_place else []
        by_model = {os.path.abspath(row.model): row for row in rows if not row.output}  # noqa: PTH100 - links stay
        if len(by_model) + sum(bool(row.output) for row in rows) < len(rows):
            self._refuse_repeated(rows)
        jobs = list[BatchJob]()
        for job in placed:
            row = by_model.get(os.path.abspath(job.model))  # noqa: PTH100 - as above
            jobs.append(_batch_job(job, row, output_dir, other_dir))
        for row in rows:
            if row.output:
                jobs.append(_batch_job(ModelJob(row.model, output_dir / row.output), row, output_dir, other_dir))
        require_distinct([job.job for job in jobs])
        return jobs

    @staticmethod
    def _refuse_repeated(rows: Sequence[_Row]) -> None:
        seen = dict[Path, str]()
        for row in rows:
            if not row.output and (first := seen.setdefault(row.model, row.place)) != row.place:
                raise UsageError(f"{row.place}: {row.model} is in {first}, too: give each an {OUTPUT}")

    def _rows(self, table: Path) -> Iterator[_Row]:
        for number, row in enumerate(read_table(table), 1):
            place = f"{table}, row {number}"
            for name in (name for name, cell in row.items() if "\0" in str(cell)):
                raise UsageError(f"{place}: {name} has a null character")
            if not (model := row.get(MODEL)):
                raise UsageError(f"{place}: no {MODEL}; the column {MODEL} has the path of each")
            path = _below(table.parent, str(model))
            if is_folder(path) or is_pattern(path):
                raise UsageError(f"{place}: {model} is not one model")
            output, other = (str(row.get(name) or "") for name in (OUTPUT, OTHER))
            if output and (Path(output).is_absolute() or ".." in Path(output).parts):
                raise UsageError(f"{place}: {OUTPUT} {output} is not below the folder of the results")
            other = str(_below(table.parent, other)) if other else ""
            cells = {name: cell for name, cell in row.items() if name not in {MODEL, OUTPUT, OTHER}}
            arguments = tuple(a for name, cell in cells.items() for a in self._arguments(table, place, name, cell))
            yield _Row(path, output, other, arguments, place)

    def _arguments(self, table: Path, place: str, column: str, cell: Any) -> Iterator[str]:
        """The arguments for a cell: none for an empty one, several for a list, one without a value for a flag."""
        option = self.options.get(column)
        if option is None:
            near = did_you_mean(column, self.options)
            raise UsageError(f"{table}: the column {column} is no option of the command{near}")
        if cell is None or cell in ("", []) or cell != cell:  # noqa: PLR0124 - NaN, as pandas writes an empty cell
            return
        if option.is_flag:
            word = str(cell).casefold()
            if word not in WORDS[True] | WORDS[False]:
                raise UsageError(f"{place}: {column} is true or false, not {cell}")
            yield from [f"--{key_of(option)}"] * (word in WORDS[True])
            return
        for value in _values(cell):
            text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
            moved = moved_paths(option.name, text, table.parent)
            if not self.is_trusted and may_run_code(option.name, moved):
                raise UsageError(f"{place}: {column} may run code: add --trust-settings if you trust the table")
            yield f"--{key_of(option)}={moved}"


def _values(cell: Any) -> list[Any]:
    """The values of a cell: of a list, or of a text that is a list of JSON."""
    if isinstance(cell, str) and cell.startswith("["):
        try:
            cell = json.loads(cell)
        except ValueError:
            return [cell]
    return cast("list[Any]", cell) if isinstance(cell, list) else [cell]


def _batch_job(job: ModelJob, row: _Row | None, output_dir: Path, other_dir: Path | None) -> BatchJob:
    assert job.output is not None
    other = other_dir / job.output.relative_to(output_dir) if other_dir is not None else None
    if row is None:
        return BatchJob(job, other=other)
    return BatchJob(job, row.arguments, row.place, Path(row.other) if row.other else other)


def _listed(file: Path) -> Iterator[Path]:
    """The models, folders and patterns in a list, a line each; empty lines and those that begin with # are none."""
    names = [line.strip() for line in read_source(file, "list", MAX_BYTES).splitlines()]
    found = [name for name in names if name and not name.startswith("#")]
    if not found:
        raise UsageError(f"{file} names no models")
    if any("\0" in name for name in found):
        raise UsageError(f"{file} has a name with a null character")
    return (_below(file.parent, name) for name in found)


def _below(folder: Path, name: str) -> Path:
    """A path as seen from a folder; a URL as it is."""
    if is_remote(name):
        return Path(name)
    return Path(os.path.normpath(folder / name)) if folder != Path() else Path(name)
