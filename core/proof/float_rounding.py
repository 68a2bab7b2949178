"""Rounding, about which a proof over the reals says nothing: of the results of ops, and of the constants of a rule.

A form with intermediate results that overflow, underflow or cancel loses numbers that another form keeps, such as
the root of a square. If a model decides by rounded numbers, as ArgMax does, an ulp may change an integer. Devices that
compute in 16 bits round the result of each op, while onnxruntime keeps 32 bits between ops on the CPU. A rule that
multiplies two small constants may turn them into 0, and one that adds a small one to a large one may lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto, helper, numpy_helper

from ..errors import EvaluationError, PassesError
from ..ir.dtypes import FLOATS
from ..operators.declaration import Trait
from ..operators.table import MOVING, READS_SHAPE, ops_with
from ..serialization.proto_queries import all_nodes
from ..verify.noise import float_info
from ..verify.proof_guarantees import Guarantee
from ..verify.reference.float64_evaluation import (
    NO_ARRAYS,
    EvaluationOrder,
    Policy,
    evaluate_by_policy,
    evaluate_in_float64,
    evaluate_rounded,
    rounded,
    unchanged,
)
from .field_symbols import names_in
from .finite_field_proof import boundaries_of
from .obligation import NO_FACTORS, Fragment, NotApplicable, Obligation, Sizes, size_sets
from .replay import as_input, run_original
from .shadow_array import Array
from .verdict import ProofVerdict, unknown


class Precision(Struct, frozen=True):
    """The bits of the significands and exponents of a type of floats."""

    significand: int
    exponent: int

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0**-self.significand

    @property
    def largest_exponent(self) -> int:
        """The exponent above which numbers overflow."""
        return 1 << self.exponent - 1


class Draw(Struct, frozen=True):
    """Inputs to compare roundings: `numbers` is called with normal ones, an input's index and the lowest precision.

    `is_extreme`: their magnitude is rare in models.
    """

    numbers: Callable[[Array, int, Precision], Array]
    is_extreme: bool = False


def of_scale(scale: float) -> Draw:
    """Normal numbers times a scale."""
    return Draw(lambda normal, _place, _precision: normal * scale)


def _spread() -> Draw:
    return Draw(lambda normal, _, precision: normal * precision.largest_exponent)


def _moved(side: int) -> Draw:
    return Draw(lambda normal, _, precision: normal + side * precision.largest_exponent)


def _moved_apart(side: int) -> Draw:
    return Draw(lambda normal, place, precision: normal + (side if place % 2 else -side) * precision.largest_exponent)


def _far(order: int, sign: int = 1) -> Draw:
    """Numbers so far from 0, in every (other) input, that differences of powers of an order lose half their bits."""
    return Draw(
        lambda normal, place, precision: normal + sign**place * 16.0 * 2.0 ** (precision.significand / (2 * order))
    )


def _alike(scale: float) -> Draw:
    """Numbers of one sign and similar magnitude, so that the sum of a few is larger than each."""
    return Draw(lambda normal, _place, _precision: np.clip(np.abs(normal), 0.6, 0.95) * scale)


def _beside(number: float) -> Draw:
    return Draw(lambda normal, _place, _precision: normal + number)


def _extreme(share: float) -> Draw:
    return Draw(
        lambda normal, _, precision: (np.abs(normal) + 0.5) * 2.0 ** round(share * precision.largest_exponent),
        is_extreme=True,
    )


def _tied(scale: float) -> Draw:
    """Numbers of similar magnitude that are some ulps apart."""
    return Draw(lambda normal, _, precision: scale * (1 + np.round(2 * normal) * precision.eps))


def _beside_halves(share: float) -> Draw:
    """Whole numbers and halves, a fraction of an ulp apart."""

    def numbers(normal: Array, _: int, precision: Precision) -> Array:
        halves = np.round(normal * 2) / 2
        ulps = np.round(normal * 64) % 5 - 2
        return halves + share * ulps * precision.eps * np.maximum(np.abs(halves), 1)

    return Draw(numbers)


HALF = Precision(10, 5)
SCALES = (1.0, *(2.0 ** (step / 2) for step in range(8, 21)))
POSITIVE_SCALES = tuple(2.0 ** (step / 2) for step in range(12, 27))
LARGEST = float(np.finfo(np.float16).max)
OF_HALVES = (*map(of_scale, SCALES), *map(_alike, (*POSITIVE_SCALES, LARGEST)))
"""Several scales, one sign so that sums grow, and numbers two of which are too large."""
EXTREME_SHARES = (0.75, 0.4, 0.26, 0.2)
"""Fractions of the exponents of a type: powers of 2, 3, 4 and 5 of these numbers exceed it, lower powers do not."""
DRAWS_OF_ALIKE = (of_scale(1.0), _extreme(EXTREME_SHARES[0]), _extreme(-EXTREME_SHARES[0]))
DRAWS = (
    *DRAWS_OF_ALIKE,
    of_scale(256.0),
    *(moved(side) for moved in (_moved, _moved_apart) for side in (1, -1)),  # exponentials of these overflow
    _far(2),
    _far(2, -1),
    _far(1),
    *(_extreme(side * share) for share in EXTREME_SHARES[1:] for side in (1, -1)),
)
DECIDING_DRAWS = (
    *(_tied(scale) for scale in (0.02, 1.1, 1.5, 1.9, 1300.0)),
    *(_beside_halves(share) for share in (0.0, 0.25, 0.5, 1.0)),
    of_scale(30.0),
    _spread(),
    *(_extreme(side * EXTREME_SHARES[0]) for side in (1, -1)),
)
"""Numbers for which rounding creates or breaks ties: near each other, near simple thresholds, and saturated."""
MAX_BESIDE, LEAST_BESIDE = 4, 8.0  # constants near which numbers are drawn; the smallest of them loses some bits
DECIDING_ELEMENTS, MAX_TIMES = 512, 32  # of an input that are drawn in each of these ways, in so many parts at most
LARGEST_SHARE = 0.8
"""Fraction of the exponents of a type; results closer to its limits are not compared."""
MUCH_LESS = 64.0
MAX_ELEMENTS = 1 << 16
MAX_ULPS = 64.0  # of a constant that sums computed
SHARE_OF_LARGEST = 2.0**-10  # of a constant; elements smaller than this may remain from a sum that cancels
LOST_CONSTANT = "a constant of the result is far from its exact number"
LOST_TERM = "a constant of the result loses half of the bits of one that it is made of"
OTHER_BITS = "floats are rounded to fewer bits in one of them alone"
LOST_BITS = "rounded after each op, it loses half of the bits or more, and the original does not"
LOST_EXTREMES = "rounded after each op, it overflows or underflows at large or small numbers, and the original does not"
OTHER_DECISIONS = "rounded after each op, it decides otherwise: integers, bools or steps are others"
OVERFLOWS = "rounded to 16 bits after each op, it overflows where the original does not"
LOSES_LESS = "each op rounded once, the original alone overflows or loses bits on some numbers"


JUMPING = ops_with(Trait.JUMPS)


def with_rounding(obligation: Obligation, verdicts: Sequence[ProofVerdict]) -> Sequence[ProofVerdict]:
    """The verdicts, without proofs over the reals if only the rewritten model loses bits, numbers or constants."""
    if all(v.guarantee is not Guarantee.REALS for v in verdicts):
        return verdicts
    reason, loses_less = rounding_of_models(obligation)
    if reason:  # first, as the reason of techniques that showed less does not speak against the models
        return [unknown(reason), *(v for v in verdicts if v.guarantee is not Guarantee.REALS)]
    added = (LOSES_LESS,) if loses_less else ()
    return [replace(v, coverage=(*v.coverage, *added)) if v.guarantee is Guarantee.REALS else v for v in verdicts]


def rounding_of_models(obligation: Obligation) -> tuple[str, bool]:
    """A loss that only the rewritten model has, or "", and whether there is a loss that only the original has."""
    bits = {found for f in obligation.fragments if (found := least_bits(f)) is not None}
    if len(bits) > 1:
        return OTHER_BITS, False
    if lost := lost_constants(obligation):
        return lost, False
    if overflows(obligation):
        return OVERFLOWS, False
    return lost_bits(obligation, *bits) if bits else ("", False)


def least_bits(fragment: Fragment) -> Precision | None:
    """The lowest precision, in significand and exponent bits, of floats that follow from inputs; None without any."""
    types, model = fragment.element_types, fragment.model
    drawn = {i.name for i in model.graph.input}
    read = {o.name for o in model.graph.output}
    for node in model.graph.node:
        names = drawn.intersection(names_in(node))
        drawn.update(node.output if names else ())
        read |= names if node.op_type not in READS_SHAPE else set()
    formats = [*map(precision_of, {types.get(name, 0) for name in drawn & read} & FLOATS)]
    return Precision(min(f.significand for f in formats), min(f.exponent for f in formats)) if formats else None


def precision_of(element_type: int) -> Precision:
    """The precision of a type of floats."""
    info = float_info(helper.tensor_dtype_to_np_dtype(element_type))
    return Precision(info.nmant, info.nexp)


def lost_constants(obligation: Obligation) -> str:
    """The loss in a constant of the result compared with the same rule computed with doubles; "" if there is none."""
    if obligation.retyped is None:
        return ""
    narrow, wide = constants_made(obligation), constants_made(retyped(obligation, TensorProto.DOUBLE))
    if not narrow or shapes_of(narrow) != shapes_of(wide):
        return ""
    if any(is_lost(narrow[n], wide[n]) for n in narrow):
        return LOST_CONSTANT
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in narrow.values()]
    graph = obligation.before.model.graph
    names = [t.name for t in graph.initializer if t.data_type in FLOATS]
    names += [o for n in graph.node if n.op_type == "Constant" for o in n.output]
    for name in names if FLOATS.intersection(kinds) - {TensorProto.DOUBLE} else ():
        step = 2 * float(min(float_info(a.dtype).eps for a in narrow.values() if a.dtype.kind not in "iub")) ** 0.5
        moved = constants_made(retyped(obligation, TensorProto.DOUBLE, {name: 1 + step}))
        if shapes_of(moved) == shapes_of(wide) and any(drops(narrow[n], wide[n], moved[n]) for n in narrow):
            return LOST_TERM
    return ""


def retyped(obligation: Obligation, dtype: int, factors: Mapping[str, float] = NO_FACTORS) -> Obligation | None:
    """The obligation of the same rule with another float type and with constants times factors, if there is one."""
    try:
        return None if obligation.retyped is None else obligation.retyped(dtype, factors)
    except (NotApplicable, PassesError):
        return None


def constants_made(obligation: Obligation | None) -> Mapping[str, Array]:
    """The constants that only the result of a rule has."""
    if obligation is None:
        return {}
    known = {t.name for t in obligation.before.model.graph.initializer}
    made = (t for t in obligation.after.model.graph.initializer if t.name not in known)
    return {t.name: numpy_helper.to_array(t) for t in made}


def shapes_of(arrays: Mapping[str, Array]) -> Mapping[str, tuple[int, ...]]:
    """The shapes of arrays."""
    return {name: a.shape for name, a in arrays.items()}


def drops(narrow: Array, wide: Array, moved: Array) -> bool:
    """Whether rounding changes a constant by more than changing half of the bits of another one does in doubles."""
    if helper.np_dtype_to_tensor_dtype(narrow.dtype) not in FLOATS:
        return False
    step = float(np.max(np.abs(moved - wide), initial=0.0))
    return bool(step) and float(np.max(np.abs(narrow.astype(np.float64) - wide), initial=0.0)) > step


def is_lost(narrow: Array, wide: Array) -> bool:
    """Whether a constant in its own type is far from the one in doubles: by more than rounding, or by underflow."""
    if helper.np_dtype_to_tensor_dtype(narrow.dtype) not in FLOATS or not wide.size:
        return False
    form = float_info(narrow.dtype)
    size = np.abs(wide)
    error, allowed = np.abs(narrow.astype(np.float64) - wide), MAX_ULPS * float(form.eps)
    is_far = error > allowed * np.maximum(size, SHARE_OF_LARGEST * size.max())
    return bool((is_far | ((size < float(form.tiny)) & (error > allowed * size))).any())


def lost_bits(obligation: Obligation, precision: Precision) -> tuple[str, bool]:
    """The loss of the result, rounded after each op, that the original lacks, and whether the original loses more.

    Numbers are usual ones, those whose exponentials or differences are extreme, and large and small ones. For a region,
    the original is evaluated on usual ones only if its result loses bits, and on few if both have the same ops.
    """
    rng = np.random.default_rng(0)
    precision = shortened(precision)
    models = [RoundedFragment.of(f, precision.largest_exponent) for f in obligation.fragments]
    decides = any(m.decides for m in models)
    constants = sorted(boundaries_of(obligation).tolist(), key=abs, reverse=True)
    beside = [_beside(c) for c in constants[:MAX_BESIDE] if abs(c) >= LEAST_BESIDE]
    is_alike = not obligation.is_thorough and arithmetic_of(models[0].model) == arithmetic_of(models[1].model)
    for sizes in size_sets(obligation) if not obligation.unsaid else ():
        loses_less = False
        try:
            if decides and decide_otherwise(obligation, sizes, models, precision, constants):
                return OTHER_DECISIONS, False
            for draw in DRAWS_OF_ALIKE if is_alike else (*DRAWS, *beside):
                feeds = drawn_feeds(obligation, sizes, draw, rng, precision)
                if not holds(obligation, feeds):
                    continue
                exact = models[0].evaluated(feeds, unchanged)
                second = models[1].errors(feeds, exact)
                is_told = loses_less or not draw.is_extreme
                if max(second) <= 1 and is_told and not obligation.is_thorough:
                    continue
                first = models[0].errors(feeds, exact)
                loses_less |= any(map(has_lost_bits, second, first))
                is_worse = any(map(has_lost_bits, first, second))
                if is_worse and not models[0].loses_itself(obligation, feeds, exact):
                    return LOST_EXTREMES if draw.is_extreme else LOST_BITS, False
        except (EvaluationError, NotApplicable, TypeError, ValueError):
            continue
        return "", loses_less
    return "", False


SHORT = 23  # bits of a significand


def shortened(precision: Precision) -> Precision:
    """The precision to which `rounded_once` rounds a type."""
    return Precision(min(precision.significand, SHORT), precision.exponent)


def short(numbers: Array) -> Array:
    """Doubles rounded to the significands of single precision."""
    significands, exponents = np.frexp(numbers)
    return np.ldexp(significands.astype(np.float32).astype(np.float64), exponents)


def rounded_once(array: Array, element_type: int, is_exact: bool) -> Array:
    """A result rounded to its type; doubles are rounded to fewer bits, compared with which float64 is exact."""
    is_double = element_type == TensorProto.DOUBLE and array.dtype == np.float64
    return short(array) if is_double else rounded(array, element_type, is_exact)


def decide_otherwise(
    obligation: Obligation,
    sizes: Sizes,
    models: Sequence[RoundedFragment],
    precision: Precision,
    constants: Sequence[float],
) -> bool:
    """Whether rounding in the two models leads to different integers, bools or steps for drawn numbers."""
    rng = np.random.default_rng(0)
    largest = max((prod(shape) for _, shape in obligation.concrete_inputs(sizes)), default=1)
    times = min(MAX_TIMES, 1 + DECIDING_ELEMENTS // max(largest, 1))
    draws = (*DECIDING_DRAWS, *map(_tied, constants[:MAX_BESIDE]))
    for draw in (d for d in draws for _ in range(times)):
        feeds = drawn_feeds(obligation, sizes, draw, rng, precision)
        if holds(obligation, feeds):
            before, after = (m.evaluated(feeds, rounded_once) for m in models)
            if any(models[0].is_other_decision(name, after[name], before[name], draw) for name in before):
                return True
    return False


class RoundedFragment(Struct, frozen=True):
    """A model evaluated with the result of each op rounded; `largest_exponent`: of its narrowest type."""

    model: onnx.ModelProto
    order: EvaluationOrder
    dtypes: Mapping[str, int]
    """The element types of its outputs."""
    largest_exponent: int

    @classmethod
    def of(cls, fragment: Fragment, largest_exponent: int) -> RoundedFragment:
        """The model of a fragment."""
        names = [o.name for o in fragment.model.graph.output]
        dtypes = {name: fragment.element_types.get(name, 0) for name in names}
        return cls(fragment.model, EvaluationOrder.of(fragment.model, names), dtypes, largest_exponent)

    def evaluated(self, feeds: Mapping[str, Array], policy: Policy) -> Mapping[str, Any]:
        """The outputs in float64. Raises EvaluationError."""
        return evaluate_by_policy(self.model, feeds, NO_ARRAYS, policy, self.order)

    def errors(self, feeds: Mapping[str, Array], exact: Mapping[str, Any]) -> list[float]:
        """The largest errors of the outputs, rounded after each op. Raises EvaluationError."""
        found = self.evaluated(feeds, rounded_once)
        return [self.error_of(name, found[name], exact[name]) for name in exact]

    def error_of(self, name: str, found: Any, exact: Any) -> float:
        """The largest error of an output where the exact one is finite, by its largest number and the root of rounding.

        The error of integers, and of numbers near the limits of their type, is 0.
        """
        x, wanted = np.asarray(found), np.asarray(exact)
        if x.shape != wanted.shape or self.dtypes[name] not in FLOATS:
            return 0.0
        known = np.isfinite(wanted)
        largest = float(np.max(np.abs(wanted[known]), initial=0.0))
        if not largest or abs(np.log2(largest)) > LARGEST_SHARE * self.largest_exponent:
            return 0.0
        error = np.abs(x[known].astype(np.float64) - wanted[known])
        eps = shortened(precision_of(self.dtypes[name])).eps
        return float(np.max(np.where(np.isnan(error), np.inf, error)) / largest / eps**0.5)

    @property
    def decides(self) -> bool:
        """Whether an output jumps when a number moves by an ulp."""
        floats_alone = FLOATS.issuperset(self.dtypes.values())
        return not floats_alone or any(n.op_type in JUMPING for n in all_nodes(self.model.graph.node))

    def is_other_decision(self, name: str, found: Any, wanted: Any, draw: Draw) -> bool:
        """Whether an output is another integer or bool, or a usual float that differs in half the bits."""
        if self.dtypes[name] in FLOATS:
            return not draw.is_extreme and self.error_of(name, found, wanted) > 1
        return not np.array_equal(found, wanted)

    def loses_itself(self, obligation: Obligation, feeds: Mapping[str, Array], exact: Mapping[str, Any]) -> bool:
        """Whether onnxruntime's kernels of the original lose as much, such as norms, which square numbers."""
        found = run_original(obligation, feeds)
        return any(has_lost_bits(0.0, self.error_of(name, a, exact[name])) for name, a in found.items())


