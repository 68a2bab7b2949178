"""Inputs made up for a model: several kinds of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from .dims import Sizes, extent
from .signature import SEQUENCE, Input

Array = np.ndarray[Any, Any]

KINDS = ("normal", "negative", "large", "zeros", "ties")
TIES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
INTEGERS = frozenset(t for name, t in onnx.TensorProto.DataType.items() if re.fullmatch(r"U?INT\d+", name))


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs: `kind` says how the numbers were made, `sizes` what the symbolic dims are."""

    kind: str
    sizes: Sizes = field(default_factory=dict[str, int])
    feeds: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.kind} inputs" + (f" with {sizes}" if sizes else "")


def candidates(inputs: list[Input], kind: str, sizes: Sizes, seed: tuple[int, ...]) -> Iterator[Draw]:
    """Draws of one kind at given sizes, the best first, tamer ones after it should the model reject it."""
    for tameness in range(4 if any(i.dtype in INTEGERS or i.default is not None for i in inputs) else 1):
        rng = np.random.default_rng([*seed, tameness])
        feeds = {i.name: _input(i, kind, sizes, rng, tameness) for i in inputs if i.default is None or not tameness}
        yield Draw(kind, sizes, {k: v for k, v in feeds.items() if v is not None})


def _input(i: Input, kind: str, sizes: Sizes, rng: np.random.Generator, tameness: int) -> Any:
    if i.default is not None:
        return _override(i.default.array, kind)
    shape = tuple(extent(d, sizes) for d in i.shape)
    if i.form == SEQUENCE:
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
    with np.errstate(all="ignore"):  # a type of 4 or 8 bits may not reach as far
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
        top = min(max(bound - 1, 0), _limits(i.dtype)[1])
        return {"zeros": (0, 0), "large": (top, top), "ties": (0, min(1, top))}.get(kind, (0, top))
    if i.role.kind == "extent":
        return {"zeros": (1, 1), "large": (2, 3)}.get(kind, (1, 2))
    if i.role.kind == "truth":
        return {"zeros": (0, 0), "large": (1, 1)}.get(kind, (0, 1))
    return _free_range(i.dtype, kind)


def _free_range(dtype: int, kind: str) -> tuple[int, int]:
    """As far as the type goes; an unsigned type has numbers up to 255 in place of negative ones."""
    least, most = _limits(dtype)
    low, high = {"normal": (0, 10), "negative": (-10, -1), "zeros": (0, 0), "ties": (0, 1)}.get(kind, (100, 1000))
    if dtype == onnx.TensorProto.UINT8 and kind == "normal":
        return 0, 255
    if kind == "negative" and least == 0:
        return max(min(most, 255) - 9, 1), min(most, 255)
    return max(min(low, most // 2 + 1), least), min(high, most)


def _limits(dtype: int) -> tuple[int, int]:
    info = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return int(info.min), int(info.max)
