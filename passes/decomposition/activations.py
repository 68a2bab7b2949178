"""Activations as elementary functions.

`split-activations`: Gelu, HardSwish, Mish and Swish as functions that opset 13 has, for older runtimes.
"""

from __future__ import annotations

from math import pi, sqrt

from ...core import Op, RewriteBuilder, Value, rule
from ...core.ir.dtypes import CPU_FLOATS
from ..fusion.polynomials import require_dtype

TANH_CUBIC = 0.044715  # of Gelu approximated by Tanh (ONNX, Gelu)


@rule(lambda g, x, op: g.Gelu(x) @ op, group="split-activations")
def split_gelu(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Gelu(x) => x * 0.5 * (1 + Erf(x / sqrt(2))), and with Tanh the Gelu approximated by it"""
    require_dtype(x, CPU_FLOATS)
    if op.attr("approximate", "none") == "tanh":
        cube = g.Mul(g.Mul(x, g.Mul(x, x)), TANH_CUBIC)
        curve = g.Tanh(g.Mul(g.Add(x, cube), sqrt(2 / pi)))
    else:
        curve = g.Erf(g.Div(x, sqrt(2)))
    return g.Mul(g.Mul(x, g.Add(curve, 1.0)), 0.5)


@rule(lambda g, x: g.HardSwish(x), critical_values=(-3, 3), group="split-activations")
def split_hard_swish(g: RewriteBuilder, x: Value) -> Value:
    """HardSwish(x) => x * HardSigmoid(x, alpha=1/6, beta=0.5)"""
    require_dtype(x, CPU_FLOATS)
    return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))


@rule(lambda g, x: g.Mish(x), group="split-activations")
def split_mish(g: RewriteBuilder, x: Value) -> Value:
    """Mish(x) => x * Tanh(Softplus(x))"""
    require_dtype(x, CPU_FLOATS)
    return g.Mul(x, g.Tanh(g.Softplus(x)))


@rule(lambda g, x, op: g.Swish(x) @ op, group="split-activations")
def split_swish(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Swish(x, alpha=k) => x * Sigmoid(k * x)"""
    require_dtype(x, CPU_FLOATS)
    k = float(op.attr("alpha", 1.0))
    return g.Mul(x, g.Sigmoid(x if k == 1 else g.Mul(x, k)))
