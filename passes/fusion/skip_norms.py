"""Sums before layer normalizations that onnxruntime does not fuse.

`keep-norms-apart`: Sums that onnxruntime does not fuse into SkipLayerNormalization, which is slower and less exact.
"""

from __future__ import annotations

from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import same_shape


@rule(lambda g, x, b, skip, total: g.Add(g.Add(x, g.const(b)), skip) @ total, group="keep-norms-apart")
def add_bias_after_skip(g: RewriteBuilder, x: Value, b: Value, skip: Value, total: Op) -> Value:
    """LayerNormalization((x + b) + skip) => LayerNormalization((x + skip) + b), which onnxruntime does not fuse"""
    require_norm_behind(total, x, skip)
    require(b.rank == 1 and same_shape(x.shape, skip.shape), f"{x.name} and {skip.name} may differ in shape")
    return g.Add(g.Add(x, skip), b)


@rule(lambda g, x, skip, total: g.Add(x, skip) @ total, contract=EXACT, group="keep-norms-apart")
def sum_before_norm(g: RewriteBuilder, x: Value, skip: Value, total: Op) -> Value:
    """LayerNormalization(x + skip) => LayerNormalization(Sum(x, skip)), which onnxruntime does not fuse"""
    require_norm_behind(total, x, skip)
    is_fused = total.outputs[0].dtype == TensorProto.FLOAT and total.outputs[0].rank == 3
    require(is_fused, "onnxruntime fuses sums of three dims in single precision only")
    return g.Sum(x, skip)


def require_norm_behind(total: Op, x: Value, skip: Value) -> None:
    """Decline a sum that no LayerNormalization reads, or of a constant, which onnxruntime takes for a bias."""
    readers = total.outputs[0].consumers
    require(any(r.type == "LayerNormalization" and not r.domain for r in readers), "no layer normalization reads it")
    require(not x.is_const and not skip.is_const, f"{x.name} or {skip.name} is constant")
