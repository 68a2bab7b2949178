"""Encoded operators, and overrides for those whose meanings say less than onnxruntime computes.

All other encoded operators run their meaning in the `TermDomain`. An override gets the call and one element for each
input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import onnx
from msgspec import Struct
from onnx import TensorProto

from ..operators.declaration import Trait
from ..operators.object_array import NotSupported
from ..operators.table import ops_with
from .obligation import NotApplicable
from .smt_terms import NEAREST, REAL, Element, Kind, Term, all_of, either, z3
from .term_domain import TermDomain, chosen, integer_range, operation

DEFAULT_CODES = TensorProto.UINT8


class ElementCall(Struct, frozen=True):
    """A node for one element of its output: attributes with defaults, and the place of the element.

    `place` is the flat index of the element and the extents of all inputs, which may affect the bits that kernels with
    vector instructions compute.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    terms: TermDomain
    place: str = ""

    def unspecified(self, name: str, terms: Sequence[Term], sort: Any) -> Term:
        """A value that only depends on terms and on the place, such as the sign of the maximum of two zeros."""
        return self.terms.functions.apply(f"{name} {self.place}", terms, sort)


Override = Callable[..., Element]


def _clip(call: ElementCall, x: Element, low: Element | None = None, high: Element | None = None) -> Element:
    """Clip, which does not change NaN and zeros of either sign."""
    kind = x.kind
    bounds = [low, high]
    for i, name in enumerate(("min", "max")):  # attributes up to opset 10
        if bounds[i] is None and call.attributes.get(name) is not None:
            bounds[i] = call.terms.element(call.attributes[name], kind)
    less, found = operation(kind, "less"), x.term
    if bounds[0] is not None:
        found = either(less(found, bounds[0].term), bounds[0].term, found)
    if bounds[1] is not None:
        found = either(less(bounds[1].term, found), bounds[1].term, found)
    return Element(found, kind, all_of(x.defined, *(b.defined for b in bounds if b is not None)))


def _relu(call: ElementCall, x: Element) -> Element:
    return _clip(call, x, call.terms.element(0, x.kind))


def _divide(call: ElementCall, a: Element, b: Element) -> Element:
    return call.terms.operate("divide", a, b)


def _extreme(name: str, is_first: Callable[[Term, Term], Term]) -> Override:
    """Max or Min of floats: NaN if one is NaN; for zeros of both signs, either."""

    def of_two(call: ElementCall, a: Element, b: Element) -> Element:
        zeros = z3.And(z3.fpIsZero(a.term), z3.fpIsZero(b.term), a.term != b.term)
        which = call.unspecified(f"{name} of zeros", [a.term, b.term], z3.BoolSort())
        ordered = either(z3.Or(is_first(a.term, b.term), z3.And(zeros, which)), a.term, b.term)
        found = either(z3.fpIsNaN(a.term), a.term, either(z3.fpIsNaN(b.term), b.term, ordered))
        return Element(found, a.kind, all_of(a.defined, b.defined))

    def of_all(call: ElementCall, *elements: Element) -> Element:
        return reduce(partial(of_two, call), elements)

    return of_all


def _where(_: ElementCall, condition: Element, a: Element, b: Element) -> Element:
    """The chosen element; onnxruntime returns 0 for a -0 of the first operand."""
    return chosen(condition, Element(either(z3.fpIsZero(a.term), a.kind.constant(0), a.term), a.kind, a.defined), b)


def _bit_shift(call: ElementCall, a: Element, b: Element) -> Element:
    """A shift by the width or more is undefined in C."""
    if not a.kind.width:
        raise NotSupported("BitShift of other than integers")
    shifted = a.term << b.term if call.attributes.get("direction") == "LEFT" else z3.LShR(a.term, b.term)
    beyond = call.unspecified("BitShift by the width", [a.term, b.term], a.kind.sort)
    return Element(either(z3.ULT(b.term, a.kind.width), shifted, beyond), a.kind, all_of(a.defined, b.defined))


def _dequantize(call: ElementCall, x: Element, scale: Element, zero: Element | None = None) -> Element:
    """(x - zero_point) * scale, the difference in int32."""
    if not x.kind.width:
        raise NotApplicable("DequantizeLinear of other than integers")
    wide = call.terms.arithmetic.kind(TensorProto.INT32)
    parts = [call.terms.converted(e, wide).term for e in (x, zero) if e is not None]
    difference = Element(parts[0] - parts[1] if len(parts) > 1 else parts[0], wide)
    shifted = call.terms.converted(difference, scale.kind).term
    found = scale.kind.operations["multiply"](shifted, scale.term)
    return Element(found, scale.kind, all_of(*(e.defined for e in (x, scale, zero) if e is not None)))


