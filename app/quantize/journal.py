"""Results of trials in a file, so that an interrupted search can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert, to_builtins

from ...core.errors import ModelError
from ...core.support.regular_files import read_text

MAX_BYTES = 256 << 20  # of a journal
T = TypeVar("T")


@dataclass(slots=True)
class Journal:
    """Results by key, appended to `path` as lines of JSON as soon as they are known; kept only in memory if it is None.

    `conditions` is a digest of everything besides the key that results depend on; results with other digests are
    ignored. `command` is the command that writes the journal.
    """

    path: Path | None = None
    conditions: str = ""
    command: str = "quantize"
    _known: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    _is_ended: bool = field(default=True, init=False)  # whether the last line is complete

    def __post_init__(self) -> None:
        """Read the results of an earlier run. Raises ModelError for a file with other content."""
        if self.path is None or not self.path.exists():
            return
        try:
            *lines, last = read_text(self.path, MAX_BYTES).split("\n")
            is_cut = last.startswith('["') and not _is_json(last)  # by an interruption
            self._known = dict(map(json.loads, lines if is_cut or not last else [*lines, last]))
            self._is_ended = not last or is_cut
            if is_cut:
                os.truncate(self.path, self.path.stat().st_size - len(last.encode()))
        except (OSError, ValueError, TypeError, RecursionError) as e:
            raise ModelError(f"{self.path} is not a journal of `passes {self.command}`; name another file") from e

    def result(
        self, key: str, kind: type[T], compute: Callable[[], T], is_whole: Callable[[T], bool] = lambda _: True
    ) -> T:
        """Return the known result of a key, or compute it; a known one of another type or incomplete is damaged."""
        key = f"{self.conditions} {key}".strip()
        if key in self._known:
            with suppress(ValidationError):
                known = convert(self._known[key], kind)
                if is_whole(known):
                    return known
        found = compute()
        self._known[key] = to_builtins(found)
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as f:
                    f.write(("" if self._is_ended else "\n") + json.dumps([key, self._known[key]]) + "\n")
            except OSError as e:
                raise ModelError(f"cannot write {self.path}: {e.strerror}") from e
            self._is_ended = True
        return found


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
