"""What the original gives when its inputs move by an ulp, found out when first asked, once for each draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..errors import EvaluationError
from ..ort.backends import Arrays
from ..ort.sessions import Loadable
from .input_generation import Draw
from .input_search import CHEAP, Answer
from .noise import FARTHER, MOVES, Noise, has_floats, moved
from .output_comparison import usual_floor
from .seeded_session import Performer, repacked, with_moved_weights

Outputs = dict[str, Any]


def is_generic(draw: Draw) -> bool:
    """Whether a jump there is chance. Ties, zeros and the like are drawn so as to sit on jumps, where sides matter."""
    return draw.kind in {"normal", "negative", "wide", "large"} or draw.kind.startswith("given")


@dataclass(slots=True)
class Movement:
    """The noise of the `original`'s outputs. Where nothing that is fed is a float, its weights move instead.

    What is usual for an output is how it moves on the `first` draw: on zeros, say, it does not.
    """

    original: Loadable
    performer: Performer
    names: list[str]
    first: Answer
    _moves: dict[int, list[Outputs]] = field(default_factory=dict[int, list[Outputs]])
    _deeper: dict[int, list[tuple[Outputs, int]]] = field(default_factory=dict[int, list[tuple[Outputs, int]]])
    _packed: Performer | None = None
    _usual: dict[str, float] = field(default_factory=dict[str, float])
    _moved_models: list[Performer] | None = None

    def noise(self, answer: Answer, name: str) -> Noise:
        """The noise of an output on a draw."""
        return Noise(
            partial(self._of, answer, name),
            partial(self._usually, name),
            partial(self._further, answer, name),
            excuses=is_generic(answer.draw),
            cheap=self._is_cheap,
        )

    @property
    def _is_cheap(self) -> bool:
        """Whether the first draw is small."""
        return sum(np.size(v) for v in self.first.draw.feeds.values()) <= CHEAP

    def _further(self, answer: Answer, name: str) -> list[tuple[Any, int]]:
        key = id(answer.draw)
        if key not in self._deeper:
            self._deeper[key] = list(self._deep_runs(answer))
        return [(m[name], far) for m, far in self._deeper[key]]

    def _deep_runs(self, answer: Answer) -> Iterator[tuple[Outputs, int]]:
        """Other kernels, inputs moved further, and weights moved, a model at a time."""
        feeds = answer.draw.feeds
        tries: list[tuple[Callable[[], list[Any]], int]] = [(partial(self._run_with_other_kernels, feeds), 1)]
        if has_floats(feeds) and is_generic(answer.draw):
            tries += [(partial(self._run_moved, answer, seed, far), far) for far in FARTHER for seed in range(MOVES)]
        tries += [(partial(self._run_reweighed, feeds, seed, far), far) for seed, far in enumerate((1, 1, *FARTHER))]
        for run, far in tries:
            try:
                results = run()
            except EvaluationError:
                continue
            if results:
                yield dict(zip(self.names, results, strict=True)), far

    def _run_with_other_kernels(self, feeds: Arrays) -> list[Any]:
        """Where weights are packed for it, onnxruntime sums in another order: the same mathematics."""
        if self._packed is None:
            self._packed = repacked(self.original, self.performer)
        return self._packed.run(self.names, feeds)

    def _run_reweighed(self, feeds: Arrays, seed: int, far: int) -> list[Any]:
        model = with_moved_weights(self.original, self.performer, 100 + seed, far)
        return model.run(self.names, feeds) if model is not None else []

    def _of(self, answer: Answer, name: str) -> list[Any]:
        key = id(answer.draw)  # answers live as long as the oracle
        if key not in self._moves:
            self._moves[key] = self._runs(answer)
        return [m[name] for m in self._moves[key]]

    def _usually(self, name: str) -> float:
        if name not in self._usual:
            first = Noise(partial(self._of, self.first, name), float)
            self._usual[name] = usual_floor(self.first.outputs[name], first)
        return self._usual[name]

    def _runs(self, answer: Answer) -> list[Outputs]:
        feeds = answer.draw.feeds
        runs: list[Callable[[], list[Any]]]
        if has_floats(feeds):
            runs = [partial(self._run_moved, answer, seed) for seed in range(MOVES)]
        else:
            runs = [partial(p.run, self.names, feeds) for p in self._models()]
        found: list[Outputs] = []
        for run in runs:
            try:
                found.append(dict(zip(self.names, run(), strict=True)))
            except EvaluationError:
                continue  # an input that must be a whole number, say
        return found

    def _run_moved(self, answer: Answer, seed: int, far: int = 1) -> list[Any]:
        return self.performer.run(self.names, moved(answer.draw.feeds, seed + 1000 * (far - 1), far))

    def _models(self) -> list[Performer]:
        """Two models with moved weights; none where they would take too much memory or do not load."""
        if self._moved_models is None:
            try:
                made = [with_moved_weights(self.original, self.performer, seed) for seed in range(2)]
            except EvaluationError:
                made = []
            self._moved_models = [m for m in made if m is not None]
        return self._moved_models
