"""Fusion of scaled dot-product attention into Attention (since opset 23)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...core import Build, Op, RulePass, Value, conditional, require, rule, same_extent
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..support.operand_queries import has_n_consumers, known_extent, operand, required_producer, varying_operand
from .polynomials import affine_form, linear_coefficient, require_dtype, scalar_constant

ATTENTION_OPSET = 23
# onnxruntime counts the lowest number as -inf, and gives zeros for a row of nothing else.
MASKED_CONDITION = (
    "nothing is empty, no row is masked throughout by -inf or the lowest number, in half precision no score overflows"
)


@rule(
    lambda g, z, v, axis: g.MatMul(g.Softmax(z, axis=axis), v),
    contract=conditional("nothing is empty, and in half precision no score overflows"),
)
def fuse_attention(g: Build, z: Value, v: Value, axis: int) -> Value:
    """MatMul(Softmax(MatMul(q, Transpose(k)) * scale), v) => Attention(q, k, v)"""
    return build_attention(g, z, None, v, axis)


@rule(lambda g, z, m, v, axis: g.MatMul(g.Softmax(g.Add(z, m), axis=axis), v), contract=conditional(MASKED_CONDITION))
def fuse_masked_attention(g: Build, z: Value, m: Value, v: Value, axis: int) -> Value:
    """MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v) => Attention(q, k, v, mask)"""
    return build_attention(g, z, m, v, axis)


@rule(
    lambda g, p, v, zero: g.MatMul(g.Where(g.IsNaN(p), g.const(zero), p), v),
    contract=conditional("nothing is empty, and no score is NaN or infinite but where it is masked"),
)
def fuse_guarded_attention(g: Build, p: Value, v: Value, zero: Value) -> Value:
    """MatMul(Where(IsNaN(p), 0, p), v), p = Softmax(scores + mask) => Attention(q, k, v, mask)"""
    softmax = required_producer(p, "Softmax")
    require(has_n_consumers(p, 2), f"{p.name} is read elsewhere")
    # Where a row is masked throughout, Attention gives zeros, as the guard does.
    require(scalar_constant(zero, p) == 0.0, "NaN is not replaced by 0")
    masked = required_producer(operand(softmax), "Add")
    require(has_n_consumers(masked.outputs[0], 1), "the masked scores are read elsewhere")
    z, m = operand(masked), operand(masked, 1)
    z, m = (z, m) if is_scaled_matmul(z) else (m, z)
    return build_attention(g, z, m, v, softmax.attr("axis"))


def is_scaled_matmul(z: Value) -> bool:
    """Whether `z` is a MatMul, or one that is scaled."""
    op = z.producer
    if op is not None and op.type in {"Mul", "Div"}:
        return any(i is not None and i.producer is not None and i.producer.type == "MatMul" for i in op.inputs)
    return op is not None and op.type == "MatMul"


def build_attention(g: Build, z: Value, m: Value | None, v: Value, axis: int) -> Value:
    """The Attention over scores `z`, to which `m` is added."""
    require(g.opset >= ATTENTION_OPSET, f"before opset {ATTENTION_OPSET}, there is no Attention")
    require_dtype(v, HALF_OR_SINGLE)
    require(v.rank == 4 and axis in {-1, 3}, "the operands do not have 4 dims, or the softmax is not over the last")
    product, scale, last = z, 1.0, required_producer(z, "MatMul", "Mul", "Div")
    if last.type != "MatMul":
        require(has_n_consumers(z, 1), f"{z.name} is read elsewhere")
        product = varying_operand(last)
        scale = linear_coefficient(z, product)
    matmul = required_producer(product, "MatMul")
    require(has_n_consumers(product, 1), f"{product.name} is read elsewhere")
    q, q_scale = split_scale(operand(matmul))
    transposed_keys, k_scale = split_scale(operand(matmul, 1))
    scale *= q_scale * k_scale
    require(scale > 0, "the scale is not positive")
    require_heads(q, transposed_keys, v)
    if m is not None:
        require_mask(m, q, transposed_keys)
    return g.Attention(q, untransposed_keys(g, transposed_keys), v, m, scale=scale)


def split_scale(v: Value) -> tuple[Value, float]:
    """The x and the k with which `v` is `k * x`, as queries and keys are often scaled before they meet."""
    x, k, b = affine_form(v)
    return (x, k) if b == 0 else (v, 1.0)


def require_heads(q: Value, transposed_keys: Value, v: Value) -> None:
    """Decline unless all three have the same batches and heads, and no extent is 0."""
    require(q.rank == transposed_keys.rank == 4, "the operands do not have 4 dims, or the softmax is not over the last")
    for other in (transposed_keys, v):
        same = all(same_extent(a, b) for a, b in zip(q.shape[:2], other.shape[:2], strict=True))
        require(same, f"{q.name} and {other.name} may differ in batches or heads")
    require(0 not in (*q.shape, *transposed_keys.shape, *v.shape), "an extent is 0")


def require_mask(m: Value, q: Value, transposed_keys: Value) -> None:
    """Decline unless the mask has an entry for each score, shared by batches and heads or not."""
    # onnxruntime broadcasts the first two dims only.
    dims = (*q.shape[:3], transposed_keys.shape[3])
    require(m.rank in {2, 4}, "the rank of the mask is not 2 or 4")
    require(all(same_extent(a, b) for a, b in zip(m.shape[-2:], dims[-2:], strict=True)), "the mask is broadcast")
    lead = zip(m.shape[:-2], dims[:2], strict=False)
    require(all(a == 1 or same_extent(a, b) for a, b in lead), "the mask stretches the scores")


def untransposed_keys(g: Build, transposed_keys: Value) -> Value:
    """The keys of which `transposed_keys` has the last two dims exchanged."""
    op = transposed_keys.producer
    if op is None or op.type != "Transpose" or op.domain:
        return g.Transpose(transposed_keys, perm=[0, 1, 3, 2])
    perm = list(op.attr("perm") or [3, 2, 1, 0])
    perm = [*perm[:2], perm[3], perm[2]]
    k = operand(op)
    return k if perm == [0, 1, 2, 3] else g.Transpose(k, perm=perm)


FUSE_ATTENTION = RulePass("fuse-attention", (fuse_attention, fuse_masked_attention, fuse_guarded_attention))
"""Fusion of scaled dot-product attention on 4-D operands into Attention (since opset 23)."""


HEADS_FIRST = [0, 2, 1, 3]


def split_heads(g: Any, x: Any, reshape: Any) -> Any:
    """The pattern of queries, keys or values divided into heads."""
    return g.Transpose(g.Reshape(x, ...) @ reshape, perm=HEADS_FIRST)


@rule(
    lambda g, q, k, v, op, c, m=None: g.Attention(g.Mul(q, g.const(c)), k, v, m) @ op,
    lambda g, q, k, v, op, c, m=None: g.Attention(q, g.Mul(k, g.const(c)), v, m) @ op,
    contract=conditional("no score overflows"),
)
def fold_scale_into_attention(g: Build, q: Value, k: Value, v: Value, op: Op, c: Value, m: Value | None) -> Value:
    """Attention(q * c, k, v), Attention(q, k * c, v) => Attention(q, k, v, scale=scale * c)"""
    require_dtype(q, HALF_OR_SINGLE)  # a scale is a 32-bit float
    factor = scalar_constant(c, k if op.inputs[0] is q else q)
    scale = op.attr("scale")
    if scale is None:
        size = known_extent(q, 3)
        require(size > 0, "the extent of the last dim is 0")
        scale = 1 / sqrt(size)
    require(scale * factor > 0, "the scale would not be positive")  # its root is taken
    return g.Attention(q, k, v, m, **{**op.attrs, "scale": scale * factor})


@rule(
    lambda g, q, k, v, q4, k4, v4, op, joined, m=None: (
        g.Reshape(
            g.Transpose(
                g.Attention(split_heads(g, q, q4), split_heads(g, k, k4), split_heads(g, v, v4), m) @ op,
                perm=HEADS_FIRST,
            ),
            ...,
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
    out = joined.outputs[0]
    require(out.rank == 3 and keeps_leading_dims(q, out), "the output is not the joined heads")
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


FUSE_INTO_ATTENTION = RulePass("fuse-into-attention", (fold_scale_into_attention, fold_heads_into_attention))
"""Fusion of scales, and of reshapes that split heads, into Attention."""