def arithmetic_of(model: onnx.ModelProto) -> Sequence[str]:
    """The operators of a model in order, except those that move data."""
    return [n.op_type for n in all_nodes(model.graph.node) if n.op_type not in MOVING]


def holds(obligation: Obligation, feeds: Mapping[str, Array]) -> bool:
    """Whether inputs satisfy the condition of an obligation."""
    if obligation.condition is None:
        return True
    names = [o.name for o in obligation.condition.graph.output]
    return all(np.all(v.value) for v in evaluate_in_float64(obligation.condition, feeds, names).values())


def has_lost_bits(before: float, after: float) -> bool:
    """Whether an error exceeds the root of the relative rounding, and by far the original's error."""
    return after > max(1.0, MUCH_LESS * before)


def overflows(obligation: Obligation) -> bool:
    """Whether models of float16 compute a number before and infinity after, for drawn numbers of some scale."""
    if not any(TensorProto.FLOAT16 in f.element_types.values() for f in obligation.fragments):
        return False
    outputs = [o.name for o in obligation.before.model.graph.output]
    rng = np.random.default_rng(0)
    for sizes in size_sets(obligation):
        try:
            for draw in OF_HALVES:
                feeds = drawn_feeds(obligation, sizes, draw, rng)
                before, after = (evaluate_rounded(m, feeds, outputs) for m in obligation.models)
                if any(lost(before[name], after[name]) for name in outputs):
                    return True
        except (EvaluationError, NotApplicable, TypeError, ValueError):
            continue
        return False
    return False


def drawn_feeds(
    obligation: Obligation, sizes: Sizes, draw: Draw, rng: np.random.Generator, precision: Precision = HALF
) -> dict[str, Array]:
    """Inputs of a draw; integers of 0 and 1. Raises NotApplicable for large ones."""
    shapes = dict(obligation.concrete_inputs(sizes))
    if sum(map(prod, shapes.values())) > MAX_ELEMENTS:
        raise NotApplicable("an input is large")
    feeds: dict[str, Array] = {}
    for place, (given, shape) in enumerate(shapes.items()):
        is_float = given.dtype in FLOATS
        numbers = draw.numbers(rng.standard_normal(shape), place, precision) if is_float else rng.integers(0, 2, shape)
        numbers = np.abs(numbers) if given.is_positive else numbers
        feeds[given.name] = as_input(short(numbers) if given.dtype == TensorProto.DOUBLE else numbers, given.dtype)
    return feeds


def lost(before: Any, after: Any) -> bool:
    """Whether all numbers are finite before, and some are not after."""
    x, y = np.asarray(before), np.asarray(after)
    is_comparable = x.shape == y.shape and x.dtype == np.float16
    return is_comparable and bool(np.isfinite(x).all()) and not np.isfinite(y).all()
