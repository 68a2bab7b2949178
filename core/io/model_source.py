"""Model sources: files or messages that can be loaded repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from ..errors import ModelError
from ..ort.sessions import Loadable
from .convert import from_onnx
from .files import ModelFile, load
from .model import Model


@dataclass(slots=True)
class ModelSource:
    """An original model. `loadable` gives a form that backends load, `size` its bytes on disk or as a message.

    `compute_size`, if given, computes the size of a model that is only a part of its file or message.
    """

    label: str
    load: Callable[[], Model]
    loadable: Callable[[], Loadable]
    _file: ModelFile | None = field(default=None, repr=False)
    _message_bytes: int = 0
    compute_size: Callable[[], int] | None = None

    @property
    def is_external(self) -> bool:
        """Whether it keeps weights in other files."""
        return self._file is not None and bool(self._file.external_files)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and, once it is loaded, the files of weights to which it refers."""
        return (self._file.path, *self._file.external_files) if self._file is not None else ()

    @property
    def size(self) -> int:
        """Bytes of the model and of the files of weights to which it refers."""
        if self.compute_size is not None:
            return self.compute_size()
        return sum(p.stat().st_size for p in self.files) if self._file is not None else self._message_bytes


def model_source(model: onnx.ModelProto | str | Path, *, inline: bool) -> ModelSource:
    """The source for a message or the path of a file."""
    if isinstance(model, onnx.ModelProto):
        return ModelSource(
            model.graph.name or "model",
            lambda: from_onnx(model, inline=inline),
            lambda: _serialize(model),
            _message_bytes=model.ByteSize(),
        )
    path = Path(model)
    file = ModelFile(path)
    return ModelSource(str(path), lambda: load(file, inline=inline), lambda: path, file)


def _serialize(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as e:
        raise ModelError("a model over 2 GB can only be verified by its path") from e
