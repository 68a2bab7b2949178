"""Normalizations as means, differences and quotients.

`split-norms`: LayerNormalization and RMSNormalization as operators that every opset has, for older runtimes and
devices.
"""

from __future__ import annotations

from ...core import Op, RewriteBuilder, Value, require, rule
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..fusion.polynomials import require_dtype


@rule(lambda g, x, s, op, b=None: g.LayerNormalization(x, s, b) @ op, group="split-norms")
def split_layer_norm(g: RewriteBuilder, x: Value, s: Value, op: Op, b: Value | None = None) -> Value:
    """LayerNormalization(x, s, b) => d / Sqrt(ReduceMean(d * d) + epsilon) * s + b, where d = x - ReduceMean(x)"""
    wide = _wide(g, x, op)
    require(b is None or all(isinstance(d, int) for d in b.shape), "onnxruntime takes a bias that does not broadcast")
    centred = _centred(g, _centred(g, wide, x, op), x, op)  # twice: a mean of many numbers is rounded as often
    scaled = g.Mul(_normalized(g, centred, x, op), s)
    return scaled if b is None else g.Add(scaled, b)


@rule(lambda g, x, s, op: g.RMSNormalization(x, s) @ op, group="split-norms")
def split_rms_norm(g: RewriteBuilder, x: Value, s: Value, op: Op) -> Value:
    """RMSNormalization(x, s) => x / Sqrt(ReduceMean(x * x) + epsilon) * s"""
    return g.Mul(_normalized(g, _wide(g, x, op), x, op), s)


def _centred(g: RewriteBuilder, wide: Value, x: Value, op: Op) -> Value:
    return g.Sub(wide, g.ReduceMean(wide, axes=_axes(x, op)))


def _wide(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The operand in single precision, in which the operator computes (attribute stash_type)."""
    require_dtype(x, HALF_OR_SINGLE)
    require(op.attr("stash_type", 1) == 1, "it computes in another type than single precision")
    require(all(not v.name or op.graph.is_unused(v) for v in op.outputs[1:]), "its mean or deviation is read")
    return g.Cast(x, to=1) if x.dtype != 1 else x


def _axes(x: Value, op: Op) -> list[int]:
    axis = int(op.attr("axis", -1))
    require(-x.rank <= axis < x.rank, "its axis is none of the operand")
    return list(range(axis % x.rank, x.rank))


def _normalized(g: RewriteBuilder, centred: Value, x: Value, op: Op) -> Value:
    """Divide by the root of the mean square plus epsilon, and give the result in the type of `x`."""
    mean = g.ReduceMean(g.Mul(centred, centred), axes=_axes(x, op))
    quotient = g.Div(centred, g.Sqrt(g.Add(mean, float(op.attr("epsilon", 1e-5)))))
    return g.Cast(quotient, to=x.dtype) if centred.dtype != x.dtype else quotient