def _quantize(call: ElementCall, x: Element, scale: Element, zero: Element | None = None) -> Element:
    """The rounded quotient plus the zero point, saturated; for NaN any integer, but the same one at one place."""
    if x.kind != scale.kind:
        raise NotApplicable("QuantizeLinear of another type than its scale")
    default = call.attributes.get("output_dtype") or DEFAULT_CODES
    kind = zero.kind if zero is not None else call.terms.arithmetic.kind(default)
    offset = z3.simplify(zero.term) if zero is not None else kind.constant(0)
    if not kind.width or not z3.is_bv_value(offset):
        raise NotApplicable("QuantizeLinear to other than integers, or with a computed zero point")
    point = offset.as_signed_long() if kind.signed else offset.as_long()
    low, high = (n - point for n in integer_range(kind))
    quotient = call.terms.operate("divide", x, scale)
    if x.kind is REAL:
        whole = z3.ToInt(x.kind.operations["rint"](quotient.term))
        code = z3.Int2BV(either(whole < low, low, either(whole > high, high, whole)) + point, kind.width)
    else:
        code = _code_of_float(call, quotient, kind, (low, high)) + kind.constant(point)
    return Element(code, kind, all_of(quotient.defined, *([zero.defined] if zero is not None else [])))


def _code_of_float(call: ElementCall, x: Element, kind: Kind, ends: tuple[int, int]) -> Term:
    """A float rounded to an integer within `ends`, which the float type can represent."""
    low, high = (x.kind.constant(n) for n in ends)
    inside = either(z3.fpLT(x.term, low), low, either(z3.fpGT(x.term, high), high, x.term))
    whole = z3.Extract(kind.width - 1, 0, z3.fpToSBV(NEAREST, inside, z3.BitVecSort(2 * kind.width)))
    return either(z3.fpIsNaN(x.term), call.unspecified("QuantizeLinear of NaN", [x.term], kind.sort), whole)


def opaque_of_element(call: ElementCall, *elements: Element | None, kind: Kind, anywhere: bool) -> Element:
    """An unknown function of the elements at a place; with `anywhere`, the same function at each place."""
    given = [e for e in elements if e is not None]
    present = [e is not None for e in elements]
    name = f"{call.node.domain}.{call.node.op_type} {sorted(call.attributes.items())!r} {present} {call.version}"
    if not anywhere:
        name += f" {call.place}"
    term = call.terms.functions.apply(name, [e.term for e in given], kind.sort)
    return Element(term, kind, all_of(*(e.defined for e in given)))


OVERRIDES: Mapping[str, Override] = {
    "BitShift": _bit_shift, "Clip": _clip, "DequantizeLinear": _dequantize, "QuantizeLinear": _quantize,
}  # fmt: skip
OVERRIDES_OF_FLOATS: Mapping[str, Override] = {
    **OVERRIDES,
    "Max": _extreme("Max", z3.fpGT), "Min": _extreme("Min", z3.fpLT), "Relu": _relu, "Where": _where,
}  # fmt: skip
"""The overrides for floats bit for bit."""
OVERRIDES_OF_INTEGERS: Mapping[str, Override] = {**OVERRIDES, "Div": _divide}
ROUNDS_ONCE = ops_with(Trait.ROUNDS_ONCE)
INTEGER_BITS = ops_with(Trait.INTEGER_BITS)
OF_REALS = frozenset({
    "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp",
    "Gemm", "HardSigmoid", "HardSwish", "Log", "MatMul", "Mean", "Mish", "Pow", "ReduceL1", "ReduceL2", "ReduceMean",
    "ReduceProd", "ReduceSum", "ReduceSumSquare", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Swish", "Tan",
    "Tanh",
})  # fmt: skip
"""The operators that are encoded only over the reals, because onnxruntime rounds more than once, or approximates."""
ELEMENTWISE = ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | {
    "DequantizeLinear", "Mean", "PRelu", "QuantizeLinear", "Sum",
}  # fmt: skip
LAYOUT_INVARIANT = ops_with(Trait.LAYOUT_INVARIANT)


def override_of(op_type: str, kind: Kind) -> Override | None:
    """The override of an operator for elements of a kind, or None if its meaning computes them."""
    overrides = OVERRIDES_OF_FLOATS if kind.dtype else OVERRIDES_OF_INTEGERS if kind.width else OVERRIDES
    return overrides.get(op_type)


def is_encoded(op_type: str, kind: Kind) -> bool:
    """Whether the meaning or an override of an operator describes what onnxruntime computes from elements of a kind."""
    more = OF_REALS if kind is REAL else INTEGER_BITS
    return op_type in ROUNDS_ONCE or (not kind.dtype and op_type in more)
