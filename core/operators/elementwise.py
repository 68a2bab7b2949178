"""Operators on single elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from onnx import TensorProto

from ..ir import expressions as sym
from ..ir.dtypes import INTEGERS
from ..ir.expressions import is_known_le
from ..ir.op import Op
from . import reference
from . import symbolic_integers as symbolic
from .declaration import ALL_INPUTS, ANY_KIND, Family, T
from .element_types import NUMPY_DTYPES, Array, dtype_of, type_at
from .object_array import known_as
from .operands import PartialElements, input_elements

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
ELEMENTWISE = Family()
INVARIANT = T.UNARY | T.LAYOUT_INVARIANT
SELECTING = INVARIANT | T.SELECTS | T.KEEPS_FINITE
STEP = SELECTING | T.JUMPS
FOLDED = T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE
CONVERSION = T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.EMPTY_SAFE | T.JUMPS
CLASSIFICATION = T.ELEMENTWISE | T.TOTAL | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.QUERIES | T.EMPTY_SAFE
_erf_of_numbers = np.frompyfunc(math.erf, 1, 1)
SELU = (np.float64(np.float32(1.67326319217681884765625)), np.float64(np.float32(1.05070102214813232421875)))


@known_as("erf")
def erf(x: Array) -> Array:
    """The error function to full double precision."""
    return np.asanyarray(_erf_of_numbers(x), np.float64)


@known_as("sigmoid")
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


@known_as("softplus")
def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.logaddexp(x, 0)


def softsign(x: Array) -> Array:
    """X / (1 + |x|)."""
    return x / (1 + np.abs(x))


@ELEMENTWISE.operator("Elu", T.UNARY | T.KEEPS_FINITE)
def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """The exponential linear unit (operator Elu)."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@ELEMENTWISE.operator("LeakyRelu", INVARIANT | T.KEEPS_FINITE | T.ROUNDS_ONCE)
def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    """`alpha` * x below 0, and x elsewhere."""
    return np.where(x < 0, alpha * x, x)


