"""Float64 kernels of recurrent networks: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .elementwise_kernels import sigmoid, softplus
from .kernel_call import Array, Kernel, KernelCall

Activation = Callable[[Array], Array]
DEFAULT_PARAMETERS: Mapping[str, tuple[float, float]] = {
    "affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0),
}  # fmt: skip
"""alpha and beta by activation (operator RNN)."""


def _activation(name: str, a: float, b: float) -> Activation:
    """An activation function by its name in lower case."""
    known: dict[str, Activation] = {
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "sigmoid": sigmoid,
        "affine": lambda x: a * x + b,
        "leakyrelu": lambda x: np.where(x < 0, a * x, x),
        "thresholdedrelu": lambda x: np.where(x > a, x, 0),
        "scaledtanh": lambda x: a * np.tanh(b * x),
        "hardsigmoid": lambda x: np.clip(a * x + b, 0, 1),
        "elu": lambda x: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "softplus": softplus,
    }
    return known[name]


def _activations(call: KernelCall, defaults: tuple[str, ...], directions: int) -> list[list[Activation]]:
    """The activation functions of each direction."""
    names = [n.lower() for n in call.get("activations") or defaults * directions]
    alphas, betas = (list(call.get(f"activation_{kind}") or ()) for kind in ("alpha", "beta"))
    made: list[Activation] = []
    for name in names:
        a, b = DEFAULT_PARAMETERS.get(name, (0.0, 0.0))
        if name in DEFAULT_PARAMETERS:  # the lists have entries for activations with parameters only
            a = alphas.pop(0) if alphas else a
        if name in {"affine", "scaledtanh", "hardsigmoid"}:
            b = betas.pop(0) if betas else b
        made.append(_activation(name, a, b))
    size = len(defaults)
    return [made[i * size : (i + 1) * size] for i in range(directions)]


class _Weights:
    """Weights of one direction, and `clip` of the inputs of activations."""

    def __init__(self, call: KernelCall, w: Array, r: Array, bias: Array | None, functions: list[Activation]) -> None:
        self.w, self.r, self.functions = w.T, r.T, functions
        half = w.shape[0]
        self.wb = np.zeros(half) if bias is None else bias[:half]
        self.rb = np.zeros(half) if bias is None else bias[half:]
        self.clip = call.get("clip")

    def clipped(self, x: Array) -> Array:
        """The input of an activation."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


def _rnn_step(_: KernelCall, k: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    return (k.functions[0](k.clipped(x @ k.w + state[0] @ k.r + k.wb + k.rb)),)


def _gru_step(call: KernelCall, k: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    (h,), (f, g) = state, k.functions
    size = h.shape[1]
    xs, rs = x @ k.w + k.wb, h @ k.r + k.rb
    z, r = (f(k.clipped(xs[:, i * size : (i + 1) * size] + rs[:, i * size : (i + 1) * size])) for i in (0, 1))
    before = bool(call.get("linear_before_reset"))
    hidden = r * rs[:, 2 * size :] if before else (r * h) @ k.r[:, 2 * size :] + k.rb[2 * size :]
    return ((1 - z) * g(k.clipped(xs[:, 2 * size :] + hidden)) + z * h,)


def _lstm_step(
    call: KernelCall, k: _Weights, x: Array, state: tuple[Array, ...], peephole: Array | None = None
) -> tuple[Array, ...]:
    (h, c), (f, g, out) = state, k.functions
    gates = x @ k.w + h @ k.r + k.wb + k.rb
    i, o, forget, cell = np.split(gates, 4, axis=1)
    pi, po, pf = (0.0, 0.0, 0.0) if peephole is None else np.split(peephole, 3)
    i = f(k.clipped(i + pi * c))
    forget = 1 - i if call.get("input_forget") else f(k.clipped(forget + pf * c))
    now = forget * c + i * g(k.clipped(cell))
    return f(k.clipped(o + po * now)) * out(now), now


def _recurrent(step: Any, defaults: tuple[str, ...], states: int) -> Kernel:
    """The kernel of a network with a `step`, whose activations have `defaults`, and with some `states`."""

    def kernel(
        call: KernelCall,
        x: Array,
        w: Array,
        r: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        *rest: Array | None,
    ) -> tuple[Array, ...]:
        is_batch_first = bool(call.get("layout"))
        x = np.swapaxes(x, 0, 1) if is_batch_first else x
        steps, batch = x.shape[:2]
        directions, hidden = w.shape[0], r.shape[2]
        shape = (directions, batch, hidden)
        given = [*rest, None, None, None]
        initial = [
            np.zeros(shape) if s is None else (np.swapaxes(s, 0, 1) if is_batch_first else s) for s in given[:states]
        ]
        peepholes = given[2] if states == 2 else None
        ends = np.full(batch, steps) if lengths is None else lengths
        y = np.zeros((steps, directions, batch, hidden))
        last = [s.copy() for s in initial]
        functions = _activations(call, defaults, directions)
        for d in range(directions):
            k = _Weights(call, w[d], r[d], None if bias is None else bias[d], functions[d])
            extra = (peepholes[d],) if peepholes is not None else ()
            state = tuple(s[d] for s in initial)
            is_backward = call.get("direction", "forward") == "reverse" or d == 1
            for t in range(steps):
                active = (t < ends).reshape(-1, 1)
                # Backwards, a sequence begins at its own end.
                at = np.where(t < ends, ends - 1 - t, 0) if is_backward else np.full(batch, t)
                now = step(call, k, x[at, np.arange(batch)], state, *extra)
                state = tuple(np.where(active, new, old) for new, old in zip(now, state, strict=True))
                rows = np.flatnonzero(active)
                y[at[rows], d, rows] = state[0][rows]
            for s, value in zip(last, state, strict=True):
                s[d] = value
        if is_batch_first:
            return np.moveaxis(y, 2, 0), *(np.swapaxes(s, 0, 1) for s in last)
        return y, *last

    return kernel


KERNELS: Mapping[str, Kernel] = {
    "GRU": _recurrent(_gru_step, ("Sigmoid", "Tanh"), 1),
    "LSTM": _recurrent(_lstm_step, ("Sigmoid", "Tanh", "Tanh"), 2),
    "RNN": _recurrent(_rnn_step, ("Tanh",), 1),
}
