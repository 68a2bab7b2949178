"""Proofs over the reals: both fragments are evaluated at random points of a finite field, size by size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, cast
from zlib import crc32

import msgspec
import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto, helper, numpy_helper

from ..errors import EvaluationError
from ..ir.dtypes import FLOATS
from ..serialization.proto_queries import copy_without
from ..verify.proof_guarantees import Guarantee
from ..verify.reference.float64_evaluation import EvaluationOrder, evaluate_by_policy
from . import finite_field as ff
from .bool_polynomials import with_numbers
from .field_functions import operations_by_name
from .field_symbols import SymbolicInputs, symbolic_inputs
from .finite_field import FieldArray
from .finite_field_constants import lift, lift_exactly
from .obligation import Fragment, NotApplicable, Obligation, Sizes, beside_limits, must_run, promises_bits
from .obligation_queries import (
    CONTINUOUS_STEPS,
    decides_by_numbers,
    extent_inputs,
    has_bools,
    has_drawn_integers,
    has_roots,
    jumps_of,
    keeps_floats,
    listed_bools,
    reads_shapes_alone,
    require_applicable,
    sizes_of,
)
from .shadow_array import Array, ShadowArray, lifted, shadowed
from .traced_array import Origin, compute, leaves_of
from .verdict import ProofVerdict, Technique

ENOUGH_DRAWS = 6
"""Draws in which each element of the outputs is defined: (2^10 / P)^6 < 2^-60, for expressions of degree 2^10."""
ENOUGH_SIZES = 2  # sets of sizes that are compared for regions
MAX_SAMPLES = 64
MAX_HARDLY_DEFINED = 3  # sets of sizes at which an element of a region is
STUCK_SAMPLES = 32  # after which an element that was never defined is given up
SAMPLES, SAMPLED_ELEMENTS = 16, 1 << 16  # in a draw for a region, and elements in all of its samples
MAX_SEEDS = 32
MAX_PARTS = 64  # of a sequence
BRANCH_DRAWS, MAX_BRANCH_DRAWS = 64, 300  # if the outputs depend on decisions
MAX_RARE = 0.1  # of the elements that were compared, in regions that occurred once
MAX_ELEMENTS, MAX_REGION_ELEMENTS = 1 << 14, 1 << 18  # of an input
MAX_REFUSED = 1000  # draws in which the condition does not hold
OFFSETS = (0.0, 0.0, 4.0, -4.0)  # added to all elements, in standard deviations
SCALES = (1.0, 4.0, 0.25, 32.0)
LARGE_SCALES = tuple(2.0**e for e in (64, 104, 24, 40, 12, 84, 16, 8, 20, 32, 28, 36, 48, 56, 74, 94))
INTEGER_LIMITS = (3, 2, 1, 6, 2, 1)  # integers are drawn below each of these in turn
RELATIVE_AGREEMENT = 1e-9  # of two results in float64 that differ only in the field
DIFFERENT_NUMBERS = "elements differ"
DIFFERENT_RESIDUES = "elements differ by less than float64 shows, or by a law that the field lacks"
DIFFERENT_SHAPES = "an output has another shape"
DIFFERENT_INTEGERS = "integers or bools differ"
NOT_EVALUATED = "the rewritten model has no result where the original has one"
NO_FIELD_KERNEL = "an operator has no kernel for the field"
EMPTY_OUTPUTS = "all outputs are empty at the sizes that were tried"
HARDLY_DEFINED = "an element of the outputs is hardly ever defined in the field"
NO_TIME = "no time was left, as proofs take no longer than verification"
NO_KERNEL = "has no float64 kernel"
DIFFERENCES = frozenset({DIFFERENT_NUMBERS, DIFFERENT_RESIDUES, DIFFERENT_INTEGERS, NOT_EVALUATED, DIFFERENT_SHAPES})
"""Reasons of unknown verdicts that cast doubt on a rule, unlike a missing function."""


class NoFieldKernel(NotApplicable):
    """Raised if the exact values of numbers were lost."""


class TooLarge(NotApplicable):
    """Raised for sizes at which an input is too large to be evaluated in the field."""


class Difference(Exception):
    """Raised for outputs that differ; `values` are the inputs, `kind` is the guarantee that remains."""

    def __init__(self, message: str, feeds: Mapping[str, Array], guarantee: Guarantee = Guarantee.UNKNOWN) -> None:
        super().__init__(message)
        self.feeds = feeds
        self.guarantee = guarantee


@dataclass(slots=True)
class Coverage:
    """The elements of the outputs that were compared so far: how often, and in which regions."""

    least: int = ENOUGH_DRAWS
    is_thorough: bool = True
    has_decisions: bool = True
    enough: int = ENOUGH_DRAWS
    branch_draws: int = BRANCH_DRAWS
    draws: int = 0
    samples: int = 0
    elements: int = 0
    compared: dict[object, Any] = field(default_factory=dict[object, Any])
    regions: Counter[int] = field(default_factory=Counter[int])

    def add(self, index: int, defined: Any, regions: Any, residues: Any) -> None:
        """Count the samples of an output, by element, that are defined; one or two `residues` of each are known.

        Two residues are as good as two samples, but a thorough comparison counts them as one. `regions` have no sample
        axis.
        """
        key = (index, regions.shape)  # the shape may depend on a draw
        counted = (defined.astype(np.int64) * (1 if self.is_thorough else residues)).sum(axis=0)
        self.compared[key] = self.compared.get(key, 0) + counted
        seen = regions[defined.any(axis=0)]
        if self.has_decisions and seen.any():
            self.regions.update(seen.tolist())
        else:
            self.regions[0] += seen.size

    @property
    def has_branches(self) -> bool:
        """Whether an element depends on a decision."""
        return any(self.regions)

    @property
    def next_number(self) -> int:
        """The number of the next draw; unless thorough, special draws are omitted while no decision was seen."""
        return self.draws if self.is_thorough or self.has_branches else 2 * self.draws

    @property
    def rare(self) -> float:
        """The fraction of elements in regions that occurred once, an estimate of the fraction in unseen regions."""
        total = sum(self.regions.values())
        return sum(n == 1 for r, n in self.regions.items() if r) / total if total else 0.0

    @property
    def has_enough(self) -> bool:
        """Whether each element was compared often enough."""
        return bool(self.draws) and all(np.min(c, initial=self.enough) >= self.enough for c in self.compared.values())

    @property
    def is_complete(self) -> bool:
        """Whether each element was compared often enough, in regions that were seen."""
        is_seen = self.draws >= self.branch_draws and self.rare <= MAX_RARE / 10
        return self.has_enough and (not self.has_branches or self.enough == 1 or is_seen)

    @property
    def is_stuck(self) -> bool:
        """Whether an element was defined in no draw at all."""
        return any(np.min(c, initial=1) == 0 for c in self.compared.values())

    def wants_draws(self, limit: int = 0) -> bool:
        """Whether more draws are required: up to a limit, or while they add something."""
        if limit:
            return self.draws < limit and not self.is_complete
        if self.draws < self.least:
            return True
        if self.has_branches:
            return self.draws < MAX_BRANCH_DRAWS and not self.is_complete and not self.seems_stuck
        return self.samples < MAX_SAMPLES and not self.is_complete and not self.seems_stuck

    @property
    def seems_stuck(self) -> bool:
        """Whether an element was never defined in many samples, or in any sample of some draw."""
        is_empty = self.samples >= SAMPLES and not any(c.any() for c in self.compared.values())
        return is_empty or (self.samples >= STUCK_SAMPLES and self.is_stuck)

    def require_enough(self) -> None:
        """Raise NotApplicable for an element that was hardly ever defined, or regions that were hardly ever seen."""
        if any(np.min(c, initial=self.enough) < self.enough for c in self.compared.values()):
            raise NotApplicable(HARDLY_DEFINED)
        if self.rare > MAX_RARE:
            raise NotApplicable(f"{len(self.regions)} regions of maxima and comparisons are too many to be drawn")


Redraw = Callable[[int], Obligation | None]
"""Returns the same obligation with other constants for a seed (`rule_obligation.obligation_of`)."""


def prove_by_field(obligation: Obligation, redraw: Redraw | None = None) -> list[ProofVerdict]:
    """The verdict of random evaluation at all sizes. Raises NotApplicable, and Difference if outputs differ.

    If its constants have roots that the field lacks, the obligation is evaluated with others from `redraw`. A
    difference is no refutation: an unknown function, or an order, may contribute to it.
    """
    symbolic = symbolic_inputs(obligation)
    require_applicable(obligation, symbolic)
    wants_bits = promises_bits(obligation.contract) and obligation.condition is None
    same_bits = sizes_with_equal_bits(obligation, symbolic) if wants_bits else []
    if same_bits:
        domain = ("equal operations on equal elements", *extents_words(obligation))
        return [ProofVerdict(Guarantee.EXACT, Technique.FINITE_FIELD, domain, sizes=sizes_in(same_bits))]
    shown, regions = compare_sizes(obligation, redraw, symbolic)
    notes = (f"{regions} regions of maxima and comparisons",) if regions else ()
    guarantee, domain = guarantee_of(obligation, symbolic)
    if guarantee is Guarantee.DRAWN_INTEGERS and not obligation.is_thorough and has_bools(obligation):
        try:
            return prove_by_field(with_numbers(obligation))
        except (Difference, NotApplicable):
            pass
    return [ProofVerdict(guarantee, Technique.FINITE_FIELD, domain, notes=notes, sizes=sizes_in(shown))]


def compare_sizes(obligation: Obligation, redraw: Redraw | None, symbolic: SymbolicInputs) -> tuple[list[Sizes], int]:
    """The sizes at which the outputs are equal, and the number of regions of maxima. Raises like `prove_by_field`."""
    points = Points(symbolic)
    shown: list[Sizes] = []
    reasons: list[str] = []
    regions = 0
    beside = beside_limits(obligation)
    for sizes in sizes_of(obligation):
        if len(shown) >= ENOUGH_SIZES and not obligation.is_thorough and sizes not in beside:
            break
        try:
            is_first = obligation.is_thorough or not shown
            enough = ENOUGH_DRAWS if is_first else ENOUGH_DRAWS // 2
            coverage = compare_first_at(obligation, redraw, sizes, points, enough)
        except (EvaluationError, NotApplicable) as why:  # a size that the fragment does not support
            reasons.append(str(why))
            if must_run(obligation, sizes) or (sizes in beside and isinstance(why, NotApplicable)):
                raise NotApplicable(differs_in_form(sizes, beside, why)) from why
            is_hopeless = isinstance(why, NoFieldKernel) or reasons.count(HARDLY_DEFINED) == MAX_HARDLY_DEFINED
            if is_hopeless and not obligation.is_thorough:
                raise
            continue
        if not coverage.elements:  # the extents are less than the extent of a window
            reasons.append(EMPTY_OUTPUTS)
            continue
        shown.append(sizes)
        regions = max(regions, len(coverage.regions) if coverage.has_branches else 0)
    if not shown:
        raise NotApplicable(reasons[0])
    return shown, regions


def sizes_with_equal_bits(obligation: Obligation, symbolic: SymbolicInputs) -> list[Mapping[str, int]]:
    """The sizes at which both fragments apply the same operations to the same elements; empty if one differs."""
    if has_drawn_integers(obligation, symbolic):
        return []
    has_floats = any(i.dtype in FLOATS for i in obligation.inputs)
    if has_floats and not all(map(keeps_floats, obligation.fragments)):
        return []
    points = Points(symbolic)
    shown: list[Mapping[str, int]] = []
    with operations_by_name():
        for sizes in sizes_of(obligation):
            if len(shown) >= ENOUGH_SIZES and not obligation.is_thorough and sizes not in beside_limits(obligation):
                break
            try:
                coverage = compare_at(obligation, None, sizes, points)
            except (Difference, NotApplicable) as why:
                if not isinstance(why, TooLarge) or sizes in beside_limits(obligation):
                    return []
                continue
            except EvaluationError:
                if must_run(obligation, sizes):
                    return []
                continue
            if coverage.elements:
                shown.append(sizes)
    return shown


def differs_in_form(sizes: Sizes, beside: Sequence[Sizes], why: Exception) -> str:
    """The reason why sizes near a limit prevent a proof: the first extent with another form."""
    extent = max(sizes.values())
    is_last = any(max(other.values()) == extent + 1 for other in beside)
    return f"it differs in form from extent {extent + is_last} on, where {why}"


def sizes_in(shown: Sequence[Mapping[str, int]]) -> frozenset[int]:
    """The sizes of symbols that were tried."""
    return frozenset(n for given in shown for n in given.values())


def guarantee_of(obligation: Obligation, symbolic: SymbolicInputs) -> tuple[Guarantee, tuple[str, ...]]:
    """The guarantee of a comparison without a difference, and the domain of elements that it covers.

    Raises NotApplicable if results jump, and under a condition: a draw rarely lies near the limits of either.
    """
    if obligation.condition is not None:
        raise NotApplicable("random points say nothing of the ends of a condition")
    if symbolic.is_ring:
        return Guarantee.EXACT, ("every integer, with overflow",)
    if has_drawn_integers(obligation, symbolic):
        return Guarantee.DRAWN_INTEGERS, ()
    # The places at which models jump may be closer together than draws are.
    if not jumps_of(obligation) <= CONTINUOUS_STEPS:
        raise NotApplicable("results jump between drawn numbers")
    return Guarantee.REALS, extents_words(obligation)


def extents_words(obligation: Obligation) -> tuple[str, ...]:
    """The extents that were drawn, as text."""
    return (f"extents below {INTEGER_LIMITS[0]} in inputs",) if extent_inputs(obligation) else ()


class Evaluator:
    """Evaluates a fragment on shadow arrays; its constants, and the constants of `symbolic` names, are lifted once."""

    def __init__(self, fragment: Fragment, symbolic: frozenset[str] = frozenset()) -> None:
        self.model = copy_without(fragment.model)
        graph = self.model.graph
        constants: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        lifted_nodes = [n for n in graph.node if n.op_type == "Constant" and [a.name for a in n.attribute] == ["value"]]
        constants |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in lifted_nodes}
        for node in lifted_nodes:
            graph.node.remove(node)
        self.constants = {
            name: lifted_codes(a) if name in symbolic else self._shadow(name, a, fragment)
            for name, a in constants.items()
            if name not in fragment.computed
        }
        self.order = EvaluationOrder.of(self.model, [v.name for v in graph.output])
        self.leaves = fragment.shadows
        fixed = {n for n, origin in fragment.computed.items() if all(leaf in self.leaves for leaf in leaves_of(origin))}
        known: dict[int, Any] = {}
        self.constants |= {n: computed_constant(fragment.computed[n], self.leaves, known) for n in fixed}
        self.computed = {n: origin for n, origin in fragment.computed.items() if n not in fixed}

    @staticmethod
    def _shadow(name: str, array: Array, fragment: Fragment) -> Array:
        if helper.np_dtype_to_tensor_dtype(array.dtype) not in FLOATS:
            return array
        held = fragment.shadows.get(name)
        wide = array.astype(np.float64)
        if isinstance(held, ShadowArray) and held.field is not None and held.shape == array.shape:
            return shadowed(wide, held.field)
        return shadowed(wide, lift(array, is_held=True))

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in order. Raises EvaluationError and NotApplicable."""
        constants = {name: a for name, a in self.constants.items() if name not in feeds}
        known: dict[int, Any] = {}
        given = {**self.leaves, **feeds} if self.computed else feeds
        constants |= {name: computed_constant(origin, given, known) for name, origin in self.computed.items()}
        found = evaluate_by_policy(self.model, feeds, constants, exact_policy, self.order)
        return [found[v.name] for v in self.model.graph.output]