@ELEMENTWISE.operator("HardSigmoid", T.UNARY | T.BOUNDED)
def hard_sigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """`alpha` * x + `beta` between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


@ELEMENTWISE.operator("ThresholdedRelu", STEP | T.DECIDES | T.ROUNDS_ONCE)
def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    """X above `alpha`, and 0 elsewhere."""
    return np.where(x > alpha, x, 0)


@ELEMENTWISE.operator("Swish", T.UNARY | T.KEEPS_FINITE)
def swish(x: Array, *, alpha: float = 1.0) -> Array:
    """X * sigmoid(`alpha` * x)."""
    return x * sigmoid(alpha * x)


@ELEMENTWISE.operator("SwiGLU", T.SAME_SHAPE | T.SAME_DTYPE | T.KEEPS_FINITE | T.SMOOTH | T.LINEAR_TIME)
def _swiglu(gate: Array, x: Array, *, alpha: float = 1.0) -> Array:
    return swish(gate, alpha=alpha) * x


for name, traits, unary, exact in (
    ("Abs", SELECTING | T.ROUNDS_ONCE, np.abs, "iuf"),
    ("Acos", T.UNARY | T.BOUNDED, np.arccos, ""),
    ("Acosh", T.UNARY, np.arccosh, ""),
    ("Asin", T.UNARY | T.BOUNDED, np.arcsin, ""),
    ("Asinh", T.UNARY, np.arcsinh, ""),
    ("Atan", T.UNARY | T.BOUNDED, np.arctan, ""),
    ("Atanh", T.UNARY, np.arctanh, ""),
    ("BitwiseNot", INVARIANT | T.INTEGER_BITS, np.bitwise_not, ""),
    ("Ceil", STEP | T.ROUNDS_ONCE, np.ceil, "f"),
    ("Cos", T.UNARY | T.BOUNDED, np.cos, ""),
    ("Cosh", T.UNARY, np.cosh, ""),
    ("Erf", T.UNARY | T.BOUNDED | T.APPROXIMATED | T.SMOOTH, erf, ""),
    ("Exp", T.UNARY | T.SMOOTH, np.exp, ""),
    ("Floor", STEP | T.ROUNDS_ONCE, np.floor, "f"),
    ("Log", T.UNARY, np.log, ""),
    ("Neg", SELECTING | T.SMOOTH | T.RING | T.ROUNDS_ONCE, np.negative, "iuf"),
    ("Not", INVARIANT | T.SELECTS | T.DECIDES | T.INTEGER_BITS, np.logical_not, "b"),
    ("Round", STEP | T.ROUNDS_ONCE, np.rint, "f"),
    ("Sigmoid", T.UNARY | T.BOUNDED | T.APPROXIMATED | T.SMOOTH, sigmoid, ""),
    ("Sign", INVARIANT | T.QUERIES | T.BOUNDED | T.JUMPS | T.DECIDES | T.ROUNDS_ONCE, np.sign, "iuf"),
    ("Sin", T.UNARY | T.BOUNDED, np.sin, ""),
    ("Sinh", T.UNARY, np.sinh, ""),
    ("Softplus", T.UNARY | T.KEEPS_FINITE, softplus, ""),
    ("Softsign", T.UNARY | T.BOUNDED, softsign, ""),
    ("Sqrt", INVARIANT | T.SMOOTH | T.ROUNDS_ONCE, np.sqrt, "f"),
    ("Tan", T.UNARY, np.tan, ""),
    ("Tanh", T.UNARY | T.BOUNDED | T.APPROXIMATED | T.SMOOTH, np.tanh, ""),
):
    ELEMENTWISE.declare(name, traits, unary, exact=exact)


def aligned(a: Array, b: Array, broadcast: int = 0, axis: int | None = None) -> Array:
    """Reshape `b` to broadcast to `a` as before opset 7: from the dim `axis` of `a`, by default to the last dims."""
    return b.reshape(b.shape + (1,) * (a.ndim - axis % a.ndim - b.ndim)) if broadcast and axis is not None else b


def _with_axis(function: Binary) -> Callable[..., Array]:
    return lambda a, b, *, broadcast=0, axis=None: function(a, aligned(a, b, broadcast, axis))


def divide(a: Array, b: Array) -> Array:
    """A / b; the quotient of integers is truncated towards zero."""
    if a.dtype.kind not in "iu":
        return a / b
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // safe
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return (quotient + inexact).astype(a.dtype)


def power(a: Array, b: Array) -> Array:
    """A ** b in the type of `a`."""
    found = np.power(a.astype(np.float64), b.astype(np.float64))
    return found.astype(a.dtype)


def _equal(a: Array, b: Array) -> Any:
    return a == b


for name, traits, binary, exact in (
    ("Add", FOLDED | T.SMOOTH | T.RING | T.ROUNDS_ONCE, np.add, "iuf"),
    ("And", T.BINARY | T.COMMUTATIVE | T.SELECTS | T.INTEGER_BITS, np.logical_and, "b"),
    ("BitwiseAnd", T.BINARY | T.COMMUTATIVE | T.INTEGER_BITS, np.bitwise_and, ""),
    ("BitwiseOr", T.BINARY | T.COMMUTATIVE | T.INTEGER_BITS, np.bitwise_or, ""),
    ("BitwiseXor", T.BINARY | T.COMMUTATIVE | T.INTEGER_BITS, np.bitwise_xor, ""),
    ("Equal", T.COMPARES | T.COMMUTATIVE | T.DECIDES | T.ROUNDS_ONCE, _equal, "biuf"),
    ("Greater", T.COMPARES | T.DECIDES | T.ROUNDS_ONCE, np.greater, "iuf"),
    ("GreaterOrEqual", T.COMPARES | T.DECIDES | T.ROUNDS_ONCE, np.greater_equal, "iuf"),
    ("Less", T.COMPARES | T.DECIDES | T.ROUNDS_ONCE, np.less, "iuf"),
    ("LessOrEqual", T.COMPARES | T.DECIDES | T.ROUNDS_ONCE, np.less_equal, "iuf"),
    ("Mul", FOLDED | T.SMOOTH | T.RING | T.ROUNDS_ONCE, np.multiply, "iuf"),
    ("Or", T.BINARY | T.COMMUTATIVE | T.SELECTS | T.INTEGER_BITS, np.logical_or, "b"),
    ("Pow", T.BROADCASTING | T.SAME_DTYPE | T.EMPTY_SAFE, power, ""),
    ("Sub", T.BINARY | T.KEEPS_FINITE | T.SMOOTH | T.RING | T.ROUNDS_ONCE, np.subtract, "iuf"),
    ("Xor", T.BINARY | T.COMMUTATIVE | T.SELECTS | T.INTEGER_BITS, np.logical_xor, "b"),
):
    ELEMENTWISE.declare(name, traits, binary, since=7, exact=exact)
    ELEMENTWISE.older(name)(_with_axis(binary))

ELEMENTWISE.declare(
    "Div",
    T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE | T.SMOOTH | T.ROUNDS_ONCE,
    divide,
    roles={1: "divisor"},
    since=7,
    exact="iuf",
)
ELEMENTWISE.older("Div")(_with_axis(divide))


@ELEMENTWISE.operator(
    "Mod",
    T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE | T.JUMPS | T.INTEGER_BITS,
    roles={1: "divisor"},
    exact="iu",
)
def _mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    return np.fmod(a, b) if fmod else np.mod(a, b)


@ELEMENTWISE.is_exact("Div Mod")
def _is_plain_division(a: Array, b: Array, *, fmod: int = 0) -> bool:
    """Whether a division of integers is defined and does not overflow."""
    return a.dtype == b.dtype and not fmod and (a.dtype.kind == "f" or not np.isin(b, (0, -1)).any())


@ELEMENTWISE.operator("Sum", FOLDED | T.SMOOTH | T.RING | T.ROUNDS_ONCE)
def _sum(*inputs: Array) -> Array:
    return reduce(np.add, inputs)


@ELEMENTWISE.operator("Mean", FOLDED)
def _mean(*inputs: Array) -> Array:
    return reduce(np.add, inputs) / len(inputs)


@ELEMENTWISE.operator("Max", FOLDED | T.ROUNDS_ONCE, data=ALL_INPUTS, exact="iu")
def _max(*inputs: Array) -> Array:
    return reduce(np.maximum, inputs)


@ELEMENTWISE.operator("Min", FOLDED | T.ROUNDS_ONCE, data=ALL_INPUTS, exact="iu")
def _min(*inputs: Array) -> Array:
    return reduce(np.minimum, inputs)


@ELEMENTWISE.operator(
    "Where",
    T.BROADCASTING | T.TOTAL | T.LAYOUT_INVARIANT | T.EMPTY_SAFE | T.KEEPS_FINITE | T.PLACES | T.ROUNDS_ONCE,
    data=(1, 2),
    exact=ANY_KIND,
)
def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


@ELEMENTWISE.is_exact("Where")
def _has_one_type(_: Array, a: Array, b: Array) -> bool:
    return a.dtype == b.dtype


@ELEMENTWISE.operator(
    "Identity", INVARIANT | T.MOVES_DATA | T.KEEPS_FINITE | T.PERMUTES | T.ROUNDS_ONCE, data=(0,), exact=ANY_KIND
)
def _identity(x: Any) -> Any:
    return x


@ELEMENTWISE.symbols("Identity")
def _elements_of_identity(op: Op) -> list[PartialElements]:
    return [input_elements(op, 0)]


@ELEMENTWISE.operator("Clip", INVARIANT | T.ROUNDS_ONCE, data=(0,))
def _clip(x: Array, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    x = x if min is None else np.maximum(x, np.asanyarray(min, x.dtype))
    return x if max is None else np.minimum(x, np.asanyarray(max, x.dtype))


PRELU = T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE


@ELEMENTWISE.operator("PRelu", PRELU | T.LINEAR_TIME | T.ROUNDS_ONCE, since=7)
def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x < 0, x * slope, x).astype(x.dtype)


@ELEMENTWISE.older("PRelu")
def _prelu_of_channels(x: Array, slope: Array) -> Array:
    if slope.ndim == 1 and x.ndim > 1 and slope.size > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return _prelu(x, slope)


@ELEMENTWISE.operator("Relu", SELECTING | T.ROUNDS_ONCE)
def _relu(x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


@ELEMENTWISE.operator("Reciprocal", T.UNARY | T.SMOOTH | T.ROUNDS_ONCE)
def _reciprocal(x: Array) -> Array:
    return 1 / x


@ELEMENTWISE.operator("Gelu", T.UNARY | T.KEEPS_FINITE | T.SMOOTH)
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Gaussian error linear unit (operator Gelu)."""
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@ELEMENTWISE.operator("Mish", T.UNARY | T.KEEPS_FINITE)
def _mish(x: Array) -> Array:
    return x * np.tanh(softplus(x))


