"""Originals that a thread loads before their oracles are opened."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

from ..errors import PassesError
from ..io.files import ModelFile, split_file
from ..io.split_models import SplitModel
from ..ort.backends import LOAD_TIMEOUT, OnnxRuntime
from ..ort.call_monitor import backend_call
from .segmented_runtime import segment_memory, takes_quadratic_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadedOriginal:
    """The model of a file, and the session that runs it as a whole, if it is one that an oracle would run so."""

    file: ModelFile
    split: SplitModel
    session: OnnxRuntime | None

    @classmethod
    def of(cls, path: Path) -> LoadedOriginal:
        """Load a file. Raises ModelError and ModelLoadError."""
        file = ModelFile(path)
        split = split_file(file)
        is_whole = segment_memory(split, None) is None and not takes_quadratic_time(split.message)
        return cls(file, split, OnnxRuntime(path) if is_whole else None)


@dataclass(frozen=True, slots=True)
class PreloadedOriginal:
    """The file of a model and the thread that loads it."""

    path: Path
    _loading: Future[LoadedOriginal]

    @classmethod
    def begin(cls, path: Path) -> PreloadedOriginal:
        """Begin to load a file."""
        return cls(path, _begin_call(partial(LoadedOriginal.of, path)))

    def loaded(self) -> LoadedOriginal | None:
        """The model, when it is loaded; None if it cannot be, or if its files changed since it was begun."""
        with suppress(PassesError), backend_call(LOAD_TIMEOUT):
            loaded = self._loading.result()
            loaded.file.require_unchanged()
            return loaded
        return None


def _begin_call(function: Callable[[], T]) -> Future[T]:
    """Call a function in a thread, in a copy of the context; the interpreter does not wait for it at its end."""
    future, context = Future[T](), copy_context()

    def call() -> None:
        try:
            future.set_result(context.run(function))
        except BaseException as e:  # noqa: BLE001 - for who waits for the result
            future.set_exception(e)

    Thread(target=call, daemon=True).start()
    return future