Evaluators = tuple[Evaluator, Evaluator]


def computed_constant(origin: Origin, feeds: Mapping[str, Any], known: dict[int, Any]) -> ShadowArray:
    """A constant that follows from inputs. Raises NotApplicable if its exact elements are lost."""
    try:
        found = compute(origin, feeds, known)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as why:
        raise NotApplicable("a folded constant cannot be computed exactly") from why
    if not isinstance(found, ShadowArray) or found.field is None:
        raise NotApplicable("a folded constant cannot be computed exactly")
    return found


def lifted_codes(array: Array) -> ShadowArray:
    """Integers, bools or strings as field elements; strings are hashed."""
    if array.dtype.kind in "OSU":
        array = np.array([crc32(str(x).encode()) for x in array.ravel().tolist()], np.int64).reshape(array.shape)
    return shadowed(array.astype(np.float64), lift(array))


def exact_policy(array: Array, element_type: int, is_exact: bool) -> Array:
    """A result of an op; one without field elements is lifted if it consists of single-precision constants.

    Raises NotApplicable for other numbers: they come from drawn numbers whose exact values were lost.
    """
    if isinstance(array, ShadowArray) and array.field is not None:
        return array
    numbers = np.asarray(array)
    finite = numbers[np.isfinite(numbers)]
    if (finite != finite.astype(np.float32)).any():
        raise NoFieldKernel(NO_FIELD_KERNEL)
    return lifted(numbers)


