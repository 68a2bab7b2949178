"""Weights for models in text form, chosen by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]


def weights_used_in(text: str, weights: Mapping[str, np.ndarray]) -> Weights:
    """Those of `weights` that occur in `text` as operands."""
    words = set(text.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return {name: array for name, array in weights.items() if name in words}


def matrix(*dims: int) -> np.ndarray:
    """Distinct numbers of both signs."""
    return np.linspace(-1, 1.5, int(np.prod(dims)), dtype=np.float32).reshape(dims)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Random numbers away from zero, of either sign."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(dtype)
