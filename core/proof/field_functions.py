"""Functions of NumPy on arrays of floats with field elements: arithmetic, reductions, products and movement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial, reduce
from typing import Any, cast

import numpy as np

from ..operators.object_array import FORMULAS
from ..support.context_values import set_within_block
from . import finite_field as ff
from .annotated_array import LostError, losing_what_is_written, plain
from .finite_field import FieldArray
from .finite_field_constants import lift
from .obligation import NotApplicable
from .shadow_array import ShadowArray, field_of, is_float, pooled, rearranged, shadowed

Array = np.ndarray[Any, Any]
MAX_WHOLE_EXPONENT = 64
MAX_TERMS = 2**53 // ff.P**2  # products of residues whose sum floats can represent
MATRIX_RANK = 2
MAX_NAMED_FOLD = 64  # elements of a reduction of which only the name is known
ONE, TWO, ZERO = lift(np.array(1)), lift(np.array(2)), lift(np.zeros(1, int))


BY_NAME: ContextVar[bool] = ContextVar("BY_NAME", default=False)
"""Whether only the name of each operation counts as known, so that equal results have equal bits."""


def operations_by_name() -> AbstractContextManager[None]:
    """Treat each operation as an unknown function, except that sums and products commute."""
    return set_within_block(BY_NAME, True)


def named(name: str, *operands: FieldArray) -> FieldArray:
    """The result of an operation of which only the name is known."""
    if name in COMMUTATIVE and len(operands) == 2:
        a, b = operands
        sums, products = ff.add(a, b), ff.multiply(a, b)
        return ff.apply_function(name, keyed(sums), keyed(products))
    return ff.apply_function(name, *operands)


def keyed(a: FieldArray) -> FieldArray:
    """An array for a hash of both residues, known or not."""
    return a.with_rows(has_modulus=1, has_exponent=1)


COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})
KEPT = frozenset({"negative", "positive", "absolute"})
"""Operations whose bits are determined by the number."""


def apply_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of a ufunc on floats and, if the result is floats, on field elements."""
    if method == "at":  # this writes to its first operand
        ufunc.at(*map(plain, inputs))
        inputs[0].lose()
        return None
    given = {k: v for k, v in options.items() if k != "out"}
    floats = [plain(x) for x in inputs]
    target = options.get("out", (None,))[0]
    if method == "reduce" and ufunc in REDUCTIONS:
        keywords = {"axis": 0, "keepdims": False} | given
        return apply_function(REDUCTIONS[ufunc], (inputs[0],), keywords)
    found = getattr(ufunc, method)(*floats, **plain_options(given))
    if isinstance(found, tuple) or (not is_float(np.asarray(found)) and np.asarray(found).dtype != object):
        return written(found, None, target)
    if np.asarray(found).dtype == object:  # of np.frompyfunc
        found = np.asarray(found, np.float64)
    field = None
    if method == "__call__" and "where" not in given:
        operands = [field_of(x) for x in inputs]
        if all(f is not None for f in operands):
            field = field_result(ufunc, floats, [f for f in operands if f is not None], found)
    return written(found, field, target)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments with plain arrays."""
    return {k: plain(v) for k, v in options.items()}


def written(found: Any, field: FieldArray | None, target: Any) -> Any:
    """A result; an in-place operation writes it to its target."""
    if target is None or field is None or not target.flags.writeable:
        return kept(found, field)
    plain(target)[...] = found
    result = target if isinstance(target, ShadowArray) else target.view(ShadowArray)
    result.field = field.broadcast_to(target.shape)
    return result


def field_result(ufunc: Any, floats: Sequence[Any], operands: list[FieldArray], found: Any) -> FieldArray | None:
    """The field elements of the result of a ufunc on numbers; for an unknown one, a hash of its operands."""
    name = ufunc.__name__
    if BY_NAME.get() and name not in KEPT:
        if name == "matmul":
            return None
        return with_limits(name, floats, named(name, *operands), np.asarray(found))
    if name in UNARY and len(operands) == 1:
        made = UNARY[name](operands[0])
    elif name in BY_NUMBERS:
        made = BY_NUMBERS[name](floats, operands)
    elif name in BINARY:
        made = BINARY[name](*operands)
    else:
        made = ff.apply_function(name.removesuffix(" (vectorized)"), *operands)
    return None if made is None else with_limits(name, floats, made, np.asarray(found))


def with_limits(name: str, floats: Sequence[Any], made: FieldArray, found: Any) -> FieldArray:
    """The exponential of -inf, a mask, is 0; any other result that is not finite is undefined."""
    is_exp = name == "exp"
    masked = cast("Array", np.isneginf(floats[0]) if is_exp else np.zeros(1, np.bool_))
    if masked.any():
        zero = lift(np.zeros(made.shape))
        data = np.where(masked, zero.data, made.data)
        return FieldArray(data)
    if not np.isfinite(found).all():
        return made.with_rows(undefined=made.data[ff.UNDEFINED] | ~np.isfinite(found))
    return made


def _power(floats: Sequence[Any], operands: Sequence[FieldArray]) -> FieldArray:
    base, exponents = operands
    values = np.unique(np.asarray(floats[1], np.float64))
    shape = np.broadcast_shapes(base.shape, exponents.shape)
    if values.size == 1 and float(2 * values[0]).is_integer() and abs(values[0]) <= MAX_WHOLE_EXPONENT:
        doubled = int(2 * values[0])
        found = ff.integer_power(base, doubled // 2) if doubled % 2 == 0 else ff.integer_power(ff.sqrt(base), doubled)
        return found.broadcast_to(shape)
    return ff.exp(ff.multiply(exponents, ff.log(base)))


def _absolute(floats: Sequence[Any], operands: Sequence[FieldArray]) -> FieldArray:
    return ff.absolute(operands[0], np.asarray(floats[0]) < 0)


def _chosen(is_first: Callable[[Any, Any], Any]) -> Callable[..., FieldArray]:
    def choose(floats: Sequence[Any], operands: Sequence[FieldArray]) -> FieldArray:
        return ff.select(np.asarray(is_first(*floats)), *operands)

    return choose


def _matmul(a: FieldArray, b: FieldArray) -> FieldArray | None:
    return bilinear(np.matmul, a, b, terms=a.shape[-1])


def bilinear(function: Callable[..., Any], *operands: FieldArray, terms: int = MAX_TERMS + 1) -> FieldArray | None:
    """Apply a function that is linear in each operand to residues and, for masks and regions, to marks.

    An element of the result is a sum of so many `terms`.
    """
    if BY_NAME.get():
        return None
    product = partial(_in_floats, function) if terms <= MAX_TERMS else partial(by_sample, function)
    rows = [_residue_product(product, operands, row) for row in (ff.MODULUS, ff.EXPONENT)]
    data = np.zeros((ff.ROWS, *rows[0].shape), np.int64)
    data[ff.MODULUS], data[ff.EXPONENT] = rows

    def marks(row: Callable[[FieldArray], Any]) -> Any:
        found = np.zeros(rows[0].shape, np.int64)
        for i, operand in enumerate(operands):
            marked = np.asarray(row(operand), np.int64)
            if marked.any():
                with np.errstate(over="ignore"):
                    ones = [np.ones((1, *o.shape), np.int64) for o in operands]
                    found = found + product([*ones[:i], marked, *ones[i + 1 :]]) * (2 * i + 1)
        return found

    data[ff.HAS_MODULUS] = marks(lambda o: 1 - o.data[ff.HAS_MODULUS, :1]) == 0
    data[ff.HAS_EXPONENT] = marks(lambda o: 1 - o.data[ff.HAS_EXPONENT, :1]) == 0
    data[ff.HAS_EXPONENT] |= 1 - data[ff.HAS_MODULUS]
    data[ff.UNDEFINED] = marks(lambda o: o.data[ff.UNDEFINED]) > 0
    regions = marks(lambda o: o.data[ff.REGION, :1] % 2**31)
    data[ff.REGION] = np.where(regions == 0, 0, ff.mixed(regions, 9))
    return FieldArray(data)


def _in_floats(function: Callable[..., Any], operands: Sequence[Array]) -> Array:
    """Apply a function of whole numbers to each sample, using floats because they are faster."""
    return by_sample(function, [o.astype(np.float64) for o in operands]).astype(np.int64)


def _residue_product(product: Callable[..., Array], operands: Sequence[FieldArray], row: int) -> Array:
    modulus = (ff.P, ff.Q)[row]
    residues = [o.data[row] for o in operands]
    if len(residues) > 2:  # products of three residues exceed 64 bits
        return np.asarray(product([r.astype(object) for r in residues]) % modulus, np.int64)
    return product(residues) % modulus


def by_sample(function: Callable[..., Any], operands: Sequence[Array]) -> Array:
    """Apply a function to each sample of its operands."""
    rank = max(o.ndim for o in operands)
    if function is np.matmul and min(o.ndim for o in operands) > MATRIX_RANK:
        return np.matmul(*(o.reshape(len(o), *(1,) * (rank - o.ndim), *o.shape[1:]) for o in operands))
    samples = max(len(o) for o in operands)
    return np.stack([np.asarray(function(*(o[min(s, len(o) - 1)] for o in operands))) for s in range(samples)])


def _sign(floats: Sequence[Any], operands: Sequence[FieldArray]) -> FieldArray:
    signs = np.sign(np.asarray(floats[0]))
    return lift(signs).with_rows(region=ff.mixed(signs.astype(np.int64) + 2, 4))


def _tanh(a: FieldArray) -> FieldArray:
    e = ff.exp(ff.multiply(TWO, a))
    return ff.divide(ff.subtract(e, ONE), ff.add(e, ONE))


def _log1p(a: FieldArray) -> FieldArray:
    return ff.log(ff.add(a, ONE))


UNARY: Mapping[str, Callable[[FieldArray], FieldArray]] = {
    "negative": ff.negative,
    "positive": lambda a: a,
    "exp": ff.exp,
    "expm1": lambda a: ff.subtract(ff.exp(a), ONE),
    "log": ff.log,
    "log1p": _log1p,
    "sqrt": ff.sqrt,
    "square": lambda a: ff.multiply(a, a),
    "reciprocal": lambda a: ff.divide(ONE, a),
    "tanh": _tanh,
    "sinh": lambda a: ff.divide(ff.subtract(ff.exp(a), ff.exp(ff.negative(a))), TWO),
    "cosh": lambda a: ff.divide(ff.add(ff.exp(a), ff.exp(ff.negative(a))), TWO),
}
BINARY: Mapping[str, Callable[[FieldArray, FieldArray], FieldArray | None]] = {
    "add": ff.add,
    "subtract": ff.subtract,
    "multiply": ff.multiply,
    "divide": ff.divide,
    "true_divide": ff.divide,
    "matmul": _matmul,
    "logaddexp": lambda a, b: ff.log(ff.add(ff.exp(a), ff.exp(b))),
}
BY_NUMBERS: Mapping[str, Callable[..., FieldArray]] = {
    "absolute": _absolute,
    "fabs": _absolute,
    "maximum": _chosen(np.greater_equal),
    "minimum": _chosen(np.less_equal),
    "fmax": _chosen(np.greater_equal),
    "fmin": _chosen(np.less_equal),
    "power": _power,
    "float_power": _power,
    "sign": _sign,
}
REDUCTIONS: Mapping[Any, Any] = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}


def apply_function(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function of NumPy; one that is not listed returns plain numbers."""
    if func in FUNCTIONS:
        return FUNCTIONS[func](*args, **kwargs)
    if func in OF_SHAPES:
        return func(plain(args[0]), *args[1:], **kwargs)
    if func in MOVEMENTS:
        return rearranging(func, args, kwargs)
    with losing_what_is_written((args, kwargs)):
        return func(*map(plain, args), **plain_options(kwargs))


