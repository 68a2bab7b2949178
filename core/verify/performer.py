"""Models that give the same numbers on every run: those with random ops get seeds and a new session for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import onnx

from ..errors import CannotLoad, Unverifiable
from ..runtime import Arrays, OnnxRuntime, Reference
from ..sessions import Loadable, Setting
from .noise import move_weights
from .seeding import read, seeded

FIRST_LIMIT = 600.0  # seconds that the first run may take
LEAST_LIMIT, SLOWER = 20.0, 50.0  # what all others may take at least, and how much longer than the first


class Session(Protocol):
    """A model that a backend has loaded."""

    name: str

    def run(self, outputs: Sequence[str], feeds: Arrays, limit: float | None = None) -> list[Any]:
        """Run once, for at most `limit` seconds. Raises EvaluationError."""
        ...


Backend = Callable[..., Session]
"""Makes a session of a model, and of the `folder` where weights of one given as bytes are. Raises CannotLoad."""
BACKENDS: tuple[Backend, ...] = (OnnxRuntime, Reference)
ONE_THREAD: tuple[Backend, ...] = (partial(OnnxRuntime, setting=Setting(threads=1)),)
"""For many small models, to which more threads cost more than they bring; what onnxruntime refuses is refused."""


@dataclass(slots=True)
class Performer:
    """A model that runs. `make` is set where each run needs a new session: generators go on where they were."""

    session: Session
    backend: Backend
    make: Callable[[], Session] | None = None
    seeds: Mapping[str, int | None] | None = None
    loose: frozenset[str] = frozenset()
    limit: float = FIRST_LIMIT
    _is_used: bool = False

    def run(self, outputs: Sequence[str], feeds: Arrays) -> list[Any]:
        """Run once, for at most `limit` seconds, which the first run decides on. Raises EvaluationError."""
        if self._is_used and self.make is not None:
            self.session = self.make()
        start = perf_counter()
        results = self.session.run(outputs, feeds, self.limit)
        if not self._is_used:
            self.limit = max(LEAST_LIMIT, SLOWER * (perf_counter() - start))
        self._is_used = True
        return results


def performer(
    model: Loadable,
    backend: Backend,
    *,
    random: bool,
    like: Mapping[str, int | None] | None = None,
    fresh: bool = False,
) -> Performer:
    """`model` in a backend; where it is `random`, with seeds, those of `like` if given. Raises CannotLoad.

    `fresh`: each run gets a session of its own all the same.
    """
    if not random:
        return Performer(backend(model), backend, partial(backend, model) if fresh else None)
    found = seeded(model, like)
    data, folder = found.model.SerializeToString(), found.folder

    def make() -> Session:
        return backend(data, folder=folder)

    return Performer(make(), backend, make, found.seeds, found.loose)


def original_performer(
    model: Loadable, *, random: bool, fresh: bool = False, backends: Sequence[Backend] = BACKENDS
) -> Performer:
    """`model` in the first backend that loads it. Raises Unverifiable."""
    reasons: list[str] = []
    for backend in backends:
        try:
            return performer(model, backend, random=random, fresh=fresh)
        except CannotLoad as e:
            reasons.append(str(e))
    raise Unverifiable(f"the original cannot be run: {'; '.join(reasons)}")


def repacked(model: Loadable, like: Performer) -> Performer:
    """`model` as `like` runs it, but with its weights packed for onnxruntime's kernels. Raises CannotLoad."""
    if not isinstance(like.session, OnnxRuntime):
        raise CannotLoad("only onnxruntime packs weights")
    proto, folder = _message(model, random=True) if like.seeds is not None else (None, None)
    data = model if proto is None else proto.SerializeToString()
    backend = partial(OnnxRuntime, setting=replace(like.session.setting, repacks=True))
    return Performer(backend(data, folder=folder), backend, limit=like.limit)


def with_moved_weights(model: Loadable, like: Performer, seed: int, far: int = 1) -> Performer | None:
    """`model` with its float weights moved by `far` ulps, as `like` runs it; None where they are too many."""
    backend = like.backend
    proto, folder = _message(model, random=like.seeds is not None)
    if not move_weights(proto, folder, seed, far):
        return None
    data = proto.SerializeToString()

    def make() -> Session:
        return backend(data, folder=folder)

    return Performer(make(), backend, make if like.make is not None else None, limit=like.limit)


def _message(model: Loadable, *, random: bool) -> tuple[onnx.ModelProto, Path | None]:
    if not random:
        return read(model)
    found = seeded(model)
    return found.model, found.folder
