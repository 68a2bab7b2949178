"""Judgement of a changed region by its float64 values in both models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, cast

import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace

from ...errors import EvaluationError
from ...ir.dtypes import FLOAT16_DTYPES
from ...operators.declaration import Trait
from ...operators.element_types import WIDENED, Array
from ...operators.table import ops_with
from ...processes.onnx_calls import infer_shapes
from ...serialization.proto_queries import all_nodes
from ..noise import MIN_SCALE, NOISE_MULTIPLE, PERTURBATION_RUNS, float_info, is_float
from ..output_comparison import (
    Parts,
    describe_nonfinite,
    distances,
    dtype_key,
    min_tolerance,
    noise_sample,
    parts_of,
    to_64_bit,
)
from .float64_evaluation import EXACT, ROUNDOFF, Float64Value

RARE_ONE_IN = 100  # one integer in this many may round to a different one
MAX_JUMPS = 4  # this multiple of the elements that move with the inputs may differ
FAR = 0.05  # from float64, as a fraction of the largest magnitude or `MIN_SCALE`, if that is more
SATURATED_TOLERANCE = 1e-3  # relative error of elements at which the original saturates
MAX_SUBNORMAL_ULPS = 8  # ulps of the smallest numbers, which kernels may replace by zero


MIN_GROWTH = 2  # of a change under more ulps, at least; a jump stays as large, and explains nothing
KERNEL_EPSILONS = 0.25  # absolute error of onnxruntime's Sigmoid, Tanh and Erf; 8 times as much is allowed
APPROXIMATED_OPS = ops_with(Trait.APPROXIMATED)


Moves = Callable[[int], Sequence[Any]]
"""Returns a value in float64 for inputs that are moved at random by some ulps."""


class Decision(StrEnum):
    """Outcomes of a judgement."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"


class Judgement(Struct, frozen=True):
    """A decision on a value of a changed region, with its `reason`.

    At `saturating` elements the original overflows or underflows inside the region, and the rewritten region does not.
    `redefined` elements are finite only in the rewritten region for another reason, such as 0 / 0 becoming 0; only the
    outputs show whether that matters.
    """

    decision: Decision
    reason: str = ""
    saturating: int = 0
    redefined: int = 0


RIGHT = Judgement(Decision.RIGHT)
SEVERITY = (Decision.RIGHT, Decision.UNDECIDED, Decision.WRONG)


def judge(
    original: Any,
    rewritten: Any,
    truth: Float64Value,
    rewritten_truth: Float64Value,
    noise: float = 0.0,
    moved: Moves = lambda _: (),
) -> Judgement:
    """Judge the values that a region of the original and its rewritten form computed from the same inputs.

    `truth` and `rewritten_truth` are the value in float64 by each region. A value is wrong if it is farther from the
    truth than the rounding of the original explains, or if the truths of the regions differ. `noise` is the largest
    change of the original under perturbation, for regions in which rounding errors accumulate over many steps. If
    inputs cancel, the effect of an ulp of them counts as rounding, too: `moved` returns the value for moved inputs. A
    value is undecided if float64 implies nothing about it.
    """
    with np.errstate(all="ignore"):
        region = _Region(truth, rewritten_truth, noise, moved)
        return region.judge(original, rewritten, truth.value, rewritten_truth.value, ())


def kernel_error(model: onnx.ModelProto, dtype: np.dtype[Any]) -> float:
    """The absolute error of kernels of bounded functions in a model; they are not exact for tiny results."""
    is_approximated = any(node.op_type in APPROXIMATED_OPS for node in all_nodes(model.graph.node))
    return KERNEL_EPSILONS * float(float_info(dtype).eps) if is_approximated and is_float(dtype) else 0.0


