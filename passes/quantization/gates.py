"""HardSigmoid and HardSwish on integers.

HardSigmoid is a clamp of a * x + b to 0..1. Of dequantized integers, a * x + b is the same integers with another scale
and zero point, so that only the clamp is left; HardSwish is the product of that and x. onnxruntime has no kernel of its
own for either: both took the time of conversions to floats and back.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from ...core import LOSSY, Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import known, operand, required_scalar
from .parameters import (
    dequantizer,
    gate_slope,
    integer_limits,
    linear_range,
    quantization_spec,
    quantized,
    required_spec,
)

CLIP_OPSET = 12  # of Clip of bytes
MIN_STEPS = 16  # of the integers between the bounds of a gate; with fewer, it would be coarse


def integer_gate(g: RewriteBuilder, op: Op) -> Value:
    """The HardSigmoid of dequantized integers, the one of a HardSwish: integers, clamped and with another scale."""
    x = operand(op)
    bounds = known(linear_range(op), "its slope or offset is none of a clamped line from 0 to 1")
    maker = known(dequantizer(g, x), f"{x.name} is not dequantized")
    integers, scale, zero = operand(maker), required_scalar(operand(maker, 1)), operand(maker, 2)
    least, greatest = integer_limits(required_spec(g).activations)
    start, end = (round(float(required_scalar(zero)) + bound / float(scale)) for bound in bounds)
    require(start >= least, f"the integers of {x.name} begin above {bounds.low:.3g}")
    require(end - start >= MIN_STEPS, f"the integers of {x.name} are coarse: {end - start} from 0 to 1")
    kind = helper.tensor_dtype_to_np_dtype(required_spec(g).activations)
    low = g.const(np.array(start, kind)) if start > least else None
    high = g.const(np.array(end, kind)) if end < greatest else None
    if low is not None or high is not None:
        require(g.opset >= CLIP_OPSET, "there is no Clip of bytes")
        integers = g.Clip(integers, low, high)
    slope = np.float32(float(scale) * gate_slope(op))
    return g.DequantizeLinear(integers, g.const(slope), g.const(np.array(start, kind)))


@rule(lambda g, op: g.HardSigmoid(...) @ op, contract=LOSSY)
def quantize_hard_sigmoid(g: RewriteBuilder, op: Op) -> Value:
    """HardSigmoid(DequantizeLinear(x, s, z)) => DequantizeLinear(Clip(x), s * alpha, z - beta / alpha / s)"""
    quantization_spec(g, op.type)
    return integer_gate(g, op)


@rule(lambda g, x, op: g.HardSwish(x) @ op, contract=LOSSY)
def quantize_hard_swish(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """HardSwish(x) => Quantized(x * HardSigmoid(x)), where x is dequantized"""
    quantization_spec(g, op.type)
    gate = integer_gate(g, op)
    return quantized(g, g.Mul(quantized(g, x), gate), op.outputs[0])


GATE_RULES = (quantize_hard_sigmoid, quantize_hard_swish)
