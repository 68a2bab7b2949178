"""Inputs made up for a model: several kinds of numbers.

Each kind is there for what it finds. *normal*: most mistakes. *negative*: what holds above zero only. *wide*: 64
rows of numbers three times as far apart, for what seldom happens. *large*: saturation. *tiny*: numbers lost on the
way, an epsilon misplaced. *zeros*, *signed zeros*: divisions, signs, defaults. *ties*: order among equals.
*extremes*: clipping, casts, overflow. *boundaries*: the wrong side of a comparison. *nan*, *inf*: what swallows or
makes them; elements of the first rows stay finite, so that they show a leak. *medley*: several of these side by side,
for inputs so large that a run for each would cost too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .decision_boundaries import around, around_integers, region, region_of_integers
from .dim_expressions import Sizes, extent
from .float_inputs import MEDLEY, NON_FINITE, PARTS, can_hold, floats, shares
from .input_roles import INTEGERS
from .input_specs import SEQUENCE, Input
from .integer_inputs import extreme_integers, index_reach, integers, limits

Array = np.ndarray[Any, Any]

KINDS = (
    "normal", "negative", "wide", "large", "tiny", "zeros", "ties", "signed zeros", "extremes", "boundaries", "nan",
    "inf",
)  # fmt: skip
ORDER = (*KINDS, MEDLEY)
FEW_KINDS = ("normal", "large", "nan")  # for large inputs of floats, beside a medley
# What truth a bool that stands alone has: one bit of the place here, another bit for each such input, so that two of
# them meet in every combination, and from the fourth on whether several bits differ. Zeros are all false, negative
# numbers all true.
TURNS = ("medley", "normal", "large", "ties", "tiny", "signed zeros", "extremes", "boundaries", "nan", "inf", "wide")
MASKS = (1, 2, 4, 3, 5, 6, 7)
BOOL_KINDS = frozenset({"normal", "negative", "large", "zeros"})
OVERRIDING = frozenset({"negative", "large"})  # kinds that set what has a default: two, as one may hide what it does
WORD_KINDS = frozenset({"normal", "negative"})
ROLE_KINDS = frozenset({"normal", "negative", "large", "zeros", "ties"})
UNMIXED = INTEGERS | {onnx.TensorProto.STRING, onnx.TensorProto.BOOL}
LENGTHS = {"negative": 1, "large": 3, "ties": 0}  # of sequences, 2 in other kinds
UNTAMED = frozenset({"extremes", "nan", "inf"})
FEW_POINTS = 3  # boundaries that inputs of one element are put on, between and beyond, a draw for each


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs: `kind` says how the numbers were made, `sizes` what the symbolic dims are."""

    kind: str
    sizes: Sizes = field(default_factory=dict[str, int])
    feeds: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.kind} inputs" + (f" with {sizes}" if sizes else "")

    @property
    def is_finite(self) -> bool:
        """Whether it was made with no NaN or infinity in it."""
        return is_finite(self.kind)


def is_finite(kind: str) -> bool:
    """Whether draws of a kind hold no NaN and no infinity."""
    return kind not in NON_FINITE


def kinds(inputs: list[Input], *, few: bool) -> tuple[str, ...]:
    """The kinds of draw that differ, the normal one first; only a `few` for floats if those are many."""
    found = [kind for kind in KINDS if kind == "normal" or any(_matters(i, kind) for i in inputs)]
    if few and any(_has_medley(i) for i in inputs):
        others = [i for i in inputs if not _has_medley(i)]
        found = [k for k in found if k in FEW_KINDS or any(_matters(i, k) for i in others)]
        found.insert(1, MEDLEY)
    return tuple(found)


def variants(inputs: list[Input], kind: str, sizes: Sizes) -> int:
    """How many draws of a kind are worth while: several where one element, or all together, decide what happens."""
    if kind != "boundaries":
        return 1
    deciding = [i for i in inputs if _matters(i, kind) and _decides(i, _shape(i, sizes))]
    return max((2 * len(_few(i.around.points)) + 1 for i in deciding), default=1)


