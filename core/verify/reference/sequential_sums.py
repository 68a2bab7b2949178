"""Arrays of float64 whose sums are added term by term in the type that the model declares, in any order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod, sqrt
from typing import Any, cast

import numpy as np

from ...operators.element_types import NUMPY_DTYPES, WIDENED, Array
from ..noise import NOISE_MULTIPLE

MAX_BLOCKS = 32  # of the terms of a product of matrices; each block is computed exactly, and the blocks are added
CHUNK_ELEMENTS = 1 << 22  # elements that are added in one call
EQUATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?")  # of einsum, without an ellipsis
KEEPS_ADDITIONS = frozenset({
    np.multiply, np.divide, np.negative, np.positive, np.absolute, np.square, np.sqrt, np.exp, np.log,
})  # fmt: skip
"""Functions of a sum that another sum may invert, such as a norm of norms, which is the norm of all."""


class SequentialSums(np.ndarray[Any, Any]):
    """Float64 numbers whose sums round to `precision` at each addition; for 16-bit floats to 32 bits, as in kernels.

    `seed` chooses one of many orders of a sum; the first seeds start at either end. A number may itself be a sum,
    unless it was broadcast over an axis since. It represents the `additions` of as many numbers of its own size, or
    more if its addends cancel. A sum of such numbers is moved by the most that it may round if these additions are part
    of it: half an epsilon of each partial sum (Higham 2002, Accuracy and Stability of Numerical Algorithms, 4.2).
    Because 8 times the change is allowed, it is moved by an eighth of that.
    """

    precision: np.dtype[Any]
    seed: int
    additions: float

    @classmethod
    def of(cls, array: Array, element_type: int, seed: int) -> Array:
        """The numbers of a value of an element type if they are evaluated as float64; other arrays do not change."""
        if array.dtype not in WIDENED:
            return array
        found = array.view(cls)
        declared = NUMPY_DTYPES.get(element_type, np.dtype(np.float32))
        found.precision, found.seed = max(declared, np.dtype(np.float32), key=lambda t: t.itemsize), seed
        return found

    def __array_finalize__(self, source: Any) -> None:
        """Copy what is known about the array from which this one is made."""
        self.precision = getattr(source, "precision", np.dtype(np.float32))
        self.seed, self.additions = getattr(source, "seed", 0), getattr(source, "additions", 1)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Compute a function of numbers, or a sum in order."""
        if method == "at":
            target, places, *updates = inputs
            return ufunc.at(_plain(target), places, *map(_plain, updates))
        arrays, additions = [_plain(x) for x in inputs], [getattr(x, "additions", 1) for x in inputs]
        is_plain = options.get("where", True) is True and all(a.dtype == np.float64 for a in arrays)
        summed = self._sum(ufunc, method, arrays, additions, options) if is_plain else None
        targets = [None if t is None else _plain(t) for t in out or ()]
        if summed is None:
            found = getattr(ufunc, method)(*arrays, **options, **({"out": tuple(targets)} if targets else {}))
            own = max(additions) if ufunc in KEEPS_ADDITIONS else 1
        else:
            found, own = summed
            if targets and targets[0] is not None:
                targets[0][...] = found
                found = targets[0]
        if isinstance(found, tuple):
            return tuple(self._like(f, 1) for f in cast("tuple[Any, ...]", found))
        is_spread = method == "__call__" and any(
            n > 1 and a.shape != found.shape for a, n in zip(arrays, additions, strict=True)
        )
        return self._like(found, 1 if is_spread else own)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute an einsum in order, and other functions by the ufuncs that they use, or directly."""
        if function is np.einsum and EQUATION.fullmatch(args[0]):
            return self._like(self._einsum(args[0], [_plain(x) for x in args[1:]]), 1)
        found = super().__array_function__(function, types, args, kwargs)
        return self._like(found, 1) if type(found) is np.ndarray else found

    def _like(self, array: Any, additions: float) -> Any:
        """An array of float64 in the same order; other arrays, such as conditions, do not change."""
        if array is None or np.asarray(array).dtype != np.float64:
            return array
        found = np.asarray(array).view(SequentialSums)
        found.precision, found.seed, found.additions = self.precision, self.seed, additions
        return found

    def _sum(
        self, ufunc: Any, method: str, arrays: Sequence[Array], additions: Sequence[float], options: dict[str, Any]
    ) -> tuple[Array, float] | None:
        """A sum and its additions; None for what is none."""
        narrow = (a.astype(self.precision) for a in arrays)
        match ufunc.__name__, method:
            case "add" | "subtract", "__call__":
                exact = np.asarray(ufunc(*arrays))
                return self._merged(exact, ufunc(*narrow), np.abs(exact), min(additions)), sum(additions)
            case "matmul", "__call__":
                return self._product(*arrays), 1
            case "add", "reduce" if "initial" not in options and arrays[0].size:
                return self._reduced(arrays[0], additions[0], options)
            case "add", "accumulate":
                axis = options.get("axis", 0)
                exact, rounded = (np.add.accumulate(x, axis=axis, dtype=x.dtype) for x in (arrays[0], *narrow))
                partial_sums = np.add.accumulate(np.abs(exact), axis=axis)
                return self._merged(exact, rounded, partial_sums, additions[0]), additions[0] * exact.shape[
                    axis
                ] * _cancellation(np.abs(arrays[0]).sum(axis), exact)
            case _:
                return None

    def _reduced(self, x: Array, additions: float, options: dict[str, Any]) -> tuple[Array, float]:
        """The sum over axes, and its additions."""
        exact = np.asarray(np.add.reduce(x, **options))
        axis = options.get("axis", 0)
        axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis).tolist()]
        moved = np.moveaxis(x, tuple(axes), range(len(axes)))
        rows = moved.reshape(prod(moved.shape[: len(axes)]), -1)
        total, partial_sums = np.zeros(rows.shape[1], self.precision), np.zeros(rows.shape[1])
        step, order = max(CHUNK_ELEMENTS // rows.shape[1], 1), self._order(len(rows))
        for start in range(0, len(rows), step):
            chunk = rows[order[start : start + step]].astype(self.precision)
            totals = np.add.accumulate(np.concatenate([total[None], chunk]), axis=0, dtype=self.precision)
            total = totals[-1]
            partial_sums += np.abs(totals[1:]).sum(axis=0, dtype=np.float64)
        total, partial_sums = total.reshape(exact.shape), partial_sums.reshape(exact.shape)
        more = len(rows) * _cancellation(np.abs(x).sum(tuple(axes)), exact)
        return self._merged(exact, total, partial_sums, additions), additions * more

    def _merged(self, exact: Array, rounded: Array, partial_sums: Array, additions: float) -> Array:
        """A sum that rounds like one of all `additions`: up, down, or in any direction."""
        error = _error(exact, rounded)
        if additions == 1:
            return exact + error
        most = float(np.finfo(self.precision).eps) / 2 * additions * partial_sums / NOISE_MULTIPLE
        rng = np.random.default_rng(self.seed)
        return exact + (rng.choice((-1, 1), exact.shape) if self.seed > 1 else 1 - 2 * self.seed) * np.maximum(
            np.abs(error), most
        )

    def _product(self, a: Array, b: Array) -> Array:
        """A product of matrices, added in blocks."""
        blocks = self._blocks(a.shape[-1])
        parts = (np.matmul(a[..., at], b[at] if b.ndim == 1 else b[..., at, :]) for at in blocks)
        return self._added(np.asarray(np.matmul(a, b)), parts, a.shape[-1])

    def _einsum(self, equation: str, arrays: Sequence[Array]) -> Array:
        """A sum of products, added in blocks of the longest of its axes."""
        exact = np.asarray(np.einsum(equation, *arrays, optimize=True))
        terms, arrow, result = equation.partition("->")
        labels = terms.split(",")
        extents = {n: d for term, x in zip(labels, arrays, strict=True) for n, d in zip(term, x.shape, strict=True)}
        kept = set(result) if arrow else {n for n in extents if terms.count(n) == 1}
        summed = {n: d for n, d in extents.items() if n not in kept}
        if not summed:
            return exact
        longest = max(summed, key=summed.__getitem__)

        def part(at: Array) -> Array:
            taken = list(arrays)
            for i, term in enumerate(labels):
                for axis in (axis for axis, label in enumerate(term) if label == longest):
                    taken[i] = np.take(taken[i], at, axis)
            return np.asarray(np.einsum(equation, *taken, optimize=True))

        return self._added(exact, map(part, self._blocks(summed[longest])), prod(summed.values()))

    def _added(self, exact: Array, parts: Iterator[Array], count: int) -> Array:
        """A sum of parts of `count` products; random rounding errors grow with the square root of their number."""
        total = np.zeros(exact.shape, self.precision)
        for part in parts:
            total += part.astype(self.precision)
        return exact + sqrt(-(-count // MAX_BLOCKS)) * _error(exact, total)

    def _blocks(self, count: int) -> Iterator[Array]:
        yield from np.array_split(self._order(count), min(count, MAX_BLOCKS)) if count else ()

    def _order(self, count: int) -> Array:
        """The order in which terms are added."""
        if self.seed < 2:
            return np.arange(count)[:: 1 - 2 * self.seed]
        return np.random.default_rng([self.seed, count]).permutation(count)


def _cancellation(magnitudes: Array, total: Array) -> float:
    """The ratio of the magnitudes of addends to their sums, at the largest ones."""
    most, least = float(magnitudes.max(initial=0.0)), float(np.abs(total).max(initial=0.0))
    return most / least if least and np.isfinite(most) else 1.0


def _error(exact: Array, rounded: Array) -> Array:
    """The rounding errors of a sum; 0 where it is not finite."""
    errors = rounded.astype(np.float64) - exact
    return np.where(np.isfinite(errors), errors, 0.0)


def _plain(x: Any) -> Array:
    return np.asarray(x).view(np.ndarray)
