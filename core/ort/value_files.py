"""Files of values that processes of this program exchange: inputs and outputs of models."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import UnverifiableError


def write_value(value: Any, path: Path) -> None:
    """Write tensors, and lists, maps and optionals of them. Raises UnverifiableError for what cannot be pickled."""
    try:
        with path.open("wb") as f:
            pickle.dump(value, f, pickle.HIGHEST_PROTOCOL)
    except (TypeError, pickle.PicklingError) as e:
        raise UnverifiableError(f"a value cannot be given to a process of its own: {e}") from e


def read_value(path: Path) -> Any:
    """Read the value of a file that a process of this program wrote."""
    with path.open("rb") as f:
        return pickle.load(f)  # noqa: S301 - from a process of our own


def with_arrays(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with arrays in place of numbers of NumPy, which onnxruntime does not take."""
    return {name: np.asarray(v) if isinstance(cast("object", v), np.generic) else v for name, v in feeds.items()}
