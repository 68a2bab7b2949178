"""Normalizations, softmaxes and losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from ..ir.expressions import Shape
from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array
from .movement import flat
from .operands import input_shape, normalized_axis
from .reduction import Axes, log_sum_exp, reduced_shape

NORMALIZATION = Family()
SAME = T.SAME_SHAPE | T.SAME_DTYPE
ALONG_AXIS = SAME | T.EMPTY_SAFE | T.HAS_AXIS


def per_channel(v: Array, rank: int) -> Array:
    """Reshape a vector of channels to broadcast to (N, C, ...) of the given rank."""
    return v.reshape(-1, *(1,) * (rank - 2))


def normalized(x: Array, axes: Axes, epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) over axes, the mean, and the reciprocal of the root."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def softmax(x: Array, axis: int) -> Array:
    """Softmax along an axis; rows with only -inf are NaN."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - log_sum_exp(shifted, (axis,))


def _hardmax(x: Array, axis: int) -> Array:
    found = np.zeros_like(x)
    np.put_along_axis(found, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return found


def _along_axis(function: Callable[[Array, int], Array]) -> Callable[..., Array]:
    def applied(x: Array, *, axis: int = -1) -> Array:
        if x.size == 0:
            return x
        return function(x, axis % x.ndim) if x.ndim else function(x.reshape(1), 0).reshape(())

    return applied


def _over_rows(function: Callable[[Array, int], Array]) -> Callable[..., Array]:
    """The meaning before opset 13: over all dims from `axis`."""

    def applied(x: Array, *, axis: int = 1) -> Array:
        return function(flat(x, axis), 1).reshape(x.shape) if x.size else x

    return applied


for name, traits, function in (
    ("Hardmax", ALONG_AXIS | T.QUERIES | T.BOUNDED | T.JUMPS | T.DECIDES, _hardmax),
    ("LogSoftmax", ALONG_AXIS | T.SMOOTH | T.LINEAR_TIME, _log_softmax),
    ("Softmax", ALONG_AXIS | T.BOUNDED | T.SMOOTH | T.LINEAR_TIME, softmax),
):
    NORMALIZATION.declare(name, traits, _along_axis(function), since=13)
    NORMALIZATION.older(name)(_over_rows(function))


@NORMALIZATION.operator("BatchNormalization", SAME | T.EMPTY_SAFE | T.SMOOTH | T.LINEAR_TIME)
def _batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, version: int, node: onnx.NodeProto,
) -> Any:  # fmt: skip
    axes = (0, *range(2, x.ndim))
    if training_mode:
        now, spread = np.mean(x, axis=axes), np.var(x, axis=axes)
        running = (mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum))
    elif version < 14 and any(node.output[1:]):
        raise NotImplementedError("training form before opset 14")
    else:
        now, spread, running = mean, variance, (mean, variance)
    if version < 9 and not spatial:
        return (x - now) / np.sqrt(spread + epsilon) * scale + bias
    if x.ndim > 1 and x.shape[1] != scale.size:
        raise ValueError(f"{scale.size} scales for {x.shape[1]} channels")
    m, v, s, b = (per_channel(each, max(x.ndim, 2)) for each in (now, spread, scale, bias))
    y = (x - m) / np.sqrt(v + epsilon) * s + b
    return (y, *running)[: max(len(node.output), 1)]


@NORMALIZATION.operator("InstanceNormalization", SAME | T.EMPTY_SAFE | T.NORMALIZATION | T.SMOOTH)
def _instance_normalization(x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5) -> Array:
    y, _, _ = normalized(x, tuple(range(2, x.ndim)), epsilon)
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


@NORMALIZATION.shapes("BatchNormalization")
def _shapes_of_batch_normalization(op: Op) -> list[Shape]:
    """Means and variances have one number per channel, like the inputs; before opset 14 there are two of each."""
    return [input_shape(op), *(input_shape(op, 3 + i % 2) for i in range(len(op.outputs) - 1))]


