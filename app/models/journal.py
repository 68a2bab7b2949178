"""Journal of the results in a folder, which tells later commands what need not be repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from msgspec import MsgspecError, Struct, to_builtins
from msgspec.json import decode, encode

from ...core.errors import ModelError
from ...core.io.output_paths import OutputFile
from ...core.io.publishing import publish_text
from ...core.support.printable_text import json_text
from ...core.support.regular_files import open_regular
from ..report.result_row import ResultRow

FILE = ".passwright-finished.jsonl"
MAX_BYTES = 1 << 30  # of the journal


class FinishedJob(Struct, frozen=True):
    """A finished job: digests of its conditions and of its result, and its `row` in tables."""

    conditions: str
    result: str
    row: ResultRow


@dataclass(slots=True)
class ResultJournal:
    """The finished jobs of a folder by the names of their results, in a file with one line for each.

    Incomplete or changed lines count as `damaged` and are otherwise ignored. Raises ModelError if the file cannot be
    read.
    """

    folder: Path
    damaged: int = field(default=0, init=False)
    _jobs: dict[str, FinishedJob] = field(default_factory=dict[str, FinishedJob], init=False)
    _is_whole: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
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
                name, job = decode(line, type=tuple[str, FinishedJob])
            except (MsgspecError, ValueError):
                self.damaged += 1
            else:
                self._jobs[name] = job
        if len(lines) > 2 * len(self._jobs):
            text = b"\n".join(map(encode, self._jobs.items())).decode()
            publish_text(OutputFile.at(self.path), lambda: text)

    @property
    def path(self) -> Path:
        """The path of the journal."""
        return self.folder / FILE

    def get(self, result: Path) -> FinishedJob | None:
        """The job that wrote a result."""
        return self._jobs.get(self._name(result))

    @property
    def rows(self) -> list[ResultRow]:
        """The rows of all jobs, in order of the names of their results."""
        return [dict(job.row) for _, job in sorted(self._jobs.items())]

    def add(self, result: Path, job: FinishedJob) -> None:
        """Record a job. Raises ModelError if the file cannot be written."""
        name = self._name(result)
        self._jobs[name] = job
        line = json_text(to_builtins((name, job)), indent=None)  # names may not be UTF-8
        try:
            with self.path.open("ab") as file:
                file.write((b"" if self._is_whole else b"\n") + line.encode() + b"\n")
        except OSError as e:
            raise ModelError(f"cannot write {self.path}: {e.strerror}") from e
        self._is_whole = True

    def _name(self, result: Path) -> str:
        return result.relative_to(self.folder).as_posix().encode(errors="backslashreplace").decode()