def candidates(inputs: list[Input], kind: str, sizes: Sizes, seed: tuple[int, ...], variant: int = 0) -> Iterator[Draw]:
    """Draws of one kind at given sizes, the best first, tamer ones after it should the model reject it."""
    places = {i.name: n for n, i in enumerate(i for i in inputs if _is_truth(i))}
    places |= {i.name: n for n, i in enumerate(i for i in inputs if i.around.points)}
    for tameness in range(4 if any(_has_tamer(i) for i in inputs) else 1):
        rng = np.random.default_rng([*seed, tameness])
        plan = _Plan(kind, sizes, rng, tameness, variant, places)
        feeds = {i.name: _input(i, plan) for i in inputs if i.default is None or not tameness}
        yield Draw(kind, sizes, {k: v for k, v in feeds.items() if v is not None})


def is_same(a: Draw, b: Draw) -> bool:
    """Whether two draws hold the same tensors, bit for bit."""
    if a.sizes != b.sizes or a.feeds.keys() != b.feeds.keys():
        return False
    return all(_same(x, b.feeds[name]) for name, x in a.feeds.items())


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, list) or isinstance(y, list) or x.dtype == np.object_:
        return False  # drawn at random in all their kinds
    if x.shape != y.shape or x.reshape(-1)[:8].tobytes() != y.reshape(-1)[:8].tobytes():
        return False
    return bool(x.tobytes() == y.tobytes())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is asked of all inputs of a draw; `places` numbers those that decide something."""

    kind: str
    sizes: Sizes
    rng: np.random.Generator
    tameness: int
    variant: int
    places: dict[str, int]


def _matters(i: Input, kind: str) -> bool:
    """Whether an input is drawn in another way in this kind than in the normal one."""
    if i.default is not None:
        return kind in OVERRIDING and _can_override(i.default.array)
    if i.dtype == onnx.TensorProto.STRING:
        return kind in WORD_KINDS
    if i.dtype == onnx.TensorProto.BOOL:
        return kind in BOOL_KINDS
    if kind == "boundaries":
        return bool(i.around.points) and (_is_free(i) or i.role.kind == "index")
    if kind == MEDLEY:
        return _has_medley(i)
    if not _is_free(i) or (i.steers and kind in UNTAMED):
        return kind in ROLE_KINDS
    if i.dtype in INTEGERS:
        return kind in ROLE_KINDS or kind == "extremes"
    return can_hold(kind, helper.tensor_dtype_to_np_dtype(i.dtype))


def _has_medley(i: Input) -> bool:
    return i.default is None and i.dtype not in UNMIXED and _is_free(i)


def _is_free(i: Input) -> bool:
    """Whether any number will do. A float counts as true or false by being zero or not, so that stays free."""
    return i.role.kind == "free" or (i.role.kind == "truth" and i.dtype not in INTEGERS)


def _is_truth(i: Input) -> bool:
    return i.dtype == onnx.TensorProto.BOOL or (i.role.kind == "truth" and i.dtype in INTEGERS)


def _has_tamer(i: Input) -> bool:
    return i.dtype in INTEGERS or i.default is not None or i.form == SEQUENCE or not _is_free(i)


def _decides(i: Input, shape: tuple[int, ...]) -> bool:
    return i.around.pooled or prod(shape) == 1


def _few(points: tuple[float, ...]) -> tuple[float, ...]:
    return points if len(points) <= FEW_POINTS else (points[0], points[len(points) // 2], points[-1])


def _shape(i: Input, sizes: Sizes) -> tuple[int, ...]:
    return tuple(extent(d, sizes) for d in i.shape)


def _input(i: Input, plan: _Plan) -> Any:
    if i.default is not None:
        return _override(i.default.array, plan.kind)
    shape = _shape(i, plan.sizes)
    if i.form == SEQUENCE:
        return _sequence(i, shape, plan)
    return _array(i, shape, plan)


def _sequence(i: Input, shape: tuple[int, ...], plan: _Plan) -> list[Array]:
    """Two tensors of one shape; in some kinds none, one, or three whose unnamed dims grow from each to the next."""
    length = 2 if plan.tameness else LENGTHS.get(plan.kind, 2)
    unnamed = [d in {"[0]", f"{i.name}[{axis}]"} and length > 2 for axis, d in enumerate(i.shape)]
    return [_array(i, tuple(d + n * u for d, u in zip(shape, unnamed, strict=True)), plan) for n in range(length)]


def _override(default: Array, kind: str) -> Array | None:
    """What an overridable initializer is set to; None leaves its default, as most callers do."""
    if kind not in OVERRIDING or not _can_override(default):
        return None
    if default.dtype.kind == "b":
        return np.asarray(~default)  # of what has rank 0 NumPy makes a scalar, which onnxruntime does not take
    if default.dtype.kind in "iu":
        return np.where(default < limits(default.dtype)[1], default + 1, default - 1).astype(default.dtype)
    return np.asarray(default * default.dtype.type(1.5) + default.dtype.type(0.125), default.dtype)


def _can_override(default: Array) -> bool:
    return default.dtype.kind in "fbiu"


def _array(i: Input, shape: tuple[int, ...], plan: _Plan) -> Array:
    kind = plan.kind if _matters(i, plan.kind) else "normal"
    if i.dtype == onnx.TensorProto.STRING:
        words = [*i.role.words, *([] if plan.tameness else ["passwright", ""])] or ["a"]
        return plan.rng.choice(np.array(words, object), shape)
    dtype = helper.tensor_dtype_to_np_dtype(i.dtype)
    if _is_truth(i) and (i.dtype == onnx.TensorProto.BOOL or not plan.tameness):
        return _truth(i, shape, plan).astype(dtype)
    if i.role.kind == "share" and i.dtype not in INTEGERS:
        return shares(kind, shape, dtype, plan.rng)
    if kind == "boundaries" and (_is_free(i) or not plan.tameness):
        return _at_boundaries(i, shape, dtype, plan)
    if kind == MEDLEY and i.around.points and dtype.kind != "c":
        return _medley(i, shape, dtype, plan.rng)
    if i.dtype in INTEGERS or not _is_free(i):
        reach = limits(dtype) if i.dtype in INTEGERS else limits(np.dtype(np.int16))
        if kind == "extremes" and not plan.tameness:
            return extreme_integers(shape, plan.rng, reach).astype(dtype)
        return integers(i.role, kind, shape, plan.sizes, plan.rng, reach, plan.tameness).astype(dtype)
    return floats(kind, shape, dtype, plan.rng, only_chosen=i.only_chosen)


def _medley(i: Input, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """A medley whose last run is at the boundaries."""
    last = prod(shape) // (len(PARTS) + 1)
    runs = floats(MEDLEY, (prod(shape) - last,), dtype, rng), around(i.around.points, (last,), dtype, rng)
    return np.concatenate(runs).reshape(shape)


def _truth(i: Input, shape: tuple[int, ...], plan: _Plan) -> Array:
    if plan.kind == "negative" and i.dtype in INTEGERS:  # whatever is not zero counts as true
        low, high = (-9, -1) if limits(helper.tensor_dtype_to_np_dtype(i.dtype))[0] < -9 else (1, 3)
        return plan.rng.integers(low, high, shape, endpoint=True)
    if plan.kind in {"zeros", "negative"}:
        return np.full(shape, plan.kind == "negative")
    if prod(shape) == 1:
        mask = MASKS[plan.places[i.name] % len(MASKS)]
        return np.full(shape, bool((TURNS.index(plan.kind) & mask).bit_count() & 1))
    return plan.rng.integers(0, 2, shape).astype(np.bool_)


def _at_boundaries(i: Input, shape: tuple[int, ...], dtype: np.dtype[Any], plan: _Plan) -> Array:
    points, number = i.around.points, plan.variant + plan.places[i.name]
    if i.dtype in INTEGERS:
        reach = limits(dtype) if _is_free(i) else index_reach(i.role, plan.sizes, limits(dtype))
        if _decides(i, shape):
            return region_of_integers(_few(points), number, shape, plan.rng, reach).astype(dtype)
        return around_integers(points, shape, plan.rng, reach).astype(dtype)
    if dtype.kind == "c":
        return floats("normal", shape, dtype, plan.rng)
    if _decides(i, shape):
        return region(_few(points), number, shape, dtype, plan.rng)
    return around(points, shape, dtype, plan.rng)
