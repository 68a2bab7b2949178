"""Edits of a model before it is optimized; the result is verified against the edited model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from weakref import finalize

from ..io.files import as_loadable
from ..io.model import Model, serialize
from ..io.model_source import ModelSource
from ..ort.sessions import Loadable
from .extract import drop_unused_inputs, keep_outputs
from .specialize import specialize

ModelEdit = Callable[[Model], None]
"""Changes a model that was just loaded, in place, and in the same way each time. Raises ModelError if it cannot."""


def edited_source(source: ModelSource, edits: Sequence[ModelEdit]) -> ModelSource:
    """A source of the edited model, for loading and for backends."""
    if not edits:
        return source
    original = _EditedModel(source, tuple(edits))
    return replace(source, load=original.load, loadable=original.loadable, compute_size=original.size)


@dataclass
class _EditedModel:
    """The models of a source after some edits; a large one is kept in a file as long as this object lives."""

    source: ModelSource
    edits: tuple[ModelEdit, ...]
    _files: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        finalize(self, self._files.close)

    def load(self) -> Model:
        """The model anew, edited."""
        model = self.source.load()
        for edit in self.edits:
            edit(model)
        return model

    def loadable(self) -> Loadable:
        """The edited model in a form that backends load."""
        return self._loadable

    @cached_property
    def _loadable(self) -> Loadable:
        return self._files.enter_context(as_loadable(self.load()))

    def size(self) -> int:
        """Bytes of the edited model as one message."""
        return serialize(self.load()).size


def requested_edits(
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    outputs: Sequence[str] = (),
    *,
    drop_inputs: bool = False,
) -> list[ModelEdit]:
    """The edits of a loaded model, in order."""
    edits: list[ModelEdit] = []
    if shapes or dims:
        edits.append(partial(specialize, shapes=dict(shapes or {}), dims=dict(dims or {})))
    if outputs:
        edits.append(partial(keep_outputs, names=list(outputs)))
    if drop_inputs:
        edits.append(drop_unused_inputs)
    return edits
