"""Where the results of a comparison go: looked at before anything is done."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...core.errors import ModelError
from ...core.io.output_paths import Places


@dataclass(frozen=True, slots=True)
class Destinations:
    """Files for a report and a page, and a folder for models, if any."""

    report: Path | None = None
    page: Path | None = None
    folder: Path | None = None

    @classmethod
    def of(cls, report: str | Path | None, page: str | Path | None, folder: str | Path | None) -> Self:
        """Those that are wanted."""
        return cls(*(Path(p) if p is not None else None for p in (report, page, folder)))

    def require(self, read: Collection[Path], names: Iterable[str]) -> None:
        """Raise ModelError unless all can be written, models by these `names` too, and nothing that is `read` goes."""
        Places(report=self.report, repros=self.folder).require(read)
        Places(report=self.page).require(read)
        if self.report is not None and self.page is not None and self.report.absolute() == self.page.absolute():
            raise ModelError(f"{self.report} cannot hold both the report and the page")
        if self.folder is not None and self.folder.is_dir():
            for name in names:
                Places(self.folder / f"{name}.onnx").require(read)

    def keep(self, files: Sequence[Path]) -> None:
        """Copy models, and the weights beside them, into the folder."""
        assert self.folder is not None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                for part in (Path(f"{file}.data"), file):
                    if part.is_file():
                        shutil.copyfile(part, self.folder / part.name)
        except OSError as e:
            raise ModelError(f"cannot write to {self.folder}: {e.strerror}") from e
