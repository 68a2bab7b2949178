"""Dependence of output elements on input elements: whether each one is a function of a single element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import onnx

from ..ir import op_schemas
from ..operators.declaration import Trait
from ..operators.table import READS_SHAPE, moved_inputs, ops_with
from ..serialization.proto_queries import has_subgraphs
from .obligation import NotApplicable

ELEMENTWISE = ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | {"DequantizeLinear", "QuantizeLinear"}
"""Operators whose elements depend on the elements at the same position, including quantization by constant scales."""
PERMUTATIONS = ops_with(Trait.PERMUTES)


class Dependence(IntEnum):
    """The input elements on which each element of a value depends."""

    NONE = 0
    SAME_PLACE = 1
    ONE = 2


def require_single_dependence(model: onnx.ModelProto, name: str) -> bool:
    """Raise NotApplicable unless each output element depends on at most one element of the input `name`.

    Returns whether all positions are equivalent: each input element reaches an output through the same function.
    """
    constants = {t.name: max(1, *t.dims) if t.dims else 1 for t in model.graph.initializer}
    found = dict.fromkeys(constants, Dependence.NONE) | {name: Dependence.SAME_PLACE}
    is_uniform = all(size == 1 for size in _sizes_read_by_elementwise(model, constants))
    for node in model.graph.node:
        if op_schemas.canonical_domain(node.domain) or has_subgraphs(node):
            raise NotApplicable(f"elements may depend on several through {node.op_type}")
        dependence = _of_node(node, found, constants)
        is_uniform = is_uniform and (node.op_type in ELEMENTWISE | PERMUTATIONS or dependence is Dependence.NONE)
        found.update(dict.fromkeys(filter(None, node.output), dependence))
    return is_uniform


def _sizes_read_by_elementwise(model: onnx.ModelProto, constants: Mapping[str, int]) -> Sequence[int]:
    nodes = (n for n in model.graph.node if n.op_type in ELEMENTWISE)
    return [constants[i] for n in nodes for i in n.input if i in constants]


def _of_node(node: onnx.NodeProto, found: Mapping[str, Dependence], constants: Mapping[str, int]) -> Dependence:
    """The dependence of a node's outputs. Raises NotApplicable."""
    given = [found.get(i, Dependence.NONE) for i in node.input]
    varying = [g for g in given if g is not Dependence.NONE]
    if not varying or node.op_type in READS_SHAPE:
        return Dependence.NONE
    if node.op_type in ELEMENTWISE:
        keeps_shape = all(constants.get(i, 1) == 1 for i in node.input)
        if len(varying) == 1:
            return varying[0] if keeps_shape else Dependence.ONE
        if keeps_shape and all(g is Dependence.SAME_PLACE for g in varying):
            return Dependence.SAME_PLACE
    moved = moved_inputs(node)
    if all(i in moved for i, g in enumerate(given) if g is not Dependence.NONE):
        return Dependence.ONE
    raise NotApplicable(f"elements may depend on several through {node.op_type}")
