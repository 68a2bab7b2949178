"""Float64 kernels of normalizations and softmaxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernel_call import Array, Kernel, KernelCall
from .movement_kernels import flat
from .reduction_kernels import log_sum_exp

Axes = tuple[int, ...]


def per_channel(v: Array, rank: int) -> Array:
    """A vector of channels, shaped to broadcast to (N, C, ...) of a rank."""
    return v.reshape(-1, *(1,) * (rank - 2))


def normalized(x: Array, axes: Axes, epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) over axes, the mean, and the reciprocal of the root."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def softmax(x: Array, axis: int) -> Array:
    """Softmax along an axis; rows of -inf alone give NaN."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - log_sum_exp(shifted, (axis,))


def _hardmax(x: Array, axis: int) -> Array:
    found = np.zeros_like(x)
    np.put_along_axis(found, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return found


def _along_axis(function: Any) -> Kernel:
    """The kernel of a function along an axis; before opset 13, over all dims from `axis` on."""

    def kernel(call: KernelCall, x: Array) -> Array:
        if x.size == 0:
            return x
        if call.version >= 13:
            return (
                function(x, call.get("axis", -1) % max(x.ndim, 1)) if x.ndim else function(x.reshape(1), 0).reshape(())
            )
        return function(flat(x, call.get("axis", 1)), 1).reshape(x.shape)

    return kernel


def _batch_normalization(call: KernelCall, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    epsilon, momentum = call.get("epsilon", 1e-5), call.get("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    if call.get("training_mode"):
        now, spread = np.mean(x, axis=axes), np.var(x, axis=axes)
        running = (mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum))
    elif call.version < 14 and call.has_output(1):
        raise NotImplementedError("training form before opset 14")
    else:
        now, spread, running = mean, variance, (mean, variance)
    if call.version < 9 and not call.get("spatial", 1):
        return (x - now) / np.sqrt(spread + epsilon) * scale + bias
    if x.ndim > 1 and x.shape[1] != scale.size:
        raise ValueError(f"{scale.size} scales for {x.shape[1]} channels")
    m, v, s, b = (per_channel(each, max(x.ndim, 2)) for each in (now, spread, scale, bias))
    y = (x - m) / np.sqrt(v + epsilon) * s + b
    return (y, *running)[: max(call.output_count, 1)]


def _instance_normalization(call: KernelCall, x: Array, scale: Array, bias: Array) -> Array:
    y, _, _ = normalized(x, tuple(range(2, x.ndim)), call.get("epsilon", 1e-5))
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def _group_normalization(call: KernelCall, x: Array, scale: Array, bias: Array) -> Array:
    groups = call.get("num_groups")
    parts = x.reshape(x.shape[0], groups, -1)
    y = normalized(parts, (2,), call.get("epsilon", 1e-5))[0]
    if call.version < 21:  # scale and bias of groups
        return (y * scale.reshape(-1, 1) + bias.reshape(-1, 1)).reshape(x.shape)
    return y.reshape(x.shape) * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def _last_axes(call: KernelCall, x: Array) -> Axes:
    return tuple(range(call.get("axis", -1) % x.ndim, x.ndim))


def _layer_normalization(call: KernelCall, x: Array, scale: Array, bias: Array | None = None) -> tuple[Array, ...]:
    y, mean, inverse = normalized(x, _last_axes(call, x), call.get("epsilon", 1e-5))
    y = y * scale if bias is None else y * scale + bias
    return y, mean, inverse


def root_mean_square(x: Array, axes: Axes, epsilon: float) -> Array:
    """sqrt(mean(x * x) + epsilon) over axes, which are kept."""
    return np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + epsilon)


def _rms_normalization(call: KernelCall, x: Array, scale: Array) -> Array:
    return x / root_mean_square(x, _last_axes(call, x), call.get("epsilon", 1e-5)) * scale


def _lp_normalization(call: KernelCall, x: Array) -> Array:
    axis = call.get("axis", -1)
    norm = np.linalg.norm(x, ord=call.get("p", 2), axis=axis, keepdims=True)
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


def _lrn(call: KernelCall, x: Array) -> Array:
    size, c = call.get("size"), x.shape[1]
    squares = x * x
    total = np.zeros_like(x)
    for i in range(c):
        low, high = max(0, i - (size - 1) // 2), min(c, i + size // 2 + 1)
        total[:, i] = squares[:, low:high].sum(axis=1)
    alpha, beta, bias = call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0)
    return x / (bias + alpha / size * total) ** beta


def _mean_variance_normalization(call: KernelCall, x: Array) -> Array:
    axes = tuple(a % x.ndim for a in call.get("axes", (0, 2, 3)))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True))
    return centred / (deviation + 1e-9)


def _dropout(call: KernelCall, x: Array, ratio: Array | None = None, training: Array | None = None) -> Any:
    is_training = not call.get("is_test", 0)
    if call.version >= 7:
        is_training = training is not None and bool(training.reshape(-1)[0])
    share = call.get("ratio", 0.5) if ratio is None else float(ratio.reshape(-1)[0])
    if is_training and share:
        raise NotImplementedError("its training form is random")
    # onnxruntime gives False before opset 12, which leaves the mask of inference undefined.
    mask = np.full(x.shape, call.version >= 12)
    return x, mask if call.version >= 10 else mask.astype(x.dtype)


KERNELS: Mapping[str, Kernel] = {
    "BatchNormalization": _batch_normalization,
    "Dropout": _dropout,
    "GroupNormalization": _group_normalization,
    "Hardmax": _along_axis(_hardmax),
    "InstanceNormalization": _instance_normalization,
    "LRN": _lrn,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _along_axis(_log_softmax),
    "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "RMSNormalization": _rms_normalization,
    "Softmax": _along_axis(softmax),
}
