"""Arrays that record how NumPy computed them from the constants of a model.

When a model with such constants is rewritten, the constants that rewrites create are computed as usual, but also
have an origin, from which they can be computed again: in float64, or from other numbers. A function that NumPy does not
dispatch, such as `float(x)`, returns a plain number, whose origin is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast

import ml_dtypes
import numpy as np
from msgspec import Struct

from ..ir.dtypes import FLOATS
from ..ir.graph import Graph, defined_values
from ..ir.tensor import Tensor
from .annotated_array import AnnotatedArray, LostError, instances_in, losing_what_is_written, plain
from .shadow_array import is_float

Array = np.ndarray[Any, Any]
MAX_DEPTH = 200  # of nested calls


class Leaf(Struct, frozen=True):
    """A constant of the original, by its name."""

    name: str
    depth: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TracedCall:
    """A call whose arguments contain the origins of arrays instead of these; `depth` of nested calls."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    depth: int = field(default=1, repr=False)


Origin = Leaf | TracedCall


class TracedArray(AnnotatedArray):
    """An array with its origin, which is None if it was lost. Views of it are read-only."""

    origin: Origin | None

    def lose(self) -> None:
        """Remove the origin."""
        self.origin = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a ufunc, possibly in place."""
        target = options.pop("out", (None,))[0]
        if method == "at":
            ufunc.at(*map(plain, inputs))
            inputs[0].lose()
            return None
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        found = _called(function, inputs, options)
        if target is None:
            return found
        plain(target)[...] = plain(found)
        if not isinstance(target, TracedArray):
            return target
        target.origin = found.origin if isinstance(found, TracedArray) and found.shape == target.shape else None
        return target

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply a function of NumPy; arrays that it writes to lose their origin."""
        with losing_what_is_written((args, kwargs)):
            return _called(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        """The elements at an index; a single element is an array of rank 0."""
        return _called(_item, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set elements."""
        changed = _called(_with_item, (self, index, value), {})
        plain(self)[plain(index)] = plain(value)
        self.origin = changed.origin if isinstance(changed, TracedArray) else None

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """The array in another type; when it is computed again, this does not round."""
        found = plain(self).astype(dtype, *args, **options)
        return traced(found, self._origin_of(as_type, np.dtype(dtype)))

    def copy(self, order: Any = "C") -> Any:
        """A writable copy."""
        return traced(plain(self).copy(order), self.origin)

    def _origin_of(self, function: Callable[..., Any], *args: Any) -> Origin | None:
        return None if self.origin is None else TracedCall(function, (self.origin, *args), {}, self.origin.depth + 1)


def _item(array: Any, index: Any) -> Any:
    return array[index]


def _with_item(array: Any, index: Any, value: Any) -> Any:
    found = array.copy()
    found[index] = value
    return found


def as_type(array: Any, dtype: Any) -> Any:
    """An array in another type; conversions between floats do not change it."""
    is_kept = is_float(array) and is_float(np.empty(0, dtype))
    return array if is_kept else array.astype(dtype)


def traced(found: Any, origin: Origin | None) -> Any:
    """An array with its origin; unchanged if it is no array or has no origin. A view of others becomes read-only."""
    if origin is None or not isinstance(found, np.ndarray | np.generic):
        return found
    base = cast("Array", np.asarray(cast("Any", found), order="C"))  # copying later would lose the origin
    is_view = base.base is not None
    array = base.view(TracedArray)
    array.origin = origin
    array.flags.writeable = not is_view and base.flags.writeable
    return array


def _held(value: Any) -> Any:
    """An argument as an origin keeps it: with origins for arrays that have one, and copies of others."""
    if isinstance(value, TracedArray):
        if value.origin is None:
            raise LostError
        return value.origin
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return array.copy() if array.flags.writeable else array
    if isinstance(value, tuple | list):
        parts = cast("tuple[Any, ...]", value)
        return type(value)(_held(v) for v in parts)  # type: ignore[reportUnknownVariableType]
    return value


def _called(function: Callable[..., Any], args: Any, options: Mapping[str, Any]) -> Any:
    """The result of a function, in which each array has its origin."""
    try:
        held = tuple(_held(a) for a in args)
        kept = {name: _held(v) for name, v in options.items()}
    except LostError:
        held = None
        kept = {}
    found = function(*map(plain, args), **{name: plain(v) for name, v in options.items()})
    if held is None:
        return found
    depth = 1 + max((o.depth for o in instances_in((held, kept), Leaf, TracedCall)), default=0)
    if depth > MAX_DEPTH:
        return found
    call = TracedCall(function, held, kept, depth)
    if isinstance(found, tuple | list):
        parts: Any = cast("Any", found)
        return type(parts)(traced(p, TracedCall(_item, (call, i), {}, depth + 1)) for i, p in enumerate(parts))  # type: ignore[reportUnknownVariableType]
    return traced(found, call)


def trace_constants(graph: Graph) -> None:
    """Give the constants of floats in the main graph their names as origins."""
    for value in defined_values(graph):
        tensor = value.tensor
        if tensor is not None and tensor.dtype in FLOATS and tensor.is_readable:
            value.set_constant(Tensor.from_array(traced(tensor.array, Leaf(value.name))))


def traced_constants(graph: Graph) -> dict[str, TracedArray]:
    """The constants of the main graph that have an origin, by name."""
    arrays = {v.name: v.tensor.array for v in defined_values(graph) if v.tensor is not None}
    return {n: a for n, a in arrays.items() if isinstance(a, TracedArray) and a.origin is not None}


def leaves_of(origin: Origin) -> Iterator[str]:
    """Yield the names of the constants that an origin uses, without duplicates."""
    seen: set[int] = set()
    names: set[str] = set()
    work = [origin]
    while work:
        at = work.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, Leaf):
            if at.name not in names:
                names.add(at.name)
                yield at.name
        else:
            work += instances_in((at.args, at.options), Leaf, TracedCall)


def compute(origin: Origin, constants: Mapping[str, Any], known: dict[int, Any] | None = None) -> Any:
    """The array of an origin, computed from other `constants`, whose types it keeps. `known`: results by `id`."""
    found: dict[int, Any] = {} if known is None else known

    def value(part: Any) -> Any:
        if isinstance(part, Leaf):
            return constants[part.name]
        if isinstance(part, TracedCall):
            if id(part) not in found:
                options = {k: value(v) for k, v in part.options.items() if k != "dtype" or not _is_float_type(v)}
                found[id(part)] = part.function(*map(value, part.args), **options)
            return found[id(part)]
        if isinstance(part, tuple | list):
            parts = cast("tuple[Any, ...]", part)
            return type(part)(value(v) for v in parts)  # type: ignore[reportUnknownVariableType]
        return part

    return value(origin)


def _is_float_type(dtype: Any) -> bool:
    return dtype is not None and is_float(np.empty(0, dtype))


def rounding_of(held: Array, origin: Origin, constants: Mapping[str, Array]) -> float | None:
    """The largest error of an array of floats in ulps, compared with its origin computed in a wider type.

    None if that is impossible or not a number, or if half of the bits of a constant change the result by less than it.
    """
    wide = np.longdouble if held.dtype == np.float64 else np.float64
    wide_constants: dict[str, Array] = {n: a.astype(wide) for n, a in constants.items()}
    try:
        with np.errstate(all="ignore"):
            exact: Any = compute(origin, wide_constants)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    if np.shape(exact) != held.shape:
        return None
    distance = np.abs(held.astype(wide) - exact)
    if not np.isfinite(distance).all():
        return None
    limits = cast("Any", ml_dtypes.finfo)(held.dtype)
    if distance.any() and _drops_a_constant(origin, wide_constants, exact, distance.max(), 2 * limits.eps**0.5):
        return None
    magnitude = np.maximum(np.abs(held.astype(wide)), wide(limits.smallest_normal))
    ulps = np.exp2(np.floor(np.log2(magnitude)) - int(limits.nmant))
    return float(np.max(distance / ulps, initial=0.0))


def _drops_a_constant(
    origin: Origin, constants: Mapping[str, Array], exact: Any, distance: float, share: float
) -> bool:
    """Whether an array is further from its origin than that moves where a constant does by a share of itself."""
    with np.errstate(all="ignore"):
        for name, array in constants.items():
            moved = compute(origin, {**constants, name: array * (1 + share)})
            step = float(np.max(np.abs(moved - exact), initial=0.0)) if np.shape(moved) == np.shape(exact) else 0.0
            if 0 < step < distance:
                return True
    return False


def structure_of(origin: Origin, names: Callable[[str], Hashable]) -> Hashable:
    """A key that origins share if they compute equally from constants with the same `names`."""
    found: dict[int, Hashable] = {}

    def key(part: Any) -> Hashable:
        if isinstance(part, Leaf):
            return "leaf", names(part.name)
        if isinstance(part, TracedCall):
            if id(part) not in found:
                call = (repr(part.function), key(part.args), key(part.options))
                found[id(part)] = blake2b(repr(call).encode(), digest_size=16).hexdigest()
            return found[id(part)]
        if isinstance(part, tuple | list):
            return type(cast("object", part)).__name__, *(key(v) for v in cast("tuple[Any, ...]", part))
        if isinstance(part, dict):
            return "dict", *((name, key(v)) for name, v in sorted(cast("dict[str, Any]", part).items()))
        if isinstance(part, np.ndarray | np.generic):
            array = cast("Array", np.ascontiguousarray(cast("Any", part)))
            return str(array.dtype), array.shape, blake2b(array.tobytes(), digest_size=16).hexdigest()
        return repr(part)

    return key(origin)