@ELEMENTWISE.operator("HardSwish", T.UNARY | T.KEEPS_FINITE)
def _hard_swish(x: Array) -> Array:
    return x * np.clip(x * np.float64(np.float32(1 / 6)) + 0.5, 0, 1)


@ELEMENTWISE.operator("Selu", T.UNARY | T.KEEPS_FINITE)
def _selu(x: Array, *, alpha: float = SELU[0], gamma: float = SELU[1]) -> Array:
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@ELEMENTWISE.operator("Celu", T.UNARY)
def _celu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


@ELEMENTWISE.operator("Shrink", T.UNARY | T.JUMPS | T.DECIDES | T.ROUNDS_ONCE)
def _shrink(x: Array, *, lambd: float = 0.5, bias: float = 0.0) -> Array:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype)


@ELEMENTWISE.operator("IsInf", CLASSIFICATION | T.DECIDES | T.ROUNDS_ONCE)
def _is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    if x.dtype != np.float64:
        return np.isinf(x.astype(np.float64))
    return np.isinf(x) & (((x > 0) & bool(detect_positive)) | ((x < 0) & bool(detect_negative)))


@ELEMENTWISE.operator("IsNaN", CLASSIFICATION | T.DECIDES | T.ROUNDS_ONCE)
def _is_nan(x: Array) -> Array:
    return np.isnan(x.astype(np.float64))


