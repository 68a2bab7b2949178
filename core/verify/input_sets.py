"""Input sets, and the runs of the original on them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from .dim_expressions import Sizes
from .input_specs import InputSpec

NONFINITE_KINDS = frozenset({"nan", "inf", "nonfinite"})


@dataclass(frozen=True, slots=True, eq=False)
class InputSet:
    """One set of inputs: `kind` names the distribution of the numbers, `sizes` has the symbolic dims.

    A set equals only itself; `content` is a key that is equal for sets with the same inputs. `input_kinds` are the
    kinds of the inputs if they differ from `kind`.
    """

    kind: str
    sizes: Sizes = field(default_factory=dict[str, int])
    feeds: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    input_kinds: frozenset[str] = frozenset()

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.kind} inputs" + (f" with {sizes}" if sizes else "")

    @property
    def all_kinds(self) -> frozenset[str]:
        """The kinds of its inputs."""
        return self.input_kinds or frozenset({self.kind})

    @property
    def is_finite(self) -> bool:
        """Whether none of its kinds has NaN or infinities."""
        return self.all_kinds.isdisjoint(NONFINITE_KINDS)

    @property
    def magnitude(self) -> float:
        """The magnitude of the largest finite number."""
        return max(map(_magnitude, self.feeds.values()), default=0.0)

    @property
    def is_given(self) -> bool:
        """Whether the user gave it."""
        return self.kind.startswith("given")

    def content(self) -> Hashable:
        """A key that two sets share only if they have the same tensors, bit for bit."""
        return tuple(sorted(self.sizes.items())), tuple((name, _content(x)) for name, x in sorted(self.feeds.items()))


def sizes_of(input_set: InputSet, inputs: Sequence[InputSpec]) -> Sizes:
    """The sizes of the symbolic dims; for given inputs, from their shapes."""
    shapes = () if input_set.sizes else ((i.shape, np.shape(input_set.feeds.get(i.name, ()))) for i in inputs)
    return input_set.sizes or {
        d: n for dims, shape in shapes for d, n in zip(dims, shape, strict=False) if isinstance(d, str)
    }


def _magnitude(value: Any) -> float:
    if isinstance(value, list):
        return max(map(_magnitude, cast("list[Any]", value)), default=0.0)
    array = cast("np.ndarray[Any, Any]", np.asarray(value))
    if array.dtype.kind not in "fiuV":
        return 0.0
    numbers = np.abs(array.astype(np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0))


def _content(x: Any) -> Hashable:
    if isinstance(x, list):
        return tuple(map(_content, cast("list[Any]", x)))
    if x is None or x.dtype == np.object_:
        return None if x is None else (x.shape, tuple(x.reshape(-1).tolist()))
    return x.shape, blake2b(x.tobytes(), digest_size=16).digest()


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRun:
    """The outputs of the original for an input set, by name."""

    input_set: InputSet
    outputs: Mapping[str, Any] = field(repr=False)
