"""Costs of ops and data movement on a device, for rewrites with trade-offs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Protocol

import onnx

from ..errors import require
from .expressions import Dim, Shape, is_known_le, substitute


class Typed(Protocol):
    """The type of a value. Both properties raise MatchFailure if unknown."""

    @property
    def dtype(self) -> int:
        """The element type (TensorProto.DataType)."""
        ...

    @property
    def shape(self) -> Shape:
        """The shape."""
        ...


@dataclass(frozen=True, slots=True)
class CostModel:
    """The time of ops on few numbers, and the additional time for more data.

    Attributes:
        op_seconds: an op on few numbers; `output_seconds`: each further output.
        block_bytes_per_second: bytes read plus written by a Split, or a Transpose that keeps the last axis.
        strided_bytes_per_second: bytes read plus written by another Transpose.
        flops_per_second: speed of large products.
        nominal_dim: the assumed size of an unknown dim.
        slow_kernels: operators whose kernel takes longer than the ops that it replaces, with the additional seconds per
            element; for "Attention softcap", per element of the scores.
        nonempty: operators that fail on empty inputs. Rules add one only if no extent of its inputs can be 0.

    Examples:
        >>> chip = CostModel(1e-6, 1e-6, block_bytes_per_second=4e9, strided_bytes_per_second=1e9)
        >>> x = graph.inputs[0]  # of N x 4 floats, with 16 for N
        >>> chip.nbytes(x), chip.splitting_seconds(chip.nbytes(x), parts=2) > chip.op_seconds
        (256, True)
    """

    op_seconds: float
    output_seconds: float
    block_bytes_per_second: float
    strided_bytes_per_second: float
    flops_per_second: float = inf
    nominal_dim: int = 16
    slow_kernels: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)
    nonempty: frozenset[str] = frozenset()

    def elements(self, value: Typed) -> int:
        """The number of elements of a value. Raises MatchFailure if its rank is unknown."""
        return prod(map(self._extent, value.shape))

    def nbytes(self, value: Typed) -> int:
        """The bytes of a value. Raises MatchFailure if its rank or type is unknown."""
        return onnx.helper.tensor_dtype_to_np_dtype(value.dtype).itemsize * self.elements(value)

    def splitting_seconds(self, size: int, parts: int) -> float:
        """The time of a Split of `size` bytes."""
        return self.op_seconds + (parts - 1) * self.output_seconds + 2 * size / self.block_bytes_per_second

    def transposing_seconds(self, size: int, *, keeps_last_axis: bool) -> float:
        """The time of a Transpose of `size` bytes."""
        rate = self.block_bytes_per_second if keeps_last_axis else self.strided_bytes_per_second
        return self.op_seconds + 2 * size / rate

    def adding_seconds(self, size: int) -> float:
        """The time to add two values of `size` bytes each."""
        return self.op_seconds + 3 * size / self.block_bytes_per_second

    def multiplying_seconds(self, flops: float) -> float:
        """The time of `flops` in large products."""
        return flops / self.flops_per_second

    def turned_reduction_seconds(self, size: int) -> float:
        """The additional time of a reduction of `size` bytes that excludes the last axis."""
        return 2 * self.transposing_seconds(size, keeps_last_axis=False) - 2 * self.op_seconds

    def require_fast_kernel(self, op_type: str, x: Typed, saved: int) -> None:
        """Decline an operator whose kernel takes longer on `x` than is gained by replacing `saved` + 1 ops by one."""
        slower = self.slow_kernels.get(op_type, 0.0)
        if slower:
            enough = slower * self.elements(x) <= saved * self.op_seconds
            require(enough, f"{op_type} takes longer than its parts on this number of elements")

    def require_nonempty(self, op_type: str, *inputs: Typed) -> None:
        """Decline an operator that fails on empty inputs if an extent of `inputs` may be 0."""
        if op_type in self.nonempty:
            are_positive = all(dim is not None and is_known_le(1, dim) for x in inputs for dim in x.shape)
            require(are_positive, f"{op_type} fails on empty inputs, and an extent may be 0")

    def _extent(self, dim: Dim) -> int:
        found = None if dim is None else substitute(dim, lambda _: self.nominal_dim)
        return max(0, found) if isinstance(found, int) else self.nominal_dim


CPU = CostModel(
    op_seconds=0.5e-6,
    output_seconds=0.33e-6,
    block_bytes_per_second=25e9,
    strided_bytes_per_second=12e9,
    flops_per_second=100e9,
    slow_kernels={  # on [1, 128, 768], they take 1.7 to 15 times as long as the ops that they replace
        "Attention softcap": 8e-9,
        "Elu": 1e-9,
        "LpNormalization": 1.5e-9,
        "PRelu": 4e-9,
        "ReduceL1": 0.6e-9,
        "ReduceLogSum": 0.9e-9,
        "ReduceLogSumExp": 5e-9,
        "ReduceSumSquare": 0.6e-9,
        "Softplus": 10e-9,
    },
    nonempty=frozenset({"Attention"}),
)
"""The costs of onnxruntime 1.31's CPU provider in one thread: figures that `benchmarks/calibrate.py` printed, rounded.

Examples:
    >>> from dataclasses import replace
    >>> slow_memory = replace(CPU, block_bytes_per_second=4e9)
    >>> slow_memory.op_seconds == CPU.op_seconds == RewriteBuilder(graph, next(graph.ops())).costs.op_seconds
    True
"""
FEWEST_OPS = CostModel(op_seconds=1, output_seconds=0, block_bytes_per_second=inf, strided_bytes_per_second=inf)
"""Moving data costs nothing."""


def format_bytes(count: float) -> str:
    """A number of bytes, such as 1.8 MB."""
    return f"{count:.0f} B" if count < 1000 else _scaled(count / 1000, ("kB", "MB", "GB"))


def format_seconds(seconds: float) -> str:
    """A time, such as 1.8 us."""
    return _scaled(seconds * 1e6, ("us", "ms", "s"))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    steps = next((i for i in range(len(units) - 1) if number < 1000 ** (i + 1)), len(units) - 1)
    scaled = number / 1000**steps
    return f"{scaled:.1f} {units[steps]}" if scaled < 10 else f"{scaled:.0f} {units[steps]}"