@ELEMENTWISE.operator(
    "BitShift", T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE | T.INTEGER_BITS, roles={1: "shift"}
)
def _bit_shift(a: Array, b: Array, *, direction: str) -> Array:
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    width = 8 * a.dtype.itemsize
    return np.where(b < width, shift(a, np.minimum(b, width - 1).astype(a.dtype)), 0).astype(a.dtype)


@ELEMENTWISE.operator("BitCast", T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE)
def _bit_cast(x: Array, *, to: int, input_types: Sequence[int]) -> Array:
    held = x.astype(NUMPY_DTYPES.get(type_at(input_types, 0), x.dtype))
    return held.view(dtype_of(to))


def converted(x: Array, source: int, to: int, *, saturate: bool) -> Array:
    """`x`, with type `source` in the model, converted to type `to`; floats of 16 to 64 bits keep the number."""
    if to in NUMPY_DTYPES and x.dtype.kind in "biuf":
        return x.astype(np.float64)
    if x.dtype.kind in "biu" and to in INTEGERS:
        return x.astype(dtype_of(to))
    if x.dtype == np.float64 and to in INTEGERS:
        return x.astype(np.int64).astype(dtype_of(to))
    held = x.astype(NUMPY_DTYPES[source]) if x.dtype == np.float64 and source else x
    return reference.cast(held, to, saturate=saturate)


