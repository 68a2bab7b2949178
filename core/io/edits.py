"""Edits that make an original: what comes of them is what gets rewritten, and what the result is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import finalize

from ..sessions import Loadable
from .exported import export
from .files import loadable
from .model import Model
from .source import Source

Edit = Callable[[Model], None]
"""Changes a model that was just loaded, in place, and in the same way each time. Raises ModelError if it cannot."""


def edited(source: Source, edits: Sequence[Edit]) -> Source:
    """A source of the edited model: each load is edited, and so is what backends are given."""
    if not edits:
        return source
    original = _Edited(source, tuple(edits))
    return replace(source, load=original.load, loadable=original.loadable, measure=original.size)


@dataclass
class _Edited:
    """The models that a source gives after some edits; a large one is kept in a file as long as this lives."""

    source: Source
    edits: tuple[Edit, ...]
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
        """The edited model as a backend takes it."""
        return self._loadable

    @cached_property
    def _loadable(self) -> Loadable:
        return self._files.enter_context(loadable(self.load()))

    def size(self) -> int:
        """Bytes of the edited model as one message."""
        return export(self.load()).size
