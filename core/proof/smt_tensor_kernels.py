"""Operators on whole tensors of z3 terms: reductions, products of matrices, and the choice by a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from .obligation import NotApplicable
from .smt_evaluation import Array, NodeCall, TensorKernel, TermTensor, Value, fold_elements, map_elements
from .smt_kernels import ElementCall, apply_operation, extreme_of_two, select, without_negative_zero
from .smt_terms import Element, FloatKind, RealKind, all_of, either, z3


def _axes(call: NodeCall, rank: int) -> tuple[int, ...]:
    """The axes of a reduction, of the input or the attribute."""
    given: Any = call.attributes.get("axes")
    if len(call.inputs) > 1 and call.inputs[1] is not None:
        known = call.tensor(1).known
        if known is None:
            raise NotApplicable("the axes depend on data")
        given = known.reshape(-1).tolist()
    if not given:
        return () if call.attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return tuple(int(a) % rank for a in given)


Fold = Callable[[ElementCall, Element, Element], Element]


def _add(call: ElementCall, a: Element, b: Element) -> Element:
    return apply_operation(call, "Add", a, b)


def _multiply(call: ElementCall, a: Element, b: Element) -> Element:
    return apply_operation(call, "Mul", a, b)


def _square(call: ElementCall, a: Element) -> Element:
    return apply_operation(call, "Mul", a, a)


def _magnitude(call: ElementCall, a: Element) -> Element:
    return apply_operation(call, "Abs", a)


REDUCTIONS: Mapping[str, tuple[Callable[[ElementCall, Element], Element] | None, Fold]] = {
    "ReduceL1": (_magnitude, _add),
    "ReduceL2": (_square, _add),
    "ReduceMax": (None, lambda call, a, b: extreme_of_two(call, "Max", a, b)),
    "ReduceMean": (None, _add),
    "ReduceMin": (None, lambda call, a, b: extreme_of_two(call, "Min", a, b)),
    "ReduceProd": (None, _multiply),
    "ReduceSum": (None, _add),
    "ReduceSumSquare": (_square, _add),
}


EXTREMES = frozenset({"ReduceMax", "ReduceMin"})
SUMS = frozenset({"ReduceMean", "ReduceSum"})
SELF_OF_NONE = EXTREMES | SUMS | {"ReduceProd"}
"""The reductions that give their input if there are no axes."""
WIDE_INTEGERS = frozenset({TensorProto.INT64, TensorProto.UINT64})
"""The integers that float64, in which onnxruntime adds and multiplies integers, does not have."""


def _reduce(call: NodeCall) -> Sequence[Value]:
    """A reduction over the reals or of integers; of floats an unknown function, as the order of a sum is not known."""
    x, op = call.tensor(0), call.node.op_type
    axes = _axes(call, x.elements.ndim)
    if not axes and op in SELF_OF_NONE:
        return [x]
    if math.prod(x.elements.shape[a] for a in axes) == 1 and _keeps_one(call, x.dtype):
        return [_without_axes(call, x, axes)]
    if not axes or not x.elements.size or not _is_encoded(call, x.dtype):
        return call.opaque()
    before, fold = REDUCTIONS[op]
    element_call = call.element_call()
    elements = x.elements if before is None else map_elements(partial(before, element_call), x.elements)
    rows = np.moveaxis(elements, axes, range(len(axes)))
    rows = rows.reshape(-1, *rows.shape[len(axes) :])
    total = fold_elements(partial(fold, element_call), rows, 0)
    found = map_elements(partial(_finished, call, rows.shape[0]), total)
    if call.attributes.get("keepdims", 1):
        found = found.reshape([1 if i in axes else d for i, d in enumerate(x.elements.shape)])
    return [TermTensor(x.dtype, found)]


def _keeps_one(call: NodeCall, dtype: int) -> bool:
    """Whether a reduction gives an element itself, if it is alone. Sums turn -0 into 0 in some layouts."""
    op, kind = call.node.op_type, call.evaluation.arithmetic.kind(dtype)
    if op not in SELF_OF_NONE or (op not in EXTREMES and dtype in WIDE_INTEGERS):
        return False
    return not (op in SUMS and isinstance(kind, FloatKind))


def _without_axes(call: NodeCall, x: TermTensor, axes: Sequence[int]) -> TermTensor:
    """A tensor without axes of extent 1, unless they are kept."""
    return x if call.attributes.get("keepdims", 1) else TermTensor(x.dtype, np.squeeze(x.elements, tuple(axes)))


def _is_encoded(call: NodeCall, dtype: int) -> bool:
    """Whether a reduction of an element type does not depend on the order, nor rounds or saturates."""
    kind = call.evaluation.arithmetic.kind(dtype)
    return isinstance(kind, RealKind) or (call.node.op_type in EXTREMES and not isinstance(kind, FloatKind))


def _finished(call: NodeCall, count: int, total: Element) -> Element:
    """The mean or the norm of a sum."""
    if call.node.op_type == "ReduceMean":
        return Element(total.term / count, total.kind, total.defined)
    if call.node.op_type == "ReduceL2":
        return Element(
            call.evaluation.functions.apply("Sqrt", [total.term], total.kind.sort), total.kind, total.defined
        )
    return total


def _arg_extreme(call: NodeCall) -> Sequence[Value]:
    """The index of the first greatest or least element, or of the last."""
    x = call.tensor(0)
    kind = call.evaluation.arithmetic.kind(x.dtype)
    if isinstance(kind, FloatKind):  # NaN has no place in the order
        return call.opaque()
    axis = call.attributes.get("axis", 0) % x.elements.ndim
    rows = np.moveaxis(x.elements, axis, 0)
    better = kind.operations["Greater" if call.node.op_type == "ArgMax" else "Less"]
    is_last = bool(call.attributes.get("select_last_index"))
    index_kind = call.evaluation.arithmetic.kind(TensorProto.INT64)

    def place_of(*row: Element) -> Element:
        best, place = row[0].term, index_kind.constant(0)
        for i, element in enumerate(row[1:], 1):
            wins = z3.Not(better(best, element.term)) if is_last else better(element.term, best)
            best, place = either(wins, element.term, best), either(wins, index_kind.constant(i), place)
        return Element(place, index_kind, all_of(*(e.defined for e in row)))

    found = map_elements(place_of, *rows)
    keep = call.attributes.get("keepdims", 1)
    return [TermTensor(TensorProto.INT64, np.expand_dims(found, axis) if keep else found)]


def _mat_mul(call: NodeCall) -> Sequence[Value]:
    a, b = call.tensor(0), call.tensor(1)
    product = _product(call, a, b)
    return call.opaque() if product is None else [TermTensor(a.dtype, product)]


def _product(call: NodeCall, a: TermTensor, b: TermTensor) -> Array | None:
    """The product of two tensors of matrices over the reals or of integers; None for others."""
    x, y = a.elements, b.elements
    if isinstance(call.evaluation.arithmetic.kind(a.dtype), FloatKind) or not x.size or not y.size:
        return None
    left = x[None, :] if x.ndim == 1 else x
    right = y[:, None] if y.ndim == 1 else y
    element_call = call.element_call()
    terms = map_elements(partial(_multiply, element_call), left[..., None], right[..., None, :, :])
    found = fold_elements(partial(_add, element_call), terms, -2)
    if y.ndim == 1:
        found = found[..., 0]
    return found[..., 0, :] if x.ndim == 1 and y.ndim > 1 else found[..., 0] if x.ndim == 1 else found


def _gemm(call: NodeCall) -> Sequence[Value]:
    a, b = (call.tensor(i) for i in (0, 1))
    kind = call.evaluation.arithmetic.kind(a.dtype)
    if not isinstance(kind, RealKind):
        return call.opaque()
    a, b = (
        TermTensor(t.dtype, t.elements.T) if call.attributes.get(flag) else t
        for t, flag in ((a, "transA"), (b, "transB"))
    )
    product, element_call = _product(call, a, b), call.element_call()
    if product is None:
        return call.opaque()
    alpha, beta = (Element(element_call.number(kind, name, 1.0), kind) for name in ("alpha", "beta"))
    found = map_elements(partial(_multiply, element_call, alpha), product)
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        bias = map_elements(partial(_multiply, element_call, beta), call.tensor(2).elements)
        found = map_elements(partial(_add, element_call), found, bias)
    return [TermTensor(a.dtype, found)]


def _where(call: NodeCall) -> Sequence[Value]:
    """Where, which moves elements if the condition is constant."""
    condition, a, b = (call.tensor(i) for i in range(3))
    element_call = call.element_call()
    if condition.known is None:
        found = map_elements(partial(select, element_call), condition.elements, a.elements, b.elements)
    else:
        found = np.where(condition.known, map_elements(without_negative_zero, a.elements), b.elements)
    return [TermTensor(a.dtype, found)]


TENSOR_KERNELS: Mapping[str, TensorKernel] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ArgMax": _arg_extreme,
    "ArgMin": _arg_extreme,
    "Gemm": _gemm,
    "MatMul": _mat_mul,
    "Where": _where,
}
