"""Results of trials, kept in a file so that an interrupted search can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ...core.support.regular_files import read_text

MAX_BYTES = 256 << 20  # of a journal


@dataclass(slots=True)
class Journal:
    """Results by key, appended to `path` as lines of JSON as soon as they are known; None: kept in memory only.

    `conditions` is a digest of all that results depend on beside their key: those under other ones do not count.
    `command` is the one that writes it.
    """

    path: Path | None = None
    conditions: str = ""
    command: str = "quantize"
    _known: dict[str, Any] = field(default_factory=dict[str, Any], init=False)

    def __post_init__(self) -> None:
        """Read the results of an earlier run. Raises ModelError for a file that holds something else."""
        if self.path is None or not self.path.exists():
            return
        try:
            lines = read_text(self.path, MAX_BYTES).splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n")]  # the last one may have been interrupted
            self._known = dict(map(json.loads, whole))
            if len(whole) < len(lines):
                os.truncate(self.path, self.path.stat().st_size - len(lines[-1].encode()))
        except (OSError, ValueError, TypeError, RecursionError) as e:
            raise ModelError(f"{self.path} is not a journal of `passes {self.command}`; name another file") from e

    def result(self, key: str, compute: Callable[[], Any]) -> Any:
        """The known result of a key, or the computed one, of JSON types."""
        key = f"{self.conditions} {key}".strip()
        if key in self._known:
            return self._known[key]
        found = self._known[key] = compute()
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as f:
                    f.write(json.dumps([key, found]) + "\n")
            except OSError as e:
                raise ModelError(f"cannot write {self.path}: {e.strerror}") from e
        return found
