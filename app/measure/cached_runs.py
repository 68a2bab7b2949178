"""Runs of language models with a cache: prefill and decode of a text as one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from onnx import TensorProto, helper

from ...core.errors import ModelError
from ...core.ir.dtypes import FLOATS
from ...core.ir.tensor import dims_text
from ...core.verify.input_specs import TENSOR, InputSpec
from ...core.verify.sample_rows import batch_symbol
from ...core.verify.seeded_session import Session

Array = np.ndarray[Any, Any]
INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})
CACHE_TYPES = FLOATS | {TensorProto.INT8}
PAST, PRESENT = "past", "present"


class TokenCache(Struct, frozen=True):
    """The inputs of a language model: `tokens`, the `past` of its cache with the growing axes, and dependent inputs.

    `mask` has a number for each token so far, and `positions` one for each token of a run; "" if absent.
    """

    tokens: InputSpec
    past: Mapping[str, int]
    mask: str = ""
    positions: str = ""

    @classmethod
    def of(cls, inputs: Sequence[InputSpec], given: Mapping[str, Array]) -> TokenCache | None:
        """The cache of a model whose past is not among the `given` arrays; None for other models."""
        axes = {i.name: _growing_axis(i, inputs) for i in inputs if i.name not in given and _is_past(i)}
        rows = [i for i in inputs if i.dtype in INTEGERS and len(i.shape) == 2 and i.default is None]
        mask = next((i.name for i in rows if "mask" in i.name), "")
        positions = next((i.name for i in rows if "position" in i.name), "")
        tokens = next((i for i in rows if i.name in given and i.name not in {mask, positions}), None)
        past = {name: axis for name, axis in axes.items() if axis is not None}
        return cls(tokens, past, mask, positions) if tokens is not None and past else None

    def complete(self, inputs: Sequence[InputSpec], arrays: Mapping[str, Array], source: str) -> dict[str, Array]:
        """Add an empty past, a mask of all tokens, and positions from 0.

        Raises ModelError, which names the `source`, unless each row has tokens, and masks and positions have their
        shape.
        """
        found = dict(arrays)
        for name in (n for n in (self.tokens.name, self.mask, self.positions) if n in arrays):
            shape, tokens = np.shape(arrays[name]), np.shape(arrays[self.tokens.name])
            if len(shape) != 2 or not shape[1] or shape != tokens:
                needed = f"the shape of the tokens, {dims_text(tokens)}"
                needed = "rows of one token or more" if shape == tokens else needed
                raise ModelError(f"{source}: {name} has shape {dims_text(shape)}; it needs {needed}")
        rows, length = np.shape(arrays[self.tokens.name])
        symbol = batch_symbol(inputs)
        for i in inputs:
            dtype = helper.tensor_dtype_to_np_dtype(i.dtype) if i.type_kind == TENSOR else None
            if i.name in self.past:
                shape = [
                    0 if n == self.past[i.name] else rows if d == symbol else int(d) for n, d in enumerate(i.shape)
                ]
                found[i.name] = np.zeros(shape, dtype)
            elif i.name == self.mask:
                found.setdefault(i.name, np.ones((rows, length), dtype))
            elif i.name == self.positions:
                found.setdefault(i.name, np.tile(np.arange(length, dtype=dtype), (rows, 1)))
        return found


def _is_past(spec: InputSpec) -> bool:
    is_cache = PAST in spec.name.lower() and len(spec.shape) == 4
    return is_cache and spec.type_kind == TENSOR and spec.default is None and spec.dtype in CACHE_TYPES


def _growing_axis(spec: InputSpec, inputs: Sequence[InputSpec]) -> int | None:
    """The only symbolic axis besides the batch."""
    symbol = batch_symbol(inputs)
    axes = [n for n, d in enumerate(spec.shape) if isinstance(d, str) and d != symbol]
    return axes[0] if len(axes) == 1 else None


def present_name(past: str) -> str:
    """The name of the output that becomes this input of the past in the next run."""
    return past.replace("past_key_values", PRESENT).replace(PAST, PRESENT)


class CachedSession(Struct, frozen=True):
    """A session that runs the tokens of rows in parts: the first half at once, then one token at a time with the cache.

    Outputs with a row for each token are joined from all parts; others come from the last part.
    """

    session: Session
    cache: TokenCache

    @property
    def name(self) -> str:
        """The name of the session's backend."""
        return self.session.name

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Any], timeout: float | None = None) -> list[Any]:
        """The outputs with these names. Raises EvaluationError if the model does not run."""
        cache, tokens = self.cache, feeds[self.cache.tokens.name]
        length = tokens.shape[1]
        first = 1 if cache.tokens.shape[1] == 1 else max(1, length // 2)
        starts = [0, *range(first, length)]
        past = {name: feeds[name] for name in cache.past}
        parts: list[list[Any]] = []
        for start, end in zip(starts, [*starts[1:], length], strict=True):
            part = {**feeds, **past, cache.tokens.name: tokens[:, start:end]}
            if cache.mask:
                part[cache.mask] = feeds[cache.mask][:, :end]
            if cache.positions:
                part[cache.positions] = feeds[cache.positions][:, start:end]
            found = self.session.run([*outputs, *map(present_name, past)], part, timeout)
            past = dict(zip(past, found[len(outputs) :], strict=True))
            parts.append(found[: len(outputs)])
        sizes = [end - start for start, end in zip(starts, [*starts[1:], length], strict=True)]
        return [_joined(values, sizes) for values in zip(*parts, strict=True)]


def _joined(values: Sequence[Any], sizes: Sequence[int]) -> Any:
    shapes = [np.shape(v)[1:2] for v in values]
    return np.concatenate(values, 1) if shapes == [(n,) for n in sizes] else values[-1]
