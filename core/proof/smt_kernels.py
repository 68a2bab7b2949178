"""Elementwise operators as functions of z3 terms, as ONNX defines them and onnxruntime computes them.

A kernel gets the call and one term for each input; each output element depends on the elements at its place alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from ..operators.declaration import Trait
from ..operators.table import ops_with
from .obligation import NotApplicable
from .smt_functions import PAIR_STATEMENTS, STATEMENTS, Functions
from .smt_terms import (
    COMPARISONS,
    NEAREST,
    TRUE,
    Arithmetic,
    BoolKind,
    Element,
    FloatKind,
    IntegerKind,
    Kind,
    Operation,
    RealKind,
    Term,
    all_of,
    either,
    z3,
)

MAX_EXPONENT = 16  # a power of a whole exponent up to that is a product
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


@dataclass(frozen=True, slots=True)
class ElementCall:
    """A node at one element of its output: attributes with defaults, and the place of the element.

    `place` is the flat index of the element and the extents of all inputs, on which the bits of kernels with vector
    instructions may depend.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    arithmetic: Arithmetic
    functions: Functions
    place: str = ""

    def operation(self, kind: Kind, name: str) -> Operation:
        """The function of terms for an operator. Raises NotApplicable."""
        found = kind.operations.get(name)
        if found is None:
            raise NotApplicable(f"{name} of {kind.sort} is not encoded")
        return found

    def number(self, kind: Kind, name: str, default: float) -> Term:
        """An attribute of type float, as a term."""
        value = self.attributes.get(name, default)
        return kind.constant(np.float32(value) if isinstance(value, float) else value)

    def unspecified(self, name: str, terms: Sequence[Term], sort: Any) -> Term:
        """A value that only depends on terms and on the place, such as the sign of the maximum of two zeros."""
        return self.functions.apply(f"{name} {self.place}", terms, sort)


ElementKernel = Callable[..., Element]


def apply_operation(call: ElementCall, name: str, *elements: Element) -> Element:
    """The element that an operator without attributes gives."""
    kind = elements[0].kind
    terms = [e.term for e in elements]
    found = call.operation(kind, name)(*terms)
    domain = kind.domains.get(name)
    conditions = [*(e.defined for e in elements), *([domain(*terms)] if domain is not None else ())]
    result: Kind = BoolKind() if name in COMPARISONS or name in {"IsNaN", "IsInf"} else kind
    return Element(found, result, all_of(*conditions))


def _derived(function: Callable[[ElementCall, Kind, list[Term]], Term]) -> ElementKernel:
    """The kernel of a function of terms of one kind that is defined wherever they are."""

    def kernel(call: ElementCall, *elements: Element) -> Element:
        kind = elements[0].kind
        terms = [e.term for e in elements]
        return Element(function(call, kind, terms), kind, all_of(*(e.defined for e in elements)))

    return kernel


def _relu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    zero = kind.constant(0)
    return either(call.operation(kind, "Less")(terms[0], zero), zero, terms[0])


def _leaky_relu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    slope = call.number(kind, "alpha", 0.01)
    return _prelu(call, kind, [terms[0], slope])


def _prelu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    x, slope = terms
    return either(call.operation(kind, "Less")(x, kind.constant(0)), call.operation(kind, "Mul")(x, slope), x)


def _thresholded_relu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    limit = call.number(kind, "alpha", 1.0)
    return either(call.operation(kind, "Greater")(terms[0], limit), terms[0], kind.constant(0))


