"""Judgement of a value that a changed region computes, compared with the value of the original."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...errors import EvaluationError
from ...operators.element_types import Array
from ...ort.backends import Arrays
from ..noise import LARGER_ULPS, PERTURBATION_RUNS, Noise, float_info, has_floats, is_float, perturb
from ..output_comparison import (
    compare_outputs,
    distances,
    has_same_finiteness,
    min_tolerance,
    observed_noise_floor,
    to_64_bit,
    without_gains,
)
from ..reference.float64_evaluation import Float64Value
from ..reference.judgement import IN_OWN_TYPES, Decision, Judgement, describe_new_overflows, judge, narrows
from ..verdict import OutputDifference
from .region_models import LoadedRegion

LARGE_HALF = 64  # magnitude above which a product of few 16-bit floats may overflow


class RegionJudgement(Struct, frozen=True):
    """Judges one cut point by the regions of both models, given `values` of the original.

    If these come from inputs that are not `finite`, a NaN in float64 does not imply that float64 over- or underflowed,
    unless it also occurs without these.
    """

    cut_point: str
    original: LoadedRegion
    rewritten: LoadedRegion
    values: Arrays
    timeout: float | None
    finite: bool

    def as_defined(self, expected: Any, result: Any) -> tuple[Any, Any]:
        """The values of both regions as ONNX defines them, if the original saturates on this processor.

        A result that saturates where the original does not is farther from what ONNX defines.
        """
        own = self._as_defined(self.original, expected)
        return (expected, result) if own is expected else (own, self._as_defined(self.rewritten, result))

    def _as_defined(self, region: LoadedRegion, computed: Any) -> Any:
        if region.may_saturate:
            with suppress(EvaluationError):
                defined = region.with_rounded_ops(self.cut_point, self.values)
                return computed if is_close(defined, computed) else defined
        return computed

    def judge(self, expected: Any, result: Any) -> Judgement:
        """The judgement of a `result` by the float64 values of both regions."""
        try:
            truth, new_truth = self._truths()
            noise = self._accumulated_noise(expected)
            moved = partial(self._moved_in_float64, np.asarray(expected).dtype.itemsize)
            return judge(expected, result, truth, new_truth, noise, moved)
        except EvaluationError:
            return Judgement(Decision.UNDECIDED)

    def difference(self, expected: Any, result: Any, judged: Judgement) -> OutputDifference:
        """The difference that was `judged`, by the noise of the original's region where float64 implies nothing.

        Elements that are finite only in the rewritten region are ignored, so that only outputs are compared there:
        -10000 may replace -inf.
        """
        if judged.decision == Decision.RIGHT:
            return OutputDifference()
        if judged.decision == Decision.UNDECIDED:
            rest = without_gains(expected, result)
            return compare_outputs(expected, result if rest is None else rest, exact=False, noise=self._noise())
        a, b = np.asarray(expected), np.asarray(result)
        is_measured = a.dtype == b.dtype and a.shape == b.shape and is_float(a.dtype)
        error = float(distances(to_64_bit(a), to_64_bit(b)).max(initial=0.0)) if is_measured else 0.0
        return OutputDifference(error, reason=judged.reason)

    def rounded_difference(self, expected: Any) -> OutputDifference:
        """The difference of the rewritten region if each op rounds its result to the declared type.

        onnxruntime's CPU provider computes 16-bit floats in 32 bits, in which nothing overflows; other devices do not.
        If the original computes as much in 16 bits, only overflows that it does not have count.
        """
        try:
            if not narrows(self.original.model.model.message, self.rewritten.model.model.message):
                return self._new_overflows() if self._may_overflow() else OutputDifference()
            result = self.rewritten.with_rounded_ops(self.cut_point, self.values)
        except EvaluationError:
            return OutputDifference()
        judged = Judgement(Decision.RIGHT) if is_close(expected, result) else self.judge(expected, result)
        if judged.decision != Decision.WRONG:
            return OutputDifference()
        found = self.difference(expected, result, judged)
        return replace(found, reason=f"{IN_OWN_TYPES}, {found.reason}")

    def _may_overflow(self) -> bool:
        """Whether inputs of the region are so large that products of 16-bit floats may overflow."""
        feeds = (np.asarray(v) for v in self.rewritten.feeds(self.values).values())
        halves = (to_64_bit(v) for v in feeds if is_float(v.dtype) and v.dtype.itemsize == 2 and v.size)
        return any(float(np.abs(v[np.isfinite(v)]).max(initial=0.0)) >= LARGE_HALF for v in halves)

    def _new_overflows(self) -> OutputDifference:
        regions = (self.original, self.rewritten)
        return OutputDifference(
            reason=describe_new_overflows(*(r.with_rounded_ops(self.cut_point, self.values) for r in regions))
        )

    def _truths(self) -> tuple[Float64Value, Float64Value]:
        """The value by both regions in float64. Raises EvaluationError."""
        truth, new_truth = (r.in_float64(self.cut_point, self.values) for r in (self.original, self.rewritten))
        if truth.out_of_range and not self.finite:
            truth = replace(truth, out_of_range=self._overflows_by_itself(np.asarray(truth.value)))
        return truth, new_truth

    def _overflows_by_itself(self, x: Array) -> Array:
        """The elements of the original's value `x` in float64 that are not finite even for the largest of numbers.

        These replace infinities; NaN stays.
        """
        feeds = self._float_feeds(self.original)
        tops = {n: float(float_info(v.dtype).max) for n, v in feeds.items() if v.dtype.kind != "c"}
        finite = {n: np.clip(to_64_bit(feeds[n]), -top, top).astype(feeds[n].dtype) for n, top in tops.items()}
        y = np.asarray(self.original.in_float64(self.cut_point, {**self.values, **finite}).value)
        if y.shape != x.shape or x.dtype.kind not in "fc":
            return np.zeros(x.shape, np.bool_)
        return ~np.isfinite(x) & ((x == y) | (np.isnan(x) & np.isnan(y)))

    def _float_feeds(self, region: LoadedRegion) -> dict[str, Array]:
        """The tensors of floats that a region reads."""
        feeds = region.feeds(self.values)
        arrays = {n: cast("Array", v) for n, v in feeds.items() if isinstance(v, np.ndarray)}
        return {n: v for n, v in arrays.items() if is_float(v.dtype)}

    def _accumulated_noise(self, expected: Any) -> float:
        """The change of a float value under perturbation, if rounding errors accumulate over steps; otherwise 0.

        It is at least the absolute error of kernels of bounded functions, which are not exact for tiny results.
        """
        x = np.asarray(expected)
        if not is_float(x.dtype):
            return 0.0
        least = self.rewritten.kernel_error(x.dtype)
        if not self.original.has_steps:
            return least
        moved = (np.asarray(m) for m in self._perturbed(1))
        return max(least, observed_noise_floor(to_64_bit(x), (to_64_bit(m) for m in moved if m.shape == x.shape)))

    def _noise(self) -> Noise:
        return Noise(
            lambda: self._perturbed(1),
            lambda: 0.0,
            lambda: [(m, ulps) for ulps in LARGER_ULPS for m in self._perturbed(ulps)],
        )

    def _moved_in_float64(self, width: int, ulps: int) -> list[Any]:
        """The values of the original's region in float64 when its float inputs of at least `width` move by `ulps`.

        An ulp of a narrower input is more than the rounding error of the region.
        """
        feeds, found = self.original.feeds(self.values), list[Any]()
        wide = {n: v for n, v in self._float_feeds(self.original).items() if v.dtype.itemsize >= width}
        for seed in range(PERTURBATION_RUNS) if wide else ():
            with suppress(EvaluationError):
                moved = {**feeds, **perturb(wide, seed, ulps)}
                found.append(self.original.in_float64(self.cut_point, moved).value)
        return found

    def _perturbed(self, ulps: int) -> list[Any]:
        """The values of the original's region when its float inputs move by `ulps`."""
        feeds, found = self.original.feeds(self.values), list[Any]()
        for seed in range(PERTURBATION_RUNS) if has_floats(feeds) else ():
            with suppress(EvaluationError):
                moved = perturb(feeds, seed + 1000 * (ulps - 1), ulps)
                found.append(self.original.run(moved, self.timeout)[self.cut_point])
        return found


def is_identical(expected: Any, actual: Any) -> bool:
    """Whether two values have the same type, shape and elements; NaN equals NaN."""
    a, b = np.asarray(expected), np.asarray(actual)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=is_float(a.dtype) and a.dtype.kind in "fc")


def is_close(expected: Any, actual: Any) -> bool:
    """Whether a value differs only by the rounding of a few ops, relative to the elements that differ."""
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if np.array_equal(a, b) or not is_float(a.dtype):
        return bool(np.array_equal(a, b))
    x, y = to_64_bit(a), to_64_bit(b)
    if not has_same_finiteness(x, y).all():
        return False
    far = distances(x, y)
    return float(far.max()) <= min_tolerance(a.dtype) * float(np.abs(x[far > 0]).max(initial=0.0))
