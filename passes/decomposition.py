"""Operators as functions of simpler operators, for runtimes without them.

`split-activations`: Gelu, HardSwish, Mish and Swish as functions that opset 13 has, for older runtimes.
`split-norms`: LayerNormalization and RMSNormalization as operators that every opset has, for older runtimes and
devices.
`split-gemm`: Gemm as MatMul and Add, for runtimes that have no Gemm, or quantize MatMul only.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ..core import Op, RewriteBuilder, Value, require, rule
from ..core.ir.dtypes import CPU_FLOATS, HALF_OR_SINGLE
from .fusion.activations import TANH_CUBIC, TANH_SCALE
from .fusion.polynomials import require_dtype
from .linear.products import GEMM_TYPES, Product
from .support.operand_queries import downcast_constant


@rule(lambda g, x, op: g.Gelu(x) @ op, group="split-activations")
def split_gelu(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Gelu(x) => x * 0.5 * (1 + Erf(x / sqrt(2))), and with Tanh the Gelu approximated by it"""
    require_dtype(x, CPU_FLOATS)
    return gelu(g, x, by_tanh=op.attr("approximate", "none") == "tanh")


def gelu(g: RewriteBuilder, x: Value, *, by_tanh: bool) -> Value:
    """Gelu by the error function, or approximated by the hyperbolic tangent."""
    if by_tanh:
        cube = g.Mul(g.Mul(x, g.Mul(x, x)), TANH_CUBIC)
        curve = g.Tanh(g.Mul(g.Add(x, cube), TANH_SCALE))
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
    return g.Mul(x, g.Sigmoid(scaled(g, x, float(op.attr("alpha", 1.0)))))


@rule(lambda g, x, s, op, b=None: g.LayerNormalization(x, s, b) @ op, group="split-norms")
def split_layer_norm(g: RewriteBuilder, x: Value, s: Value, op: Op, b: Value | None = None) -> Value:
    """LayerNormalization(x, s, b) => d / Sqrt(ReduceMean(d * d) + epsilon) * s + b, where d = x - ReduceMean(x)"""
    wide = _wide(g, x, op)
    require(b is None or all(isinstance(d, int) for d in b.shape), "onnxruntime takes a bias that does not broadcast")
    axes = _axes(x, op)
    shifted = centred(g, centred(g, wide, axes), axes)  # twice: a mean of many numbers is rounded as often
    weighted = g.Mul(_normalized(g, shifted, x, op), s)
    return weighted if b is None else g.Add(weighted, b)


@rule(lambda g, x, s, op: g.RMSNormalization(x, s) @ op, group="split-norms")
def split_rms_norm(g: RewriteBuilder, x: Value, s: Value, op: Op) -> Value:
    """RMSNormalization(x, s) => x / Sqrt(ReduceMean(x * x) + epsilon) * s"""
    return g.Mul(_normalized(g, _wide(g, x, op), x, op), s)


def centred(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """`x` minus its mean along `axes`."""
    return g.Sub(x, g.ReduceMean(x, axes=axes))


def by_root_mean_square(g: RewriteBuilder, x: Value, axes: list[int], epsilon: float) -> Value:
    """`x` by the root of its mean square along `axes` plus epsilon."""
    return g.Div(x, g.Sqrt(g.Add(g.ReduceMean(g.Mul(x, x), axes=axes), epsilon)))


def _wide(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The operand in single precision, in which the operator computes (attribute stash_type)."""
    require_dtype(x, HALF_OR_SINGLE)
    require(op.attr("stash_type", 1) == 1, "it computes in another type than single precision")
    require(all(not v.name or op.graph.is_unused(v) for v in op.outputs[1:]), "its mean or deviation is read")
    return g.Cast(x, to=1) if x.dtype != 1 else x


def _axes(x: Value, op: Op) -> list[int]:
    axis = int(op.attr("axis", -1))
    require(-x.rank <= axis < x.rank, "the operand does not have its axis")
    return list(range(axis % x.rank, x.rank))


def _normalized(g: RewriteBuilder, wide: Value, x: Value, op: Op) -> Value:
    """Divide by the root of the mean square plus epsilon, and give the result in the type of `x`."""
    quotient = by_root_mean_square(g, wide, _axes(x, op), float(op.attr("epsilon", 1e-5)))
    return g.Cast(quotient, to=x.dtype) if wide.dtype != x.dtype else quotient


@rule(lambda g, a, b, op, c=None: g.Gemm(a, b, c) @ op, group="split-gemm")
def split_gemm_op(g: RewriteBuilder, a: Value, b: Value, op: Op, c: Value | None = None) -> Value:
    """Gemm(a, b, c, alpha, beta) => alpha * MatMul(a, b) + beta * c, with a Transpose of a or b where it has one"""
    p = Product.of(op)
    require(a.dtype in GEMM_TYPES, "onnxruntime has no Gemm of this type")
    product = g.MatMul(_operand(g, a, turned=p.trans_a), _operand(g, b, turned=p.trans_b))
    product = scaled(g, product, p.alpha)
    return product if c is None or p.beta == 0 else g.Add(product, scaled(g, c, p.beta))


def _operand(g: RewriteBuilder, v: Value, *, turned: bool) -> Value:
    if not turned:
        return v
    return g.const(v.const.T) if v.is_const else g.Transpose(v, perm=[1, 0])


def scaled(g: RewriteBuilder, v: Value, factor: float) -> Value:
    """`v` times a number."""
    if factor == 1:
        return v
    if v.is_const:
        return downcast_constant(g, v.const.astype(np.float64) * factor, v)
    return g.Mul(v, factor)
