"""Inputs made up for a model: several kinds of numbers at several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .signature import Input, Sizes, extent, symbols

Array = np.ndarray[Any, Any]

KINDS = ("normal", "negative", "large", "zeros", "ties")
SIZES = (2, 4, 8, 16, 32, 64, 128, 224, 256, 512)  # tried in turn until the model accepts one for all its symbols
MOST_ELEMENTS = 1 << 23  # larger inputs are not tried; a model that needs them wants inputs of its own
TIES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs: `kind` says how the numbers were made, `sizes` what the symbolic dims are."""

    kind: str
    sizes: Sizes = field(default_factory=dict[str, int])
    feeds: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.kind} inputs" + (f" with {sizes}" if sizes else "")


def size_plans(inputs: list[Input], fixed: Sizes) -> Iterator[Sizes]:
    """Sizes for the symbolic dims: all different first, since equal ones hide a mixed-up axis; then uniform ones."""
    free = [s for s in symbols(inputs) if s not in fixed]
    if not free:
        yield dict(fixed)
        return
    distinct = {s: i + 2 for i, s in enumerate(free)} | fixed
    plans = [distinct, *(dict.fromkeys(free, size) | fixed for size in SIZES[:4])]
    for total, a, b in permutations(free, 3):  # such as the length of a mask over past and present
        if free.index(a) < free.index(b):
            plans.append(distinct | {a: 2, b: 3, total: 5})
    plans += (dict.fromkeys(free, size) | fixed for size in SIZES[4:])
    yield from (plan for plan in plans if elements(inputs, plan) <= MOST_ELEMENTS or plan is distinct)


def elements(inputs: list[Input], sizes: Sizes) -> int:
    """How many numbers the inputs have at those sizes."""
    return sum(prod(extent(d, sizes) for d in i.shape) for i in inputs)


def with_ones(inputs: list[Input], base: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """Plans in which symbols are 1: all together, then each alone."""
    free = [s for s in symbols(inputs) if s not in fixed]
    if free:
        yield base | dict.fromkeys(free, 1)
    for s in free if len(free) > 1 else ():
        yield base | {s: 1}
        for total, a, b in permutations(free, 3):
            if free.index(a) < free.index(b) and s in {a, b} and base[total] == base[a] + base[b]:
                plan = base | {s: 1}
                yield plan | {total: plan[a] + plan[b]}


def candidates(inputs: list[Input], kind: str, sizes: Sizes, seed: tuple[int, ...]) -> Iterator[Draw]:
    """Draws of one kind at given sizes, the best first, tamer ones after it should the model reject it."""
    for tameness in range(4 if any(i.dtype in INTEGERS or i.default is not None for i in inputs) else 1):
        rng = np.random.default_rng([*seed, tameness])
        feeds = {i.name: _input(i, kind, sizes, rng, tameness) for i in inputs if i.default is None or not tameness}
        yield Draw(kind, sizes, {k: v for k, v in feeds.items() if v is not None})


INTEGERS = frozenset(
    onnx.TensorProto.DataType.Value(n)
    for n in ("INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8", "UINT16", "UINT32", "UINT64")
)


def _input(i: Input, kind: str, sizes: Sizes, rng: np.random.Generator, tameness: int) -> Any:
    if i.default is not None:
        return _override(i.default.array, kind)
    shape = tuple(extent(d, sizes) for d in i.shape)
    if i.form == "sequence":
        return [_array(i, shape, kind, sizes, rng, tameness) for _ in range(2)]
    return _array(i, shape, kind, sizes, rng, tameness)


def _override(default: Array, kind: str) -> Array | None:
    """What an overridable initializer is set to; None leaves its default, as most callers do."""
    if kind != "negative" or default.dtype.kind != "f":
        return None
    return (default * default.dtype.type(1.5) + default.dtype.type(0.125)).astype(default.dtype)


def _array(i: Input, shape: tuple[int, ...], kind: str, sizes: Sizes, rng: np.random.Generator, tameness: int) -> Array:
    if i.dtype == onnx.TensorProto.STRING:
        words = [*i.role.words, *([] if tameness else ["passwright", ""])] or ["a"]
        return rng.choice(np.array(words, object), shape)
    dtype = helper.tensor_dtype_to_np_dtype(i.dtype)
    if i.dtype == onnx.TensorProto.BOOL:
        return {"zeros": np.zeros(shape, np.bool_), "negative": np.ones(shape, np.bool_)}.get(
            kind, rng.integers(0, 2, shape).astype(np.bool_)
        )
    if i.dtype in INTEGERS:
        low, high = _range(i, kind, sizes, tameness)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    if dtype.kind == "c":
        return (_floats(kind, shape, rng) + 1j * _floats(kind, shape, rng)).astype(dtype)
    return np.asarray(_floats(kind, shape, rng, 100.0 if dtype.itemsize < 4 else 1000.0)).astype(dtype)


def _floats(kind: str, shape: tuple[int, ...], rng: np.random.Generator, scale: float = 1000.0) -> Array:
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "ties":
        return rng.choice(TIES, shape)
    normal = np.asarray(rng.standard_normal(shape))
    return normal - 3.0 if kind == "negative" else normal * scale if kind == "large" else normal


def _range(i: Input, kind: str, sizes: Sizes, tameness: int) -> tuple[int, int]:
    """The least and greatest integer to draw. Tamer attempts take 0 and 1, then one of them alone."""
    if tameness:
        return ((0, 1), (0, 0), (1, 1))[tameness - 1]
    if i.role.kind == "index":
        bound = extent(i.role.bound, sizes) if i.role.bound is not None else 1
        top = max(bound - 1, 0)
        return {"zeros": (0, 0), "large": (top, top), "ties": (0, min(1, top))}.get(kind, (0, top))
    if i.role.kind == "extent":
        return {"zeros": (1, 1), "large": (2, 3)}.get(kind, (1, 2))
    if i.role.kind == "truth":
        return {"zeros": (0, 0), "large": (1, 1)}.get(kind, (0, 1))
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(i.dtype)) if "INT4" not in _type_name(i.dtype) else None
    least, most = (int(limits.min), int(limits.max)) if limits is not None else (0, 7)
    ranges = {"normal": (0, 10), "negative": (-10, -1), "large": (100, 1000), "zeros": (0, 0), "ties": (0, 1)}
    low, high = (0, 255) if i.dtype == onnx.TensorProto.UINT8 and kind == "normal" else ranges[kind]
    return max(low, least) if least < 0 else abs(low) if kind != "negative" else 1, min(
        abs(high) if least == 0 else high, most
    )


def _type_name(dtype: int) -> str:
    return onnx.TensorProto.DataType.Name(dtype)
