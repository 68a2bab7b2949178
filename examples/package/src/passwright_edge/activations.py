"""Activations in operators that every runtime has."""

from __future__ import annotations

from math import sqrt

from onnx import TensorProto
from passwright.core import ROUNDING, RewriteBuilder, Value, require, rule


@rule(lambda g, x: g.HardSwish(x), contract=ROUNDING, critical_values=(-3, 3), group="spell-out-activations")
def decompose_hard_swish(g: RewriteBuilder, x: Value) -> Value:
    """HardSwish(x) => x * HardSigmoid(x, 1/6, 1/2)"""
    _require_float(x)
    return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))


@rule(lambda g, x: g.Mish(x), contract=ROUNDING, group="spell-out-activations")
def decompose_mish(g: RewriteBuilder, x: Value) -> Value:
    """Mish(x) => x * Tanh(Softplus(x))"""
    _require_float(x)
    return g.Mul(x, g.Tanh(g.Softplus(x)))


@rule(lambda g, x: g.Gelu(x), contract=ROUNDING, group="spell-out-activations")
def decompose_gelu(g: RewriteBuilder, x: Value) -> Value:
    """Gelu(x) => x * (1 + Erf(x / sqrt(2))) * 0.5"""
    _require_float(x)
    bent = g.Add(g.Erf(g.Div(x, sqrt(2))), 1.0)
    return g.Mul(g.Mul(x, bent), 0.5)


def _require_float(x: Value) -> None:
    require(x.dtype == TensorProto.FLOAT, "for other types these operators are not everywhere either")
