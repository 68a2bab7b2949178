"""Sensitivity of the original's outputs to perturbation, computed on first use, once for each input set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..errors import EvaluationError
from ..ort.backends import Arrays
from ..ort.sessions import Loadable
from .input_generation import InputSet
from .input_search import CHEAP_ELEMENTS, Answer
from .noise import LARGER_ULPS, PERTURBATION_RUNS, Noise, has_floats, perturb
from .output_comparison import relative_noise_floor
from .seeded_session import SeededSession, with_perturbed_weights, with_prepacked_weights

Outputs = dict[str, Any]


def has_generic_values(input_set: InputSet) -> bool:
    """Whether jumps are accidental; ties, zeros and the like lie on jumps on purpose, so there the side counts."""
    return input_set.kind in {"normal", "negative", "wide", "large"} or input_set.kind.startswith("given")


@dataclass(slots=True)
class Sensitivity:
    """The noise of the `original`'s outputs. If no input is a float, its weights are perturbed instead.

    The typical noise of an output is that on the input set of `first_answer`; on zeros, for one, there is none.
    """

    original: Loadable
    session: SeededSession
    names: list[str]
    first_answer: Answer
    _perturbed_outputs: dict[int, list[Outputs]] = field(default_factory=dict[int, list[Outputs]])
    _more_perturbed_outputs: dict[int, list[tuple[Outputs, int]]] = field(
        default_factory=dict[int, list[tuple[Outputs, int]]]
    )
    _prepacked: SeededSession | None = None
    _typical_floors: dict[str, float] = field(default_factory=dict[str, float])
    _weight_perturbed_cache: list[SeededSession] | None = None

    def noise(self, answer: Answer, name: str) -> Noise:
        """The noise of an output on an input set."""
        is_small = sum(np.size(v) for v in self.first_answer.input_set.feeds.values()) <= CHEAP_ELEMENTS
        return Noise(
            partial(self._perturbed, answer, name),
            partial(self._typical_floor, name),
            partial(self._more_perturbed, answer, name),
            excuses_jumps=has_generic_values(answer.input_set),
            is_cheap=is_small,
        )

    def _perturbed(self, answer: Answer, name: str) -> list[Any]:
        key = id(answer.input_set)  # answers live as long as the oracle
        if key not in self._perturbed_outputs:
            self._perturbed_outputs[key] = list(self._perturbed_runs(answer))
        return [m[name] for m in self._perturbed_outputs[key]]

    def _more_perturbed(self, answer: Answer, name: str) -> list[tuple[Any, int]]:
        key = id(answer.input_set)
        if key not in self._more_perturbed_outputs:
            self._more_perturbed_outputs[key] = list(self._more_runs(answer))
        return [(m[name], far) for m, far in self._more_perturbed_outputs[key]]

    def _typical_floor(self, name: str) -> float:
        if name not in self._typical_floors:
            first = Noise(partial(self._perturbed, self.first_answer, name), float)
            self._typical_floors[name] = relative_noise_floor(self.first_answer.outputs[name], first)
        return self._typical_floors[name]

    def _perturbed_runs(self, answer: Answer) -> Iterator[Outputs]:
        feeds = answer.input_set.feeds
        if has_floats(feeds):
            runs = [partial(self._run_perturbed, answer, seed) for seed in range(PERTURBATION_RUNS)]
        else:
            runs = [partial(p.run, self.names, feeds) for p in self._weight_perturbed_sessions()]
        for run in runs:
            with suppress(EvaluationError):  # for an input that must be a whole number, say
                yield dict(zip(self.names, run(), strict=True))

    def _more_runs(self, answer: Answer) -> Iterator[tuple[Outputs, int]]:
        """Runs with other kernels, further perturbed inputs, and perturbed weights, one model at a time."""
        feeds = answer.input_set.feeds
        tries: list[tuple[Callable[[], list[Any]], int]] = [(partial(self._run_with_other_kernels, feeds), 1)]
        if has_floats(feeds) and has_generic_values(answer.input_set):
            tries += [
                (partial(self._run_perturbed, answer, seed, far), far)
                for far in LARGER_ULPS
                for seed in range(PERTURBATION_RUNS)
            ]
        tries += [
            (partial(self._run_with_perturbed_weights, feeds, seed, far), far)
            for seed, far in enumerate((1, 1, *LARGER_ULPS))
        ]
        for run, far in tries:
            with suppress(EvaluationError):
                if results := run():
                    yield dict(zip(self.names, results, strict=True)), far

    def _run_with_other_kernels(self, feeds: Arrays) -> list[Any]:
        """Runs with prepacked weights, for which onnxruntime sums in another order, in the same mathematics."""
        if self._prepacked is None:
            self._prepacked = with_prepacked_weights(self.original, self.session)
        return self._prepacked.run(self.names, feeds)

    def _run_with_perturbed_weights(self, feeds: Arrays, seed: int, ulps: int) -> list[Any]:
        model = with_perturbed_weights(self.original, self.session, 100 + seed, ulps)
        return model.run(self.names, feeds) if model is not None else []

    def _run_perturbed(self, answer: Answer, seed: int, ulps: int = 1) -> list[Any]:
        return self.session.run(self.names, perturb(answer.input_set.feeds, seed + 1000 * (ulps - 1), ulps))

    def _weight_perturbed_sessions(self) -> list[SeededSession]:
        """Two models with perturbed weights; empty if they would take too much memory or do not load."""
        if self._weight_perturbed_cache is None:
            try:
                made = [with_perturbed_weights(self.original, self.session, seed) for seed in range(2)]
            except EvaluationError:
                made = []
            self._weight_perturbed_cache = [m for m in made if m is not None]
        return self._weight_perturbed_cache
