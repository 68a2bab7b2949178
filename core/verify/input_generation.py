"""Generation of input sets with several kinds of numbers.

Each kind shows other mistakes. *normal*: most of them. *negative*: identities that hold for positive numbers only.
*wide*: 64 rows with three times the spread, for rare events. *large*: saturation. *tiny*: lost numbers, a misplaced
epsilon. *zeros*, *signed zeros*: divisions, signs, defaults. *ties*: order among equals. *extremes*: clipping, casts,
overflow. *boundaries*: the wrong side of a comparison. *nan*, *inf*: lost or new special values; the first rows stay
finite, so that a leak between rows shows. *medley*: several kinds in one input, for inputs so large that a run for
each would cost too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..ir.dtypes import INTEGER_DTYPES
from .decision_boundaries import floats_in_interval, floats_near_points, integers_in_interval, integers_near_points
from .dim_expressions import Sizes, extent
from .float_inputs import (
    MIXED,
    MIXED_KINDS,
    NONFINITE_VALUES,
    generate_floats,
    generate_unit_interval_floats,
    is_distinguishable_kind,
)
from .input_specs import SEQUENCE, InputSpec
from .integer_inputs import generate_extreme_integers, generate_integers, index_limits, integer_limits

Array = np.ndarray[Any, Any]

KINDS = (
    "normal", "negative", "wide", "large", "tiny", "zeros", "ties", "signed zeros", "extremes", "boundaries", "nan",
    "inf",
)  # fmt: skip
KIND_ORDER = (*KINDS, MIXED)
LARGE_INPUT_KINDS = ("normal", "large", "nan")  # for large inputs of floats, beside a medley
# What truth a bool that stands alone has: one bit of the place here, another bit for each such input, so that two of
# them meet in every combination, and from the fourth on whether several bits differ. Zeros are all false, negative
# numbers all true.
TRUTH_KIND_ORDER = (
    "medley",
    "normal",
    "large",
    "ties",
    "tiny",
    "signed zeros",
    "extremes",
    "boundaries",
    "nan",
    "inf",
    "wide",
)
TRUTH_MASKS = (1, 2, 4, 3, 5, 6, 7)
BOOL_KINDS = frozenset({"normal", "negative", "large", "zeros"})
OVERRIDE_KINDS = frozenset(
    {"negative", "large"}
)  # kinds that set what has a default: two, as one may hide what it does
STRING_KINDS = frozenset({"normal", "negative"})
ROLE_KINDS = frozenset({"normal", "negative", "large", "zeros", "ties"})
UNMIXED_DTYPES = INTEGER_DTYPES | {onnx.TensorProto.STRING, onnx.TensorProto.BOOL}
SEQUENCE_LENGTHS = {"negative": 1, "large": 3, "ties": 0}  # of sequences, 2 in other kinds
EXTREME_KINDS = frozenset({"extremes", "nan", "inf"})
MAX_SINGLE_ELEMENT_POINTS = 3  # boundaries that inputs of one element are put on, between and beyond, a draw for each


@dataclass(frozen=True, slots=True)
class InputSet:
    """One set of inputs: `kind` says how the numbers were made, `sizes` what the symbolic dims are."""

    kind: str
    sizes: Sizes = field(default_factory=dict[str, int])
    feeds: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.kind} inputs" + (f" with {sizes}" if sizes else "")

    @property
    def is_finite(self) -> bool:
        """Whether its kind has no NaN and no infinity."""
        return is_finite(self.kind)


def is_finite(kind: str) -> bool:
    """Whether input sets of a kind have no NaN and no infinity."""
    return kind not in NONFINITE_VALUES


def distinct_kinds(inputs: list[InputSpec], *, are_large: bool) -> tuple[str, ...]:
    """The distinct kinds of input sets, the normal one first; with `are_large`, only a medley for floats."""
    found = [kind for kind in KINDS if kind == "normal" or any(_is_affected_by(i, kind) for i in inputs)]
    if are_large and any(_is_mixable(i) for i in inputs):
        others = [i for i in inputs if not _is_mixable(i)]
        found = [k for k in found if k in LARGE_INPUT_KINDS or any(_is_affected_by(i, k) for i in others)]
        found.insert(1, MIXED)
    return tuple(found)


def variant_count(inputs: list[InputSpec], kind: str, sizes: Sizes) -> int:
    """The number of input sets of a kind: several if single elements, or a reduction, decide the result."""
    if kind != "boundaries":
        return 1
    deciding = [i for i in inputs if _is_affected_by(i, kind) and _decides_branch(i, _concrete_shape(i, sizes))]
    return max((2 * len(_few_points(i.boundaries.points)) + 1 for i in deciding), default=1)


def generate_input_sets(
    inputs: list[InputSpec], kind: str, sizes: Sizes, seed: tuple[int, ...], variant: int = 0
) -> Iterator[InputSet]:
    """Input sets of one kind at given sizes, the best first, then restricted ones in case the model rejects it."""
    places = {i.name: n for n, i in enumerate(i for i in inputs if _is_boolean(i))}
    places |= {i.name: n for n, i in enumerate(i for i in inputs if i.boundaries.points)}
    for tameness in range(4 if any(_can_be_restricted(i) for i in inputs) else 1):
        rng = np.random.default_rng([*seed, tameness])
        plan = _GenerationParams(kind, sizes, rng, tameness, variant, places)
        feeds = {i.name: _generate(i, plan) for i in inputs if i.default is None or not tameness}
        yield InputSet(kind, sizes, {k: v for k, v in feeds.items() if v is not None})


def is_same_input_set(a: InputSet, b: InputSet) -> bool:
    """Whether two input sets have the same tensors, bit for bit."""
    if a.sizes != b.sizes or a.feeds.keys() != b.feeds.keys():
        return False
    return all(_is_same_array(x, b.feeds[name]) for name, x in a.feeds.items())


def _is_same_array(x: Any, y: Any) -> bool:
    if isinstance(x, list) or isinstance(y, list) or x.dtype == np.object_:
        return False  # drawn at random in all their kinds
    if x.shape != y.shape or x.reshape(-1)[:8].tobytes() != y.reshape(-1)[:8].tobytes():
        return False
    return bool(x.tobytes() == y.tobytes())


@dataclass(frozen=True, slots=True)
class _GenerationParams:
    """Parameters for all inputs of an input set; `truth_indices` numbers the scalar conditions."""

    kind: str
    sizes: Sizes
    rng: np.random.Generator
    restriction: int
    variant: int
    truth_indices: dict[str, int]


def _is_affected_by(i: InputSpec, kind: str) -> bool:
    """Whether an input is generated differently in this kind than in the normal one."""
    if i.default is not None:
        return kind in OVERRIDE_KINDS and _is_overridable(i.default.array)
    if i.dtype == onnx.TensorProto.STRING:
        return kind in STRING_KINDS
    if i.dtype == onnx.TensorProto.BOOL:
        return kind in BOOL_KINDS
    if kind == "boundaries":
        return bool(i.boundaries.points) and (_is_free(i) or i.role.kind == "index")
    if kind == MIXED:
        return _is_mixable(i)
    if not _is_free(i) or (i.is_control and kind in EXTREME_KINDS):
        return kind in ROLE_KINDS
    if i.dtype in INTEGER_DTYPES:
        return kind in ROLE_KINDS or kind == "extremes"
    return is_distinguishable_kind(kind, helper.tensor_dtype_to_np_dtype(i.dtype))


def _is_mixable(i: InputSpec) -> bool:
    return i.default is None and i.dtype not in UNMIXED_DTYPES and _is_free(i)


def _is_free(i: InputSpec) -> bool:
    """Whether any number is valid; so it is for a float that serves as a truth value, which is true if not 0."""
    return i.role.kind == "free" or (i.role.kind == "truth" and i.dtype not in INTEGER_DTYPES)


def _is_boolean(i: InputSpec) -> bool:
    return i.dtype == onnx.TensorProto.BOOL or (i.role.kind == "truth" and i.dtype in INTEGER_DTYPES)


def _can_be_restricted(i: InputSpec) -> bool:
    return i.dtype in INTEGER_DTYPES or i.default is not None or i.type_kind == SEQUENCE or not _is_free(i)


def _decides_branch(i: InputSpec, shape: tuple[int, ...]) -> bool:
    return i.boundaries.pooled or prod(shape) == 1


def _few_points(points: tuple[float, ...]) -> tuple[float, ...]:
    return points if len(points) <= MAX_SINGLE_ELEMENT_POINTS else (points[0], points[len(points) // 2], points[-1])


def _concrete_shape(i: InputSpec, sizes: Sizes) -> tuple[int, ...]:
    return tuple(extent(d, sizes) for d in i.shape)


def _generate(i: InputSpec, plan: _GenerationParams) -> Any:
    if i.default is not None:
        return _override_value(i.default.array, plan.kind)
    shape = _concrete_shape(i, plan.sizes)
    if i.type_kind == SEQUENCE:
        return _generate_sequence(i, shape, plan)
    return _generate_array(i, shape, plan)


def _generate_sequence(i: InputSpec, shape: tuple[int, ...], plan: _GenerationParams) -> list[Array]:
    """Two tensors of one shape; in some kinds none, one, or three with growing unnamed dims."""
    length = 2 if plan.restriction else SEQUENCE_LENGTHS.get(plan.kind, 2)
    unnamed = [d in {"[0]", f"{i.name}[{axis}]"} and length > 2 for axis, d in enumerate(i.shape)]
    return [
        _generate_array(i, tuple(d + n * u for d, u in zip(shape, unnamed, strict=True)), plan) for n in range(length)
    ]


def _override_value(default: Array, kind: str) -> Array | None:
    """The value of an overridable initializer; None keeps its default, as most callers do."""
    if kind not in OVERRIDE_KINDS or not _is_overridable(default):
        return None
    if default.dtype.kind == "b":
        return np.asarray(~default)  # of what has rank 0 NumPy makes a scalar, which onnxruntime does not take
    if default.dtype.kind in "iu":
        return np.where(default < integer_limits(default.dtype)[1], default + 1, default - 1).astype(default.dtype)
    return np.asarray(default * default.dtype.type(1.5) + default.dtype.type(0.125), default.dtype)


def _is_overridable(default: Array) -> bool:
    return default.dtype.kind in "fbiu"


def _generate_array(i: InputSpec, shape: tuple[int, ...], plan: _GenerationParams) -> Array:
    kind = plan.kind if _is_affected_by(i, plan.kind) else "normal"
    if i.dtype == onnx.TensorProto.STRING:
        words = [*i.role.words, *([] if plan.restriction else ["passwright", ""])] or ["a"]
        return plan.rng.choice(np.array(words, object), shape)
    dtype = helper.tensor_dtype_to_np_dtype(i.dtype)
    if _is_boolean(i) and (i.dtype == onnx.TensorProto.BOOL or not plan.restriction):
        return _generate_booleans(i, shape, plan).astype(dtype)
    if i.role.kind == "share" and i.dtype not in INTEGER_DTYPES:
        return generate_unit_interval_floats(kind, shape, dtype, plan.rng)
    if kind == "boundaries" and (_is_free(i) or not plan.restriction):
        return _generate_near_boundaries(i, shape, dtype, plan)
    if kind == MIXED and i.boundaries.points and dtype.kind != "c":
        return _generate_mixed(i, shape, dtype, plan.rng)
    if i.dtype in INTEGER_DTYPES or not _is_free(i):
        reach = integer_limits(dtype) if i.dtype in INTEGER_DTYPES else integer_limits(np.dtype(np.int16))
        if kind == "extremes" and not plan.restriction:
            return generate_extreme_integers(shape, plan.rng, reach).astype(dtype)
        return generate_integers(i.role, kind, shape, plan.sizes, plan.rng, reach, plan.restriction).astype(dtype)
    return generate_floats(kind, shape, dtype, plan.rng, selection_only=i.is_selection_only)


def _generate_mixed(i: InputSpec, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """A medley whose last run of numbers is at the boundaries."""
    last = prod(shape) // (len(MIXED_KINDS) + 1)
    runs = (
        generate_floats(MIXED, (prod(shape) - last,), dtype, rng),
        floats_near_points(i.boundaries.points, (last,), dtype, rng),
    )
    return np.concatenate(runs).reshape(shape)


def _generate_booleans(i: InputSpec, shape: tuple[int, ...], plan: _GenerationParams) -> Array:
    if plan.kind == "negative" and i.dtype in INTEGER_DTYPES:  # whatever is not zero counts as true
        low, high = (-9, -1) if integer_limits(helper.tensor_dtype_to_np_dtype(i.dtype))[0] < -9 else (1, 3)
        return plan.rng.integers(low, high, shape, endpoint=True)
    if plan.kind in {"zeros", "negative"}:
        return np.full(shape, plan.kind == "negative")
    if prod(shape) == 1:
        mask = TRUTH_MASKS[plan.truth_indices[i.name] % len(TRUTH_MASKS)]
        return np.full(shape, bool((TRUTH_KIND_ORDER.index(plan.kind) & mask).bit_count() & 1))
    return plan.rng.integers(0, 2, shape).astype(np.bool_)


def _generate_near_boundaries(
    i: InputSpec, shape: tuple[int, ...], dtype: np.dtype[Any], plan: _GenerationParams
) -> Array:
    points, number = i.boundaries.points, plan.variant + plan.truth_indices[i.name]
    if i.dtype in INTEGER_DTYPES:
        reach = integer_limits(dtype) if _is_free(i) else index_limits(i.role, plan.sizes, integer_limits(dtype))
        if _decides_branch(i, shape):
            return integers_in_interval(_few_points(points), number, shape, plan.rng, reach).astype(dtype)
        return integers_near_points(points, shape, plan.rng, reach).astype(dtype)
    if dtype.kind == "c":
        return generate_floats("normal", shape, dtype, plan.rng)
    if _decides_branch(i, shape):
        return floats_in_interval(_few_points(points), number, shape, dtype, plan.rng)
    return floats_near_points(points, shape, dtype, plan.rng)
