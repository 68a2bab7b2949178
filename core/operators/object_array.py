"""Arrays of objects to which NumPy's functions apply: each cell is an object of a domain, or a number.

A meaning in plain NumPy then computes in the domain, for example on terms of z3. One that leaves NumPy's protocols, for
example by `np.asarray` or `float`, raises NotSupported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, partialmethod, reduce, wraps
from typing import Any, Protocol, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Cells = np.ndarray[Any, Any]
"""An array of dtype object."""
Axes = int | Sequence[int] | None
TRUTH_VALUED = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite",
    "logical_and", "logical_or", "logical_not", "logical_xor",
})  # fmt: skip
MOVEMENTS: frozenset[Any] = frozenset({
    np.append, np.array_split, np.atleast_1d, np.broadcast_to, np.concatenate, np.copy, np.delete, np.diagonal,
    np.expand_dims, np.flip, np.moveaxis, np.ravel, np.repeat, np.reshape, np.roll, np.split, np.squeeze, np.stack,
    np.swapaxes, np.take, np.take_along_axis, np.tile, np.transpose,
})  # fmt: skip
"""Functions that move cells like any other objects."""
QUERIES: frozenset[Any] = frozenset({np.ndim, np.shape, np.size})


class NotSupported(Exception):
    """A NumPy function is not defined for the cells of a domain, or needs their numbers."""


class CellDomain(Protocol):
    """The operations on cells, which are objects of the domain or plain numbers. All methods may raise NotSupported."""

    def apply(self, name: str, dtype: np.dtype[Any], *cells: Any) -> Any:
        """Apply the ufunc `name`, or a function that is `known_as` it, to operands of one type."""
        ...

    def select(self, condition: Any, a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
        """`a` if the condition holds, otherwise `b`; both have one type."""
        ...

    def convert(self, cell: Any, source: np.dtype[Any], target: np.dtype[Any]) -> Any:
        """Convert a cell to another type."""
        ...

    def number(self, cell: Any) -> Any:
        """The number in a cell, if known."""
        ...

    def knows(self, name: str, dtype: np.dtype[Any]) -> bool:
        """Whether `apply` accepts a function by the name in `known_as`, instead of its formula."""
        ...


class ObjectArray(NDArrayOperatorsMixin):
    """An array of cells of a domain, which represent elements of type `dtype`. It is not an ndarray."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(self, cells: Cells, dtype: Any, domain: CellDomain) -> None:
        self.cells = cells
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.domain = domain

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.cells.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.cells.ndim

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.cells.size

    @property
    def T(self) -> ObjectArray:  # noqa: N802 - as in NumPy
        """The array with its axes reversed."""
        return self.like(self.cells.T)

    def like(self, cells: Any, dtype: Any = None) -> ObjectArray:
        """An array with other cells, or one cell, in the same domain."""
        held = cells if isinstance(cells, np.ndarray) else one_cell(cells)
        return ObjectArray(cast("Cells", held), self.dtype if dtype is None else dtype, self.domain)

    def numbers(self) -> Cells:
        """The cells as an array of numbers. Raises NotSupported."""
        found = [self.domain.number(c) for c in self.cells.reshape(-1)]
        return np.array(found, self.dtype).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotSupported("the array has no numbers")

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[ObjectArray]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.numbers())

    def __int__(self) -> int:
        return int(self.numbers())

    def __index__(self) -> int:
        return int(self.numbers())

    def __float__(self) -> float:
        return float(self.numbers())

    def item(self, *at: Any) -> Any:
        """A cell as a number."""
        return self.numbers().item(*at)

    def tolist(self) -> Any:
        """The cells as numbers in lists."""
        return self.numbers().tolist()

    def copy(self) -> ObjectArray:
        """A copy that may be modified."""
        return self.like(self.cells.copy())

    def reshape(self, *shape: Any, **_: Any) -> ObjectArray:
        """The cells in another shape."""
        return self.like(self.cells.reshape(*shape))

    def transpose(self, *axes: Any) -> ObjectArray:
        """The array with its axes in another order."""
        return self.like(self.cells.transpose(*axes))

    def __getitem__(self, index: Any) -> ObjectArray:
        return self.like(self.cells[_known(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.cells[_known(index)] = cells_of(value)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> ObjectArray:
        """Convert the array to another type."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        return self.like(map_cells(lambda c: self.domain.convert(c, self.dtype, target), self.cells), target)

    def apply(self, name: str, *others: Any) -> ObjectArray:
        """Apply a ufunc, or a function that is `known_as` a name, to this array and others."""
        return _applied(self, name, self, *others)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a ufunc to the cells."""
        name = ufunc.__name__
        if method == "reduce":
            return _reduced(self, name, inputs[0], **options)
        if method != "__call__":
            raise NotSupported(f"{name}.{method}")
        found = _product(self, *inputs) if name == "matmul" else _applied(self, name, *inputs)
        (target,) = options.get("out", (None,))
        if target is None:
            return found
        if not isinstance(target, ObjectArray):
            raise NotSupported(f"{name} cannot write into an array of numbers")
        target[...] = found
        return target

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """Apply another function of NumPy to the cells."""
        if function in QUERIES:
            return function(args[0].cells, *args[1:], **kwargs)
        if function in FUNCTIONS:
            return FUNCTIONS[function](self, *args, **kwargs)
        if function in FORMULAS:
            return FORMULAS[function](*args, **kwargs)
        if function not in MOVEMENTS:
            raise NotSupported(f"{function.__name__} of cells")
        found = function(*map(_raw, args), **{k: _raw(v) for k, v in kwargs.items()})
        return [self.like(f) for f in found] if isinstance(found, list) else self.like(found)


for _name in (
    *("all", "any", "clip", "max", "mean", "min", "prod"),
    *("ravel", "repeat", "squeeze", "sum", "swapaxes", "take"),
):
    setattr(ObjectArray, _name, partialmethod(getattr(np, _name)))


def known_as(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Name an elementwise function of arrays, which domains may know instead of its formula."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(x: Any, *others: Any) -> Any:
            if isinstance(x, ObjectArray) and x.domain.knows(name, x.dtype):
                return x.apply(name, *others)
            return function(x, *others)

        return call

    return decorate


def one_cell(cell: Any) -> Cells:
    """An array of rank 0 that contains an object."""
    found = np.empty((), object)
    found[()] = cell
    return found


def cells_of(value: Any) -> Cells:
    """The cells of an array, or the numbers of a plain array."""
    return value.cells if isinstance(value, ObjectArray) else np.asarray(value).astype(object)


def map_cells(function: Callable[..., Any], *arrays: Any) -> Cells:
    """Apply a function to the cells at each position of broadcast arrays."""
    found = np.empty(np.broadcast_shapes(*(np.shape(a) for a in arrays)), object)
    if found.size:
        found[...] = np.frompyfunc(function, len(arrays), 1)(*arrays)
    return found


def _known(index: Any) -> Any:
    """An index that consists of numbers. Raises NotSupported."""
    if isinstance(index, tuple):
        return tuple(map(_known, cast("tuple[Any, ...]", index)))
    return index.numbers() if isinstance(index, ObjectArray) else index


def _raw(value: Any) -> Any:
    """An argument of a function that moves cells, with arrays replaced by their cells."""
    if isinstance(value, list | tuple):
        return type(cast("list[Any]", value))(map(_raw, cast("list[Any]", value)))
    return value.cells if isinstance(value, ObjectArray) else value


def _converted(value: Any, dtype: np.dtype[Any]) -> Cells:
    """The cells of an operand in the type in which a function computes."""
    is_other = getattr(value, "dtype", dtype) != dtype
    return cells_of(value.astype(dtype) if is_other else value)


def _applied(like: ObjectArray, name: str, *operands: Any) -> ObjectArray:
    dtype: np.dtype[Any] = np.result_type(*(getattr(x, "dtype", x) for x in operands))
    if name == "divide" and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    found = map_cells(partial(like.domain.apply, name, dtype), *(_converted(x, dtype) for x in operands))
    return like.like(found, np.bool_ if name in TRUTH_VALUED else dtype)


def _axes(axis: Axes, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(a % rank for a in ((axis,) if isinstance(axis, int) else axis))


NEUTRAL: Mapping[str, Any] = {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False}
"""The results of reductions over no elements."""


def _reduced(like: ObjectArray, name: str, x: Any, axis: Axes = 0, **options: Any) -> ObjectArray:
    """Combine the cells along axes from the first; `initial` is used if there are none, because it is neutral."""
    axes = _axes(axis, x.ndim)
    rows = np.moveaxis(cells_of(x), axes, range(len(axes)))
    rows = rows.reshape(-1, *rows.shape[len(axes) :]) if rows.size else rows.reshape(0, *rows.shape[len(axes) :])
    if len(rows):
        found = reduce(
            partial(map_cells, partial(like.domain.apply, name, x.dtype)), (rows[i, ...] for i in range(len(rows)))
        )
    else:
        found = np.full(rows.shape[1:], NEUTRAL.get(name, options.get("initial")), object)
    if options.get("keepdims"):
        found = found.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
    return like.like(found, np.bool_ if name in TRUTH_VALUED else x.dtype)


def _reduction(name: str) -> Callable[..., ObjectArray]:
    return lambda like, x, axis=None, **options: _reduced(like, name, x, axis, **options)


def _mean(like: ObjectArray, x: Any, axis: Axes = None, **options: Any) -> Any:
    count = int(np.prod([x.shape[a] for a in _axes(axis, x.ndim)]))
    return _reduced(like, "add", x, axis, **options) / count


def _norm(_: ObjectArray, x: Any, ord: int = 2, **options: Any) -> Any:
    """The sum of magnitudes, or the root of the sum of squares, along an axis."""
    return np.sum(np.abs(x), **options) if ord == 1 else np.sqrt(np.sum(x * x, **options))


def _product(like: ObjectArray, a: Any, b: Any) -> ObjectArray:
    """The product of arrays of matrices."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    found = _reduced(like, "add", _applied(like, "multiply", left[..., None], right[..., None, :, :]), -2)
    if b.ndim == 1:
        found = found[..., 0]
    return found if a.ndim > 1 else found[..., 0] if b.ndim == 1 else found[..., 0, :]


def _where(like: ObjectArray, condition: Any, a: Any, b: Any) -> ObjectArray:
    dtype: np.dtype[Any] = np.result_type(*(getattr(x, "dtype", x) for x in (a, b)))

    def chosen(test: Any, x: Any, y: Any) -> Any:
        return like.domain.select(test, x, y, dtype)

    return like.like(map_cells(chosen, cells_of(condition), _converted(a, dtype), _converted(b, dtype)), dtype)


def _filled(like: ObjectArray, x: Any, value: Any, dtype: Any = None, *, shape: Any = None, **_: Any) -> ObjectArray:
    """An array like `x` filled with one cell or number."""
    cells = np.empty(x.shape if shape is None else shape, object)
    cells.fill(cells_of(value).reshape(-1)[0])
    return like.like(cells, x.dtype if dtype is None else dtype)


def _filling(number: int) -> Callable[..., ObjectArray]:
    def filled(like: ObjectArray, x: Any, dtype: Any = None, **options: Any) -> ObjectArray:
        return _filled(like, x, number, dtype, **options)

    return filled


def _padded(like: ObjectArray, x: Any, widths: Any, mode: str = "constant", constant_values: Any = 0) -> ObjectArray:
    if mode != "constant":
        return like.like(np.pad(x.cells, widths, mode=cast("Any", mode)), x.dtype)
    pairs = np.broadcast_to(widths, (x.ndim, 2)).tolist()
    found = _filled(like, x, constant_values, shape=[n + sum(p) for n, p in zip(x.shape, pairs, strict=True)])
    found[tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, pairs, strict=True))] = x
    return found


def _cumulation(name: str) -> Callable[..., ObjectArray]:
    def cumulated(like: ObjectArray, x: Any, axis: int, **_: Any) -> ObjectArray:
        rows = np.moveaxis(x.cells, axis, 0).copy()
        for i in range(1, len(rows)):
            rows[i, ...] = map_cells(
                lambda p, q: like.domain.apply(name, x.dtype, p, q), rows[i - 1, ...], rows[i, ...]
            )
        return like.like(np.moveaxis(rows, 0, axis), x.dtype)

    return cumulated


def _place_of_extreme(better: str) -> Callable[..., Any]:
    def found(like: ObjectArray, x: Any, axis: int, **_: Any) -> Any:
        rows = np.moveaxis(x.cells, axis, 0)
        best, place = like.like(rows[0, ...], x.dtype), np.zeros(rows.shape[1:], np.int64)
        for i in range(1, len(rows)):
            row = like.like(rows[i, ...], x.dtype)
            wins = row.apply(better, best)
            best, place = np.where(cast("Any", wins), row, best), np.where(cast("Any", wins), np.int64(i), place)
        return place if isinstance(place, ObjectArray) else like.like(place.astype(object), np.int64)

    return found


def _clip(x: Any, low: Any = None, high: Any = None, **_: Any) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _variance(x: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    centred = x - np.mean(x, axis=axis, keepdims=True)
    return np.mean(centred * centred, axis=axis, keepdims=keepdims)


FORMULAS: Mapping[Any, Callable[..., Any]] = {np.clip: _clip, np.var: _variance}
"""Functions expressed by others, for any array type of NumPy's protocols."""
FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.all: _reduction("logical_and"),
    np.any: _reduction("logical_or"),
    np.argmax: _place_of_extreme("greater"),
    np.argmin: _place_of_extreme("less"),
    np.cumprod: _cumulation("multiply"),
    np.cumsum: _cumulation("add"),
    np.full_like: _filled,
    np.linalg.norm: _norm,
    np.max: _reduction("maximum"),
    np.mean: _mean,
    np.min: _reduction("minimum"),
    np.ones_like: _filling(1),
    np.pad: _padded,
    np.prod: _reduction("multiply"),
    np.sum: _reduction("add"),
    np.where: _where,
    np.zeros_like: _filling(0),
}
