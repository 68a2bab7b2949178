"""Ranges and element types for rules that quantize."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct, field
from onnx import TensorProto

from ..support.author_errors import require_argument

Rounding = Literal["nearest", "mse", "hqq", "gptq"]


class Range(NamedTuple):
    """The least and the greatest number that a value is to represent.

    Examples:
        >>> Range(low=-1.0, high=2.5).high
        2.5
    """

    low: float
    high: float


class QuantizationSpec(Struct, frozen=True):
    """The data that a pipeline gives to its rules of contract LOSSY, which have it as `g.graph.context.quantization`.

    `ranges` are ranges of values, by name. `activations` and `weights` are element types of TensorProto.DataType, int8
    or uint8; weights use integers up to `weight_limit` and, but for convolutions and products without `per_channel`,
    one scale for each output channel. `operators` are computed on integers by the target.
    Dynamic and weight-only schemes round weights by `rounding`, where "gptq" takes `grams`: for the input of a product,
    by name, X^T X of all rows X that it has in the calibration data, (columns, columns) in float64. They leave products
    of fewer than `min_weights` weights in float, which onnxruntime computes as fast; static schemes, convolutions of
    images of fewer than `min_channels`. Weight-only schemes use `weight_bits`, 4 or 8, one scale for each `block`
    weights of an output channel (0: for all of them), and the zero point that fits each best unless `symmetric`.
    Weights named in `wide` have 8 bits all the same. `channels`: the greatest magnitudes in the channels of new keys
    and values, by name, for caches of integers. In `remembered`, rules keep what takes long and other candidates with
    the same weights need again.

    Examples:
        >>> spec = QuantizationSpec(ranges={"x": Range(-1.0, 2.5)}, weight_limit=63)
        >>> spec.ranges["x"].high, spec.weights == TensorProto.INT8
        (2.5, True)
    """

    ranges: Mapping[str, Range] = field(default_factory=dict[str, Range])
    activations: int = TensorProto.UINT8
    weights: int = TensorProto.INT8
    weight_limit: int = 127
    per_channel: bool = True
    operators: frozenset[str] = frozenset()
    rounding: Rounding = "nearest"
    grams: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, np.ndarray[Any, Any]])
    min_weights: int = 1 << 15
    min_channels: int = 1
    weight_bits: int = 8
    block: int = 0
    symmetric: bool = True
    wide: frozenset[str] = frozenset()
    channels: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, np.ndarray[Any, Any]])
    remembered: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        """Raise UsageError for other types and numbers of bits, as authors may not check types."""
        integers = {TensorProto.INT8: "INT8", TensorProto.UINT8: "UINT8"}
        for name, allowed in (
            ("activations", integers), ("weights", integers), ("weight_bits", (4, 8)), ("rounding", get_args(Rounding))
        ):  # fmt: skip
            given = getattr(self, name)
            wanted = [f"TensorProto.{n}" for n in integers.values()] if allowed is integers else map(repr, allowed)
            is_right = isinstance(given, str | int) and given in allowed
            require_argument(is_right, f"QuantizationSpec({name}=...)", " or ".join(wanted), given)
