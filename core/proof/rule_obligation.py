"""Obligations of a rule: the models on which it fires, rewritten with constants that keep their exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ..io.convert import from_onnx, to_onnx
from ..ir.dtypes import FLOATS
from ..ir.graph import Graph, defined_values
from ..ir.tensor import Tensor
from ..ir.values import Value
from ..rewriting.change_log import ChangeLog
from ..rewriting.driver import rewrite
from ..rewriting.rules import Rule
from ..serialization.proto_queries import copy_without
from ..verify.reference.float64_evaluation import DTYPE_ATTRIBUTES
from . import finite_field as ff
from .field_functions import shadow_of
from .obligation import NO_FACTORS, ExactArray, Fragment, NotApplicable, Obligation, input_types
from .rule_branches import BranchRecorder
from .rule_condition import condition_of
from .shadow_array import ShadowArray

MAX_EXACT = 256  # elements of a constant whose fractions are stored
FLOAT_ATTRIBUTES = ("value_float", "value_floats")


def obligation_of(rule: Rule, model: onnx.ModelProto, seed: int = 0) -> Obligation | None:
    """The obligation of `rule` on a model; None if it does not fire. Raises NotApplicable and PassesError.

    With a `seed`, constants that are not simple represent any number of their sign.
    """
    inputs = input_types(model)
    imported = from_onnx(model)
    before: dict[str, Any] = {}
    for value in constants_of(imported.graph):
        assert value.tensor is not None  # as `constants_of` says
        array = shadow_of(value.tensor.array, seed)
        before[value.name] = array
        value.set_constant(Tensor.from_array(array))
    recorder = BranchRecorder(rule)
    with recorder.recording():
        fired = rewrite(imported.graph, [rule], ChangeLog())
    if not fired:
        return None
    condition, unsaid = None, ""
    try:
        condition = condition_of(rule, model)
    except NotApplicable as why:
        unsaid = str(why)
    after = {v.name: v.tensor.array for v in constants_of(imported.graph) if v.tensor is not None}
    return Obligation(
        fragment(model, before),
        fragment(to_onnx(imported), after),
        inputs,
        rule.contract,
        condition,
        unsaid,
        rule=rule.name,
        build_site=recorder.calls[-1][0] if recorder.calls else 0,
        branches=frozenset(b for _, taken, _ in recorder.calls for b in taken),
        all_branches=frozenset(b for _, _, found in recorder.calls for b in found),
        retyped=lambda dtype, factors: obligation_of(rule, retyped_model(model, dtype, factors), seed),
    )


def constants_of(graph: Graph) -> Iterator[Value]:
    """The constants of floats in a graph and its bodies."""
    for inner in graph.with_subgraphs():
        for value in defined_values(inner):
            if value.tensor is not None and value.tensor.dtype in FLOATS and value.tensor.is_readable:
                yield value


def fragment(model: onnx.ModelProto, arrays: dict[str, Any]) -> Fragment:
    """A model with the exact values of those constants that have exact values."""
    shadows = {n: a for n, a in arrays.items() if isinstance(a, ShadowArray) and a.field is not None}
    exact = {n: e for n, a in shadows.items() if (e := fractions_of(a)) is not None}
    return Fragment(model, exact, shadows)


def fractions_of(array: ShadowArray) -> ExactArray | None:
    """The fractions with small numerators and denominators that an array represents; None if one is another number."""
    if array.size > MAX_EXACT or array.field is None or not np.isfinite(np.asarray(array, np.float64)).all():
        return None
    found = np.empty(array.shape, object)
    data = array.field.in_rows()[:, 0]
    for i, number in enumerate(np.asarray(array, np.float64).ravel().tolist()):
        if not (data[ff.HAS_MODULUS, i] and data[ff.HAS_EXPONENT, i]):
            return None
        fraction = _reconstructed(int(data[ff.MODULUS, i]), int(data[ff.EXPONENT, i]))
        if fraction is None or abs(float(fraction) - number) > 1e-2 * abs(number):
            fraction = Fraction(number)
        found.reshape(-1)[i] = fraction
    return found


def _reconstructed(modulus: int, exponent: int) -> Fraction | None:
    """The fraction with those residues whose numerator and denominator are small (Wang's algorithm)."""
    whole = ff.P * ff.Q
    number = (modulus + ff.P * ((exponent - modulus) * pow(ff.P, -1, ff.Q) % ff.Q)) % whole
    bound = isqrt(whole // 2)
    last, rest, last_factor, factor = whole, number, 0, 1
    while rest > bound:
        quotient = last // rest
        last, rest, last_factor, factor = rest, last - quotient * rest, factor, last_factor - quotient * factor
    return Fraction(rest, factor) if factor and abs(factor) <= bound else None


def retyped_model(model: onnx.ModelProto, dtype: int, factors: Mapping[str, float] = NO_FACTORS) -> onnx.ModelProto:
    """The model with element type `dtype` (TensorProto.DataType) instead of float32, and rounded constants.

    Halves are also replaced by doubles. Constants are multiplied by their `factors`.
    """
    found = copy_without(model)
    for value in (*found.graph.input, *found.graph.output, *found.graph.value_info):
        if is_replaced(value.type.tensor_type.elem_type, dtype):
            value.type.tensor_type.elem_type = dtype
    for tensor in found.graph.initializer:
        _retype(tensor, dtype, factors.get(tensor.name, 1.0))
    for node in found.graph.node:
        _retype_attributes(node, dtype, factors.get(node.output[0], 1.0) if node.output else 1.0)
    return found


def is_replaced(element_type: int, dtype: int) -> bool:
    """Whether a type is replaced by another element type."""
    return element_type in (FLOATS if dtype == TensorProto.DOUBLE else {TensorProto.FLOAT})


def _retype(tensor: onnx.TensorProto, dtype: int, factor: float = 1.0) -> None:
    if is_replaced(tensor.data_type, dtype):
        array: Any = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(dtype))
        array = np.asarray(array * array.dtype.type(factor))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _retype_attributes(node: onnx.NodeProto, dtype: int, factor: float) -> None:
    for a in node.attribute:
        if a.type == AttributeProto.TENSOR:
            _retype(a.t, dtype, factor)
        elif a.name in DTYPE_ATTRIBUTES and is_replaced(a.i, dtype):
            a.i = dtype
        elif node.op_type == "Constant" and a.name in FLOAT_ATTRIBUTES:
            tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(a), np.float32))
            _retype(tensor, dtype, factor)
            a.CopyFrom(helper.make_attribute("value", tensor))