def is_far_from_float64(value: Array, truth: Any) -> Array:
    """Whether each element of a value differs from its float64 value, such as where a model rounds on purpose."""
    a = np.asarray(truth)
    if a.dtype.kind in "iu":
        off = np.asarray(a != value)
        return off & (np.count_nonzero(off) > off.size // RARE_ONE_IN)
    with np.errstate(all="ignore"):  # of infinities
        return distances(a, to_64_bit(value)) > FAR * float(np.abs(a[np.isfinite(a)]).max(initial=MIN_SCALE))


def differ_by_rounding(
    values: Sequence[Array],
    truths: Sequence[Any],
    moved: Callable[[], Sequence[Any]],
    recomputed: Callable[[], Iterable[Any]],
    *,
    rounds_on_purpose: bool,
    least_error: float = 0.0,
) -> bool:
    """Whether the `values` of an output by both models are equal in float64, given their `truths`, except for rounding.

    As many elements may differ, and as far, as in float64 when inputs and weights of the original move by an ulp:
    `moved`. No constant of the rewritten model is rounded there, so the errors of rounded constants count. The output
    of the rewritten model may also not be much farther from float64 than the original's, computed by onnxruntime
    or `recomputed`: with each op rounded to its 16-bit type, or with sums in other orders; `least_error` of kernels is
    allowed. If the original `rounds_on_purpose`, such as by adding and subtracting a constant, float64 has no meaning
    for elements far from it. The difference of the models in float64 is measured by the elements that differ, and by
    others that are no larger; a 64-bit output, for which float64 rounds as much, may be off by as much as `recomputed`
    ones are.
    """
    (a, b), dtype = map(np.asarray, truths), values[0].dtype
    if any(parts_of(t) is not None for t in truths) or a.dtype != b.dtype or not a.shape == b.shape == values[0].shape:
        return False
    is_as_wide = dtype == a.dtype
    with np.errstate(all="ignore"):  # of infinities
        apart, least, alike = _deviations(a, b), 0.0, np.ones(a.shape, np.bool_)
        if a.dtype.kind in "fc":
            differs = (_deviations(*values) > 0) | (apart > min_tolerance(dtype) * np.abs(a))
            scale = float(np.abs(a[differs & np.isfinite(a)]).max(initial=0.0))
            least = max(min_tolerance(dtype) * scale, NOISE_MULTIPLE * least_error if is_as_wide else 0.0)
            alike = differs | (np.abs(a) <= scale)
            before, after = (distances(a, to_64_bit(v)) for v in values)
            most = NOISE_MULTIPLE * float(before.max(initial=least_error))
            if (after > most).any() or (is_as_wide and (apart > least)[alike].any()):
                errors = [distances(a, to_64_bit(v)) for v in map(np.asarray, recomputed()) if v.shape == a.shape]
                most = max(most, NOISE_MULTIPLE * max((float(e.max(initial=0.0)) for e in errors), default=0.0))
                own = max((float(e[alike].max(initial=0.0)) for e in errors), default=0.0) if is_as_wide else 0.0
                least = max(least, NOISE_MULTIPLE * own)
            apart = np.where(alike, apart, 0.0)
            most = max(most, min_tolerance(dtype) * float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
            apart = np.maximum(apart, np.where(after > most, after, 0.0))
        if rounds_on_purpose and a.dtype.kind in "fciu":
            apart = np.maximum(apart, np.where(is_far_from_float64(values[0], a), _deviations(a, values[0]), 0.0))
        off = apart > least
        if not off.any():
            return True
        moves = [_deviations(a, m)[alike] for m in map(np.asarray, moved()) if m.shape == a.shape]
        jumps = max((int(np.count_nonzero(m > least)) for m in moves), default=0)
        farthest = max((float(m.max()) for m in moves), default=0.0)
        return int(np.count_nonzero(off)) <= MAX_JUMPS * jumps and bool(apart.max() <= NOISE_MULTIPLE * farthest)


def _deviations(a: Array, b: Array) -> Array:
    """The distance of each element: 0 for equal elements and pairs of NaN, infinite for others that are not finite."""
    if a.dtype.kind not in "fc":
        return np.where(a == b, 0.0, 1.0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf))


def changes_without_jumps(a: Array, near: Sequence[Any], far: Sequence[Any]) -> Array:
    """The largest change of each element in values that moved `near`; 0 if the change is not larger in `far` ones."""
    still = np.zeros(a.shape)
    least, most = (
        np.max([still, *(distances(a, to_64_bit(np.asarray(m))) for m in moves if np.shape(m) == a.shape)], axis=0)
        for moves in (near, far)
    )
    return np.where(most >= MIN_GROWTH * least, least, 0.0)


def is_decided_by_rounding(original: Any, rewritten: Any, truth: Float64Value) -> bool:
    """Whether rounding decides each bool that differs, such as `sigmoid(x) > t` for an x at the threshold.

    Results of exact ops, such as ties, are not considered rounded. Indices are never decided by rounding.
    """
    o, r = np.asarray(original), np.asarray(rewritten)
    if o.dtype != r.dtype or o.shape != r.shape or o.dtype != np.bool_:
        return False
    jumps = np.zeros(o.shape, np.bool_)
    try:
        for seed in range(PERTURBATION_RUNS):
            moved = np.asarray(truth.of_rounded_ops(seed))
            jumps |= moved != truth.value if moved.shape == o.shape else False
    except EvaluationError:  # a size was computed in floats
        return False
    return not (np.asarray(o != r) & ~jumps).any()


IN_OWN_TYPES = "where each op rounds to its own type"
"""The text that replaces onnxruntime's in a message about numbers of `evaluate_rounded`."""


def describe_new_overflows(before: Any, after: Any) -> str:
    """How many elements of a float value overflow only in a rewritten model, if each op rounds; "" for none."""
    a, b = (np.asarray(None if parts_of(v) is not None else v) for v in (before, after))
    if a.shape != b.shape or not is_float(a.dtype) or not is_float(b.dtype):
        return ""
    count = np.count_nonzero(np.isfinite(to_64_bit(a)) & ~np.isfinite(to_64_bit(b)))
    return f"{count} of {a.size} elements overflow {IN_OWN_TYPES}" if count else ""


class _Region(Struct, frozen=True):
    """A value in both models' versions of a region, in float64."""

    truth: Float64Value
    rewritten_truth: Float64Value
    noise: float
    moved_inputs: Moves

    def judge(self, o: Any, r: Any, a: Any, b: Any, path: tuple[Any, ...]) -> Judgement:
        """Judge original, rewritten and their float64 values; `path` leads to these in a sequence or map."""
        parts = [parts_of(value) for value in (o, r, a, b)]
        if any(p is not None for p in parts):
            return self._judge_parts(parts, path)
        x, y = (
            np.asarray(v, np.float32 if isinstance(v, float) else None) for v in (o, r)
        )  # numbers in maps are float32
        p, q = np.asarray(a), np.asarray(b)
        if dtype_key(x) != dtype_key(y) or x.shape != y.shape:
            return Judgement(Decision.WRONG, f"{x.dtype}{list(x.shape)} became {y.dtype}{list(y.shape)}")
        if not is_widened(x.dtype):
            return self._judge_discrete(x, y, p, q, path)
        if p.shape != x.shape or q.shape != x.shape:
            return Judgement(Decision.UNDECIDED, f"float64 gives shapes {list(p.shape)} and {list(q.shape)}")
        return _Floats(self, path, x.dtype, *map(to_64_bit, (x, y, p, q))).judge()

    def _judge_parts(self, parts: Sequence[Parts | None], path: tuple[Any, ...]) -> Judgement:
        o, r, *doubles = parts
        if o is None or r is None or o.keys != r.keys:
            return Judgement(Decision.WRONG, "other entries")
        if any(d is None or d.keys != o.keys for d in doubles):
            return Judgement(Decision.UNDECIDED, "float64 gives other entries")
        values = [cast("Parts", p).values for p in parts]
        entries = zip(o.keys, *values, strict=True)
        found = [self.judge(x, y, p, q, (*path, key)) for key, x, y, p, q in entries]
        worst = max(found, key=lambda j: SEVERITY.index(j.decision), default=RIGHT)
        return replace(worst, saturating=sum(j.saturating for j in found), redefined=sum(j.redefined for j in found))

    def _judge_discrete(self, o: Array, r: Array, a: Array, b: Array, path: tuple[Any, ...]) -> Judgement:
        """The judgement of integers, bools, strings and codes of 8 bits or less."""
        off = np.asarray(o != r)
        wrong = int(np.count_nonzero(off))
        if not wrong:
            return RIGHT
        text = f"{wrong} of {off.size} elements differ"
        if dtype_key(o) == "string":
            return Judgement(Decision.WRONG, text)
        if a.shape != o.shape or b.shape != o.shape:
            return Judgement(Decision.UNDECIDED, f"float64 gives shapes {list(a.shape)} and {list(b.shape)}")
        ours, theirs = (off & np.asarray(v != a) for v in (r, o))
        apart = np.asarray(a != b)
        if not ours.any() and not apart.any():
            return RIGHT
        counts = [int(np.count_nonzero(v)) for v in (theirs, ours)]
        if not apart.any() and counts[1] <= max(NOISE_MULTIPLE * counts[0], off.size // RARE_ONE_IN):
            return RIGHT
        jumps = np.zeros_like(off)  # elements that rounding decides
        for m in self.moved(self.truth, path, None):
            if m.shape == a.shape:
                jumps |= np.asarray(m != a)
        if not ((ours | apart) & ~jumps).any() or (not path and is_decided_by_rounding(o, r, self.truth)):
            return RIGHT
        return Judgement(Decision.WRONG, f"{text}; by float64, {counts[0]} of them were wrong and {counts[1]} are now")

    def own_error(self, path: tuple[Any, ...], negligible: float) -> float:
        """The absolute error of the float64 values themselves.

        If it is `negligible`, a bound from the largest intermediate value; otherwise, such as for a mask that adds the
        lowest number, the change under rounding errors in each op.
        """
        bound = NOISE_MULTIPLE * ROUNDOFF * max(self.truth.largest, self.rewritten_truth.largest)
        if bound <= negligible:
            return bound
        changes = (self._change(t, path, ROUNDOFF) for t in (self.truth, self.rewritten_truth))
        return NOISE_MULTIPLE * max(map(float, changes))

    def rounding_error(self, path: tuple[Any, ...], where: Array | None) -> float:
        """The largest change of the original in float64, or of some of its elements, if each of its ops rounds."""
        return self._change(self.truth, path, None, where)

    def change_by_order(self, path: tuple[Any, ...], where: Array) -> float:
        """The largest change of elements of the original in float64 if its sums round, added in several orders."""
        a = to_64_bit(np.asarray(_at(self.truth.value, path)))
        found = [np.asarray(_at(self.truth.of_ordered_sums(seed), path)) for seed in range(PERTURBATION_RUNS)]
        return max(
            (float(distances(a, to_64_bit(m))[where].max(initial=0.0)) for m in found if m.shape == a.shape),
            default=0.0,
        )

    def change_by_inputs(self, path: tuple[Any, ...], where: Array) -> float:
        """The largest change of elements of the original in float64 if its inputs move by an ulp, without jumps."""
        a = to_64_bit(np.asarray(_at(self.truth.value, path)))
        near, far = ([_at(v, path) for v in self.moved_inputs(ulps)] for ulps in (1, NOISE_MULTIPLE))
        return float(changes_without_jumps(a, near, far)[where].max(initial=0.0))

    def _change(
        self, evaluated: Float64Value, path: tuple[Any, ...], share: float | None, where: Array | None = None
    ) -> float:
        x = to_64_bit(np.asarray(_at(evaluated.value, path)))
        found = [to_64_bit(m) for m in self.moved(evaluated, path, share) if m.shape == x.shape]
        far = (distances(x, m) for m in found)
        return max((float((d if where is None else d[where]).max(initial=0.0)) for d in far), default=0.0)

    def moved(self, evaluated: Float64Value, path: tuple[Any, ...], share: float | None) -> Iterator[Array]:
        """The value at `path` under perturbation of each op."""
        for seed in range(PERTURBATION_RUNS):
            value = evaluated.perturbed(share, seed)
            try:
                yield np.asarray(_at(value, path))
            except (IndexError, KeyError):
                continue


class _Floats(Struct, frozen=True):
    """The original's floats x, the rewritten ones y, and the float64 results of both regions: a, b."""

    region: _Region
    path: tuple[Any, ...]
    dtype: np.dtype[Any]
    x: Array
    y: Array
    a: Array
    b: Array

    def judge(self) -> Judgement:
        x, y, a = self.x, self.y, self.a
        off = ~((x == y) | (np.isnan(x) & np.isnan(y)))
        if not off.any():
            return RIGHT
        comparable = np.isfinite(x) & np.isfinite(a)
        far = comparable & (np.abs(x - a) > FAR * np.abs(x[comparable]).max(initial=MIN_SCALE))
        if np.count_nonzero(far) > 0.9 * x.size:
            return Judgement(Decision.UNDECIDED, f"{np.count_nonzero(far)} of {x.size} elements are far from float64")
        if (problem := self._nonfinite(off)) is not None:
            return problem
        saturating, redefined = self._gained(off)
        measured = off & np.isfinite(x) & np.isfinite(y) & np.isfinite(a)
        found = self._measure(measured) if measured.any() else RIGHT
        return replace(found, saturating=np.count_nonzero(saturating), redefined=np.count_nonzero(redefined))

    def _nonfinite(self, off: Array) -> Judgement | None:
        """The judgement of elements that are not finite, or None if they are right."""
        x, y, a = self.x, self.y, self.a
        greatest = float(float_info(self.real_dtype).max)
        as_true = (
            (y == a) | (np.isnan(y) & np.isnan(a)) | (np.isinf(y) & (np.abs(a) > greatest) & (np.sign(y) == np.sign(a)))
        )
        lost = off & np.isfinite(x) & ~np.isfinite(y) & ~as_true
        other = off & ~np.isfinite(x) & ~np.isfinite(y) & ~as_true & ~(np.isfinite(a) & (np.abs(a) <= greatest))
        if lost.any() or other.any():
            return Judgement(Decision.WRONG, describe_nonfinite(x, y, lost | other))
        return None

    def _gained(self, off: Array) -> tuple[Array, Array]:
        """The elements that are finite only in the rewritten value: by less saturation, and by another meaning.

        An element that is not finite in float64 either is so by definition, unless float64 saturates too.
        """
        x, y, a, b = self.x, self.y, self.a, self.b
        gained = off & ~np.isfinite(x) & np.isfinite(y)
        close = np.abs(y - b) <= SATURATED_TOLERANCE * np.maximum(np.abs(b), np.finfo(np.float32).tiny)
        same = np.abs(b - a) <= SATURATED_TOLERANCE * np.abs(a)
        explained = gained & close & (np.where(np.isfinite(a), same, self.region.truth.out_of_range))
        return explained, gained & ~explained

    def _measure(self, at: Array) -> Judgement:
        """The judgement of finite elements.

        The rounding of elements larger than the differing ones does not explain another function, such as the
        rounding of a row of large numbers next to one whose weights were lost.
        """
        x, y, a, b = (v[at] for v in (self.x, self.y, self.a, self.b))
        base = min_tolerance(self.dtype)
        epsilon = float(float_info(self.real_dtype).eps)
        scale = max(float(np.abs(x).max()), min(float(np.abs(a).max()), float(float_info(self.real_dtype).max)))
        error, new_error, apart = (float(distances(a, v).max()) for v in (x, y, b))
        error_of_alike, alike = error, noise_sample(self.x, at, scale)
        tiny = float(float_info(self.real_dtype).smallest_subnormal) * MAX_SUBNORMAL_ULPS
        for noise in (lambda _: self.region.noise, partial(self.region.rounding_error, self.path)):
            error, error_of_alike = max(error, noise(None)), max(error_of_alike, noise(alike))
            own = tiny + self.region.own_error(self.path, base * scale)
            allowed = NOISE_MULTIPLE * error + base * scale + own
            allowed_apart = NOISE_MULTIPLE * max(error_of_alike, epsilon * scale) + own
            if new_error <= allowed and apart <= allowed_apart:
                return RIGHT
        by_order = NOISE_MULTIPLE * self.region.change_by_order(self.path, alike)
        allowed = max(allowed, by_order + base * scale + own)
        if self.dtype == self.a.dtype:  # so float64 rounds as much
            allowed_apart = max(allowed_apart, by_order + own)
        if apart <= allowed_apart and new_error <= allowed:
            return RIGHT
        by_inputs = NOISE_MULTIPLE * self.region.change_by_inputs(self.path, alike)
        if apart <= allowed_apart + by_inputs and new_error <= allowed + by_inputs:
            return RIGHT
        if apart > allowed_apart:
            return Judgement(
                Decision.WRONG,
                f"another function: off by {apart:.3g} even in float64, where rounding explains {allowed_apart:.3g}",
            )
        return Judgement(
            Decision.WRONG, f"off by {new_error:.3g} from float64, where the original is off by {error:.3g}"
        )

    @property
    def real_dtype(self) -> np.dtype[Any]:
        """The type of the parts of complex numbers, or the type itself."""
        return np.dtype(f"f{self.dtype.itemsize // 2}") if self.dtype.kind == "c" else self.dtype


def _at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def is_widened(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of a type are evaluated as float64 or complex128."""
    return dtype in WIDENED or dtype.kind == "c"


def mentions_16_bits(model: onnx.ModelProto) -> bool:
    """Whether an input, a constant or an attribute of a model is of a 16-bit float type. O(nodes)."""
    graph = model.graph
    types = {v.type.tensor_type.elem_type for v in graph.input} | {t.data_type for t in graph.initializer}
    for node in all_nodes(graph.node):
        types.update(a.t.data_type if a.type == onnx.AttributeProto.TENSOR else a.i for a in node.attribute)
    return not types.isdisjoint(FLOAT16_DTYPES)


def narrows(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> bool:
    """Whether a rewritten region computes more in 16-bit floats than the original one.

    onnxruntime's CPU provider computes in 32 bits what would overflow on a device with 16-bit arithmetic, so that its
    results are the same. Unknown types are assumed to be wide.
    """
    return bool(_narrow_operators(rewritten) - _narrow_operators(original))


def _narrow_operators(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes of each operator compute floats of 16 bits; not those that only move or convert elements."""
    inferred = infer_shapes(model)
    graph = inferred.graph
    types = {t.name: t.data_type for t in graph.initializer}
    types |= {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    return Counter(
        node.op_type
        for node in graph.node
        if any(types.get(name) in FLOAT16_DTYPES for name in node.output) and node.op_type not in EXACT
    )
