"""Tables: reading of CSV, and writing of CSV and Parquet."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.io.output_paths import OutputFile
from ...core.io.publishing import Publication
from ...core.support.printable_text import printable
from ...core.support.regular_files import read_text, unreadable

CSV, PARQUET = SUFFIXES = (".csv", ".parquet")
MAX_BYTES = 1 << 28  # of a table in CSV
FORMULA = re.compile(r"(?:^|(?<=;))(?=\s*[=+\-@\uff0b\uff0d\uff1d\uff20])")
"""The beginning of a text that a spreadsheet would evaluate; some treat a semicolon as the end of a cell."""
COMMENTS = re.compile(r"\A(?:#.*(?:\r\n|\r|\n|\Z))+")  # before the header
Table = list[dict[str, str]]


def read_table(path: Path) -> Table:
    """The rows of a CSV table with a header, by column. Raises UsageError if it cannot be read."""
    csv.field_size_limit(MAX_BYTES)
    try:
        text = COMMENTS.sub("", read_text(path, MAX_BYTES))
        reader = csv.DictReader(StringIO(text, newline=""), strict=True)
        rows = list(reader)
    except OSError as e:
        raise UsageError(unreadable(path, e, "table")) from e
    except UnicodeDecodeError as e:
        raise UsageError(f"{path} is not UTF-8 text") from e
    except csv.Error as e:
        raise UsageError(f"{path} is not a table in CSV: {e}") from e
    names = reader.fieldnames or ()
    for name in names:
        if not name or names.count(name) > 1:
            raise UsageError(f"{path}: {f'two columns are named {name}' if name else 'a column has no name'}")
    for number, row in enumerate(rows, 1):
        if None in row:
            raise UsageError(f"{path}, row {number}: more cells than columns")
    if not rows:
        raise UsageError(f"{path} has no rows")
    return rows


def write_table(file: OutputFile, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> None:
    """Write a table atomically, in the format of its suffix. Raises ModelError and UsageError."""
    require_format(file.path)
    with Publication() as publication:
        if file.path.suffix.casefold() == CSV:
            publication.add_text(file, lambda: _csv_text(rows, columns))
        else:
            publication.add_bytes(file, lambda: _parquet_bytes(file.path, rows, columns))
        publication.publish()


def require_format(path: Path) -> None:
    """Raise UsageError for an unknown format, or one that this installation cannot write."""
    if path.suffix.casefold() not in SUFFIXES:
        raise UsageError(f"{path}: the name of a table must end in {' or '.join(SUFFIXES)}")
    if path.suffix.casefold() == PARQUET:
        _pyarrow(path)


def _csv_text(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow(FORMULA.sub("'", printable(c)) if isinstance(c, str) else c for c in cells)
    return text.getvalue().removesuffix("\n")


def _parquet_bytes(path: Path, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type]) -> bytes:
    pyarrow, parquet = _pyarrow(path)
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])

    def cell(value: Any, kind: type) -> Any:
        return None if value is None else printable(value) if isinstance(value, str) else kind(value)

    named = [{name: cell(row.get(name), kind) for name, kind in columns.items()} for row in rows]
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(named, schema), sink)
    return sink.getvalue().to_pybytes()


def _pyarrow(path: Path) -> tuple[Any, Any]:
    """The packages for Parquet. Raises UsageError if they are missing."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")  # an extra, and heavy
    except ImportError as e:
        raise UsageError(f"{path} needs pyarrow: pip install 'passwright[parquet]'") from e
