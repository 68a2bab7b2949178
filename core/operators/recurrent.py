"""Recurrent networks: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..errors import require
from ..ir.expressions import Shape
from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array
from .elementwise import elu, hard_sigmoid, leaky_relu, sigmoid, softplus, softsign, thresholded_relu
from .operands import input_shape

RECURRENT = Family()
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
        "leakyrelu": lambda x: leaky_relu(x, alpha=a),
        "thresholdedrelu": lambda x: thresholded_relu(x, alpha=a),
        "scaledtanh": lambda x: a * np.tanh(b * x),
        "hardsigmoid": lambda x: hard_sigmoid(x, alpha=a, beta=b),
        "elu": lambda x: elu(x, alpha=a),
        "softsign": softsign,
        "softplus": softplus,
    }
    return known[name]


def _activations(names: Sequence[str], alphas: list[float], betas: list[float]) -> list[Activation]:
    """The activation functions of all directions."""
    made: list[Activation] = []
    for name in map(str.lower, names):
        a, b = DEFAULT_PARAMETERS.get(name, (0.0, 0.0))
        if name in DEFAULT_PARAMETERS:  # the lists only have entries for activations with parameters
            a = alphas.pop(0) if alphas else a
        if name in {"affine", "scaledtanh", "hardsigmoid"}:
            b = betas.pop(0) if betas else b
        made.append(_activation(name, a, b))
    return made


class _Weights(NamedTuple):
    """Weights and activations of one direction, and `clip` for the inputs of activations."""

    w: Array
    r: Array
    wb: Array
    rb: Array
    functions: Sequence[Activation]
    clip: float | None

    def clipped(self, x: Array) -> Array:
        """Clip the input of an activation."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


def _rnn_step(k: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    return (k.functions[0](k.clipped(x @ k.w + state[0] @ k.r + k.wb + k.rb)),)


def _gru_step(k: _Weights, x: Array, state: tuple[Array, ...], *, linear_before_reset: int = 0) -> tuple[Array, ...]:
    (h,), (f, g) = state, k.functions
    size = h.shape[1]
    xs, rs = x @ k.w + k.wb, h @ k.r + k.rb
    z, r = (f(k.clipped(xs[:, i * size : (i + 1) * size] + rs[:, i * size : (i + 1) * size])) for i in (0, 1))
    hidden = r * rs[:, 2 * size :] if linear_before_reset else (r * h) @ k.r[:, 2 * size :] + k.rb[2 * size :]
    return ((1 - z) * g(k.clipped(xs[:, 2 * size :] + hidden)) + z * h,)


def _lstm_step(
    k: _Weights, x: Array, state: tuple[Array, ...], peephole: Array | None = None, *, input_forget: int = 0
) -> tuple[Array, ...]:
    (h, c), (f, g, out) = state, k.functions
    gates = x @ k.w + h @ k.r + k.wb + k.rb
    i, o, forget, cell = np.split(gates, 4, axis=1)
    pi, po, pf = (0.0, 0.0, 0.0) if peephole is None else np.split(peephole, 3)
    i = f(k.clipped(i + pi * c))
    forget = 1 - i if input_forget else f(k.clipped(forget + pf * c))
    now = forget * c + i * g(k.clipped(cell))
    return f(k.clipped(o + po * now)) * out(now), now


def _recurrent(
    step: Callable[..., tuple[Array, ...]], defaults: tuple[str, ...], x: Array, w: Array, r: Array,
    bias: Array | None, lengths: Array | None, initial: Sequence[Array | None], peepholes: Array | None = None, *,
    direction: str = "forward", layout: int = 0, activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (), activation_beta: Sequence[float] = (), clip: float | None = None,
    **_: Any,
) -> tuple[Array, ...]:  # fmt: skip
    """The states after each step, and the last states, of a network with a `step` and `initial` states.

    `defaults` are the activations of a direction.
    """
    x = np.swapaxes(x, 0, 1) if layout else x
    steps, batch = x.shape[:2]
    directions, half = w.shape[:2]
    shape = (directions, batch, r.shape[2])
    first = [np.zeros(shape) if s is None else (np.swapaxes(s, 0, 1) if layout else s) for s in initial]
    ends = np.full(batch, steps) if lengths is None else lengths
    y = np.zeros((steps, directions, batch, r.shape[2]))
    last = [s.copy() for s in first]
    functions = _activations(activations or defaults * directions, list(activation_alpha), list(activation_beta))
    for d in range(directions):
        b = np.zeros(2 * half) if bias is None else bias[d]
        own = functions[d * len(defaults) : (d + 1) * len(defaults)]
        k = _Weights(w[d].T, r[d].T, b[:half], b[half:], own, clip)
        extra = (peepholes[d],) if peepholes is not None else ()
        state = tuple(s[d] for s in first)
        is_backward = direction == "reverse" or d == 1
        for t in range(steps):
            active = (t < ends).reshape(-1, 1)
            # In reverse direction, a sequence begins at its own end.
            at = np.where(t < ends, ends - 1 - t, 0) if is_backward else np.full(batch, t)
            now = step(k, x[at, np.arange(batch)], state, *extra)
            state = tuple(np.where(active, new, old) for new, old in zip(now, state, strict=True))
            rows = np.flatnonzero(active)
            y[at[rows], d, rows] = state[0][rows]
        for s, value in zip(last, state, strict=True):
            s[d] = value
    if layout:
        return np.moveaxis(y, 2, 0), *(np.swapaxes(s, 0, 1) for s in last)
    return y, *last


NETWORK = T.SAME_DTYPE | T.STEPWISE | T.APPROXIMATED


@RECURRENT.operator("RNN", NETWORK, roles={4: "count"})
def _rnn(
    x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None, h: Array | None = None,
    **settings: Any,
) -> tuple[Array, ...]:  # fmt: skip
    return _recurrent(_rnn_step, ("Tanh",), x, w, r, bias, lengths, [h], **settings)


@RECURRENT.operator("GRU", NETWORK, roles={4: "count"})
def _gru(
    x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None, h: Array | None = None,
    *, linear_before_reset: int = 0, **settings: Any,
) -> tuple[Array, ...]:  # fmt: skip
    step = partial(_gru_step, linear_before_reset=linear_before_reset)
    return _recurrent(step, ("Sigmoid", "Tanh"), x, w, r, bias, lengths, [h], **settings)


@RECURRENT.operator("LSTM", NETWORK, roles={4: "count"})
def _lstm(
    x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None, h: Array | None = None,
    c: Array | None = None, peepholes: Array | None = None, *, input_forget: int = 0, **settings: Any,
) -> tuple[Array, ...]:  # fmt: skip
    step = partial(_lstm_step, input_forget=input_forget)
    return _recurrent(step, ("Sigmoid", "Tanh", "Tanh"), x, w, r, bias, lengths, [h, c], peepholes, **settings)


@RECURRENT.shapes("GRU LSTM RNN")
def _shapes_of_states(op: Op) -> list[Shape]:
    x, hidden = input_shape(op), op.attr("hidden_size")
    require(len(x) == 3, "its input is not a batch of sequences")
    directions = 2 if op.attr("direction", "forward") == "bidirectional" else 1
    if op.attr("layout", 0):
        batch, steps, _ = x
        return [(batch, steps, directions, hidden), *[(batch, directions, hidden)] * 2]
    steps, batch, _ = x
    return [(steps, directions, batch, hidden), *[(directions, batch, hidden)] * 2]
