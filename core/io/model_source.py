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
    """A result that has its model as a message, such as the result of `optimize`."""

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        ...


ModelLike = onnx.ModelProto | bytes | str | Path | ModelFile | HoldsModel
"""A model: a message, its bytes, the path of a file, or a result that has one."""
TransformFunction = Callable[[Model], object]
"""Changes a loaded model in place and deterministically. Raises ModelError if it cannot."""


@dataclass
class ModelSource:
    """An original model and its transforms. `inline`: inline local functions."""

    label: str
    origin: onnx.ModelProto | ModelFile = field(repr=False)
    inline: bool
    transforms: tuple[TransformFunction, ...] = ()

    def load(self) -> Model:
        """Load and transform the model again."""
        if isinstance(self.origin, ModelFile):
            model = load(self.origin, inline=self.inline)
        else:
            model = from_onnx(self.origin, inline=self.inline)
        for transform in self.transforms:
            transform(model)
        return model

    def loadable(self) -> Loadable:
        """The transformed model in a form that backends can load."""
        if self.transforms:
            return self._transformed
        if isinstance(self.origin, ModelFile):
            return self.origin.path
        try:
            return self.origin.SerializeToString()
        except ValueError as e:
            raise ModelError("a model over 2 GB can only be verified by its path") from e

    def loadable_file(self, folder: Path) -> Path:
        """The file of the transformed model; a model without a file is written to `folder`."""
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
        """Raise ModelError if a file was modified or replaced since it was loaded.

        `keep_open`: their contents remain readable after others replace them.
        """
        if isinstance(self.origin, ModelFile):
            self.origin.require_unchanged()
            for file in self.origin.external_files.values() if keep_open else ():
                file.fileno()

    @contextmanager
    def blamed_if_changed(self) -> Generator[None]:
        """Replace errors of the block by ModelError if a file was changed meanwhile."""
        try:
            yield
        except PassesError:
            self.require_unchanged()
            raise

    @property
    def is_ort(self) -> bool:
        """Whether it is a file in onnxruntime's own format, of which only the interface is loaded."""
        return isinstance(self.origin, ModelFile) and self.origin.takes_ort and is_ort_file(self.origin.path)

    @property
    def is_external(self) -> bool:
        """Whether weights are in other files."""
        return len(self.files) > 1

    @property
    def files(self) -> tuple[Path, ...]:
        """The model file and, after loading, the files of weights that it refers to."""
        return (self.origin.path, *self.origin.external_files) if isinstance(self.origin, ModelFile) else ()

    @property
    def size(self) -> int:
        """The bytes of the model and its files of weights; for a transformed model, of the message."""
        if self.transforms:
            return serialize(self.load()).size
        if isinstance(self.origin, ModelFile):
            return sum(p.stat().st_size for p in self.files)
        return self.origin.ByteSize()


def several_models(models: ModelLike | Sequence[ModelLike]) -> list[ModelLike]:
    """One or more models as a list. Raises UsageError for an empty list."""
    is_several = isinstance(models, Sequence) and not isinstance(models, str | bytes)
    found = list(cast("Sequence[ModelLike]", models)) if is_several else [cast("ModelLike", models)]
    if not found:
        raise UsageError("no model was given")
    return found


def model_source(model: ModelLike, *, inline: bool, takes_ort: bool = False) -> ModelSource:
    """The source for a model; `takes_ort` as for ModelFile.

    Raises UsageError for other values, and ModelError for bytes that are not a model.
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
        raise UsageError(f"a model must be {takes}, not of type {given}")
    return ModelSource(message.graph.name or "model", message, inline)


def transformed_source(source: ModelSource, transforms: Sequence[TransformFunction]) -> ModelSource:
    """The source with additional transforms."""
    return replace(source, transforms=(*source.transforms, *transforms)) if transforms else source
