"""Where the results of a comparison go: looked at before anything is done."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...core.errors import ModelError
from ...core.io.output_paths import OutputPaths


@dataclass(frozen=True, slots=True)
class ComparisonPaths:
    """Files for a report and a page, and a folder for models, if any."""

    report: Path | None = None
    page: Path | None = None
    models_folder: Path | None = None

    @classmethod
    def of(cls, report: str | Path | None, page: str | Path | None, folder: str | Path | None) -> Self:
        """Those that are wanted."""
        return cls(*(Path(p) if p is not None else None for p in (report, page, folder)))

    def require(self, read: Collection[Path], names: Iterable[str]) -> None:
        """Raise ModelError unless all can be written, models by these `names` too, and nothing that is `read` goes."""
        OutputPaths(report=self.report, repro_folder=self.models_folder).require_writable(read)
        OutputPaths(report=self.page).require_writable(read)
        if self.report is not None and self.page is not None and self.report.absolute() == self.page.absolute():
            raise ModelError(f"{self.report} cannot hold both the report and the page")
        if self.models_folder is not None and self.models_folder.is_dir():
            for name in names:
                OutputPaths(self.models_folder / f"{name}.onnx").require_writable(read)

    def copy_models(self, files: Sequence[Path]) -> None:
        """Copy models, and the weights beside them, into the folder."""
        assert self.models_folder is not None
        try:
            self.models_folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                for part in (Path(f"{file}.data"), file):
                    if part.is_file():
                        shutil.copyfile(part, self.models_folder / part.name)
        except OSError as e:
            raise ModelError(f"cannot write to {self.models_folder}: {e.strerror}") from e