def _shrink(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    limit, bias = call.number(kind, "lambd", 0.5), call.number(kind, "bias", 0.0)
    less, add, subtract, negate = (call.operation(kind, n) for n in ("Less", "Add", "Sub", "Neg"))
    inside = either(less(limit, terms[0]), subtract(terms[0], bias), kind.constant(0))
    return either(less(terms[0], negate(limit)), add(terms[0], bias), inside)


def _hard_sigmoid(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    slope, offset = call.number(kind, "alpha", 0.2), call.number(kind, "beta", 0.5)
    return _unit_clip(slope * terms[0] + offset)


def _hard_swish(_: ElementCall, __: Kind, terms: list[Term]) -> Term:
    return terms[0] * _unit_clip(terms[0] / 6 + Fraction(1, 2))


def _unit_clip(x: Term) -> Term:
    return either(x < 0, z3.RealVal(0), either(x > 1, z3.RealVal(1), x))


def _exp(call: ElementCall, x: Term) -> Term:
    return call.functions.apply("Exp", [x], x.sort())


def _elu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    return either(terms[0] < 0, call.number(kind, "alpha", 1.0) * (_exp(call, terms[0]) - 1), terms[0])


def _celu(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    alpha = call.number(kind, "alpha", 1.0)
    lower = alpha * (_exp(call, terms[0] / alpha) - 1)
    return either(terms[0] > 0, terms[0], z3.RealVal(0)) + either(lower < 0, lower, z3.RealVal(0))


def _swish(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    scaled = call.number(kind, "alpha", 1.0) * terms[0]
    return terms[0] * call.functions.apply("Sigmoid", [scaled], kind.sort)


def _mish(call: ElementCall, kind: Kind, terms: list[Term]) -> Term:
    raised = call.functions.apply("Softplus", terms, kind.sort)
    return terms[0] * call.functions.apply("Tanh", [raised], kind.sort)


def _softsign(_: ElementCall, __: Kind, terms: list[Term]) -> Term:
    return terms[0] / (1 + either(terms[0] < 0, -terms[0], terms[0]))


def _extreme(name: str) -> ElementKernel:
    """The kernel of Max or Min of any number of inputs."""

    def kernel(call: ElementCall, *elements: Element) -> Element:
        return reduce(lambda a, b: extreme_of_two(call, name, a, b), elements)

    return kernel


def extreme_of_two(call: ElementCall, name: str, a: Element, b: Element) -> Element:
    """The greater or the lesser of two elements; of floats NaN, if one is, and of zeros of two signs either."""
    if not isinstance(a.kind, FloatKind):
        return apply_operation(call, name, a, b)
    first = z3.fpLT(a.term, b.term) if name == "Min" else z3.fpGT(a.term, b.term)
    zeros = z3.And(z3.fpIsZero(a.term), z3.fpIsZero(b.term), a.term != b.term)
    which = call.unspecified(f"{name} of zeros", [a.term, b.term], z3.BoolSort())
    ordered = either(z3.Or(first, z3.And(zeros, which)), a.term, b.term)
    found = either(z3.fpIsNaN(a.term), a.term, either(z3.fpIsNaN(b.term), b.term, ordered))
    return Element(found, a.kind, all_of(a.defined, b.defined))


def _clip(call: ElementCall, x: Element, low: Element | None = None, high: Element | None = None) -> Element:
    kind = x.kind
    bounds = [low, high]
    for i, name in enumerate(("min", "max")):  # attributes up to opset 10
        if bounds[i] is None and call.attributes.get(name) is not None:
            bounds[i] = Element(call.number(kind, name, 0.0), kind)
    less, found = call.operation(kind, "Less"), x.term
    if bounds[0] is not None:
        found = either(less(found, bounds[0].term), bounds[0].term, found)
    if bounds[1] is not None:
        found = either(less(bounds[1].term, found), bounds[1].term, found)
    return Element(found, kind, all_of(x.defined, *(b.defined for b in bounds if b is not None)))


def _sum(call: ElementCall, *elements: Element) -> Element:
    return reduce(lambda a, b: apply_operation(call, "Add", a, b), elements)


def _mean(call: ElementCall, *elements: Element) -> Element:
    total = _sum(call, *elements)
    return Element(total.term / len(elements), total.kind, total.defined)


def select(_: ElementCall, condition: Element, a: Element, b: Element) -> Element:
    """Where: defined if the chosen element is. Where the condition holds, onnxruntime gives 0 for -0."""
    chosen = a.defined if a.defined is b.defined else either(condition.term, a.defined, b.defined)
    found = either(condition.term, without_negative_zero(a).term, b.term)
    return Element(found, a.kind, all_of(condition.defined, chosen))


def without_negative_zero(x: Element) -> Element:
    """The element with 0 for -0."""
    if not isinstance(x.kind, FloatKind):
        return x
    return Element(either(z3.fpIsZero(x.term), x.kind.constant(0), x.term), x.kind, x.defined)


def _sqrt(call: ElementCall, x: Element) -> Element:
    return _function_of_reals(call, "Sqrt", x) if isinstance(x.kind, RealKind) else apply_operation(call, "Sqrt", x)


def _function_of_reals(call: ElementCall, name: str, x: Element) -> Element:
    """An uninterpreted function of a real number, defined where the real function is."""
    domain = x.kind.domains.get(name)
    inside = domain(x.term) if domain is not None else TRUE
    return Element(call.functions.apply(name, [x.term], x.kind.sort), x.kind, all_of(x.defined, inside))


def _named(name: str) -> ElementKernel:
    def kernel(call: ElementCall, x: Element) -> Element:
        return _function_of_reals(call, name, x)

    return kernel


def _plain(name: str) -> ElementKernel:
    def kernel(call: ElementCall, *elements: Element) -> Element:
        return apply_operation(call, name, *elements)

    return kernel


def _identity(_: ElementCall, x: Element) -> Element:
    return x


def _power(call: ElementCall, x: Element, y: Element) -> Element:
    """X ** y over the reals for a constant whole exponent or one half; of a positive number for others."""
    if not isinstance(x.kind, RealKind):
        raise NotApplicable("Pow is not encoded but over the reals")
    raw = z3.simplify(integer_of(y.term) if isinstance(y.kind, IntegerKind) else y.term)
    if not (z3.is_rational_value(raw) or z3.is_int_value(raw)):
        value = call.functions.apply("Pow", [x.term, z3.ToReal(raw) if z3.is_int(raw) else raw], x.kind.sort)
        return Element(value, x.kind, all_of(x.defined, y.defined, x.term > 0))
    exponent = Fraction(raw.as_fraction() if z3.is_rational_value(raw) else raw.as_long())
    if exponent.denominator == 2 and abs(exponent.numerator) <= MAX_EXPONENT:
        x, exponent = _sqrt(call, x), exponent * 2
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        value = call.functions.apply(f"Pow {exponent}", [x.term], x.kind.sort)
        return Element(value, x.kind, all_of(x.defined, x.term > 0))
    product = reduce(lambda a, b: a * b, [x.term] * abs(int(exponent)), z3.RealVal(1))
    if exponent >= 0:
        return Element(product, x.kind, x.defined)
    return Element(1 / product, x.kind, all_of(x.defined, x.term != 0))


def _mod(call: ElementCall, a: Element, b: Element) -> Element:
    if not isinstance(a.kind, IntegerKind):
        raise NotApplicable("Mod of floats is not encoded")
    if call.attributes.get("fmod") and a.kind.signed:
        return Element(
            z3.SRem(a.term, b.term), a.kind, all_of(a.defined, b.defined, a.kind.domains["Mod"](a.term, b.term))
        )
    return apply_operation(call, "Mod", a, b)


def _bit_shift(call: ElementCall, a: Element, b: Element) -> Element:
    if not isinstance(a.kind, IntegerKind):
        raise NotApplicable("BitShift of other than integers")
    shifted = a.term << b.term if call.attributes.get("direction") == "LEFT" else z3.LShR(a.term, b.term)
    beyond = call.unspecified("BitShift by the width", [a.term, b.term], a.kind.sort)
    found = either(z3.ULT(b.term, a.kind.width), shifted, beyond)
    return Element(found, a.kind, all_of(a.defined, b.defined))


def _is_inf(call: ElementCall, x: Element) -> Element:
    if isinstance(x.kind, RealKind):
        return Element(z3.BoolVal(False), BoolKind(), x.defined)
    signs = {"detect_negative": z3.fpIsNegative, "detect_positive": z3.fpIsPositive}
    chosen = [test(x.term) for name, test in signs.items() if call.attributes.get(name, 1)]
    return Element(z3.And(z3.fpIsInf(x.term), z3.Or(*chosen)), BoolKind(), x.defined)


def integer_of(term: Term, *, signed: bool = True) -> Term:
    """The whole number of a bit-vector."""
    return z3.BV2Int(term, is_signed=signed)


def convert(call: ElementCall, x: Element, dtype: int) -> Element:
    """Cast: floats to the nearest, integers modulo two to their width, floats to integers towards zero if they fit."""
    kind = call.arithmetic.kind(dtype)
    if kind == x.kind:
        return x
    return Element(_converted(call, x, kind), kind, x.defined)


def _converted(call: ElementCall, x: Element, kind: Kind) -> Term:
    if isinstance(x.kind, BoolKind) and not isinstance(kind, BoolKind):
        return either(x.term, kind.constant(1), kind.constant(0))
    if isinstance(x.kind, IntegerKind):
        return _converted_integer(x.term, x.kind, kind)
    if isinstance(x.kind, RealKind | FloatKind):
        return _converted_float(call, x, kind)
    raise NotApplicable(f"Cast of {x.kind.sort} to {kind.sort} is not encoded")


def _converted_integer(term: Term, source: IntegerKind, kind: Kind) -> Term:
    if isinstance(kind, BoolKind):
        return term != 0
    if isinstance(kind, RealKind):
        return z3.ToReal(integer_of(term, signed=source.signed))
    if isinstance(kind, FloatKind):
        return (z3.fpSignedToFP if source.signed else z3.fpUnsignedToFP)(z3.RNE(), term, kind.sort)
    if isinstance(kind, IntegerKind):
        if kind.width <= source.width:
            return z3.Extract(kind.width - 1, 0, term)
        return (z3.SignExt if source.signed else z3.ZeroExt)(kind.width - source.width, term)
    raise NotApplicable(f"Cast of integers to {kind.sort} is not encoded")


def _converted_float(call: ElementCall, x: Element, kind: Kind) -> Term:
    if isinstance(kind, BoolKind):
        return x.term != 0 if isinstance(x.kind, RealKind) else z3.Not(z3.fpIsZero(x.term))
    if isinstance(kind, RealKind):
        return x.term
    if isinstance(kind, FloatKind):
        return z3.fpFPToFP(z3.RNE(), x.term, kind.sort)
    if isinstance(kind, IntegerKind):
        beyond = call.functions.apply(f"Cast to {kind.width} {kind.signed}", [x.term], kind.sort)
        if isinstance(x.kind, RealKind):
            return beyond
        low, high = integer_range(kind)
        fits = z3.And(z3.fpGT(x.term, x.kind.constant(low - 1)), z3.fpLT(x.term, x.kind.constant(high + 1)))
        if kind.signed and kind.width >= x.kind.sort.sbits():  # low - 1 is rounded to low, which itself fits
            fits = z3.And(z3.fpGEQ(x.term, x.kind.constant(low)), z3.fpLT(x.term, x.kind.constant(high + 1)))
        whole = (z3.fpToSBV if kind.signed else z3.fpToUBV)(z3.RTZ(), x.term, kind.sort)
        if not kind.signed:
            whole = either(z3.fpLEQ(x.term, x.kind.constant(0)), kind.constant(0), whole)
        return either(fits, whole, beyond)
    raise NotApplicable(f"Cast of floats to {kind.sort} is not encoded")


def integer_range(kind: IntegerKind) -> tuple[int, int]:
    """The least and the greatest number."""
    return (-(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1) if kind.signed else (0, (1 << kind.width) - 1)


def _dequantize(call: ElementCall, x: Element, scale: Element, zero: Element | None = None) -> Element:
    """(x - zero_point) * scale, the difference in int32."""
    if not isinstance(x.kind, IntegerKind):
        raise NotApplicable("DequantizeLinear of other than integers")
    wide = call.arithmetic.kind(TensorProto.INT32)
    parts = [convert(call, e, TensorProto.INT32).term for e in (x, zero) if e is not None]
    difference = Element(parts[0] - parts[1] if len(parts) > 1 else parts[0], wide)
    shifted = _converted(call, difference, scale.kind)
    found = call.operation(scale.kind, "Mul")(shifted, scale.term)
    return Element(found, scale.kind, all_of(*(e.defined for e in (x, scale, zero) if e is not None)))


def _quantize(call: ElementCall, x: Element, scale: Element, zero: Element | None = None) -> Element:
    """The rounded quotient plus the zero point, saturated; of NaN any integer, but the same at one place."""
    if x.kind != scale.kind:
        raise NotApplicable("QuantizeLinear of another type than its scale")
    kind = zero.kind if zero is not None else call.arithmetic.kind(call.attributes.get("output_dtype") or DEFAULT_CODES)
    offset = z3.simplify(zero.term) if zero is not None else kind.constant(0)
    if not isinstance(kind, IntegerKind) or not z3.is_bv_value(offset):
        raise NotApplicable("QuantizeLinear to other than integers, or with a computed zero point")
    point = offset.as_signed_long() if kind.signed else offset.as_long()
    low, high = (n - point for n in integer_range(kind))
    quotient = apply_operation(call, "Div", x, scale)
    if isinstance(x.kind, RealKind):
        whole = z3.ToInt(x.kind.operations["Round"](quotient.term))
        code = z3.Int2BV(either(whole < low, low, either(whole > high, high, whole)) + point, kind.width)
    else:
        code = _code_of_float(call, quotient, kind, (low, high)) + kind.constant(point)
    return Element(code, kind, all_of(quotient.defined, *([zero.defined] if zero is not None else [])))


def _code_of_float(call: ElementCall, x: Element, kind: IntegerKind, ends: tuple[int, int]) -> Term:
    """A float rounded to an integer within `ends`, which the float type holds."""
    low, high = (x.kind.constant(n) for n in ends)
    inside = either(z3.fpLT(x.term, low), low, either(z3.fpGT(x.term, high), high, x.term))
    whole = z3.Extract(kind.width - 1, 0, z3.fpToSBV(NEAREST, inside, z3.BitVecSort(2 * kind.width)))
    return either(z3.fpIsNaN(x.term), call.unspecified("QuantizeLinear of NaN", [x.term], kind.sort), whole)


DEFAULT_CODES = TensorProto.UINT8


def opaque_of_element(call: ElementCall, *elements: Element | None, kind: Kind, anywhere: bool) -> Element:
    """An unknown function of the elements at a place; `anywhere`, the same function at each place."""
    given = [e for e in elements if e is not None]
    present = [e is not None for e in elements]
    name = f"{call.node.domain}.{call.node.op_type} {sorted(call.attributes.items())!r} {present} {call.version}"
    if not anywhere:
        name += f" {call.place}"
    term = call.functions.apply(name, [e.term for e in given], kind.sort)
    return Element(term, kind, all_of(*(e.defined for e in given)))


NAMED_FUNCTIONS = frozenset(STATEMENTS) | frozenset(PAIR_STATEMENTS) | {"Acos", "Acosh", "Asin", "Asinh", "Atanh"}
"""The functions of one real number that stay uninterpreted."""
REAL_KERNELS: Mapping[str, ElementKernel] = {
    "Celu": _derived(_celu),
    "Elu": _derived(_elu),
    "HardSigmoid": _derived(_hard_sigmoid),
    "HardSwish": _derived(_hard_swish),
    "Mean": _mean,
    "Mish": _derived(_mish),
    "Pow": _power,
    "Softsign": _derived(_softsign),
    "Swish": _derived(_swish),
    **{name: _named(name) for name in NAMED_FUNCTIONS - {"Sqrt"}},
}
"""Kernels over the reals alone, since onnxruntime rounds more than once in them, or approximates."""
KERNELS: Mapping[str, ElementKernel] = {
    "BitShift": _bit_shift,
    "Clip": _clip,
    "DequantizeLinear": _dequantize,
    "Identity": _identity,
    "IsInf": _is_inf,
    "LeakyRelu": _derived(_leaky_relu),
    "Max": _extreme("Max"),
    "Min": _extreme("Min"),
    "Mod": _mod,
    "PRelu": _derived(_prelu),
    "QuantizeLinear": _quantize,
    "Relu": _derived(_relu),
    "Shrink": _derived(_shrink),
    "Sqrt": _sqrt,
    "Sum": _sum,
    "ThresholdedRelu": _derived(_thresholded_relu),
}
PLAIN = frozenset({
    "Abs", "Add", "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Div", "Equal", "Floor",
    "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual", "Mul", "Neg", "Not", "Or", "Reciprocal", "Round",
    "Sign", "Sub", "Xor",
})  # fmt: skip
"""The operators without attributes, whose functions the kinds have."""
ELEMENTWISE = ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | {
    "DequantizeLinear", "Mean", "PRelu", "QuantizeLinear", "Sum",
}  # fmt: skip
LAYOUT_INVARIANT = ops_with(Trait.LAYOUT_INVARIANT)


def element_kernel(op_type: str, arithmetic: Arithmetic, kind: Kind) -> ElementKernel | None:
    """The kernel of an operator of the standard domain for elements of a kind, or None where there is none."""
    if isinstance(kind, FloatKind) and kind.dtype in HALVES and op_type != "Identity":
        raise NotApplicable("onnxruntime computes 16-bit floats in 32 bits between ops")
    if op_type in KERNELS:
        return KERNELS[op_type]
    if arithmetic.over_reals and isinstance(kind, RealKind) and op_type in REAL_KERNELS:
        return REAL_KERNELS[op_type]
    if op_type in PLAIN and op_type in kind.operations:
        return _plain(op_type)
    return None
