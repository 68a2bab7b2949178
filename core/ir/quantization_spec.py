"""Ranges and element types for rules that quantize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx import TensorProto


class Range(NamedTuple):
    """The least and the greatest number that a value is to represent."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QuantizationSpec:
    """The data that a pipeline gives to its rules of contract LOSSY, see `GraphContext.quantization`.

    `ranges` are those of values, by name. `activations` and `weights` are element types of TensorProto.DataType, int8
    or uint8; weights use integers up to `weight_limit` and, but for convolutions and products without `per_channel`,
    one scale for each output channel. `operators` are those that the target computes on integers, and `opset` the first
    at which it does.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict[str, Range])
    activations: int = TensorProto.UINT8
    weights: int = TensorProto.INT8
    weight_limit: int = 127
    per_channel: bool = True
    operators: frozenset[str] = frozenset()
