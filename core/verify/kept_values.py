"""Values that are kept within a memory budget; other values are computed or read again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import numpy as np

Result = TypeVar("Result")
ARRAY_BYTES = 200  # of an array, in addition to its elements


@dataclass(slots=True)
class ValueCache(Generic[Result]):
    """Computed values by key, of at most `budget` bytes in total; of those beyond it, only the one computed last.

    The first values stay, because values are read in the same order each time.
    """

    budget: float
    _kept: dict[Hashable, Result] = field(default_factory=dict[Hashable, Result], init=False)
    _last: tuple[Hashable, Result] | None = field(default=None, init=False)

    def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The value of a key; it is computed if it is not stored."""
        if key in self._kept:
            return self._kept[key]
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # free its memory
        found = compute()
        size = value_bytes(found)
        if size <= self.budget:
            self.budget -= size
            self._kept[key] = found
        else:
            self._last = key, found
        return found


def value_bytes(value: Any) -> int:
    """The bytes of the tensors in a value, a container or a mapping."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value).nbytes + ARRAY_BYTES
    if isinstance(value, Mapping):
        return sum(map(value_bytes, cast("Mapping[Any, Any]", value).values()))
    return sum(map(value_bytes, cast("list[Any]", value))) if isinstance(value, list | tuple) else 0


@dataclass(frozen=True, slots=True, eq=False)
class LazyValues(Mapping[str, Any]):
    """Values by name; `read` returns all of them at once, when one is first needed."""

    read: Callable[[], Mapping[str, Any]]

    def __getitem__(self, name: str) -> Any:
        return self.read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())

    def __len__(self) -> int:
        return len(self.read())


@dataclass(frozen=True, slots=True, eq=False)
class FileValues(LazyValues):
    """Values that `load` reads; it can be pickled and called in any process. `owners` keep the files."""

    load: Callable[[], Mapping[str, Any]]
    owners: object = None
