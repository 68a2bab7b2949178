"""Products with the repeated heads of grouped-query attention.

`group-heads`: Products with repeated heads become products with each head once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...core import Op, RewriteBuilder, Value, require, rule, same_extent
from ..fusion.attention import ATTENTION_OPSET, unrepeated_heads
from ..movement.reshapes import reshape_target
from ..support.operand_queries import known_extent

HEADS_AXES: Mapping[tuple[int, ...], int] = MappingProxyType({
    (0, 1, 2, 3): 1, (0, 1, 3, 2): 1, (0, 2, 1, 3): 2, (0, 2, 3, 1): 2,
})  # fmt: skip
"""The axis of the heads, by the perm that moves it to axis 1."""
MAX_ROWS = 1024
"""Rows of one product. With 2048 and more, attention takes 1.09 to 1.19 of the time with repeated heads.

A number of rows that is not known may be that large, so it is declined, though one row takes 0.12 to 0.48 of the time.
"""


@rule(
    lambda g, q, part, repeated: g.MatMul(q, g.Reshape(g.Expand(part, ...), ...) @ repeated),
    lambda g, q, part, repeated, perm: g.MatMul(
        q, g.Transpose(g.Reshape(g.Expand(part, ...), ...) @ repeated, perm=perm)
    ),
    group="group-heads",
)
def multiply_groups_of_heads(
    g: RewriteBuilder, q: Value, part: Value, repeated: Op, perm: list[int] | None = None
) -> Value:
    """MatMul(q, Reshape(Expand(k))) => Reshape(MatMul(Reshape(q), k)), a product for each head of k"""
    require(g.opset < ATTENTION_OPSET, "Attention repeats heads itself")
    axis = HEADS_AXES.get(tuple(perm) if perm else (0, 1, 2, 3), 0)
    require(axis > 0, "Transpose does not move the heads to axis 1")
    heads = unrepeated_heads(part, repeated.outputs[0], axis)
    require(q.rank == 4, "the other factor does not have 4 dims")
    batch, count, rows, inner = q.shape[0], known_extent(q, 1), known_extent(q, 2), q.shape[3]
    groups = known_extent(heads, axis)
    same_batch = same_extent(batch, heads.shape[0]) and repeated.outputs[0].shape[axis] == count
    require(same_batch, "the batch dims differ")
    grouped = rows * (count // groups)
    require(0 < grouped <= MAX_ROWS, f"there would be {grouped} rows in one product")
    keys = heads if perm is None else g.Transpose(heads, perm=perm)
    product = g.MatMul(g.Reshape(q, reshape_target(q, (batch, groups, grouped, inner))), keys)
    return g.Reshape(product, reshape_target(product, (batch, count, rows, product.shape[3])))
