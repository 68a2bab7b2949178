"""Arrays with annotations that NumPy's functions propagate."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any, TypeVar, cast

import numpy as np

T = TypeVar("T")


class LostError(Exception):
    """The annotation of an array was lost."""


class AnnotatedArray(np.ndarray[Any, Any]):
    """An array that other code reads like an ordinary one. Subclasses define what NumPy does with its annotation."""

    def lose(self) -> None:
        """Remove the annotation, because it is no longer valid."""
        raise NotImplementedError

    def __array_finalize__(self, obj: object) -> None:
        """Create an array without annotation."""
        self.lose()

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> Any:  # noqa: N802 - as in NumPy
        """The array with its axes reversed."""
        return self.transpose()

    def __reduce__(self) -> Any:
        """Pickle only the elements."""
        return plain(self).copy().__reduce__()

    def item(self, *args: Any) -> Any:
        """One element as a plain number without annotation."""
        return plain(self).item(*args)

    def reshape(self, *shape: Any, **_: Any) -> Any:
        """The array in another shape, in C order."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        """The array with its axes in another order."""
        return np.transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)

    def flatten(self, *args: Any, **options: Any) -> Any:
        """The array with one axis."""
        return self.ravel(*args, **options)


for _name in (
    *("all", "any", "argmax", "argmin", "argsort", "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod"),
    *("ravel", "repeat", "round", "squeeze", "std", "sum", "swapaxes", "take", "var"),
):
    setattr(AnnotatedArray, _name, partialmethod(getattr(np, _name)))


def instances_in(value: Any, *kinds: type[T]) -> Iterator[T]:
    """Yield the objects of some types in nested arguments."""
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, tuple | list | dict):
        parts: Any = list(cast("dict[Any, Any]", value).values()) if isinstance(value, dict) else cast("Any", value)
        for part in cast("tuple[Any, ...]", parts):
            yield from instances_in(part, *kinds)


@contextmanager
def losing_what_is_written(arguments: Any) -> Generator[None]:
    """Remove the annotations of arrays to which a function writes."""
    arrays = [a for a in instances_in(arguments, AnnotatedArray) if a.flags.writeable]
    before = [plain(a).copy() for a in arrays]
    yield
    for array, held in zip(arrays, before, strict=True):
        if not np.array_equal(plain(array), held, equal_nan=True):
            array.lose()


def plain(value: Any) -> Any:
    """Convert annotated arrays to plain ones, including those in tuples and lists."""
    if isinstance(value, AnnotatedArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)  # type: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [plain(v) for v in value]  # type: ignore[reportUnknownVariableType]
    return value
