"""Noise of an original's outputs; the original is run on perturbed inputs, with perturbed weights and other kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from ..errors import EvaluationError
from ..io.split_models import SplitModel
from ..operators.element_types import Array
from ..ort.backends import Arrays
from .input_sets import InputSet, ReferenceRun
from .kept_values import ValueCache
from .noise import (
    LARGER_ULPS,
    MAX_PERTURBED_WEIGHTS,
    MIN_SCALE,
    NOISE_MULTIPLE,
    PERTURBATION_RUNS,
    Noise,
    has_floats,
    has_generic_floats,
    is_float,
    perturb,
    perturb_weights,
)
from .output_comparison import largest_magnitude, relative_noise_floor, to_64_bit
from .reference.float64_evaluation import evaluate_in_float64, evaluate_rounded, evaluate_with_ordered_sums
from .reference.judgement import changes_without_jumps, is_far_from_float64, mentions_16_bits
from .seeded_session import SeededSession, with_perturbed_weights, with_prepacked_weights
from .size_assignments import CHEAP_ELEMENTS

Outputs = dict[str, Any]
MAX_KEPT_WEIGHT_BYTES = 16 << 20  # bytes of weights up to which sessions with perturbed weights are kept
GENERIC_KINDS = frozenset({"normal", "negative", "wide", "sizes", "offset", "crossings", "far", "lengths", "tiny"})


def has_generic_values(input_set: InputSet) -> bool:
    """Whether jumps are accidental; ties, zeros and the like lie on jumps on purpose, so there the side matters."""
    if input_set.is_given:
        return not has_floats(input_set.feeds) or has_generic_floats(input_set.feeds)
    return input_set.all_kinds <= GENERIC_KINDS


def outputs_in_float64(model: SplitModel, names: list[str], feeds: Arrays) -> Outputs:
    """Outputs of a model in float64. Raises EvaluationError, also for a model with too many weights."""
    if sum(t.size for t in model.tensors.values()) > MAX_PERTURBED_WEIGHTS:
        raise EvaluationError("the model has too many weights to be evaluated in float64")
    return {name: v.value for name, v in evaluate_in_float64(model.message, feeds, names, arrays_of(model)).items()}


def outputs_of_rounded_ops(model: SplitModel, names: list[str], feeds: Arrays) -> Outputs:
    """Outputs of a model if each op rounds to its type; empty without 16-bit floats, or if it cannot be evaluated."""
    if not mentions_16_bits(model.message):
        return {}
    with suppress(EvaluationError):
        return dict(evaluate_rounded(model.message, feeds, names, arrays_of(model)))
    return {}


def outputs_with_ordered_sums(model: SplitModel, names: list[str], feeds: Arrays) -> list[Outputs]:
    """Outputs of a model with sums added in several orders; empty if the model cannot be evaluated."""
    found = list[Outputs]()
    if sum(t.size for t in model.tensors.values()) <= MAX_PERTURBED_WEIGHTS:
        with suppress(EvaluationError):
            for seed in range(PERTURBATION_RUNS):
                found.append(dict(evaluate_with_ordered_sums(model.message, feeds, names, seed, arrays_of(model))))
    return found


def arrays_of(model: SplitModel) -> dict[str, Any]:
    """The tensors of a model as arrays by name."""
    return {name: t.array for name, t in model.tensors.items()}


class Sensitivity:
    """The noise of the outputs of an original, given by `split`. If no input is a float, its weights are perturbed.

    The typical noise of an output is measured on the input set of `first_run`; on zeros, for example, there is none.
    Each run is made once, when it is needed.
    """

    def __init__(
        self,
        split: Callable[[], SplitModel],
        session: SeededSession,
        names: list[str],
        first_run: ReferenceRun,
        budget: float,
    ) -> None:
        self._split, self.session, self.names, self.first_run = split, session, names, first_run
        self._is_small = sum(np.size(v) for v in first_run.input_set.feeds.values()) <= CHEAP_ELEMENTS
        self._perturbed_outputs = ValueCache[list[Outputs]](budget / 2)
        self._more_perturbed_outputs = ValueCache[list[tuple[Outputs, int]]](budget / 2)
        self._truths = ValueCache[Outputs](budget / 4)
        self._rounded = ValueCache[Outputs](budget / 8)
        self._ordered = ValueCache[list[Outputs]](budget / 8)
        self._moved_truths = {is_bool: ValueCache[list[Outputs]](budget / 8) for is_bool in (True, False)}
        self._typical_floors: dict[str, float] = {}
        self._min_scales: dict[str, float] = {}
        self._kept: dict[tuple[int, int], SeededSession] = {}  # with perturbed weights, by seed and ulps

    def noise(self, run: ReferenceRun, name: str) -> Noise:
        """The noise of an output on an input set."""
        return Noise(
            lambda: [m[name] for m in self._perturbed(run)],
            partial(self._typical_floor, name),
            lambda: [(m[name], far) for m, far in self._more_perturbed(run)],
            excuses_jumps=has_generic_values(run.input_set),
            is_cheap=self._is_small,
            min_scale=self._min_scale(name),
        )

    def _min_scale(self, name: str) -> float:
        """The lowest scale of an output: below the usual one if the output is typically smaller, but not zero."""
        if name not in self._min_scales:
            value = self.first_run.outputs[name]
            parts = cast("list[Any]", value) if isinstance(value, list) else [value]
            arrays = map(np.asarray, parts)
            typical = max((largest_magnitude(to_64_bit(a)) for a in arrays if is_float(a.dtype)), default=0.0)
            self._min_scales[name] = min(typical, MIN_SCALE) or MIN_SCALE
        return self._min_scales[name]

    def truth(self, run: ReferenceRun) -> Outputs:
        """The outputs in float64. Raises EvaluationError, also for a model with too many weights."""
        return self._truths.get(run, lambda: outputs_in_float64(self._split(), self.names, run.input_set.feeds))

    def rounded(self, run: ReferenceRun) -> Outputs:
        """The outputs if each op rounds to its type, as on devices with 16-bit arithmetic; empty without such floats.

        onnxruntime's CPU provider keeps 32 bits between some ops.
        """
        feeds = run.input_set.feeds
        return self._rounded.get(run, lambda: outputs_of_rounded_ops(self._split(), self.names, feeds))

    def recomputed(self, run: ReferenceRun) -> Iterator[Outputs]:
        """Yield other valid outputs of the original: `rounded`, and with sums added in several orders."""
        yield self.rounded(run)
        feeds = run.input_set.feeds
        yield from self._ordered.get(run, lambda: outputs_with_ordered_sums(self._split(), self.names, feeds))

    def moved_truths(self, run: ReferenceRun, *, is_bool: bool) -> list[Outputs]:
        """The outputs in float64 when weights move by an ulp, and inputs do that do not lie on jumps on purpose.

        For bools all inputs move by some ulps, because a comparison behind a flat function jumps only then. Inputs that
        lie on jumps on purpose change only float outputs, and only if these do not jump.
        """
        return self._moved_truths[is_bool].get(run, partial(self._run_moved_truths, run, is_bool=is_bool))

    def is_typically_far_from_float64(self, name: str) -> bool:
        """Whether an output already differs from its float64 value on the first inputs. Raises EvaluationError."""
        value, truth = self.first_run.outputs[name], self.truth(self.first_run)[name]
        return np.shape(value) != np.shape(truth) or bool(is_far_from_float64(np.asarray(value), truth).any())

    def _run_moved_truths(self, run: ReferenceRun, *, is_bool: bool) -> list[Outputs]:
        if is_bool or has_generic_values(run.input_set):
            return self._moved_by(run, NOISE_MULTIPLE if is_bool else 1)
        return [*self._moved_by(run, 0), self._moved_without_jumps(run)]

    def _moved_by(self, run: ReferenceRun, ulps: int, *, with_weights: bool = True) -> list[Outputs]:
        """The outputs in float64 when inputs move by `ulps`, and weights by one."""
        found = list[Outputs]()
        for seed in range(PERTURBATION_RUNS):
            model = (perturb_weights(self._split(), seed) if with_weights else None) or self._split()
            with suppress(EvaluationError):
                feeds = run.input_set.feeds
                found.append(outputs_in_float64(model, self.names, perturb(feeds, seed, ulps) if ulps else feeds))
        return found

    def _moved_without_jumps(self, run: ReferenceRun) -> Outputs:
        """The outputs in float64; floats include changes by moved inputs that are not jumps. Raises EvaluationError."""
        near, far = (self._moved_by(run, ulps, with_weights=False) for ulps in (1, NOISE_MULTIPLE))
        outputs = dict(self.truth(run))
        for name, value in outputs.items():
            array = cast("Array | None", value if isinstance(value, np.ndarray) else None)
            if array is not None and array.dtype.kind in "fc":
                outputs[name] = array + changes_without_jumps(array, [m[name] for m in near], [m[name] for m in far])
        return outputs

    def _typical_floor(self, name: str) -> float:
        if name not in self._typical_floors:
            noise = self.noise(self.first_run, name)
            self._typical_floors[name] = relative_noise_floor(self.first_run.outputs[name], noise)
        return self._typical_floors[name]

    def _perturbed(self, run: ReferenceRun) -> list[Outputs]:
        return self._perturbed_outputs.get(run, partial(self._run_all_perturbed, run.input_set.feeds))

    def _run_all_perturbed(self, feeds: Arrays) -> list[Outputs]:
        if has_floats(feeds):
            runs = [partial(self._run_perturbed, feeds, seed) for seed in range(PERTURBATION_RUNS)]
        else:
            runs = [partial(p.run, self.names, feeds) for p in self._weight_perturbed]
        return list(filter(None, map(self._outputs, runs)))

    def _more_perturbed(self, run: ReferenceRun) -> list[tuple[Outputs, int]]:
        return self._more_perturbed_outputs.get(run, partial(self._run_more_perturbed, run))

    def _run_more_perturbed(self, run: ReferenceRun) -> list[tuple[Outputs, int]]:
        """Outputs with other kernels, more perturbed inputs, and perturbed weights, one model at a time.

        Other kernels compute the same function but sum in another order.
        """
        feeds = run.input_set.feeds
        tries: list[tuple[Callable[[], list[Any]], int]] = [(lambda: self._prepacked.run(self.names, feeds), 1)]
        if has_floats(feeds) and has_generic_values(run.input_set):
            seeds = range(PERTURBATION_RUNS)
            tries += [(partial(self._run_perturbed, feeds, s, ulps), ulps) for ulps in LARGER_ULPS for s in seeds]
        for seed, ulps in enumerate((1, 1, *LARGER_ULPS)):
            tries.append((partial(self._run_with_perturbed_weights, feeds, seed, ulps), ulps))
        return [(outputs, ulps) for attempt, ulps in tries if (outputs := self._outputs(attempt))]

    def _outputs(self, run: Callable[[], list[Any]]) -> Outputs:
        """The outputs by name; empty if the model does not run, for example because an input must be a whole number."""
        with suppress(EvaluationError):
            return dict(zip(self.names, run(), strict=True))
        return {}

    def _run_with_perturbed_weights(self, feeds: Arrays, seed: int, ulps: int) -> list[Any]:
        key = (100 + seed, ulps)
        session = self._kept.get(key) or with_perturbed_weights(self._split(), self.session, *key)
        if self._has_small_weights:
            self._kept[key] = session
        return session.run(self.names, feeds)

    @cached_property
    def _has_small_weights(self) -> bool:
        return sum(t.nbytes for t in self._split().tensors.values()) <= MAX_KEPT_WEIGHT_BYTES

    def _run_perturbed(self, feeds: Arrays, seed: int, ulps: int = 1) -> list[Any]:
        return self.session.run(self.names, perturb(feeds, seed + 1000 * (ulps - 1), ulps))

    @cached_property
    def _prepacked(self) -> SeededSession:
        return with_prepacked_weights(self._split(), self.session)

    @cached_property
    def _weight_perturbed(self) -> list[SeededSession]:
        """Two models with perturbed weights; empty if they would take too much memory or do not load."""
        with suppress(EvaluationError):
            return [with_perturbed_weights(self._split(), self.session, seed) for seed in range(2)]
        return []
