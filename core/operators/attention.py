"""Attention and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import expressions as sym
from ..ir.expressions import Shape
from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array
from .normalization import softmax
from .operands import input_shape

ATTENTION = Family()


def split_heads(x: Array, heads: int) -> Array:
    """Reshape (batch, sequence, heads * size) to (batch, heads, sequence, size)."""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


def join_heads(x: Array) -> Array:
    """The inverse of `split_heads`."""
    y = np.swapaxes(x, 1, 2)
    return y.reshape(*y.shape[:2], -1)


def additive_mask(mask: Array) -> Array:
    """Convert a mask for addition: False becomes -inf."""
    return np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask


def attention_weights(scores: Array) -> Array:
    """The softmax of masked scores; a row without any key is zero (operator Attention)."""
    weights = softmax(scores, -1)
    return np.where(np.isneginf(scores).all(axis=-1, keepdims=True), 0, weights)


@ATTENTION.operator("Attention", T.SAME_DTYPE)
def _attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, past_key: Array | None = None,
    past_value: Array | None = None, valid: Array | None = None, *, q_num_heads: int = 0, kv_num_heads: int = 0,
    scale: float | None = None, softcap: float = 0.0, is_causal: int = 0, left_window_size: int = -1,
    right_window_size: int = -1, qk_matmul_output_mode: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    is_flat = q.ndim == 3
    if is_flat:
        q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2)
    present = (k, v)
    queries, keys, repeats = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, repeats, axis=1) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if scale is None else scale  # the nearest float, which may differ from 1 / sqrt
    stages = [(q * factor) @ np.swapaxes(k, -1, -2)]
    capped = softcap * np.tanh(stages[0] / softcap) if softcap else stages[0]
    bias: Any = 0.0
    if mask is not None:
        bias = additive_mask(mask)
        widths = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        bias = np.pad(bias, widths, constant_values=-np.inf)
    ends = None if valid is None else valid.reshape(-1, 1, 1, 1)
    at, of = np.arange(keys), np.arange(queries).reshape(-1, 1)
    first: Any = past if ends is None or past_key is not None else ends - queries
    allowed: Any = np.ones((queries, keys), np.bool_)
    if is_causal:
        allowed = allowed & (at <= of + first)
    for size, sign in ((left_window_size, 1), (right_window_size, -1)):
        if size >= 0:
            allowed = allowed & (sign * (of + first - at) <= size)
    if ends is not None:
        allowed = allowed & (at < ends)
    masked = capped + np.where(allowed, 0.0, -np.inf) + bias
    stages += [capped, masked, attention_weights(masked)]
    y = stages[3] @ v
    return (join_heads(y) if is_flat else y, *present, stages[qk_matmul_output_mode])


@ATTENTION.shapes("Attention")
def _shapes_of_attention(op: Op) -> list[Shape]:
    """The shapes of the result, the keys and values so far, and the scores."""
    q, v = _with_heads(op, 0, "q_num_heads"), _with_heads(op, 2, "kv_num_heads")
    size = v[3]
    result = (*q[:3], size)
    if len(input_shape(op)) == 3:
        result = (q[0], q[2], None if size is None or q[1] is None else sym.multiply(q[1], size))
    if len(op.outputs) == 1:
        return [result]
    k = _with_heads(op, 1, "kv_num_heads")
    before = input_shape(op, 4)[2] if op.input(4) is not None else 0
    keys = None if before is None or k[2] is None else sym.add(before, k[2])
    return [result, (*k[:2], keys, k[3]), (*v[:2], keys, size), (*q[:3], keys)]


def _with_heads(op: Op, index: int, count: str) -> Shape:
    """The shape (batch, heads, sequence, size) of an input; if it has three dims, an attribute counts the heads."""
    x = input_shape(op, index)
    if len(x) == 4:
        return x
    batch, steps, width = x
    heads = int(op.attr(count))
    return batch, heads, steps, None if width is None else sym.floor_divide(width, heads)


def rotated(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Array:
    """Rotate the first elements of the last dim in pairs, by tables of half their number."""
    size = 2 * cos.shape[-1]
    part, rest = x[..., :size], x[..., size:]
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else np.split(part, 2, axis=-1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        turned = np.stack((real, imaginary), axis=-1).reshape(part.shape)
    else:
        turned = np.concatenate((real, imaginary), axis=-1)
    return np.concatenate((turned, rest), axis=-1)


@ATTENTION.operator("RotaryEmbedding", T.SAME_SHAPE | T.SAME_DTYPE | T.LINEAR_TIME, roles={3: "index"})
def _rotary_embedding(
    x: Array, cos: Array, sin: Array, positions: Array | None = None, *, num_heads: int = 0, interleaved: int = 0
) -> Array:
    heads = split_heads(x, num_heads) if x.ndim == 3 else x
    cos, sin = (t if positions is None else t[positions] for t in (cos, sin))
    y = rotated(heads, cos[:, None], sin[:, None], interleaved=bool(interleaved))
    return join_heads(y) if x.ndim == 3 else y


@ATTENTION.operator("LinearAttention", T.SAME_DTYPE | T.STEPWISE | T.SMOOTH)
def _linear_attention(
    query: Array, key: Array, value: Array, past_state: Array | None = None, decay: Array | None = None,
    beta: Array | None = None, *, q_num_heads: int, kv_num_heads: int, scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:  # fmt: skip
    if (decay is not None) != ("gated" in update_rule) or (beta is not None) != ("delta" in update_rule):
        raise ValueError(f"{update_rule} requires other inputs")
    q, (k, v) = split_heads(query, q_num_heads), (split_heads(x, kv_num_heads) for x in (key, value))
    gates = None if decay is None else np.exp(split_heads(decay, kv_num_heads))
    rates = None if beta is None else np.swapaxes(beta, 1, 2)
    state = np.zeros_like(k, shape=(*k.shape[:2], k.shape[3], v.shape[3])) if past_state is None else past_state
    results: list[Array] = []
    for t in range(q.shape[2]):
        now, written = k[:, :, t, None, :], v[:, :, t, None, :]
        if gates is not None:
            state = state * gates[:, :, t, :, None]
        if rates is not None:
            written = rates[:, :, t, None, None] * (written - now @ state)
        state = state + np.swapaxes(now, 2, 3) * written
        results.append(q[:, :, t, None, :] @ np.repeat(state, q_num_heads // kv_num_heads, axis=1))
    return join_heads(np.concatenate(results, axis=2) * (scale or q.shape[3] ** -0.5)), state
