"""Model sources: files or messages that can be loaded repeatedly, with transforms of the loaded model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

import onnx
from google.protobuf.message import DecodeError

from ..errors import ModelError, PassesError, UsageError
from .convert import from_onnx
from .files import ModelFile, in_memory, load
from .model import Model, serialize
from .ort_format import is_ort_file
from .split_models import Loadable
from .writer import write_for_sessions


class HoldsModel(Protocol):
    """A result with its model as a message, as of `optimize`."""

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        ...


ModelLike = onnx.ModelProto | bytes | str | Path | ModelFile | HoldsModel
"""A model: a message, its bytes, the path of a file, or a result that has one."""
TransformFunction = Callable[[Model], object]
"""Changes a model that was just loaded, in place, and in the same way each time. Raises ModelError if it cannot."""


@dataclass
class ModelSource:
    """An original model and its transforms. `inline`: local functions are inlined."""

    label: str
    origin: onnx.ModelProto | ModelFile = field(repr=False)
    inline: bool
    transforms: tuple[TransformFunction, ...] = ()

    def load(self) -> Model:
        """The model anew, transformed."""
        if isinstance(self.origin, ModelFile):
            model = load(self.origin, inline=self.inline)
        else:
            model = from_onnx(self.origin, inline=self.inline)
        for transform in self.transforms:
            transform(model)
        return model

    def loadable(self) -> Loadable:
        """The transformed model in a form that backends load."""
        if self.transforms:
            return self._transformed
        if isinstance(self.origin, ModelFile):
            return self.origin.path
        try:
            return self.origin.SerializeToString()
        except ValueError as e:
            raise ModelError("a model over 2 GB can only be verified by its path") from e

    def loadable_file(self, folder: Path) -> Path:
        """The file of the transformed model; what is in no file is written to one in `folder`."""
        if isinstance(self.origin, ModelFile) and not self.transforms:
            return self.origin.path
        path = folder / "original.onnx"
        write_for_sessions(self.load(), path)
        return path

    def in_file(self, folder: Path) -> ModelSource:
        """The source as a file; a message is written to `folder`."""
        if isinstance(self.origin, ModelFile):
            return self
        folder.mkdir(exist_ok=True)
        return replace(self, origin=ModelFile(self.loadable_file(folder)), transforms=())

    @cached_property
    def _transformed(self) -> Loadable:
        return in_memory(self.load())

    def require_unchanged(self, *, keep_open: bool = False) -> None:
        """Raise ModelError if one of its files was written to or replaced since it was loaded.

        `keep_open`: they can be read as they are now once others take their places.
        """
        if isinstance(self.origin, ModelFile):
            self.origin.require_unchanged()
            for file in self.origin.external_files.values() if keep_open else ():
                file.fileno()

    @contextmanager
    def blamed_if_changed(self) -> Generator[None]:
        """Raise ModelError instead of the errors of the block if one of its files was changed meanwhile."""
        try:
            yield
        except PassesError:
            self.require_unchanged()
            raise

    @property
    def is_ort(self) -> bool:
        """Whether it is a file in onnxruntime's own format, of which the interface is loaded."""
        return isinstance(self.origin, ModelFile) and self.origin.takes_ort and is_ort_file(self.origin.path)

    @property
    def is_external(self) -> bool:
        """Whether it keeps weights in other files."""
        return len(self.files) > 1

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and, once it is loaded, the files of weights to which it refers."""
        return (self.origin.path, *self.origin.external_files) if isinstance(self.origin, ModelFile) else ()

    @property
    def size(self) -> int:
        """Bytes of the model and of the files of weights to which it refers; of a transformed one as a message."""
        if self.transforms:
            return serialize(self.load()).size
        if isinstance(self.origin, ModelFile):
            return sum(p.stat().st_size for p in self.files)
        return self.origin.ByteSize()


def several_models(models: ModelLike | Sequence[ModelLike]) -> list[ModelLike]:
    """One model, or several, in a list. Raises UsageError for none."""
    is_several = isinstance(models, Sequence) and not isinstance(models, str | bytes)
    found = list(cast("Sequence[ModelLike]", models)) if is_several else [cast("ModelLike", models)]
    if not found:
        raise UsageError("no model was given")
    return found


def model_source(model: ModelLike, *, inline: bool, takes_ort: bool = False) -> ModelSource:
    """The source for a model; `takes_ort`: as of a ModelFile.

    Raises UsageError for another value, and ModelError for bytes that are no model.
    """
    if isinstance(model, str | Path | ModelFile):
        file = model if isinstance(model, ModelFile) else ModelFile(Path(model), takes_ort=takes_ort)
        return ModelSource(file.name, file, inline)
    message = model if isinstance(model, onnx.ModelProto | bytes) else getattr(model, "model", None)
    if isinstance(message, bytes):
        try:
            message = onnx.ModelProto.FromString(message)
        except DecodeError as e:
            raise ModelError("the bytes are not an ONNX model") from e
    if not isinstance(message, onnx.ModelProto):
        given = type(model).__name__
        takes = "a path, an onnx.ModelProto, its bytes or a result that has one"
        raise UsageError(f"a model has to be {takes}, not of type {given}")
    return ModelSource(message.graph.name or "model", message, inline)


def transformed_source(source: ModelSource, transforms: Sequence[TransformFunction]) -> ModelSource:
    """The source with further transforms."""
    return replace(source, transforms=(*source.transforms, *transforms)) if transforms else source
