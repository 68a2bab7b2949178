"""Order of the sums before layer normalizations, for onnxruntime."""

from __future__ import annotations

from ...core import Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import same_shape


@rule(lambda g, x, b, skip, total: g.Add(g.Add(x, g.const(b)), skip) @ total)
def add_bias_after_skip(g: Build, x: Value, b: Value, skip: Value, total: Op) -> Value:
    """LayerNormalization((x + b) + skip) => LayerNormalization((x + skip) + b), which onnxruntime does not fuse"""
    readers = total.outputs[0].consumers
    require(any(r.type == "LayerNormalization" and not r.domain for r in readers), "no layer normalization reads it")
    require(not x.is_const and not skip.is_const, f"{x.name} or {skip.name} is constant")
    require(b.rank == 1 and same_shape(x.shape, skip.shape), f"{x.name} and {skip.name} may differ in shape")
    return g.Add(g.Add(x, skip), b)


KEEP_NORMS_APART = RulePass("keep-norms-apart", (add_bias_after_skip,))
"""Order of sums that onnxruntime does not fuse into SkipLayerNormalization, which is slower and less exact."""
