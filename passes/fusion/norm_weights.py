"""Fusion of scales, offsets and casts into normalizations."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ...core import Build, Op, RulePass, Value, broadcasts_to, require, rule
from ..support.operand_queries import Array, downcast_constant, uniform_value
from .norms import normalized_extents


@rule(lambda g, x, s, c, op, b=None: g.Mul(g.one_of("LayerNormalization", "RMSNormalization")(x, s, b) @ op, c))
def scale_norm(g: Build, x: Value, s: Value, c: Value, op: Op, b: Value | None) -> Value:
    """Mul(LayerNormalization(x, s, b), c) => LayerNormalization(x, s * c, b * c), and so for RMSNormalization"""
    dims = weight_dims(x, s, op)
    if not c.is_const:
        require(b is None and c.shape == dims and c.dtype == s.dtype, f"{c.name} is not a weight")
        require(uniform_value(s) == 1, "the normalization has a scale already")
        return norm_with_weights(g, op, x, c, None)
    factor = weight_array(c, dims, x)
    shift = None if b is None else downcast_constant(g, weight_array(b, dims, x) * factor, x)
    return norm_with_weights(g, op, x, downcast_constant(g, weight_array(s, dims, x) * factor, x), shift)


@rule(lambda g, x, s, c, op, b=None: g.Add(g.LayerNormalization(x, s, b) @ op, c))
def shift_norm(g: Build, x: Value, s: Value, c: Value, op: Op, b: Value | None) -> Value:
    """Add(LayerNormalization(x, s, b), c) => LayerNormalization(x, s, b + c)"""
    dims = weight_dims(x, s, op)
    if not c.is_const:
        require(b is None and c.shape == dims, f"{c.name} is not a bias")
        return norm_with_weights(g, op, x, s, c)
    shift = weight_array(c, dims, x)
    return norm_with_weights(
        g, op, x, s, downcast_constant(g, shift if b is None else shift + weight_array(b, dims, x), x)
    )


@rule(
    lambda g, x, s, up, op, down: (
        g.Cast(g.one_of("LayerNormalization", "RMSNormalization")(g.Cast(x) @ up, s) @ op) @ down
    )
)
def drop_casts_around_norm(g: Build, x: Value, s: Value, up: Op, op: Op, down: Op) -> Value:
    """Cast(LayerNormalization(Cast(x, to=float)), to=float16) => LayerNormalization(x), stash_type=float"""
    require(up.attr("to") == TensorProto.FLOAT and x.dtype == TensorProto.FLOAT16, "the inner type is not more precise")
    require(down.attr("to") == x.dtype and op.attr("stash_type") == TensorProto.FLOAT, "the casts have other types")
    require(uniform_value(s) == 1, "the weights have a higher precision")
    return norm_with_weights(g, op, x, g.const(s.const, like=x), None)


def weight_dims(x: Value, s: Value, op: Op) -> tuple[int, ...]:
    """The extents that a normalization runs over, which its weights have to have."""
    require(op.outputs[0].dtype == x.dtype == s.dtype, "the types differ")
    dims = normalized_extents(x, op.attr("axis") % x.rank)
    require(s.shape == dims, "the weights would be broadcast")
    return dims


def weight_array(c: Value, dims: tuple[int, ...], x: Value) -> Array:
    """A constant as weights of extents `dims`, in float64; declines where it varies along other axes of `x`."""
    start = max(len(c.shape) - len(dims), 0)
    lead, tail = c.shape[:start], c.shape[start:]
    require(c.is_const and len(c.shape) <= x.rank, f"{c.name} is not a constant, or adds dims")
    require(all(d == 1 for d in lead) and broadcasts_to(tail, dims), f"{c.name} varies along other axes")
    return np.broadcast_to(c.const.astype(np.float64).reshape(c.static_shape[start:]), dims)


def norm_with_weights(g: Build, op: Op, x: Value, s: Value, b: Value | None) -> Value:
    """The same normalization of `x`, with other weights."""
    return getattr(g, op.type)(x, s, b, **op.attrs)


FUSE_NORM_WEIGHTS = RulePass("fuse-norm-weights", (scale_norm, shift_norm, drop_casts_around_norm))
