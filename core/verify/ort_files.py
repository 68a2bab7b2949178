"""Files in onnxruntime's own format: onnxruntime converts models to them, and they are compared with the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec.structs import replace

from ..errors import EvaluationError, ModelError, ModelLoadError
from ..io.ort_format import SUFFIX
from ..io.publishing import Publication
from ..io.split_models import Loadable
from ..ort.remote_backend import RemoteBackend
from ..ort.sessions import AS_USERS_RUN
from .output_comparison import compare_bits

HOST_OPTIMIZERS = ("NchwcTransformer",)
"""Optimizers of onnxruntime whose results do not run on all processors. Its own converter excludes them, too."""
PORTABLE = replace(AS_USERS_RUN, disabled_optimizers=HOST_OPTIMIZERS)
"""The session configuration whose optimized model is written."""


def is_ort_place(publication: Publication) -> bool:
    """Whether a publication is written in onnxruntime's own format, according to the name of its file."""
    return publication.model is not None and publication.model.target.suffix == SUFFIX


def write_ort(model: Path, place: Path) -> None:
    """Let onnxruntime write an optimized model in its own format. Raises ModelError."""
    try:
        with RemoteBackend(replace(PORTABLE, optimized_model_path=str(place))) as backend:
            backend(model)
    except ModelLoadError as e:
        raise ModelError(f"no {SUFFIX} file can be made: {e}") from e


def different_bits(model: Loadable, file: Path, outputs: Sequence[str], feeds: Iterable[Mapping[str, Any]]) -> str:
    """The first difference between a file and the session that wrote it, as text; "" if there is none."""
    with RemoteBackend(PORTABLE) as backend, RemoteBackend(replace(AS_USERS_RUN, model_file=str(file))) as other:
        sessions = backend(model), other(model)
        for given in feeds:
            try:
                expected, found = (s.run(outputs, given) for s in sessions)
            except EvaluationError as e:
                return str(e)
            for name, a, b in zip(outputs, expected, found, strict=True):
                if reason := _difference(a, b):
                    return f"{name}: {reason}"
    return ""


def _difference(a: Any, b: Any) -> str:
    if isinstance(a, list):
        pairs = zip(cast("list[Any]", a), cast("list[Any]", b), strict=False)
        return "another length" if len(a) != len(b) else next(filter(None, (_difference(*p) for p in pairs)), "")  # pyright: ignore[reportUnknownArgumentType]
    x: np.ndarray[Any, Any] = np.asarray(a)
    if x.dtype.kind in "OUSb" or x.shape != np.shape(b):
        return "" if np.array_equal(x, b) else "other values"
    return compare_bits(x, b).reason
