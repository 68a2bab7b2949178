"""Rounding of which a proof over the reals says nothing: of the results of ops, and of the constants of a rule.

A form that overflows, underflows or cancels on the way loses numbers that another one keeps, as the root of a square
does. Devices that compute in 16 bits round the result of each op, where onnxruntime has 32 bits between ops on the CPU.
A rule that multiplies two small constants may make 0 of them, and one that adds a small one to a large one may drop it.
"""

from __future__ import annotations

from collections import Counter
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
from ..operators.table import MOVING
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
from .field_symbols import READS_SHAPE, names_in
from .obligation import NO_FACTORS, Fragment, NotApplicable, Obligation, Sizes, size_sets
from .replay import as_input, run_original
from .shadow_array import Array
from .verdict import ProofVerdict, unknown


class Draw(Struct, frozen=True):
    """Inputs for a comparison of roundings: `numbers` of normal ones, the place of an input, and the largest exponent.

    `is_extreme`: they are of a magnitude that few models have.
    """

    numbers: Callable[[Array, int, int], Array]
    is_extreme: bool = False


def _scaled(scale: float) -> Draw:
    return Draw(lambda normal, _place, _largest: normal * scale)


def _moved(side: int) -> Draw:
    return Draw(lambda normal, _, largest: normal + side * largest)


def _moved_apart(side: int) -> Draw:
    return Draw(lambda normal, place, largest: normal + (side if place % 2 else -side) * largest)


def _extreme(share: float) -> Draw:
    return Draw(lambda normal, _, largest: (np.abs(normal) + 0.5) * 2.0 ** round(share * largest), is_extreme=True)


SCALES = (1.0, *(2.0 ** (step / 2) for step in range(8, 21)))
POSITIVE_SCALES = (64.0, 256.0, 1024.0, 2048.0, 4096.0, 8192.0)
LARGEST = float(np.finfo(np.float16).max)
OF_HALVES = (
    *map(_scaled, SCALES),
    *(Draw(lambda normal, _place, _largest, scale=scale: np.abs(normal) * scale) for scale in POSITIVE_SCALES),
    Draw(lambda normal, _place, _largest: np.clip(np.abs(normal), 0.6, 0.95) * LARGEST),
)
"""Several scales, one sign so that sums grow, and numbers two of which are too large."""
EXTREME_SHARES = (0.75, 0.4, 0.26, 0.2)
"""Of the exponents of a type: powers of 2, 3, 4 and 5 of these numbers are beyond it, and the ones before are not."""
DRAWS_OF_ALIKE = (_scaled(1.0), _extreme(EXTREME_SHARES[0]), _extreme(-EXTREME_SHARES[0]))
DRAWS = (
    *DRAWS_OF_ALIKE,
    _scaled(256.0),
    *(moved(side) for moved in (_moved, _moved_apart) for side in (1, -1)),  # exponentials overflow there
    *(_extreme(side * share) for share in EXTREME_SHARES[1:] for side in (1, -1)),
)
LARGEST_SHARE = 0.8
"""Of the exponents of a type, beyond which results are too near its ends to be compared."""
MUCH_LESS = 64.0
MAX_ELEMENTS = 1 << 16
MAX_ULPS = 64.0  # of a constant that sums computed
SHARE_OF_LARGEST = 2.0**-10  # of a constant, below which its elements may be left of a sum that cancels
LOST_CONSTANT = "a constant of the result is far from its exact number"
LOST_TERM = "a constant of the result loses half of the bits of one that it is made of"
OTHER_BITS = "floats are rounded to fewer bits in one of them alone"
LOST_BITS = "rounded after each op, it loses half of the bits or more, and the original does not"
LOST_EXTREMES = "rounded after each op, it overflows or underflows at large or small numbers, and the original does not"
OVERFLOWS = "rounded to 16 bits after each op, it overflows where the original does not"
LOSES_LESS = "each op rounded once, the original alone overflows or loses bits on some numbers"


