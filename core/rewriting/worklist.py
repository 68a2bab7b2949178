"""The ops still to be looked at, each once, first come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ..ir.op import Op


class Worklist:
    """A queue that knows what waits in it. A dict would do, were its first entry not searched past all removed ones."""

    def __init__(self) -> None:
        self._queue: deque[Op] = deque()
        self._waiting: set[Op] = set()

    def add(self, ops: Iterable[Op]) -> None:
        """Let `ops` wait at the end; those that wait already keep their places."""
        for op in ops:
            if op not in self._waiting:
                self._waiting.add(op)
                self._queue.append(op)

    def __iter__(self) -> Iterator[Op]:
        """Take out the first, until none is left; more may be added meanwhile."""
        while self._queue:
            op = self._queue.popleft()
            self._waiting.remove(op)
            yield op
