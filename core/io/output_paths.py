"""Output paths of a run, checked before it starts."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from ..errors import ModelError


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """The files that a run writes, if any: the model, large weights beside it, report, map of names, and page.

    `repro_folder` is a folder, created if necessary. `page` is the HTML report, `trace` has the events of a profile,
    `journal` the results of trials.
    """

    model: Path | None = None
    report: Path | None = None
    name_map: Path | None = None
    repro_folder: Path | None = None
    page: Path | None = None
    trace: Path | None = None
    journal: Path | None = None

    @classmethod
    def of(cls, **paths: str | Path | None) -> OutputPaths:
        """The paths by field, as a caller gives them."""
        return cls(**{field: Path(path) for field, path in paths.items() if path is not None})

    def require_writable(self, read: Collection[Path]) -> None:
        """Raise ModelError unless all can be written and differ from each other and from the files in `read`."""
        if self.repro_folder is not None:
            _require_writable(self.repro_folder, is_folder=True)
        written = {"model": self.model, "report": self.report, "map of names": self.name_map}
        written |= {"page": self.page, "trace": self.trace, "journal": self.journal}
        chosen = {what: path for what, path in written.items() if path is not None}
        for path in chosen.values():
            _require_writable(path)
        if self.repro_folder is not None:
            chosen["repros"] = self.repro_folder
        if self.model is not None:
            chosen["model's weights"] = Path(f"{self.model}.data")
        for what, path in chosen.items():
            for other in read:
                if _is_same(path, other):
                    raise ModelError(f"the {what} would overwrite {other}, which is read; choose another name")
        for (what, path), (twin, other) in combinations(chosen.items(), 2):
            if _is_same(path, other):
                raise ModelError(f"{path} cannot hold both the {what} and the {twin}")


def _require_writable(path: Path, *, is_folder: bool = False) -> None:
    """Raise ModelError if a file or folder cannot be created at `path`, as far as that shows without writing.

    A file needs the folder that holds it; a folder is created with those around it.
    """
    try:
        if not is_folder:
            path.parent.stat()
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        is_dir = nearest.is_dir()
    except OSError as e:
        raise ModelError(f"cannot write to {path}: {e.strerror}") from e
    if is_folder and not is_dir:
        raise ModelError(f"cannot write to {path}: {nearest} is not a folder")
    if not is_folder and nearest == path and is_dir:
        raise ModelError(f"{path} is a folder")
    if not is_folder and not path.parent.is_dir():
        raise ModelError(f"cannot write to {path}: Not a directory")
    if not os.access(nearest, os.W_OK):
        raise ModelError(f"cannot write to {path}: Permission denied")


def _is_same(a: Path, b: Path) -> bool:
    """Whether two paths are the same file, links resolved."""
    try:
        return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))
    except OSError:  # such as a loop of links
        return False
