"""Fusion of scales, and of reshapes that split heads, into Attention."""

from __future__ import annotations

from math import sqrt

from ...core import Build, Declined, Op, RulePass, Value, conditional, require, rule, same_extent
from ...core.ir.dtypes import HALF_OR_SINGLE
from .polynomials import require_dtype, scalar_constant

HEADS_FIRST = [0, 2, 1, 3]
NO_SCORE_OVERFLOW = conditional("no score overflows")


@rule(lambda g, q, k, v, op, c, m=None: g.Attention(g.Mul(q, g.const(c)), k, v, m) @ op, contract=NO_SCORE_OVERFLOW)
def scale_queries_in_attention(g: Build, q: Value, k: Value, v: Value, op: Op, c: Value, m: Value | None) -> Value:
    """Attention(q * c, k, v) => Attention(q, k, v, scale=scale * c)"""
    return scaled_attention(g, op, scalar_constant(c, q), q, k, v, m)


@rule(lambda g, q, k, v, op, c, m=None: g.Attention(q, g.Mul(k, g.const(c)), v, m) @ op, contract=NO_SCORE_OVERFLOW)
def scale_keys_in_attention(g: Build, q: Value, k: Value, v: Value, op: Op, c: Value, m: Value | None) -> Value:
    """Attention(q, k * c, v) => Attention(q, k, v, scale=scale * c)"""
    return scaled_attention(g, op, scalar_constant(c, k), q, k, v, m)


def scaled_attention(g: Build, op: Op, c: float, q: Value, k: Value, v: Value, m: Value | None) -> Value:
    """The same Attention with a scale `c` times as large, which is above 0 as its root is taken."""
    require_dtype(q, HALF_OR_SINGLE)  # a scale is a 32-bit float
    scale = op.attr("scale")
    if scale is None:
        size = known_extent(q, 3)
        require(size > 0, "the extent of the last dim is 0")
        scale = 1 / sqrt(size)
    require(scale * c > 0, "the scale would not be positive")
    return g.Attention(q, k, v, m, **{**op.attrs, "scale": scale * c})


@rule(
    lambda g, q, k, v, sq, sk, sv, so, q4, k4, v4, op, joined, m=None: (
        g.Reshape(
            g.Transpose(
                g.Attention(
                    g.Transpose(g.Reshape(q, sq) @ q4, perm=HEADS_FIRST),
                    g.Transpose(g.Reshape(k, sk) @ k4, perm=HEADS_FIRST),
                    g.Transpose(g.Reshape(v, sv) @ v4, perm=HEADS_FIRST),
                    m,
                )
                @ op,
                perm=HEADS_FIRST,
            ),
            so,
        )
        @ joined
    )
)
def fold_heads_into_attention(
    g: Build, q: Value, k: Value, v: Value, m: Value | None, q4: Op, k4: Op, v4: Op, op: Op, joined: Op
) -> Value:
    """Reshape(Transpose(Attention(Transpose(Reshape(q)), ...))) => Attention(q, k, v, q_num_heads, kv_num_heads)"""
    heads, kv_heads = head_count(q, q4.outputs[0]), head_count(k, k4.outputs[0])
    require(kv_heads == head_count(v, v4.outputs[0]), "keys and values differ in heads")
    require(
        joined.outputs[0].rank == 3 and keeps_leading_dims(q, joined.outputs[0]), "the output is not the joined heads"
    )
    attrs = {"scale": sqrt(heads / known_extent(q, 2)), **op.attrs}
    return g.Attention(q, k, v, m, **{**attrs, "q_num_heads": heads, "kv_num_heads": kv_heads})


def head_count(x: Value, split: Value) -> int:
    """The number of heads into which `split` divides the last of the 3 dims of `x`."""
    require(x.rank == 3 and split.rank == 4 and keeps_leading_dims(x, split), "the last dim is not split into heads")
    count, width = split.shape[2], known_extent(x, 2)
    heads = count if isinstance(count, int) else width // max(known_extent(split, 3), 1)
    require(heads > 0 and width % heads == 0, f"the last dim of {x.name} does not divide into heads")
    return heads


def keeps_leading_dims(x: Value, reshaped: Value) -> bool:
    """Whether the first two dims, and so the contents of rows, are kept."""
    return all(same_extent(a, b) for a, b in zip(x.shape[:2], reshaped.shape[:2], strict=True))


def known_extent(x: Value, axis: int) -> int:
    """A dim that is known."""
    found = x.shape[axis] if x.rank > axis else None
    if not isinstance(found, int):
        raise Declined(f"dim {axis} of {x.name} is unknown")
    return found


FUSE_INTO_ATTENTION = RulePass(
    "fuse-into-attention", (scale_queries_in_attention, scale_keys_in_attention, fold_heads_into_attention)
)
