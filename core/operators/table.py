"""All declared operators, and queries on their facts."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from functools import cache
from types import MappingProxyType

import onnx

from . import (
    attention,
    contrib,
    control,
    elementwise,
    linear,
    ml,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    reference,
    resize,
    window,
)
from .declaration import Meaning, Operator, Trait

OPERATORS: Mapping[str, Operator] = MappingProxyType({
    name: operator
    for family in (
        attention.ATTENTION, control.CONTROL, elementwise.ELEMENTWISE, linear.LINEAR,
        movement.MOVEMENT, normalization.NORMALIZATION, quantization.QUANTIZATION, recurrent.RECURRENT,
        reduction.REDUCTION, reference.REFERENCE, resize.RESIZE, window.WINDOW,
    )
    for name, operator in sorted(family.operators.items())
})  # fmt: skip
"""The operators of the standard domain by name."""
DOMAINS: Mapping[str, Mapping[str, Operator]] = {
    "": {**OPERATORS, **contrib.STANDARD_DOMAIN.operators},
    "ai.onnx.ml": ml.ML.operators,
    "com.microsoft": contrib.CONTRIB.operators,
}
"""The operators by domain and name."""
UNKNOWN = Operator()


def find_meaning(domain: str, op_type: str) -> Meaning | None:
    """A function that evaluates an operator from an `OperatorCall` and the inputs; None if there is none."""
    operator = DOMAINS.get(domain, {}).get(op_type)
    return operator.run if operator is not None and operator.meanings else None


@cache
def ops_with(traits: Trait, domain: str = "") -> frozenset[str]:
    """The operators of a domain that have all of `traits`."""
    wanted = traits.value
    return frozenset([op_type for op_type, bits in _trait_bits(domain).items() if bits & wanted == wanted])


@cache
def _trait_bits(domain: str) -> Mapping[str, int]:
    """The traits of each operator in a domain as a number, because an Enum would compute it at each access."""
    return {op_type: row.traits.value for op_type, row in DOMAINS[domain].items()}


def moved_inputs(node: onnx.NodeProto) -> Collection[int]:
    """The inputs of a standard node whose elements it only moves; empty if it also computes with them."""
    if node.op_type not in MOVING or any(a.name == "reduction" and a.s not in (b"", b"none") for a in node.attribute):
        return ()
    data = data_inputs(node.op_type)
    return [i for i in range(len(node.input)) if i in data or (node.op_type == "Pad" and i == PAD_VALUE)]


def data_inputs(op_type: str) -> Container[int]:
    """The inputs of a standard operator whose elements are, almost unchanged, in its outputs."""
    return OPERATORS.get(op_type, UNKNOWN).data


def roles(op_type: str) -> Mapping[int, str]:
    """The roles of the inputs of a standard operator, by index."""
    return OPERATORS.get(op_type, UNKNOWN).roles


@cache
def inputs_by_axis(op_type: str) -> tuple[int, ...]:
    """The inputs of a standard operator that have one or two elements for each axis of a tensor."""
    return tuple(i for i, role in OPERATORS.get(op_type, UNKNOWN).roles.items() if role in BY_AXIS)


def ops_with_role(role: str) -> frozenset[str]:
    """The operators that have an input with the role."""
    return frozenset(op_type for op_type, row in OPERATORS.items() if role in row.roles.values())


MOVING = ops_with(Trait.MOVES_DATA) | ops_with(Trait.PLACES)
READS_SHAPE = ops_with(Trait.READS_SHAPE)
BY_AXIS = frozenset({
    "axes", "end", "extent", "factors", "new axes", "pads", "scales", "start", "step", "stretch", "unit axes",
})  # fmt: skip
"""The roles of inputs with elements by axis; for some operators, they are single numbers."""
PAD_VALUE = 2  # the input of a Pad with the value of new elements