def with_rounding(obligation: Obligation, verdicts: Sequence[ProofVerdict]) -> Sequence[ProofVerdict]:
    """The verdicts, without proofs over the reals where the rewritten model alone loses bits, numbers or constants."""
    if all(v.guarantee is not Guarantee.REALS for v in verdicts):
        return verdicts
    reason, loses_less = rounding_of_models(obligation)
    if reason:  # first, as the reason of techniques that showed less does not speak against the models
        return [unknown(reason), *(v for v in verdicts if v.guarantee is not Guarantee.REALS)]
    added = (LOSES_LESS,) if loses_less else ()
    return [replace(v, coverage=(*v.coverage, *added)) if v.guarantee is Guarantee.REALS else v for v in verdicts]


def rounding_of_models(obligation: Obligation) -> tuple[str, bool]:
    """The loss of the rewritten model alone, if there is one, and whether the original alone has one."""
    bits = {found for f in obligation.fragments if (found := least_bits(f)) is not None}
    if len(bits) > 1:
        return OTHER_BITS, False
    if lost := lost_constants(obligation):
        return lost, False
    if overflows(obligation):
        return OVERFLOWS, False
    return lost_bits(obligation, *bits) if bits else ("", False)


def least_bits(fragment: Fragment) -> tuple[int, int] | None:
    """The fewest bits of significands, and of exponents, of floats that follow from inputs; None without any."""
    types, model = fragment.element_types, fragment.model
    drawn = {i.name for i in model.graph.input}
    read = {o.name for o in model.graph.output}
    for node in model.graph.node:
        names = drawn.intersection(names_in(node))
        drawn.update(node.output if names else ())
        read |= names if node.op_type not in READS_SHAPE else set()
    numpy_types = [helper.tensor_dtype_to_np_dtype(t) for t in {types.get(name, 0) for name in drawn & read} & FLOATS]
    formats = [*map(float_info, numpy_types)]
    return (min(f.nmant for f in formats), min(f.nexp for f in formats)) if formats else None


def lost_constants(obligation: Obligation) -> str:
    """The loss in a constant of the result that the same rule computes with doubles, if there is one."""
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
    """The obligation of the same rule with floats of another type, and constants times factors, if any."""
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
    """Whether a constant is rounded by more than it moves as doubles where half of the bits of another one move."""
    if helper.np_dtype_to_tensor_dtype(narrow.dtype) not in FLOATS:
        return False
    step = float(np.max(np.abs(moved - wide), initial=0.0))
    return bool(step) and float(np.max(np.abs(narrow.astype(np.float64) - wide), initial=0.0)) > step


def is_lost(narrow: Array, wide: Array) -> bool:
    """Whether a constant in its own type is far from itself as doubles: beyond rounding, or where that underflows."""
    if helper.np_dtype_to_tensor_dtype(narrow.dtype) not in FLOATS or not wide.size:
        return False
    form = float_info(narrow.dtype)
    size = np.abs(wide)
    error, allowed = np.abs(narrow.astype(np.float64) - wide), MAX_ULPS * float(form.eps)
    is_far = error > allowed * np.maximum(size, SHARE_OF_LARGEST * size.max())
    return bool((is_far | ((size < float(form.tiny)) & (error > allowed * size))).any())


def lost_bits(obligation: Obligation, bits: tuple[int, int]) -> tuple[str, bool]:
    """The loss of the result, rounded after each op, that the original lacks, and whether the original loses more.

    Numbers are usual ones, those whose exponentials or differences are extreme, and large and small ones. Of a region,
    the original is evaluated on usual ones where its result loses bits alone, and on few where both have the same ops.
    """
    rng = np.random.default_rng(0)
    models = [RoundedFragment.of(f, 1 << bits[1] - 1) for f in obligation.fragments]
    is_alike = not obligation.is_thorough and arithmetic_of(models[0].model) == arithmetic_of(models[1].model)
    for sizes in size_sets(obligation) if not obligation.unsaid else ():
        loses_less = False
        try:
            for draw in DRAWS_OF_ALIKE if is_alike else DRAWS:
                feeds = drawn_feeds(obligation, sizes, draw, rng, models[0].largest_exponent)
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


