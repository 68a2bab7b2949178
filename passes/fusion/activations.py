"""Fusion of smooth activations: Sigmoid, Softplus, Softsign, Mish, Swish."""

from __future__ import annotations

from ...core import Build, RulePass, Value, conditional, require, rule
from ...core.ir.dtypes import CPU_FLOATS, HALF_OR_SINGLE
from .polynomials import linear_coefficient, require_dtype, require_scalar


@rule(lambda g, x, one: g.Reciprocal(g.Add(g.Exp(g.Neg(x)), g.const(one))))
def fuse_sigmoid_of_reciprocal(g: Build, x: Value, one: Value) -> Value:
    """Reciprocal(1 + Exp(-x)) => Sigmoid(x)"""
    require_dtype(x, CPU_FLOATS)
    require_scalar(one, 1.0, x)
    return g.Sigmoid(x)


@rule(lambda g, x, one, top: g.Div(g.const(top), g.Add(g.Exp(g.Neg(x)), g.const(one))))
def fuse_sigmoid_of_quotient(g: Build, x: Value, one: Value, top: Value) -> Value:
    """1 / (1 + Exp(-x)) => Sigmoid(x)"""
    require_dtype(x, CPU_FLOATS)
    require_scalar(one, 1.0, x)
    require_scalar(top, 1.0, x)
    return g.Sigmoid(x)


@rule(lambda g, x, one: g.Log(g.Add(g.Exp(x), g.const(one))), contract=conditional("Exp(x) does not overflow"))
def fuse_softplus(g: Build, x: Value, one: Value) -> Value:
    """Log(1 + Exp(x)) => Softplus(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    require_scalar(one, 1.0, x)
    return g.Softplus(x)


@rule(lambda g, x, one: g.Div(x, g.Add(g.Abs(x), g.const(one))))
def fuse_softsign(g: Build, x: Value, one: Value) -> Value:
    """Div(x, 1 + Abs(x)) => Softsign(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    require_scalar(one, 1.0, x)
    return g.Softsign(x)


@rule(lambda g, x: g.Mul(x, g.Tanh(g.Softplus(x))))
def fuse_mish(g: Build, x: Value) -> Value:
    """Mul(x, Tanh(Softplus(x))) => Mish(x)"""
    require_dtype(x, HALF_OR_SINGLE)
    return g.Mish(x)


@rule(lambda g, x, z: g.Mul(x, g.Sigmoid(z)))
def fuse_swish(g: Build, x: Value, z: Value) -> Value:
    """Mul(x, Sigmoid(k * x)) => Swish(x, alpha=k)"""
    # onnxruntime has no kernel for Swish, and takes its definition at the opset of that alone.
    require(g.opset == 24, "onnxruntime runs Swish at opset 24 only")
    k = linear_coefficient(z, x)
    # alpha is a 32-bit float.
    require_dtype(x, CPU_FLOATS if k == 1.0 else HALF_OR_SINGLE)
    return g.Swish(x, alpha=k)


FUSE_ACTIVATIONS = RulePass(
    "fuse-activations",
    (fuse_sigmoid_of_reciprocal, fuse_sigmoid_of_quotient, fuse_softplus, fuse_softsign, fuse_mish, fuse_swish),
)
