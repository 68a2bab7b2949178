"""Arrays of floats that carry their exact elements through NumPy.

A ShadowArray is an ordinary array of floats for all code that reads it; it also has the field element of each
number. A rule that computes constants, and the meanings of operators, are plain NumPy: given shadow arrays, both also
compute in the field. A function that NumPy does not dispatch, such as `float(x)`, returns a plain number, whose exact
value is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

import numpy as np

from . import finite_field as ff
from .annotated_array import AnnotatedArray, plain
from .finite_field import FieldArray
from .finite_field_constants import lift

Array = np.ndarray[Any, Any]


class ShadowArray(AnnotatedArray):
    """An array of floats with the same elements as a `field`, which is None if their exact values were lost.

    Views of it are read-only, so that code cannot write only to the floats.
    """

    field: FieldArray | None
    on_ufunc: ClassVar[Callable[..., Any]]
    on_function: ClassVar[Callable[..., Any]]
    """The functions that `field_functions` gives this class."""

    def lose(self) -> None:
        """Remove the field elements."""
        self.field = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a ufunc to the floats and to the field elements."""
        return type(self).on_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply a function of NumPy to the floats and to the field elements."""
        return type(self).on_function(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        """The elements at an index; a single element is an array of rank 0."""
        found = plain(index)
        parts = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        if not any(isinstance(p, bool | np.ndarray | list) for p in parts):
            return rearranged(self, plain(self)[found], lambda data: data[(slice(None), slice(None), *parts)])
        return moved(self, lambda a: a[found])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set elements, and their field elements."""
        floats = plain(self)
        floats[plain(index)] = plain(value)
        if self.field is None:
            return
        given = field_of(value)
        if given is None:
            self.field = None
            return
        places, added = cast("tuple[Any, Any]", (np.arange(self.size), np.arange(given.size)))
        places = places.reshape(self.shape)
        places[plain(index)] = self.size + added.reshape(given.shape)
        self.field = pooled([self.field, given]).take(places)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """The array in another type; exact elements are kept if both types are floats."""
        found = plain(self).astype(dtype, *args, **options)
        return shadowed(found, self.field) if is_float(found) and self.field is not None else found

    def copy(self, order: Any = "C") -> Self:
        """A writable copy."""
        found: Any = plain(self).copy(order).view(ShadowArray)
        found.field = self.field
        return found


def is_float(value: Any) -> bool:
    """Whether an array or number consists of floats that represent real numbers."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, float)
    return dtype.kind == "f" or dtype.name == "bfloat16"


def shadowed(floats: Any, field: FieldArray | None) -> ShadowArray:
    """An array with its field elements. A view of other floats becomes read-only."""
    base = np.asarray(floats)
    is_view = base.base is not None and base.flags.c_contiguous
    found = (base if base.flags.c_contiguous else base.copy()).view(ShadowArray)
    found.field = field
    found.flags.writeable = not is_view
    return found


def lifted(numbers: Any) -> ShadowArray:
    """An array of constants with the field elements of the simplest numbers that round to them."""
    return shadowed(np.asarray(numbers), lift(plain(numbers)))


def field_of(value: Any) -> FieldArray | None:
    """The field elements of an array or number; a plain one represents its simplest numbers."""
    if isinstance(value, ShadowArray):
        return value.field
    array = np.asarray(value)
    return lift(array) if array.dtype.kind in "biuf" or is_float(array) else None


def pooled(fields: list[FieldArray]) -> FieldArray:
    """The elements of several arrays in one flat array."""
    samples = ff.most_samples(fields)
    return FieldArray(np.concatenate([f.broadcast_to(f.shape, samples).in_rows() for f in fields], axis=2))


def rearranged(array: ShadowArray, floats: Any, view: Callable[[Any], Any]) -> Any:
    """Floats whose field elements are a view of the field elements of an array."""
    return floats if array.field is None else shadowed(floats, FieldArray(view(array.field.data)))


def moved(array: ShadowArray, move: Callable[[Any], Any]) -> Any:
    """The result of a function that only moves elements."""
    floats = move(plain(array))
    if array.field is None:
        return floats
    places = move(np.arange(array.size).reshape(array.shape))
    return shadowed(floats, array.field.take(places))
