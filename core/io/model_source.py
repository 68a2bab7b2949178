"""Model sources: files or messages that can be loaded repeatedly, with transforms of the loaded model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from weakref import finalize

import onnx

from ..errors import ModelError, PassesError
from .convert import from_onnx
from .files import ModelFile, load
from .model import Model, serialize
from .split_models import Loadable
from .writer import as_loadable

TransformFunction = Callable[[Model], object]
"""Changes a model that was just loaded, in place, and in the same way each time. Raises ModelError if it cannot."""


@dataclass
class ModelSource:
    """An original model and its transforms.

    Backends get a large transformed model in a file, which lives as long as this object. `inline`: local
    functions are inlined.
    """

    label: str
    origin: onnx.ModelProto | ModelFile = field(repr=False)
    inline: bool
    transforms: tuple[TransformFunction, ...] = ()
    _files: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __post_init__(self) -> None:
        finalize(self, self._files.close)

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
        """The file of `loadable`; bytes are written to one in `folder`."""
        loadable = self.loadable()
        if isinstance(loadable, Path):
            return loadable
        path = folder / "original.onnx"
        path.write_bytes(loadable)
        return path

    @cached_property
    def _transformed(self) -> Loadable:
        return self._files.enter_context(as_loadable(self.load()))

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


def model_source(model: onnx.ModelProto | str | Path | ModelFile, *, inline: bool) -> ModelSource:
    """The source for a message, or for a file or its path."""
    if isinstance(model, onnx.ModelProto):
        return ModelSource(model.graph.name or "model", model, inline)
    file = model if isinstance(model, ModelFile) else ModelFile(Path(model))
    return ModelSource(file.name, file, inline)


def transformed_source(source: ModelSource, transforms: Sequence[TransformFunction]) -> ModelSource:
    """The source with further transforms."""
    return replace(source, transforms=(*source.transforms, *transforms)) if transforms else source