def compare_first_at(
    obligation: Obligation, redraw: Redraw | None, sizes: Mapping[str, int], points: Points, enough: int
) -> Coverage:
    """Compare the outputs of a region first with all roots defined, at few points. Raises as `compare_at`."""
    if not obligation.is_thorough:
        try:
            with ff.roots_always_defined():
                return compare_at(obligation, redraw, sizes, points, enough)
        except Difference:  # a law of roots may be needed
            pass
    return compare_at(obligation, redraw, sizes, points, enough)


def compare_at(
    obligation: Obligation, redraw: Redraw | None, sizes: Mapping[str, int], points: Points, enough: int = ENOUGH_DRAWS
) -> Coverage:
    """Compare the outputs at enough random points. Raises Difference, NotApplicable and EvaluationError."""
    least = 2 * ENOUGH_DRAWS if obligation.is_thorough else 2 if has_roots(obligation) else 1
    least <<= len(listed_bools(obligation))
    if reads_shapes_alone(obligation):
        enough = 1
    branch_draws = BRANCH_DRAWS if obligation.is_thorough else 2 * enough
    coverage = Coverage(least, obligation.is_thorough, decides_by_numbers(obligation), enough, branch_draws)
    add_draws(coverage, obligation, sizes, points)
    for seed in range(1, MAX_SEEDS) if coverage.is_stuck else ():
        if redraw is None or coverage.is_complete or (other := redraw(seed)) is None:
            break
        try:
            add_draws(coverage, other, sizes, points, limit=coverage.draws + 2 * ENOUGH_DRAWS)
        except Difference as why:  # the outputs are equal only for these constants
            raise NotApplicable("an element of the outputs is never defined in the field") from why
    coverage.require_enough()
    return coverage


