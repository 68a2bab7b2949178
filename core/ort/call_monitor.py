"""Monitoring of backend calls, which may crash or hang, so that another process must know about them in advance."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from mmap import mmap
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from ..support.context_values import set_within_block

Facts = Mapping[str, Any]
CallMonitor = Callable[[Facts | None, float | None], None]
"""Called before each backend call with facts and its time limit in seconds (None: unlimited); after it, with None."""
_MONITOR: ContextVar[CallMonitor | None] = ContextVar("_MONITOR", default=None)
_FACTS: ContextVar[Facts] = ContextVar("_FACTS", default=MappingProxyType({}))


def monitored_by(monitor: CallMonitor) -> AbstractContextManager[None]:
    """Report the calls of the block to `monitor`."""
    return set_within_block(_MONITOR, monitor)


def call_facts(**facts: Any) -> AbstractContextManager[None]:
    """Add facts to the reported calls of the block, such as whose model they run."""
    return set_within_block(_FACTS, {**_FACTS.get(), **facts})


@contextmanager
def backend_call(limit: float | None) -> Generator[None]:
    """Report the block as a call that takes at most `limit` seconds."""
    monitor = _MONITOR.get()
    if monitor is None:
        yield
        return
    monitor(_FACTS.get(), limit)
    try:
        yield
    finally:
        monitor(None, None)


CAPACITY = 1 << 12  # bytes of a record


@dataclass(slots=True)
class CallFile:
    """The current call of a worker process, in a mapped file that its parent reads periodically.

    A message or a write for each call would take as long as running a small model.
    """

    path: Path
    _map: mmap | None = field(default=None, init=False)
    _overdue: bytes = field(default=b"", init=False)

    def create(self) -> None:
        """Create and allocate the file, for a process that has no calls yet. Raises OSError."""
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(bytes(CAPACITY))
        self._overdue = b""

    def attach(self) -> None:
        """Map the file that the parent created."""
        with self.path.open("r+b") as f:
            self._map = mmap(f.fileno(), CAPACITY)

    def begin(self, facts: Facts, limit: float | None, after: Facts | None = None) -> None:
        """Record a call that takes at most `limit` seconds (None: unlimited); the facts are short JSON.

        `after` describes an earlier call, which may have damaged the process.
        """
        until = None if limit is None else monotonic() + limit
        self._write({"facts": facts, "limit": limit, "until": until, "after": after})

    def end(self, after: Facts | None = None) -> None:
        """Record that the call ended; `after` as in `begin`."""
        self._write({"after": after})

    def _write(self, record: Facts) -> None:
        assert self._map is not None
        text = json.dumps(record).encode() + b"\n"  # the rest of a longer record is in later lines
        self._map[: len(text)] = text

    def read(self) -> Facts:
        """The current record: the `facts`, `limit` and end `until` of a call, if there is one, and `after`."""
        return _parsed(self._line())

    def look(self) -> tuple[Facts, bool]:
        """The facts about the current call, and whether it exceeded its limit in two successive reads.

        A record that is read while it is written may mix two records, but not twice.
        """
        line = self._line()
        record = _parsed(line)
        until = record.get("until")
        before, self._overdue = self._overdue, line if until is not None and monotonic() > until else b""
        return record.get("facts") or {}, bool(self._overdue) and self._overdue == before

    def _line(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes().partition(b"\n")[0]
        return b""


def _parsed(line: bytes) -> Facts:
    with suppress(ValueError):
        return json.loads(line)
    return {}