def _of_groups(x: Array, groups: int, epsilon: float) -> Array:
    return normalized(x.reshape(x.shape[0], groups, -1), (2,), epsilon)[0]


@NORMALIZATION.operator("GroupNormalization", SAME | T.NORMALIZATION, since=21)
def _group_normalization(x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5) -> Array:
    y = _of_groups(x, num_groups, epsilon).reshape(x.shape)
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


@NORMALIZATION.older("GroupNormalization")
def _with_scales_of_groups(x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5) -> Array:
    y = _of_groups(x, num_groups, epsilon)
    return (y * scale.reshape(-1, 1) + bias.reshape(-1, 1)).reshape(x.shape)


def last_axes(x: Array, axis: int) -> Axes:
    """The axes from `axis` to the last."""
    return tuple(range(axis % x.ndim, x.ndim))


@NORMALIZATION.operator("LayerNormalization", SAME | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS | T.SMOOTH)
def _layer_normalization(
    x: Array, scale: Array, bias: Array | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, ...]:
    y, mean, inverse = normalized(x, last_axes(x, axis), epsilon)
    y = y * scale if bias is None else y * scale + bias
    return y, mean, inverse


@NORMALIZATION.shapes("LayerNormalization")
def _shapes_of_layer_normalization(op: Op) -> list[Shape]:
    x = input_shape(op)
    if len(op.outputs) == 1:
        return [x]
    axis = normalized_axis(op, len(x), -1)
    return [x, *[reduced_shape(x, range(axis, len(x)), 1)] * 2]


def root_mean_square(x: Array, axes: Axes, epsilon: float) -> Array:
    """sqrt(mean(x * x) + epsilon) over axes, which are kept."""
    return np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + epsilon)


@NORMALIZATION.operator("RMSNormalization", T.SAME_SHAPE | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS)
def _rms_normalization(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5) -> Array:
    return x / root_mean_square(x, last_axes(x, axis), epsilon) * scale


@NORMALIZATION.operator("LpNormalization", ALONG_AXIS | T.LINEAR_TIME)
def _lp_normalization(x: Array, *, axis: int = -1, p: float = 2) -> Array:
    norm = np.linalg.norm(x, ord=p, axis=axis, keepdims=True)
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


@NORMALIZATION.operator("LRN", SAME)
def _lrn(x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    squares, c = x * x, x.shape[1]
    total = np.zeros_like(x)
    for i in range(c):
        low, high = max(0, i - (size - 1) // 2), min(c, i + size // 2 + 1)
        total[:, i] = squares[:, low:high].sum(axis=1)
    return x / (bias + alpha / size * total) ** beta


@NORMALIZATION.operator("MeanVarianceNormalization", SAME | T.LINEAR_TIME)
def _mean_variance_normalization(x: Array, *, axes: Sequence[int] = (0, 2, 3)) -> Array:
    along = tuple(a % x.ndim for a in axes)
    centred = x - np.mean(x, axis=along, keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axis=along, keepdims=True))
    return centred / (deviation + 1e-9)


@NORMALIZATION.operator("Dropout", SAME | T.EMPTY_SAFE | T.KEEPS_FINITE | T.LINEAR_TIME, data=(0,), roles={1: "share"})
def _dropout(
    x: Array, ratio: Any = None, training: Array | None = None, *, is_test: int = 0, version: int
) -> tuple[Array, Array]:
    is_training = not is_test
    if version >= 7:
        is_training = training is not None and bool(training.reshape(-1)[0])
    share = 0.5 if ratio is None else float(np.reshape(ratio, -1)[0])
    if is_training and share:
        raise NotImplementedError("its training form is random")
    # onnxruntime returns False before opset 12, which does not define the mask in inference.
    mask = np.full(x.shape, version >= 12)
    return x, mask if version >= 10 else mask.astype(x.dtype)


@NORMALIZATION.shapes("Dropout")
def _shapes_of_dropout(op: Op) -> list[Shape]:
    return [input_shape(op)] * 2


NORMALIZATION.declare("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", T.SAME_DTYPE, roles={1: "index"})
