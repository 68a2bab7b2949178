"""Results of jobs that are kept in a folder, so that a later command need not compute them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from ...core.errors import ModelError
from ...core.io.output_paths import OutputFile, require_writable_folder
from ...core.io.publishing import publish_text
from ...core.support.printable_text import json_text
from ...core.support.regular_files import open_regular
from ..optimize.content_digests import bytes_digest
from .result_row import ResultRow

if TYPE_CHECKING:
    from ..report.terminal import Terminal

FILE = ".passwright-finished.jsonl"
MAX_BYTES = 1 << 30  # of that file


class FinishedJob(Struct, frozen=True):
    """A job that ended well: digests of all that it depended on and of its result, and `row`, its line in tables."""

    conditions: str
    result: str
    row: Mapping[str, Any]


@dataclass(slots=True)
class FinishedJobs:
    """The finished jobs of a folder by the names of their results, a line each, in a file to which others are appended.

    Each line begins with a digest of the rest: those that are cut or changed count as `damaged`, and for nothing else.
    """

    folder: Path
    damaged: int = field(default=0, init=False)
    _jobs: dict[str, FinishedJob] = field(default_factory=dict[str, FinishedJob], init=False)
    _is_whole: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Read the file, if there is one. Raises ModelError if it cannot be read."""
        try:
            with open_regular(self.path) as file:
                content = file.read(MAX_BYTES)
        except FileNotFoundError:
            return
        except OSError as e:
            raise ModelError(f"{self.path} cannot be read: {e.strerror}") from e
        self._is_whole = content.endswith(b"\n") or not content
        lines = content.splitlines()
        for line in lines:
            try:
                name, job = _parse(line)
            except (ValueError, TypeError, RecursionError):
                self.damaged += 1
            else:
                self._jobs[name] = job
        if len(lines) > 2 * len(self._jobs):
            text = b"\n".join(_line(name, job) for name, job in self._jobs.items()).decode()
            publish_text(OutputFile.at(self.path), lambda: text)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def get(self, result: Path) -> FinishedJob | None:
        """The job that wrote a result."""
        return self._jobs.get(self._name(result))

    @property
    def rows(self) -> list[ResultRow]:
        """The rows about all jobs, by the names of their results."""
        return [dict(job.row) for _, job in sorted(self._jobs.items())]

    def add(self, result: Path, job: FinishedJob) -> None:
        """Keep a job. Raises ModelError if the file cannot be written."""
        name = self._name(result)
        self._jobs[name] = job
        try:
            with self.path.open("ab") as file:
                file.write((b"" if self._is_whole else b"\n") + _line(name, job) + b"\n")
        except OSError as e:
            raise ModelError(f"cannot write {self.path}: {e.strerror}") from e
        self._is_whole = True

    def _name(self, result: Path) -> str:
        return result.relative_to(self.folder).as_posix()


def open_record(folder: Path, terminal: Terminal) -> FinishedJobs:
    """The finished jobs of a folder for results, with a warning if some are lost. Raises ModelError."""
    require_writable_folder(folder)
    finished = FinishedJobs(folder)
    if finished.damaged:
        terminal.warning(f"warning: {finished.path} is damaged; models of which it says nothing are run again")
    return finished


def _line(name: str, job: FinishedJob) -> bytes:
    text = json_text([name, to_builtins(job)], indent=None).encode()
    return bytes_digest(text).encode() + b" " + text


def _parse(line: bytes) -> tuple[str, FinishedJob]:
    """The name and the job of a line. Raises ValueError and TypeError for a damaged one."""
    digest, _, text = line.partition(b" ")
    if digest.decode() != bytes_digest(text):
        raise ValueError
    name, fields = json.loads(text)
    return name, FinishedJob(**fields)
