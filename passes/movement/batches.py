"""A Transpose of the last dims needs no batch dims merged into one first, and split again."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from ..operands import Inputs, same_shape


@rule(
    lambda g, x, a, b, inner, transpose, outer: (
        g.Reshape(g.Transpose(g.Reshape(x, *a) @ inner) @ transpose, *b) @ outer
    ),
    shared=True,
    contract=EXACT,
)  # fmt: skip
def transpose_without_merging(g: Build, x: Value, a: Inputs, b: Inputs, inner: Op, transpose: Op, outer: Op) -> Value:
    """Reshape(Transpose(Reshape(x, (-1, ...)))) => Transpose(x), where it merges leading dims, and splits them again"""
    merged, result = inner.outputs[0].shape, outer.outputs[0].shape
    lead = x.rank - len(merged) + 1
    perm = [int(i) for i in transpose.attr("perm") or range(len(merged))[::-1]]
    require(lead > 1 and perm[:1] == [0] and len(result) == x.rank, "no leading dims are merged and left in front")
    require(same_shape(merged[1:], x.shape[lead:]), "more than leading dims are merged")
    moved = [lead - 1 + i for i in perm[1:]]
    full = [*range(lead), *moved]
    require(same_shape(result, tuple(x.shape[i] for i in full)), "they are not split again as they were")
    return g.Transpose(x, perm=full)


KEEP_BATCHES = RulePass("keep-batches", (transpose_without_merging,))