class RoundedFragment(Struct, frozen=True):
    """A model that is evaluated with the result of each op rounded; `largest_exponent` is the one of its least type."""

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
        found = self.evaluated(feeds, rounded)
        return [self.error_of(name, found[name], exact[name]) for name in exact]

    def error_of(self, name: str, found: Any, exact: Any) -> float:
        """The largest error of an output where the exact one is a number, by the largest one and the root of rounding.

        The error of integers, and of numbers near the ends of their type, is 0.
        """
        x, wanted = np.asarray(found), np.asarray(exact)
        if x.shape != wanted.shape or self.dtypes[name] not in FLOATS:
            return 0.0
        known = np.isfinite(wanted)
        largest = float(np.max(np.abs(wanted[known]), initial=0.0))
        if not largest or abs(np.log2(largest)) > LARGEST_SHARE * self.largest_exponent:
            return 0.0
        error = np.abs(x[known].astype(np.float64) - wanted[known])
        eps = float(float_info(helper.tensor_dtype_to_np_dtype(self.dtypes[name])).eps)
        return float(np.max(np.where(np.isnan(error), np.inf, error)) / largest / eps**0.5)

    def loses_itself(self, obligation: Obligation, feeds: Mapping[str, Array], exact: Mapping[str, Any]) -> bool:
        """Whether onnxruntime's kernels of the original lose as much, as kernels of norms do, which square inside."""
        found = run_original(obligation, feeds)
        return any(has_lost_bits(0.0, self.error_of(name, a, exact[name])) for name, a in found.items())


def arithmetic_of(model: onnx.ModelProto) -> Counter[str]:
    """The operators of a model but those that move data, each with its number."""
    return Counter(n.op_type for n in all_nodes(model.graph.node) if n.op_type not in MOVING)


def holds(obligation: Obligation, feeds: Mapping[str, Array]) -> bool:
    """Whether the condition of an obligation holds for inputs."""
    if obligation.condition is None:
        return True
    names = [o.name for o in obligation.condition.graph.output]
    return all(np.all(v.value) for v in evaluate_in_float64(obligation.condition, feeds, names).values())


def has_lost_bits(before: float, after: float) -> bool:
    """Whether a result is off by more than the root of the relative rounding, and by far more than the original."""
    return after > max(1.0, MUCH_LESS * before)


def overflows(obligation: Obligation) -> bool:
    """Whether models of float16 give a number before and an infinity after, on drawn numbers of some scale."""
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
    obligation: Obligation, sizes: Sizes, draw: Draw, rng: np.random.Generator, largest_exponent: int = 0
) -> dict[str, Array]:
    """Inputs of a draw; integers of 0 and 1. Raises NotApplicable for large ones."""
    shapes = dict(obligation.concrete_inputs(sizes))
    if sum(map(prod, shapes.values())) > MAX_ELEMENTS:
        raise NotApplicable("an input is large")
    feeds: dict[str, Array] = {}
    for place, (given, shape) in enumerate(shapes.items()):
        is_float = given.dtype in FLOATS
        numbers = (
            draw.numbers(rng.standard_normal(shape), place, largest_exponent) if is_float else rng.integers(0, 2, shape)
        )
        feeds[given.name] = as_input(np.abs(numbers) if given.is_positive else numbers, given.dtype)
    return feeds


def lost(before: Any, after: Any) -> bool:
    """Whether all numbers are finite before, and some are not after."""
    x, y = np.asarray(before), np.asarray(after)
    is_comparable = x.shape == y.shape and x.dtype == np.float16
    return is_comparable and bool(np.isfinite(x).all()) and not np.isfinite(y).all()
