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
    """The smallest and the largest number that a value must represent.

    Examples:
        >>> Range(low=-1.0, high=2.5).high
        2.5
    """

    low: float
    high: float


class QuantizationSpec(Struct, frozen=True):
    """The data for rules of contract LOSSY in a pipeline, available as `g.graph.context.quantization`.

    Attributes:
        ranges: ranges of values, by name.
        activations, weights: element types of TensorProto.DataType, int8 or uint8.
        weight_limit: the largest integer for weights.
        per_channel: one scale per output channel; if false, the weights of a convolution or product have one scale.
        operators: the operators that the target computes with integers.
        rounding: how dynamic and weight-only schemes round weights. "gptq" uses `grams`: for the input of a product, by
            name, X^T X of all rows X that it has in the calibration data, (columns, columns) in float64.
        min_weights: these schemes keep products with fewer weights in float, which onnxruntime computes as fast.
        min_channels: static schemes keep convolutions of images with fewer channels in float.
        weight_bits: 4 or 8, for weight-only schemes, which have one scale for each `block` weights of an output channel
            (0: all of them), and its optimal zero point unless `symmetric`.
        wide: names of weights that have 8 bits in any case.
        channels: the largest magnitudes in the channels of new keys and values, by name, for integer caches.
        remembered: where rules store results that are expensive and needed again by candidates with the same weights.

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
        """Raise UsageError for invalid types and bit widths, because authors may not check types."""
        integers = {TensorProto.INT8: "INT8", TensorProto.UINT8: "UINT8"}
        for name, allowed in (
            ("activations", integers), ("weights", integers), ("weight_bits", (4, 8)), ("rounding", get_args(Rounding))
        ):  # fmt: skip
            given = getattr(self, name)
            wanted = [f"TensorProto.{n}" for n in integers.values()] if allowed is integers else map(repr, allowed)
            is_right = isinstance(given, str | int) and given in allowed
            require_argument(is_right, f"QuantizationSpec({name}=...)", " or ".join(wanted), given)
