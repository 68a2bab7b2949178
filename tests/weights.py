"""Weights for models in text form, chosen by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx.parser import parse_graph
from passwright.core.serialization.proto_queries import captured_names


def read_by(text: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `weights` that the graph `text` reads and does not define."""
    return {name: weights[name] for name in captured_names(parse_graph(text)) if name in weights}


def matrix(*dims: int) -> np.ndarray:
    """Distinct numbers of both signs."""
    return np.linspace(-1, 1.5, int(np.prod(dims)), dtype=np.float32).reshape(dims)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Random numbers away from zero, of either sign."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(dtype)
