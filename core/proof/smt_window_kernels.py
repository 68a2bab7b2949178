"""Operators on windows of z3 terms: the maximum of integers, and convolutions of integers as functions of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import cast

import numpy as np
from onnx import TensorProto

from ..operators.window import Windows, windows_of
from .obligation import NotApplicable
from .smt_evaluation import MAX_OPAQUE_ARGUMENTS, Array, NodeCall, TensorKernel, TermTensor, Value
from .smt_kernels import extreme_of_two
from .smt_terms import Element, IntegerKind, all_of

WINDOW_ATTRIBUTES = frozenset({"auto_pad", "pads", "strides", "dilations", "kernel_shape"})
"""The attributes that say which elements are in a window, and nothing else."""


def _windows(call: NodeCall, x: TermTensor, kernel: Sequence[int]) -> Windows:
    names = (WINDOW_ATTRIBUTES - {"kernel_shape"} | {"ceil_mode"}) & call.attributes.keys()
    return windows_of(x.elements.shape[2:], kernel, **{name: call.attributes[name] for name in names})


def _places(x: TermTensor, windows: Windows) -> Array:
    """The numbers of the elements in each window from 1 on, 0 in the padding: (N, C, counts..., elements)."""
    numbers = cast("Array", np.arange(1, x.elements.size + 1)).reshape(x.elements.shape)
    padded = windows.padded(numbers, 0)
    return np.stack([padded[span] for _, span in windows.positions()], axis=-1)


def _max_pool(call: NodeCall) -> Sequence[Value]:
    """The greatest integer of each window; of floats an unknown function, as NaN has no place in the order."""
    x = call.tensor(0)
    kind = call.evaluation.arithmetic.kind(x.dtype)
    has_places = len(call.node.output) > 1 and call.node.output[1]
    if not isinstance(kind, IntegerKind) or has_places or not x.elements.size:
        return call.opaque()
    places = _places(x, _windows(call, x, call.attributes["kernel_shape"]))
    elements, element_call = _elements(x), call.element_call()
    found = np.empty(places.shape[:-1], object)
    for at in np.ndindex(*found.shape):
        inside = [elements[i - 1] for i in cast("list[int]", places[at].tolist()) if i]
        if not inside:
            raise NotApplicable("a window has nothing but padding")
        found[at] = reduce(lambda a, b: extreme_of_two(element_call, "Max", a, b), inside)
    return [TermTensor(x.dtype, found)]


def _conv_of_integers(call: NodeCall) -> Sequence[Value]:
    """Each element an unknown function of its window, in the order of the kernel: padding is the zero point."""
    quantized = call.node.op_type == "QLinearConv"
    x, w = call.tensor(0), call.tensor(3 if quantized else 1)
    given_beside = (v for i, v in enumerate(call.inputs) if i not in {0, 3 if quantized else 1})
    beside = [v for v in given_beside if isinstance(v, TermTensor)]
    if not x.elements.size or not w.elements.size:
        return call.opaque()
    places = _places(x, _windows(call, x, w.elements.shape[2:]))
    group, rows = call.attributes.get("group", 1), w.elements.shape[0]
    batch, counts = places.shape[0], places.shape[2:-1]
    grouped = places.reshape(batch, group, -1, *places.shape[2:])
    dtype = call.tensor(7).dtype if quantized else TensorProto.INT32
    kind = call.evaluation.arithmetic.kind(dtype)
    pool: list[Element] = [_zero_point(call, x), *_elements(x)]
    others = [e for v in beside for e in _elements(v)]
    kept = {k: v for k, v in call.attributes.items() if k not in WINDOW_ATTRIBUTES}
    name = f"{call.node.op_type} {sorted(kept.items())!r} {[v is not None for v in call.inputs]}"
    found = np.empty((batch, rows, *counts), object)
    weights = [_elements(TermTensor(w.dtype, row)) for row in w.elements]
    for n, m, *at in np.ndindex(*found.shape):
        window = cast("list[int]", grouped[(n, m // (rows // group), slice(None), *at)].reshape(-1).tolist())
        given: list[Element] = [*(pool[i] for i in window), *weights[m], *others]
        if len(given) > MAX_OPAQUE_ARGUMENTS or prod(found.shape) > MAX_OPAQUE_ARGUMENTS:
            raise NotApplicable(f"{call.node.op_type} of windows of {len(given)} elements")
        term = call.evaluation.functions.apply(f"{name} {m}", [e.term for e in given], kind.sort)
        found[(n, m, *at)] = Element(term, kind, all_of(*(e.defined for e in given)))
    return [TermTensor(dtype, found)]


def _elements(tensor: TermTensor) -> list[Element]:
    return tensor.elements.reshape(-1).tolist()


def _zero_point(call: NodeCall, x: TermTensor) -> Element:
    """The element that stands for padding: the zero point of the input, or 0."""
    index = 2
    if len(call.inputs) > index and call.inputs[index] is not None:
        given = call.tensor(index).elements.reshape(-1)
        if given.size != 1:
            raise NotApplicable("several zero points of one input")
        return given[0]
    kind = call.evaluation.arithmetic.kind(x.dtype)
    return Element(kind.constant(0), kind)


WINDOW_KERNELS: Mapping[str, TensorKernel] = {
    "ConvInteger": _conv_of_integers,
    "MaxPool": _max_pool,
    "QLinearConv": _conv_of_integers,
}
