"""Files with values (inputs and outputs of models) that processes of this program exchange."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import UnverifiableError


def write_value(value: Any, path: Path) -> None:
    """Write tensors, or lists, maps and optionals of them. Raises UnverifiableError if they cannot be pickled."""
    try:
        with path.open("wb") as f:
            pickle.dump(value, f, pickle.HIGHEST_PROTOCOL)
    except (TypeError, pickle.PicklingError) as e:
        raise UnverifiableError(f"a value cannot be sent to another process: {e}") from e


def read_value(path: Path) -> Any:
    """Read a value from a file written by a process of this program."""
    with path.open("rb") as f:
        return pickle.load(f)  # noqa: S301 - from a process of our own


def with_arrays(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with NumPy scalars converted to arrays, because onnxruntime rejects scalars."""
    return {name: np.asarray(v) if isinstance(cast("object", v), np.generic) else v for name, v in feeds.items()}
