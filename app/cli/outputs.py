"""Formats of a command, on standard output and in files."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from ...core.errors import PassesError, UsageError
from ..options import require
from .exit_codes import BAD_INPUT, expected_failure
from .standard_streams import STANDARD_OUTPUT

if TYPE_CHECKING:  # imports rich, jinja2 and onnx
    from ..report.document import Document

TEXT, JSON, GITHUB, MARKDOWN, SARIF = FORMATS = ("text", "json", "github", "markdown", "sarif")
WITH_TEXT = (TEXT, GITHUB)
"""Formats that are printed after the text; other formats replace it."""


class Outputs(Struct, frozen=True):
    """The format of standard output, the JSON path (or `-`), and the other files with their formats."""

    printed: str = TEXT
    json: Path | None = None
    files: tuple[tuple[str, Path], ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str], json: str | Path | None) -> Outputs:
        """Parse options such as `--format github --format sarif:FILE --json FILE`. Raises UsageError."""
        printed, files = list[str](), list[tuple[str, Path]]()
        for text in texts:
            name, colon, path = text.partition(":")
            require(name in FORMATS, f"--format {text}: choose from {', '.join(FORMATS)}")
            require(path or not colon, f"--format {text}: name a file, such as sarif:FILE")
            require(name != TEXT or not path, "--format text can only go to standard output")
            if path and Path(path) != STANDARD_OUTPUT:
                files.append((name, Path(path)))
            else:
                printed.append(name)
        if json is not None:
            place = Path(json)
            printed += [JSON] * (place == STANDARD_OUTPUT)
            files += [(JSON, place)] * (place != STANDARD_OUTPUT)
        one = "only one format can go to standard output"
        require(len(printed) < 2, f"{one}, not {' and '.join(printed)}: name files, such as sarif:FILE")
        jsons = [*(path for name, path in files if name == JSON), *[STANDARD_OUTPUT] * (printed == [JSON])]
        require(len(jsons) < 2, f"JSON can go to only one place, not {' and '.join(map(str, jsons))}")
        others = tuple((name, path) for name, path in files if name != JSON)
        return cls(next(iter(printed), TEXT), next(iter(jsons), None), others)

    @property
    def is_quiet(self) -> bool:
        """Whether standard output has one format only, without text."""
        return self.printed not in WITH_TEXT

    def require_distinct(self, others: Iterable[Path | None]) -> None:
        """Raise UsageError if a file is among `others`, and ModelError if a file cannot be written."""
        from ...core.io.output_paths import OutputFile  # noqa: PLC0415 - imports onnx

        taken = {os.path.realpath(path) for path in others if path is not None}
        for name, path in self.files:
            OutputFile.at(path)
            require(os.path.realpath(path) not in taken, f"--format {name}:{path}: the command already uses this file")
            taken.add(os.path.realpath(path))

    @contextmanager
    def failures_of(self, command: str, file: Path) -> Generator[None]:
        """If a model, input or plugin causes an error, write it in all formats and re-raise it."""
        try:
            yield
        except PassesError as e:
            from ..report.document import failure_document  # noqa: PLC0415 - as above

            if isinstance(e, UsageError):
                raise
            code, message = expected_failure(e) or (BAD_INPUT, str(e))
            self.write([failure_document(command, str(file), message, code)])
            raise

    def write(self, documents: Sequence[Document]) -> None:
        """Write the files, and print the format of standard output, except text and JSON.

        Raises ModelError for a file that cannot be written.
        """
        is_printed = self.printed in (GITHUB, MARKDOWN, SARIF)
        if not (is_printed or self.files):
            return
        from ...core.io.output_paths import OutputFile  # noqa: PLC0415 - imports onnx
        from ...core.io.publishing import publish_text  # noqa: PLC0415 - as above

        for name, path in self.files:
            publish_text(OutputFile.at(path), lambda name=name: formatted(name, documents))
        if is_printed and (text := formatted(self.printed, documents)):
            typer.echo(text)


def formatted(name: str, documents: Sequence[Document]) -> str:
    """Documents in the named format."""
    if name == MARKDOWN:
        from ..report.markdown import markdown_text  # noqa: PLC0415 - imports rich

        return markdown_text(documents)
    from ..report.document import findings_of  # noqa: PLC0415 - as above
    from ..report.finding import workflow_commands  # noqa: PLC0415 - as above

    findings = findings_of(documents)
    if name == GITHUB:
        return "\n".join(workflow_commands(findings))
    from ..report.sarif import sarif_text  # noqa: PLC0415 - imports onnx

    return sarif_text(findings)
