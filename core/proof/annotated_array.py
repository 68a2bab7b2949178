"""Arrays that carry more than their elements through NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class AnnotatedArray(np.ndarray[Any, Any]):
    """An ordinary array for all code that reads it. Subclasses say what NumPy's functions do with the rest of it."""

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> Any:  # noqa: N802 - as in NumPy
        """The array with its axes reversed."""
        return self.transpose()

    def __reduce__(self) -> Any:
        """The elements alone, for another process."""
        return plain(self).copy().__reduce__()

    def item(self, *args: Any) -> Any:
        """One element as a plain number, which carries nothing."""
        return plain(self).item(*args)

    def flatten(self, *args: Any, **options: Any) -> Any:
        """The array with one axis."""
        return self.ravel(*args, **options)


def call_functions(kind: type[AnnotatedArray], *names: str) -> None:
    """Let these methods of a class call the functions of NumPy of the same name."""
    for name in names:
        setattr(kind, name, _by_function(name))


def _by_function(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: AnnotatedArray, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    return method


def plain(value: Any) -> Any:
    """A value with its annotated arrays as plain ones, also in tuples and lists."""
    if isinstance(value, AnnotatedArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)  # type: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [plain(v) for v in value]  # type: ignore[reportUnknownVariableType]
    return value