def rearranging(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function that moves elements; for a common one, without computing its positions."""
    if func in KEEPING_ORDER and isinstance(args[0], ShadowArray):
        floats = func(plain(args[0]), *args[1:], **kwargs)
        return rearranged(args[0], floats, lambda data: data.reshape(*data.shape[:2], *floats.shape))
    if func in REORDERING and isinstance(args[0], ShadowArray):
        order = func(np.empty(range(args[0].ndim)), *args[1:], **kwargs).shape  # each extent says which axis it was
        return rearranged(
            args[0], plain(args[0]).transpose(order), lambda data: data.transpose(0, 1, *(a + 2 for a in order))
        )
    if func in JOINING and isinstance(args[0], list | tuple):
        return _joined(func, *args, **kwargs)
    return by_places(func, args, kwargs)


KEEPING_ORDER: frozenset[Any] = frozenset({np.reshape, np.ravel, np.expand_dims, np.squeeze})
REORDERING: frozenset[Any] = frozenset({np.transpose, np.swapaxes, np.moveaxis, np.rollaxis})
JOINING: frozenset[Any] = frozenset({np.concatenate, np.stack})
OF_SHAPES: frozenset[Any] = frozenset({np.shape, np.size, np.ndim})


def _joined(func: Any, arrays: Sequence[Any], axis: int = 0, **options: Any) -> Any:
    floats = func(plain(list(arrays)), axis=axis, **options)
    fields = [field_of(a) for a in arrays]
    known = [f for f in fields if f is not None]
    if not is_float(floats) or len(known) < len(fields):
        return floats
    samples = ff.most_samples(known)
    data = func([f.broadcast_to(f.shape, samples).data for f in known], axis=axis % floats.ndim + 2)
    return shadowed(floats, FieldArray(data))


def by_places(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function that moves elements, applied to their positions in a flat array; 0 is the zero."""
    floats = func(*map(plain, args), **plain_options(kwargs))
    pool = [ZERO]
    count = 1

    def placed(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list | tuple):
            return type(value)(placed(v) for v in value)  # type: ignore[reportUnknownVariableType]
        if not is_float(value):
            return value
        field = field_of(value)
        if field is None:
            raise LostError
        places = cast("Any", np.arange(count, count + field.size)).reshape(field.shape)
        pool.append(field)
        count += places.size
        return places

    try:
        found = func(*map(placed, args), **{k: placed(v) for k, v in kwargs.items()})
    except LostError:
        return floats
    elements = pooled(pool)
    if isinstance(found, list | tuple):
        return [shadowed(f, elements.take(np.asarray(p))) for f, p in zip(floats, found, strict=True)]  # type: ignore[reportUnknownArgumentType]
    return shadowed(floats, elements.take(np.asarray(found)))


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    listed = cast("Sequence[int]", axis if isinstance(axis, tuple | list) else (axis,))
    return tuple(int(a) % rank for a in listed)


def _merged(data: Array, axes: Sequence[int]) -> Array:
    """The data of an array with the reduced axes merged into the first one."""
    shifted = np.moveaxis(data, [a + 2 for a in axes], range(2, 2 + len(axes)))
    count = math.prod(data.shape[a + 2] for a in axes)
    return shifted.reshape(*data.shape[:2], count, *shifted.shape[2 + len(axes) :])


Reduction = Callable[[FieldArray, Array], FieldArray]


def _reduction(function: Any, fold: Reduction) -> Callable[..., Any]:
    """Combine a reduction of floats with a fold of field elements over the first axis."""

    def reduced(
        x: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        **_: Any,
    ) -> Any:
        options: dict[str, Any] = {} if initial is None else {"initial": initial}
        options |= {} if dtype is None else {"dtype": dtype}
        floats = function(plain(x), axis=axis, keepdims=keepdims, **options)
        field = field_of(x)
        axes = _axes(axis, np.ndim(x))
        if field is None or not is_float(floats) or 0 in np.shape(x):
            return floats
        if not axes:
            return shadowed(floats, field)
        numbers = plain(x)
        moved = np.moveaxis(numbers, axes, range(len(axes)))
        moved = moved.reshape(-1, *moved.shape[len(axes) :])
        parts = FieldArray(_merged(field.data, axes))
        found = _folded_by_name(function.__name__, parts) if BY_NAME.get() else fold(parts, moved)
        return shadowed(floats, FieldArray(found.data.reshape(*found.data.shape[:2], *np.shape(floats))))

    return reduced


def _folded_by_name(name: str, x: FieldArray) -> FieldArray:
    """A reduction over the first axis of which only the name, and the number and order of elements, are known."""
    if x.shape[0] > MAX_NAMED_FOLD:
        raise NotApplicable(f"{x.shape[0]} elements of a {name} are too many to compare one by one")
    parts = [FieldArray(x.data[:, :, i]) for i in range(x.shape[0])]
    found = reduce(partial(ff.apply_function, name), parts)
    return ff.apply_function(f"{name} of {len(parts)}", found)


def _sum(x: FieldArray, _: Array) -> FieldArray:
    data = np.zeros((*x.data.shape[:2], *x.shape[1:]), np.int64)
    for row, modulus in ((ff.MODULUS, ff.P), (ff.EXPONENT, ff.Q)):
        data[row] = x.data[row].sum(axis=1) % modulus
        data[ff.HAS_MODULUS + row] = x.data[ff.HAS_MODULUS + row].all(axis=1)
    data[ff.HAS_EXPONENT] |= 1 - data[ff.HAS_MODULUS]
    data[ff.UNDEFINED] = x.data[ff.UNDEFINED].any(axis=1)
    data[ff.REGION] = _regions(x)
    return FieldArray(data)


def _regions(x: FieldArray) -> Array:
    """The regions of the results of a reduction over the first axis."""
    regions = x.data[ff.REGION]
    if not regions.any():
        return regions[:, 0]
    with np.errstate(over="ignore"):
        total = ff.mixed(regions, 6).sum(axis=1)
    return ff.mixed(total, 6)


def _mean(x: FieldArray, numbers: Array) -> FieldArray:
    return ff.divide(_sum(x, numbers), lift(np.array(x.shape[0])))


def _product(x: FieldArray, _: Array) -> FieldArray:
    return reduce(ff.multiply, (FieldArray(x.data[:, :, i]) for i in range(x.shape[0])))


def _extreme(position: Callable[..., Any]) -> Reduction:
    def fold(x: FieldArray, numbers: Array) -> FieldArray:
        at = position(numbers, axis=0)
        places = np.broadcast_to(at, (*x.data.shape[:2], 1, *at.shape))
        found = FieldArray(np.take_along_axis(x.data, places, axis=2)[:, :, 0])
        if x.shape[0] == 1:
            return found
        regions = found.data[ff.REGION]
        return found.with_rows(region=ff.mixed(regions + at + 1, 2))

    return fold


def _cumulation(function: Any, combine: Callable[[FieldArray, FieldArray], FieldArray]) -> Callable[..., Any]:
    def cumulated(x: Any, axis: int | None = None, dtype: Any = None, **_: Any) -> Any:
        floats = function(plain(x), axis=axis, dtype=dtype)
        field = field_of(x)
        if field is None or not is_float(floats) or axis is None or np.size(x) == 0:
            return floats
        rows = np.moveaxis(field.data, axis % np.ndim(x) + 2, 2)
        parts = [FieldArray(rows[:, :, 0])]
        join = partial(named, combine.__name__) if BY_NAME.get() else combine
        for i in range(1, rows.shape[2]):
            parts.append(join(parts[-1], FieldArray(rows[:, :, i])))
        stacked = np.stack([p.data for p in parts], axis=2)
        return shadowed(floats, FieldArray(np.moveaxis(stacked, 2, axis % np.ndim(x) + 2)))

    return cumulated


def _where(condition: Any, *branches: Any) -> Any:
    floats = cast("Array", np.where(plain(condition), *map(plain, branches)))
    fields = [field_of(b) for b in branches]
    if not branches or not is_float(floats) or any(f is None for f in fields):
        return floats
    first, second = (f for f in fields if f is not None)
    return shadowed(floats, ff.select(np.asarray(plain(condition), np.bool_), first, second))


def _multilinear(function: Callable[..., Any], *operands: Any, terms: int = MAX_TERMS + 1) -> Any:
    """The result of a function that is linear in each operand."""
    floats = function(*map(plain, operands))
    fields = [f for f in map(field_of, operands) if f is not None]
    return kept(floats, bilinear(function, *fields, terms=terms) if len(fields) == len(operands) else None)


def kept(floats: Any, field: FieldArray | None) -> Any:
    """A result with its field elements, if there are any."""
    return floats if field is None else shadowed(floats, field)


def _einsum(equation: str, *operands: Any, **_: Any) -> Any:
    return _multilinear(partial(np.einsum, equation), *operands)


def _dot(a: Any, b: Any, *_: Any) -> Any:
    return _multilinear(np.dot, a, b, terms=np.shape(a)[-1] if np.ndim(a) else 1)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    return _multilinear(partial(np.tensordot, axes=axes), a, b)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002 - as in NumPy
    if ord == 1 and axis is not None:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    if ord not in (None, 2):
        return np.linalg.norm(plain(x), ord, axis, keepdims)
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def _full_like(x: Any, value: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
    floats = np.full_like(plain(x), plain(value), dtype=dtype, shape=shape)
    field = field_of(value)
    if field is None or not is_float(floats):
        return floats
    return shadowed(floats, field.broadcast_to(floats.shape))


def _filled_like(value: float) -> Callable[..., Any]:
    def filled(x: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
        return _full_like(x, value, dtype, shape)

    return filled


def _copy(x: Any, **_: Any) -> Any:
    return x.copy()


def _broadcast_to(x: Any, shape: Any, **_: Any) -> Any:
    floats = cast("Array", np.broadcast_to(plain(x), shape))
    field = field_of(x)
    return kept(floats, None if field is None else field.broadcast_to(floats.shape))


def _by_axis(function: Any, default: int | None = None) -> Callable[..., Any]:
    """A function that moves elements along an axis given by its second argument."""

    def moved_along(x: Any, at: Any, axis: Any = default, **options: Any) -> Any:
        if not isinstance(x, ShadowArray) or x.field is None or axis is None:
            return by_places(function, (x, at), {"axis": axis, **options})
        floats: Any = function(plain(x), at, axis=axis, **options)
        data: Any = function(x.field.data, at, axis=axis % x.ndim + 2, **options)
        if isinstance(floats, np.ndarray):
            return shadowed(floats, FieldArray(data))
        return [shadowed(f, FieldArray(d)) for f, d in zip(floats, data, strict=True)]

    return moved_along


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.sum: _reduction(np.sum, _sum),
    np.mean: _reduction(np.mean, _mean),
    np.prod: _reduction(np.prod, _product),
    np.max: _reduction(np.max, _extreme(np.argmax)),
    np.min: _reduction(np.min, _extreme(np.argmin)),
    np.cumsum: _cumulation(np.cumsum, ff.add),
    np.cumprod: _cumulation(np.cumprod, ff.multiply),
    np.where: _where,
    np.einsum: _einsum,
    np.dot: _dot,
    np.tensordot: _tensordot,
    np.linalg.norm: _norm,
    **FORMULAS,
    np.full_like: _full_like,
    np.zeros_like: _filled_like(0.0),
    np.ones_like: _filled_like(1.0),
    np.copy: _copy,
    np.broadcast_to: _broadcast_to,
    np.take: _by_axis(np.take),
    np.repeat: _by_axis(np.repeat),
    np.split: _by_axis(np.split, 0),
    np.array_split: _by_axis(np.array_split, 0),
}
MOVEMENTS: frozenset[Any] = frozenset({
    np.transpose, np.reshape, np.ravel, np.concatenate, np.stack, np.take_along_axis, np.expand_dims,
    np.squeeze, np.broadcast_arrays, np.tile, np.flip, np.moveaxis, np.swapaxes,
    np.pad, np.roll, np.delete, np.tril, np.triu, np.append, np.rollaxis, np.diagonal, np.atleast_1d,
    np.atleast_2d, np.hstack, np.vstack, np.dstack, np.rot90, np.fliplr, np.flipud, np.diag,
})  # fmt: skip


def shadow_of(numbers: Array, seed: int = 0) -> ShadowArray:
    """A constant with its field elements from `finite_field_constants.lift`."""
    return shadowed(numbers, lift(numbers, seed, is_held=True))


ShadowArray.on_ufunc = staticmethod(apply_ufunc)
ShadowArray.on_function = staticmethod(apply_function)