def add_draws(
    coverage: Coverage, obligation: Obligation, sizes: Mapping[str, int], points: Points, limit: int = 0
) -> None:
    """Add draws until all is covered, or no draw adds anything."""
    evaluators = points.evaluators(obligation)
    condition = None if obligation.condition is None else Evaluator(Fragment(obligation.condition))
    failures = refused = 0
    # A draw for a region has as many samples as are possible without making arrays much larger.
    elements = sum(prod(shape) for _, shape in obligation.concrete_inputs(sizes))
    samples = 1 if obligation.is_thorough else max(1, min(SAMPLES, SAMPLED_ELEMENTS // max(elements, 1)))
    while coverage.wants_draws(limit):
        if obligation.has_time is not None and not obligation.has_time():
            raise NotApplicable(NO_TIME)
        number = coverage.next_number
        wanted = (
            1
            if coverage.has_branches or coverage.has_enough
            else samples
            if coverage.draws
            else min(samples, coverage.enough)
        )
        feeds = points.draw(obligation, sizes, number, integer_limit=INTEGER_LIMITS[failures], samples=wanted)
        if condition is not None and not all(np.asarray(v).all() for v in condition(feeds)):
            refused += 1
            if refused == MAX_REFUSED:
                raise NotApplicable("the condition holds in no draw")
            continue
        try:
            before = evaluators[0](feeds)
            require_declared_shapes(obligation.before.model, before)
        except EvaluationError:
            failures += 1
            if failures == len(INTEGER_LIMITS):
                raise
            continue
        try:
            after = evaluators[1](feeds)
        except EvaluationError as why:
            if NO_KERNEL in str(why):
                raise
            raise Difference(NOT_EVALUATED, feeds) from why
        coverage.draws += 1
        coverage.samples += wanted
        counted = Coverage() if is_special(number) else coverage
        for index, (x, y) in enumerate(zip(before, after, strict=True)):
            compare_output(index, x, y, counted, feeds)


def require_declared_shapes(model: onnx.ModelProto, outputs: Sequence[Any]) -> None:
    """Raise EvaluationError if an output differs from the declared extents, which no inputs can give."""
    for value, found in zip(model.graph.output, outputs, strict=True):
        declared = value.type.tensor_type.shape.dim
        if not isinstance(found, list) and len(declared) == np.ndim(found):
            extents = zip(declared, np.shape(found), strict=True)
            if any(d.HasField("dim_value") and d.dim_value != n for d, n in extents):
                raise EvaluationError(f"{value.name} has other extents than the model declares")


class Points(Struct, frozen=True):
    """Random inputs: normal numbers of several scales, each with the residues of a number of its sign."""

    symbolic: SymbolicInputs
    rng: np.random.Generator = msgspec.field(default_factory=partial(np.random.default_rng, 1))
    _last: list[tuple[Obligation, Evaluators]] = msgspec.field(default_factory=list["tuple[Obligation, Evaluators]"])

    def evaluators(self, obligation: Obligation) -> Evaluators:
        """The evaluators of both fragments of an obligation, which are kept until another obligation is used."""
        if not self._last or self._last[0][0] is not obligation:
            beside = self.symbolic.constants
            made = Evaluator(obligation.before, beside), Evaluator(obligation.after, beside)
            self._last[:] = [(obligation, made)]
        return self._last[0][1]

    def draw(
        self, obligation: Obligation, sizes: Mapping[str, int], number: int, *, integer_limit: int, samples: int = 1
    ) -> dict[str, Any]:
        """The inputs of a draw by its number. Integers that are no field elements are below a limit.

        Raises NotApplicable.
        """
        feeds: dict[str, Any] = {}
        bools = listed_bools(obligation)
        is_special_draw = is_special(number)
        boundaries = boundaries_of(obligation) if is_special_draw else np.zeros(1)
        for place, (given, shape) in enumerate(obligation.concrete_inputs(sizes)):
            if int(np.prod(shape)) > (MAX_ELEMENTS if obligation.is_thorough else MAX_REGION_ELEMENTS):
                raise TooLarge(f"input {given.name} is larger than the field evaluates")
            if given.dtype in FLOATS or given.name in self.symbolic.names:
                offset, scale = (c[int(self.rng.integers(len(c)))] for c in (OFFSETS, SCALES))
                numbers = self.rng.standard_normal(shape)
                if not (obligation.is_thorough or is_special_draw):  # a few draws have both signs
                    side = 1 - 2 * ((number // 2 + place) % 2)
                    offset, numbers = side * abs(offset), side * np.abs(numbers) if numbers.size == 1 else numbers
                numbers = numbers * large_scale(number) if large_scale(number) else (numbers + offset) * scale
                numbers = np.abs(numbers) if given.is_positive else numbers
                elements = random_elements(self.rng, numbers, samples)
                if (
                    is_special_draw
                    and not large_scale(number)
                    and given.dtype in FLOATS
                    and numbers.size
                    and not given.is_positive
                ):
                    numbers, elements = self._beside_boundaries(numbers, elements, boundaries)
                feeds[given.name] = shadowed(numbers, elements)
            elif given.name in bools:
                feeds[given.name] = np.full(shape, bool(number >> 1 + bools[given.name] & 1))
            elif given.dtype == TensorProto.BOOL:
                feeds[given.name] = self.rng.integers(0, 2, shape).astype(np.bool_)
            else:
                dtype = helper.tensor_dtype_to_np_dtype(given.dtype)
                feeds[given.name] = self.rng.integers(0, integer_limit, shape).astype(dtype)
        return feeds

    def _beside_boundaries(self, numbers: Array, elements: FieldArray, boundaries: Array) -> tuple[Array, FieldArray]:
        """The numbers, some of which become equal to each other, and others lie on or near a boundary."""
        places: Any = np.arange(numbers.size)
        copied: Any = self.rng.random(numbers.size) < SPECIAL_SHARE
        places[copied] = self.rng.integers(0, numbers.size, int(copied.sum()))
        places = places.reshape(numbers.shape)
        numbers, elements = numbers.reshape(-1)[places], elements.take(places)
        chosen: Any = self.rng.choice(boundaries, numbers.shape)
        distances = self.rng.choice(DISTANCES, numbers.shape) * 2.0 ** np.ceil(np.log2(np.maximum(abs(chosen), 1)))
        beside = chosen + distances
        columns = np.where(distances == 0, lift(chosen).data, lift_exactly(beside).data)
        moved = cast("Array", self.rng.random(numbers.shape) < SPECIAL_SHARE)
        return np.where(moved, beside, numbers), FieldArray(np.where(moved, columns, elements.data))


SPECIAL_SHARE = 0.3
DISTANCES = np.array([0.0, 0.0, 2.0**-18, -(2.0**-18), 2.0**-10, -(2.0**-10), 1.0, -1.0])
"""Distances from a boundary, relative to it above 1; at least the rounding of single precision, as of constants."""
MAX_BOUNDARIES = 64


def is_special(number: int) -> bool:
    """Whether a draw has large numbers, or equal numbers and numbers on and near the constants of the models."""
    return number % 2 == 1


def large_scale(number: int) -> float:
    """The scale of a special draw of large numbers, which may exceed distant limits; 0 for other draws."""
    return LARGE_SCALES[number // 4 % len(LARGE_SCALES)] if number % 4 == 3 else 0.0


def boundaries_of(obligation: Obligation) -> Array:
    """The numbers in small constants of both fragments, and 0."""
    found = {0.0}
    for model in obligation.models:
        for array in map(numpy_helper.to_array, model.graph.initializer):
            if array.size <= MAX_BOUNDARIES and array.dtype.kind == "f":
                numbers = array.astype(np.float64).ravel().tolist()
                found.update(x for x in numbers if abs(x) < BOUNDARY_LIMIT)
    return np.array(sorted(found)[:MAX_BOUNDARIES])


BOUNDARY_LIMIT = 1e6


def random_elements(rng: np.random.Generator, numbers: Array, samples: int = 1) -> FieldArray:
    """Random field elements; positive numbers are squares, so that the root of a square is the absolute value."""
    data = np.zeros((ff.ROWS, samples, *numbers.shape), np.int64)
    roots = rng.integers(1, ff.P, data.shape[1:])
    squares = roots * roots % ff.P
    data[ff.MODULUS] = np.where(numbers < 0, ff.P - squares, squares)
    data[ff.EXPONENT] = rng.integers(0, ff.Q, data.shape[1:])
    data[ff.HAS_MODULUS] = data[ff.HAS_EXPONENT] = 1
    return FieldArray(data)


def compare_output(index: int, x: Any, y: Any, coverage: Coverage, feeds: Mapping[str, Any]) -> None:
    """Compare an output of both fragments. Raises Difference."""
    if isinstance(x, list) or isinstance(y, list):
        parts: list[tuple[Any, Any]] = list(zip(cast("list[Any]", x), cast("list[Any]", y), strict=True))
        for i, (a, b) in enumerate(parts):
            compare_output(index * MAX_PARTS + i, a, b, coverage, feeds)
        return
    if np.shape(x) != np.shape(y):
        raise Difference(DIFFERENT_SHAPES, feeds)
    coverage.elements += np.size(x)
    if not (isinstance(x, ShadowArray) and isinstance(y, ShadowArray) and x.field and y.field):
        if not np.array_equal(np.asarray(x), np.asarray(y)):
            raise Difference(DIFFERENT_INTEGERS, feeds)
        return
    first, second = np.asarray(x), np.asarray(y)
    lost = np.isfinite(first) & np.isnan(second)
    if lost.any():
        raise Difference("the result is NaN where the original is a number", feeds, Guarantee.FEWER_INPUTS)
    defined, equal = ff.same(x.field, y.field)
    usable = defined & np.isfinite(first) & np.isfinite(second)
    if (usable & ~equal).any():
        near = np.abs(first - second) <= RELATIVE_AGREEMENT * np.maximum(np.abs(first), np.abs(second))
        wrong = (usable & ~equal).any(axis=0)
        raise Difference(DIFFERENT_RESIDUES if near[wrong].all() else DIFFERENT_NUMBERS, feeds)
    regions = ff.combined_regions(x.field.data[ff.REGION, 0], y.field.data[ff.REGION, 0])
    coverage.add(index, usable, regions, 1 + (ff.knows_both(x.field) & ff.knows_both(y.field)))
