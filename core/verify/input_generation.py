"""Generation of input sets with several kinds of numbers.

Each kind reveals other mistakes. *normal*: most mistakes. *negative*: identities that hold only for positive
numbers. *wide*: 64 rows with three times the spread, for rare events. *mixed*: runs of large numbers for saturation,
tiny ones for a misplaced epsilon, ties for order among equals, zeros of both signs. *zeros*: divisions, signs,
defaults. *extremes*: clipping, casts, overflow. *boundaries*: the wrong side of a comparison. *nan*, *inf*: lost or new
special values; the first rows stay finite, so that a leak between rows shows.

In combined input sets each input has a kind of its own (`core.verify.input_search`). Further kinds are for those.
*sizes*: extents near constants of the models. *constants*: numbers equal to and near their constants, words of their
vocabularies. *nonfinite*: zeros, ones, NaN and infinities; two inputs have all pairs of these. *adjacent*: numbers
that nearly coincide, in one input or in several. *magnitudes*: log-uniform numbers; integers up to the limits of the
type. *offset*: rows far from zero compared with their spread. *tiny*: subnormal numbers. *sparse*: zeros except in one
channel of each row. *far*: indices and positions from the end and out of range, negative pads. *lengths*: sequences of
0 to 7 tensors, absent optionals, up to 257 iterations and numbers of iterations that constants suggest. *crossings*:
both sides of comparisons that follow arithmetic (`core.verify.comparison_crossings`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace

from ..ir.dtypes import INTEGER_DTYPES
from .dim_expressions import Sizes, extent
from .input_sets import InputSet
from .input_specs import OPTIONAL, SEQUENCE, InputSpec
from .model_constants import NO_CONSTANTS, ModelConstants
from .noise import is_float
from .number_generation import (
    MIXED,
    MIXED_PARTS,
    Range,
    adjacent_floats,
    adjacent_integers,
    clipped_integers,
    far_indices,
    floats_near_constants,
    floats_near_points,
    floats_of_all_magnitudes,
    floats_with_offsets,
    generate_extreme_integers,
    generate_floats,
    generate_integers,
    index_limits,
    integer_limits,
    integers_near_constants,
    integers_near_points,
    integers_of_all_magnitudes,
    kinds_without_special_values,
    nearly_equal,
    nonfinite_floats,
    one_hot_rows,
    sparse_floats,
    special_integers,
    tiny_floats,
    to_finite,
)
from .size_assignments import element_count

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

KINDS = ("normal", "negative", "wide", MIXED, "zeros", "extremes", "boundaries", "nan", "inf")
COMBINED_KINDS = (
    "sizes", "constants", "adjacent", "magnitudes", "offset", "tiny", "sparse", "far", "lengths",
    "nonfinite", "crossings",
)  # fmt: skip
"""The kinds of input sets in which each input has a kind of its own, apart from the further *boundaries* sets."""
ALL_KINDS = (*KINDS, *COMBINED_KINDS)
LARGE_INPUT_KINDS = ("normal", MIXED, "nan")  # for large inputs of floats
# The value of a scalar bool: one bit of the position of the kind here, another bit for each such input, so that two of
# them meet in every combination, and from the fourth on the parity of several bits. Zeros are all false, negative
# numbers all true.
TRUTH_KIND_ORDER = ("extremes", "normal", MIXED, "wide", "nan", "inf", "boundaries")
TRUTH_MASKS = (1, 2, 4, 3, 5, 6, 7)
EXTREME_KINDS = frozenset({"extremes", "nan", "inf"})
SEQUENCE_LENGTHS = {"negative": 1, MIXED: 3, "zeros": 0}  # of sequences, 2 in other kinds
LENGTHS, TRIPS = (0, 7, 3, 1, 5, 4, 6), (0, 33, 65, 1, 2, 257)  # of sequences, and trip counts, in turn
MAX_TRIP_COUNTS = 12  # as many as there are sets with them
MIXED_VARIANTS = 3  # input sets of mixed numbers
FEW_ELEMENTS = 4 * MIXED_PARTS  # of all inputs, which do not hold all mixed numbers
MAX_CONTROL = 2048  # the largest magnitude of integers that control a run
USUAL_WORDS = ("passwright", "", "Two words", "b")  # the order of two shows in a text made of both
MAX_SINGLE_ELEMENT_POINTS = 3  # boundaries on, between and beyond which inputs of one element are put, one at a time


class _GenerationParams(Struct, frozen=True):
    """Parameters for an input of an input set; `indices` numbers the boolean inputs and the inputs with boundaries.

    `constants` of the models are boundaries and words of every input.
    """

    kind: str
    sizes: Sizes
    rng: np.random.Generator
    restriction: int
    variant: int
    indices: dict[str, int]
    constants: ModelConstants = NO_CONSTANTS


class _InputClass(Struct, frozen=True):
    """A class of inputs: its generator of arrays, and the `kinds` for which they differ from normal arrays.

    For other kinds normal arrays are generated. `is_restrictable` says whether the generator supports narrower ranges.
    """

    generate: Callable[[InputSpec, str, Shape, _GenerationParams], Array | None]
    kinds: frozenset[str]
    is_restrictable: bool = True


def _generate_override(i: InputSpec, kind: str, _: Shape, __: _GenerationParams) -> Array | None:
    """The value of an overridable initializer; None keeps its default, as most callers do."""
    if i.default is None or kind == "normal":
        return None
    default = i.default.array
    if default.dtype.kind == "b":
        return np.asarray(~default)  # NumPy makes a scalar of rank 0, which onnxruntime does not accept
    if default.dtype.kind in "iu":
        return np.where(default < integer_limits(default.dtype)[1], default + 1, default - 1).astype(default.dtype)
    return np.asarray(default * default.dtype.type(1.5) + default.dtype.type(0.125), default.dtype)


def _generate_strings(i: InputSpec, _: str, shape: Shape, params: _GenerationParams) -> Array:
    words = [*i.role.words, *(() if params.restriction else USUAL_WORDS)] or ["a"]
    drawn = params.rng.choice(np.array(words, object), shape)
    if params.kind in STRING_KINDS and params.constants.words:
        near = params.rng.choice(np.array(params.constants.words, object), shape)
        return np.where(params.rng.random(shape) < 0.5, near, drawn)
    return drawn


def _generate_booleans(i: InputSpec, kind: str, shape: Shape, params: _GenerationParams) -> Array:
    if i.dtype in INTEGER_DTYPES:
        if params.restriction:
            return _generate_integers(i, kind, shape, params)
        if params.kind == "negative":  # any number but zero is true
            low, high = (-9, -1) if integer_limits(i.numpy_dtype)[0] < -9 else (1, 3)
            return params.rng.integers(low, high, shape, endpoint=True)
    if params.kind in {"zeros", "negative"}:
        return np.full(shape, params.kind == "negative")
    if prod(shape) == 1:
        mask = TRUTH_MASKS[params.indices[i.name] % len(TRUTH_MASKS)]
        return np.full(shape, bool((TRUTH_KIND_ORDER.index(params.kind) & mask).bit_count() & 1))
    if kind in {"wide", MIXED}:
        return one_hot_rows(shape, params.rng) ^ (kind == MIXED)
    return params.rng.integers(0, 2, shape).astype(np.bool_)


def _generate_unit_interval(i: InputSpec, kind: str, shape: Shape, params: _GenerationParams) -> Array:
    """Probabilities and ratios, which are small, large or zero for the kinds with these names."""
    low, high = {"negative": (0.01, 0.1), MIXED: (0.9, 0.99), "zeros": (0.0, 0.0)}.get(kind, (0.1, 0.9))
    return to_finite(np.asarray(params.rng.uniform(low, high, shape)), i.numpy_dtype)


def _generate_integers(i: InputSpec, kind: str, shape: Shape, params: _GenerationParams) -> Array:
    """Free integers, and all numbers whose role restricts them."""
    limits = integer_limits(i.numpy_dtype if i.dtype in INTEGER_DTYPES else np.dtype(np.int16))
    is_free = i.role.kind == "free"
    special = SPECIAL_INTEGERS.get(kind)
    if special is not None and (drawn := special(i, shape, params, limits)) is not None:
        return np.where(drawn == 0, 1, drawn) if i.role.kind in {"divisor", "step"} else drawn
    if kind == "boundaries" and (is_free or not params.restriction):
        reach = limits if is_free else index_limits(i.role, params.sizes, limits)
        if not _decides_branch(i, shape):
            return integers_near_points(i.boundaries.points, shape, params.rng, reach)
        numbers, round_to_interval = _numbers_in_interval(i, shape, params)
        return clipped_integers(round_to_interval(numbers), reach)
    if kind == "extremes" and not params.restriction:
        return generate_extreme_integers(shape, params.rng, limits)
    return generate_integers(i.role, kind, shape, params.sizes, params.rng, limits, params.restriction)


def _integers_near_constants(i: InputSpec, shape: Shape, params: _GenerationParams, limits: Range) -> Array | None:
    points = i.boundaries.all_points, params.constants.numbers
    if i.role.kind == "index":
        points = i.boundaries.all_points, params.constants.places
        limits = index_limits(i.role, params.sizes, limits)
    elif i.is_size:
        limits = max(limits[0], -MAX_CONTROL), min(limits[1], MAX_CONTROL)
    return integers_near_constants(points, shape, params.rng, limits)


def _far_integers(i: InputSpec, shape: Shape, params: _GenerationParams, limits: Range) -> Array:
    """Indices in and out of range, pads that crop, positions and ends counted from the end, any steps."""
    if i.role.kind == "index":
        bound = extent(i.role.bound, params.sizes) if i.role.bound is not None else None
        return clipped_integers(far_indices(shape, bound, params.rng, params.variant).astype(np.float64), limits)
    low, high = FAR_RANGES[i.role.kind]
    return np.asarray(params.rng.integers(max(low, limits[0]), high, shape, endpoint=True))


def _mixed_integers(i: InputSpec, shape: Shape, params: _GenerationParams, limits: Range) -> Array | None:
    """Small and large integers; None if a role or a use as a size limits them."""
    is_any = i.role.kind == "free" and not i.is_size and not params.restriction
    return special_integers(shape, params.rng, limits) if is_any else None


def _trips(params: _GenerationParams) -> int:
    """A trip count; among these are counts for which the iteration number reaches or passes constants."""
    beside = [min(n + more, MAX_CONTROL) for more in (2, 1) for n in params.constants.sizes]
    counts = (*TRIPS, *beside)[:MAX_TRIP_COUNTS]
    return counts[params.variant % len(counts)]


FAR_RANGES = {
    "pads": (-1, 1), "count": (0, 3), "position": (-3, 3), "start": (-9, 9), "end": (-9, 9), "step": (-3, 3),
    "limit": (-9, 70), "region": (-9, 70),
}  # fmt: skip
SPECIAL_INTEGERS: dict[str, Callable[[InputSpec, Shape, _GenerationParams, Range], Array | None]] = {
    "constants": _integers_near_constants,
    "magnitudes": lambda _, shape, params, limits: integers_of_all_magnitudes(shape, params.rng, limits),
    "adjacent": lambda _, shape, params, limits: adjacent_integers(shape, params.rng, limits),
    "far": _far_integers,
    "lengths": lambda _, shape, params, __: np.full(shape, _trips(params)),
    MIXED: _mixed_integers,
}
"""The generators for the kinds in which an integer input has a purpose of its own."""


def _generate_free_floats(i: InputSpec, kind: str, shape: Shape, params: _GenerationParams) -> Array:
    dtype, points, rng = i.numpy_dtype, i.boundaries.points, params.rng
    if kind == "constants":
        return floats_near_constants((i.boundaries.all_points, params.constants.numbers), shape, dtype, rng)
    if kind in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[kind](shape, dtype, rng)
    if kind == "tiny":
        return tiny_floats(shape, dtype, rng, params.variant - params.indices[i.name])  # the same in all inputs
    if kind == "sparse":
        number = params.variant - params.indices[i.name]
        return sparse_floats(shape, dtype, rng, params.constants.places if number % 2 == 0 else ())
    if kind in {MIXED, "boundaries"} and points and dtype.kind != "c":
        if kind == MIXED:  # the last run of numbers is at the boundaries
            last = prod(shape) // (MIXED_PARTS + 1)
            mixed = generate_floats(MIXED, (prod(shape) - last,), dtype, rng)
            return np.concatenate([mixed, floats_near_points(points, (last,), dtype, rng)]).reshape(shape)
        if _decides_branch(i, shape):
            return to_finite(_numbers_in_interval(i, shape, params)[0], dtype)
        return floats_near_points(points, shape, dtype, rng)
    kind = "normal" if kind == "boundaries" else kind
    return generate_floats(kind, shape, dtype, rng, selection_only=i.is_selection_only)


def _numbers_in_interval(
    i: InputSpec, shape: Shape, params: _GenerationParams
) -> tuple[Array, Callable[[Array], Array]]:
    """Numbers that all lie in one interval: below the first boundary, at it, between it and the next, and so on.

    Beyond the outer boundaries they are within |boundary| + 1. Also returns the function that rounds within the
    interval.
    """
    points = _few_points(i.boundaries.points)
    index, is_at = divmod((params.variant + params.indices[i.name]) % (2 * len(points) + 1), 2)
    if is_at:
        return np.full(shape, points[index]), np.trunc
    low = points[index - 1] if index else points[0] - (abs(points[0]) + 1.0)
    high = points[index] if index < len(points) else points[-1] + (abs(points[-1]) + 1.0)
    fraction = np.asarray(params.rng.uniform(0.1, 0.9, shape))
    if index == 0:
        return high - fraction * (high - low), np.floor
    return low + fraction * (high - low), np.ceil


SPECIAL_FLOATS: dict[str, Callable[[Shape, np.dtype[Any], np.random.Generator], Array]] = {
    "adjacent": adjacent_floats, "magnitudes": floats_of_all_magnitudes,
    "nonfinite": nonfinite_floats, "offset": floats_with_offsets,
}  # fmt: skip
ROLE_KINDS = frozenset({"normal", "negative", MIXED, "zeros"})
TRUTH_KINDS = ROLE_KINDS | {"wide"}
STRING_KINDS = frozenset({"constants", "adjacent"})
FREE_INTEGER_KINDS = frozenset({"constants", "magnitudes", "adjacent"})
ROLES_OF_KIND = {
    "far": {*FAR_RANGES, "index"}, "lengths": {"trips"}, "magnitudes": {"divisor"}, "constants": {"index", "divisor"},
}  # fmt: skip


def special_kinds(i: InputSpec) -> frozenset[str]:
    """The kinds of combined input sets for which an input has special values, apart from its `own_kinds`."""
    role = i.role.kind
    if i.type_kind in {SEQUENCE, OPTIONAL} or i.default is not None:
        return frozenset({"lengths"}) if i.default is None else frozenset()
    if i.dtype == onnx.TensorProto.STRING:
        return STRING_KINDS
    if role != "free":
        found = {kind for kind, roles in ROLES_OF_KIND.items() if role in roles}
        unchecked = role == "index" and not i.role.signed and i.role.bound is not None
        return frozenset(found - ({"far"} if unchecked else set[str]()))
    if i.dtype in INTEGER_DTYPES:
        return frozenset({"constants"}) if i.is_size else FREE_INTEGER_KINDS
    is_real = is_float(i.numpy_dtype) and i.numpy_dtype.kind != "c" and i.numpy_dtype.itemsize > 1
    found = {"constants", "sparse", "tiny", *SPECIAL_FLOATS} - ({"nonfinite"} if i.is_control else set[str]())
    return frozenset(found if is_real else ())


def own_kinds(i: InputSpec) -> frozenset[str]:
    """The kinds for which an input differs from a normal one."""
    return _input_class(i).kinds


def _input_class(i: InputSpec) -> _InputClass:
    """The class of an input, with the kinds that its type and use allow."""
    is_integer, role = i.dtype in INTEGER_DTYPES, i.role.kind
    if i.default is not None:  # two kinds, because one may hide the effect
        kinds = {"negative", MIXED} if i.default.array.dtype.kind in "fbiu" else set[str]()
        return _InputClass(_generate_override, frozenset(kinds))
    if i.dtype == onnx.TensorProto.STRING:
        return _InputClass(_generate_strings, frozenset({"normal", "negative"}), is_restrictable=bool(i.role.words))
    if i.dtype == onnx.TensorProto.BOOL:
        return _InputClass(_generate_booleans, TRUTH_KINDS, is_restrictable=False)
    if role == "share" and not is_integer:
        return _InputClass(_generate_unit_interval, ROLE_KINDS)
    if role == "truth" and is_integer:
        return _InputClass(_generate_booleans, TRUTH_KINDS)
    omitted = set[str]() if i.boundaries.points else {"boundaries"}
    if role not in {"free", "truth"}:  # a float that serves as a truth value may be any number
        return _InputClass(
            _generate_integers, (ROLE_KINDS | {"boundaries"} if role == "index" else ROLE_KINDS) - omitted
        )
    omitted |= EXTREME_KINDS if i.is_control else set[str]()
    if is_integer:
        return _InputClass(_generate_integers, (ROLE_KINDS | {"extremes", "boundaries"}) - omitted)
    omitted |= kinds_without_special_values(i.numpy_dtype)
    return _InputClass(_generate_free_floats, frozenset(KINDS) - omitted, is_restrictable=False)


def distinct_kinds(inputs: list[InputSpec], *, are_large: bool) -> tuple[str, ...]:
    """The distinct kinds of input sets, starting with normal; if the inputs `are_large`, few kinds for floats."""
    classes = [_input_class(i) for i in inputs]
    found = [kind for kind in KINDS if kind == "normal" or any(kind in c.kinds for c in classes)]
    if are_large:
        others = [c.kinds for c in classes if c.generate is not _generate_free_floats]
        found = [k for k in found if k in LARGE_INPUT_KINDS or any(k in kinds for kinds in others)]
    return tuple(found)


def variant_count(inputs: list[InputSpec], kind: str, sizes: Sizes) -> int:
    """The number of input sets of a kind: several if there are few elements, or some determine the result."""
    if kind == MIXED:
        return MIXED_VARIANTS if element_count(inputs, sizes) < FEW_ELEMENTS else 1
    if kind != "boundaries":
        return 1
    affected = [i for i in inputs if kind in _input_class(i).kinds]
    deciding = [i for i in affected if _decides_branch(i, i.shape_at(sizes))]
    return max((2 * len(_few_points(i.boundaries.points)) + 1 for i in deciding), default=1)


def generate_input_sets(
    inputs: list[InputSpec], kind: str, sizes: Sizes, seed: tuple[int, ...], variant: int = 0
) -> Iterator[InputSet]:
    """Input sets of one kind at given sizes, the best first, then restricted ones in case the model rejects it."""
    classes = [_input_class(i) for i in inputs]
    booleans = (i for i, c in zip(inputs, classes, strict=True) if c.generate is _generate_booleans)
    indices = {i.name: n for n, i in enumerate(booleans)}
    indices |= {i.name: n for n, i in enumerate(i for i in inputs if i.boundaries.points)}
    can_restrict = any(c.is_restrictable or i.type_kind == SEQUENCE for i, c in zip(inputs, classes, strict=True))
    for restriction in range(4 if can_restrict else 1):
        params = _GenerationParams(
            kind, sizes, np.random.default_rng([*seed, restriction]), restriction, variant, indices
        )
        chosen = [(i, c) for i, c in zip(inputs, classes, strict=True) if i.default is None or not restriction]
        feeds = {i.name: _generate(i, c, params) for i, c in chosen}
        yield InputSet(kind, sizes, {k: v for k, v in feeds.items() if v is not None})


def generate_combined(
    inputs: list[InputSpec],
    kind: str,
    kinds: Mapping[str, str],
    sizes: Sizes,
    seed: tuple[int, ...],
    constants: ModelConstants,
) -> InputSet:
    """An input set in which each input has the kind that `kinds` gives for it, or is normal."""
    indices = {i.name: n for n, i in enumerate(inputs)}
    params = _GenerationParams(kind, sizes, np.random.default_rng(seed), 0, seed[-1], indices, constants)
    feeds: dict[str, Any] = {}
    for n, i in enumerate(inputs):
        own = replace(params, kind=kinds.get(i.name, "normal"), variant=params.variant + n)
        if own.kind == "boundaries":  # below, at and above each, in all combinations
            own = replace(
                own, variant=params.variant // 3 ** sum(kinds.get(i.name) == "boundaries" for i in inputs[:n])
            )
        if i.type_kind == OPTIONAL and own.kind == "lengths":
            feeds[i.name] = None
        elif (value := _generate(i, _input_class(i), own)) is not None:
            feeds[i.name] = value
    _let_coincide([i for i in inputs if kinds.get(i.name) == "adjacent"], feeds, params.rng)
    return InputSet(kind, sizes, feeds, frozenset(kinds.get(i.name, "normal") for i in inputs))


def _let_coincide(inputs: list[InputSpec], feeds: dict[str, Any], rng: np.random.Generator) -> None:
    """Make each input nearly equal to another one of its type; if their shapes differ, to elements of it."""
    first: dict[Hashable, Array] = {}
    for i in inputs:
        if isinstance(feeds.get(i.name), np.ndarray):
            array: Array = feeds[i.name]
            known = first.setdefault((array.dtype, array.shape), first.setdefault(array.dtype, array))
            if known is not array and known.size:
                like = known if known.shape == array.shape else rng.choice(known.reshape(-1), array.shape)
                feeds[i.name] = nearly_equal(like, rng)


def _generate(i: InputSpec, input_class: _InputClass, params: _GenerationParams) -> Any:
    """The array of an input; a sequence has two of one shape, in some kinds none, one, or three with growing dims."""
    kind = params.kind if params.kind in input_class.kinds | special_kinds(i) else "normal"
    shape, dtype = i.shape_at(params.sizes), i.numpy_dtype
    if i.default is not None or i.type_kind != SEQUENCE:
        array = input_class.generate(i, kind, shape, params)
        return array if array is None else array.astype(dtype, copy=False)
    length = 2 if params.restriction else SEQUENCE_LENGTHS.get(params.kind, 2)
    if params.kind == "lengths":
        kind, length = "normal", LENGTHS[params.variant % len(LENGTHS)]
        params = replace(params, kind=kind)
    growing = [d in {"[0]", f"{i.name}[{axis}]"} and length > 2 for axis, d in enumerate(i.shape)]
    shapes = [tuple(d + n * grows for d, grows in zip(shape, growing, strict=True)) for n in range(length)]
    arrays = (input_class.generate(i, kind, s, params) for s in shapes)
    return [array.astype(dtype, copy=False) for array in arrays if array is not None]


def _decides_branch(i: InputSpec, shape: Shape) -> bool:
    return i.boundaries.pooled or prod(shape) == 1


def _few_points(points: tuple[float, ...]) -> tuple[float, ...]:
    return points if len(points) <= MAX_SINGLE_ELEMENT_POINTS else (points[0], points[len(points) // 2], points[-1])
