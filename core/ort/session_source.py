"""Split models as a session takes them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ..io.split_models import ALIGNMENT, SplitModel, refer_to_file
from ..ir.tensor import MappedFile, Tensor
from .ort_values import to_ortvalue

NO_FILE = "elements_in_memory"  # the location of elements that the session gets as OrtValues


@dataclass(slots=True)
class SessionSource:
    """The `data` and the `folder` that a session of a split model is made of, and the `values` that it copies."""

    data: bytes
    folder: Path | None
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    held: list[Any] = field(default_factory=list[Any])


def session_source(model: SplitModel) -> SessionSource:
    """The model for a session: aligned elements of a file are referred to there, others are given as values."""
    message = onnx.ModelProto()
    message.CopyFrom(model.message)
    paths = {name: path for name, t in model.tensors.items() if (path := _aligned_file(t)) is not None}
    folder = Path(os.path.commonpath([p.parent for p in paths.values()])) if paths else None
    source = SessionSource(b"", folder)
    for proto in message.graph.initializer:
        if (tensor := model.tensors.get(proto.name)) is None:
            continue
        if folder is not None and proto.name in paths and tensor.mapped is not None:
            location = paths[proto.name].relative_to(folder).as_posix()
            refer_to_file(proto, location, tensor.mapped.begin, tensor.nbytes)
        else:
            refer_to_file(proto, NO_FILE)
            source.values[proto.name], held = to_ortvalue(tensor.array)
            source.held.append(held)
    source.data = message.SerializeToString()
    return source


def _aligned_file(tensor: Tensor) -> Path | None:
    """The file with the elements in raw form, if their offset is aligned."""
    mapped = tensor.mapped
    if mapped is None or not mapped.is_raw or mapped.begin % ALIGNMENT or not isinstance(mapped.file, MappedFile):
        return None
    return mapped.file.path.resolve()
