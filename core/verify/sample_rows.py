"""Batches in the rows of tables: arrays with more rows than a model accepts at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import ModelError
from .dim_expressions import dim_symbols
from .input_specs import TENSOR, InputSpec


def batch_symbol(inputs: Sequence[InputSpec]) -> str | None:
    """The symbol of the batch: a symbol with that name, or the first dim of most inputs."""
    required = [i for i in inputs if i.default is None and i.type_kind == TENSOR]
    everywhere = [d for i in required for d in i.shape if isinstance(d, str) and dim_symbols(d) == [d]]
    named = next((d for d in everywhere if "batch" in d.casefold()), None)
    first = Counter(i.shape[0] for i in required if i.shape)
    leading = first.most_common(1)[0][0] if first else None
    return named or (leading if isinstance(leading, str) and leading in everywhere else None)


def fixed_batch(inputs: Sequence[InputSpec]) -> int:
    """The common first dim of all inputs; 1 if there is none."""
    leading = {i.shape[0] for i in inputs if i.default is None and i.shape}
    found = next(iter(leading)) if len(leading) == 1 else 1
    return found if isinstance(found, int) and found > 0 else 1


class RowBatches(Struct, frozen=True):
    """The batches of `size` rows in a table of `rows`, and the axes of rows in its arrays; other arrays have none."""

    size: int
    rows: int
    axes: Mapping[str, int]

    @classmethod
    def of(
        cls, label: str, shapes: Mapping[str, Sequence[int]], inputs: Sequence[InputSpec], *, each_row: bool
    ) -> RowBatches | None:
        """The batches in arrays of these shapes; None if the arrays are one sample.

        Arrays with more rows than a fixed first dim have batches; with `each_row`, each row for a symbolic batch is
        one, too. Raises ModelError.
        """
        symbol = batch_symbol(inputs)
        known = [i for i in inputs if i.type_kind == TENSOR and i.default is None and i.name in shapes]
        if symbol is None:
            sizes = {i.name: i.shape[0] for i in known if _has_more_rows(shapes[i.name], i)}
            axes = dict.fromkeys(sizes, 0)
        else:
            axes = {i.name: i.shape.index(symbol) for i in known if symbol in i.shape and each_row}
            sizes = dict.fromkeys(axes, 1)
        size = next(iter(sizes.values()), None)
        if not isinstance(size, int) or len(set(sizes.values())) > 1:
            return None
        rows = {name: [0, *shapes[name][axis:]][len(shapes[name]) > axis] for name, axis in axes.items()}
        if len(set(rows.values())) > 1:
            counts = " and ".join(f"{n} rows of {name}" for name, n in rows.items())
            raise ModelError(f"{label or 'the given inputs'}: {counts} do not agree")
        first, count = next(iter(rows.items()))
        if not count:
            raise ModelError(f"{label or 'the given inputs'}: {first} has no rows")
        return cls(size, count, axes)

    def __len__(self) -> int:
        return self.rows // self.size

    def name(self, number: int) -> str:
        """The name of a batch in messages."""
        start = number * self.size
        return f"row {start}" if self.size == 1 else f"rows {start} to {start + self.size - 1}"

    def take(self, table: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The arrays of a batch."""
        rows = range(number * self.size, (number + 1) * self.size)
        return {**table, **{name: np.take(table[name], rows, axis) for name, axis in self.axes.items()}}


def _has_more_rows(shape: Sequence[int], spec: InputSpec) -> bool:
    """Whether an array has more rows than the fixed first dim of an input."""
    first = spec.shape[0] if spec.shape and len(shape) == len(spec.shape) else None
    return isinstance(first, int) and 0 < first < shape[0]