@ELEMENTWISE.operator("Cast", CONVERSION | T.SMOOTH, data=(0,), exact=ANY_KIND)
def _cast(x: Array, *, to: int | str, saturate: int = 1, input_types: Sequence[int], own_types: bool) -> Array:
    code = TensorProto.DataType.Value(to) if isinstance(to, str) else to
    return (
        x.astype(dtype_of(code)) if own_types else converted(x, type_at(input_types, 0), code, saturate=bool(saturate))
    )


@ELEMENTWISE.operator("CastLike", CONVERSION, data=(0,), exact=ANY_KIND)
def _cast_like(x: Array, like: Array, *, saturate: int = 1, input_types: Sequence[int], own_types: bool) -> Array:
    if own_types:
        return x.astype(like.dtype)
    return converted(x, type_at(input_types, 0), type_at(input_types, 1), saturate=bool(saturate))


@ELEMENTWISE.is_exact("Cast")
def _is_cast_exact(x: Array, *, to: int) -> bool:
    return is_conversion_exact(x, dtype_of(to))


@ELEMENTWISE.is_exact("CastLike")
def _is_cast_like_exact(x: Array, like: Array) -> bool:
    return is_conversion_exact(x, like.dtype)


def is_conversion_exact(x: Array, to: np.dtype[Any]) -> bool:
    """Whether ONNX defines the conversion of all elements of `x`, and the type is not rounded twice."""
    if {x.dtype.kind, to.kind} - set("biuf") or to == np.float16:
        return False
    if x.dtype.kind != "f":
        return True
    if np.isnan(x).any():
        return False
    if to.kind not in "iu":
        return True
    wide, info = x.astype(np.float64), np.iinfo(to)
    return bool(np.all((wide >= float(info.min)) & (wide < 2.0 ** (info.bits - (info.min < 0)))))


@ELEMENTWISE.symbols("Cast")
def _elements_of_cast(op: Op) -> list[PartialElements]:
    source = input_elements(op, 0)
    if op.outputs[0].recorded_type[0] != TensorProto.BOOL:
        return [source]
    return [[int(x != 0) if isinstance(x, int) else 1 if is_known_le(1, x) else None for x in source]]


for name, symbols in (
    ("Abs", symbolic.elementwise(symbolic.absolute)),
    ("Add", symbolic.folded(sym.add)),
    ("And", symbolic.logical(0)),
    ("Div", symbolic.folded(symbolic.truncated_divide)),
    ("Equal", symbolic.folded(symbolic.equal)),
    ("Greater", symbolic.folded(lambda a, b: symbolic.less(b, a))),
    ("GreaterOrEqual", symbolic.folded(lambda a, b: symbolic.negation(symbolic.less(a, b)))),
    ("Less", symbolic.folded(symbolic.less)),
    ("LessOrEqual", symbolic.folded(lambda a, b: symbolic.negation(symbolic.less(b, a)))),
    ("Max", symbolic.folded(sym.maximum)),
    ("Min", symbolic.folded(sym.minimum)),
    ("Mod", symbolic.folded(symbolic.remainder)),
    ("Mul", symbolic.folded(sym.multiply)),
    ("Neg", symbolic.elementwise(partial(sym.multiply, -1))),
    ("Not", symbolic.elementwise(symbolic.negation)),
    ("Or", symbolic.logical(1)),
    ("Sub", symbolic.folded(sym.subtract)),
    ("Sum", symbolic.folded(sym.add)),
    ("Where", symbolic.elementwise(symbolic.choice)),
):
    ELEMENTWISE.symbols(name)(symbols)
