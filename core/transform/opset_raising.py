"""Nodes that replace ops at a higher opset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

import onnx
from onnx import AttributeProto, defs, helper

from ..errors import MatchFailure
from ..ir.op import Op
from ..ir.op_schemas import ONNX_DOMAIN
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..ir.values import Value
from ..serialization.node_attributes import bare_node
from .conversion_corrections import correct_after, correct_before
from .node_conversion import Converted, SingleNodeModel, content, convert_nodes

PLAIN_ATTRIBUTES = frozenset({
    AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING,
    AttributeProto.STRINGS,
})  # fmt: skip
"""The types of attributes that the converter sees; a number stands for each other one."""
FIRST_WITH_MULTIDIRECTIONAL_BROADCAST = 7
Nodes = Sequence[onnx.NodeProto]
"""The nodes that replace an op: they read i0, i1, ... and write o0, o1, ..., its inputs and outputs."""


class Unconvertible(MatchFailure):
    """An op that cannot be converted to an opset."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(f"{op.label}: {reason}")
        self.op = op


@cache
def version_of(op_type: str, version: int) -> int:
    """The opset with which the operator in force at `version` came, deprecated or not; 0 if there is none."""
    try:
        return defs.get_schema(op_type, version, ONNX_DOMAIN).since_version
    except defs.SchemaError:
        return 0


@cache
def keeps_types(op_type: str, before: int, after: int) -> bool:
    """Whether every type that an operator accepts at opset `before` is accepted at `after`."""
    old, new = (defs.get_schema(op_type, version, ONNX_DOMAIN) for version in (before, after))
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    return all(set(c.allowed_type_strs) <= allowed.get(c.type_param_str, set()) for c in old.type_constraints)


@dataclass(frozen=True, slots=True)
class Raising:
    """Converts ops from an opset to a higher one."""

    current: int
    version: int

    def convert(self, ops: Sequence[Op]) -> dict[Op, Nodes]:
        """The nodes that replace ops; without those that stay as they are. Declines with the first that cannot be.

        An op is converted without types first, which takes no inference. If it stays then, that is final unless its
        operator accepts fewer types at the new opset.
        """
        untyped = self._convert_alike(ops, typed=False)
        unsettled = [op for op in ops if untyped[op] != [] or not self._is_final(op)]
        typed = self._convert_alike(unsettled, typed=True)
        found: dict[Op, Nodes] = {}
        for op, nodes in typed.items():
            if isinstance(nodes, str):
                raise Unconvertible(op, nodes)
            if nodes:
                found[op] = nodes
        return found

    def _is_final(self, op: Op) -> bool:
        is_old = self.current < FIRST_WITH_MULTIDIRECTIONAL_BROADCAST  # then the converter looks at shapes
        return not is_old and keeps_types(op.type, op.version, self.version)

    def _convert_alike(self, ops: Sequence[Op], *, typed: bool) -> dict[Op, Converted]:
        """The nodes that replace each op, none if it stays, or the reason why it cannot be converted."""
        single = {op: self._single_node(op, typed=typed) for op in ops}
        different = list(dict.fromkeys(single.values()))
        converted = convert_nodes(different, self.current, self.version)
        found = {node: self._corrected(node, nodes) for node, nodes in zip(different, converted, strict=True)}
        return {op: found[node] for op, node in single.items()}

    def _single_node(self, op: Op, *, typed: bool) -> SingleNodeModel:
        """An op apart from its graph; with `typed`, it has the types of its inputs."""
        node, hidden = bare_copy(op)
        original = node.SerializeToString(deterministic=True)
        try:
            correct_before(op, node, op.version, self.version)
        except MatchFailure as e:
            raise Unconvertible(op, str(e)) from e
        known = op.inputs if typed else (None,) * len(op.inputs)
        serialized = node.SerializeToString(deterministic=True)
        types, constants = tuple(map(type_of, known)), tuple(map(constant_of, known))
        return SingleNodeModel(op.type, serialized, types, constants, hidden, original)

    def _corrected(self, single: SingleNodeModel, nodes: Converted) -> Converted:
        """The corrected result of the converter; none if it is the node itself, as it was before it was corrected."""
        if isinstance(nodes, str):
            return nodes
        original = onnx.NodeProto.FromString(single.original)
        try:
            correct_after(single, nodes, self.current, self.version)
        except MatchFailure as e:
            return str(e)
        if [content(n) for n in nodes] == [content(original)]:
            return []
        return "it holds a tensor or a subgraph" if single.has_hidden_attributes else nodes


def bare_copy(op: Op) -> tuple[onnx.NodeProto, bool]:
    """An op apart from its graph, and whether it has attributes for which a number stands."""
    node = onnx.NodeProto(op_type=op.type)
    node.input.extend(f"i{i}" if v is not None else "" for i, v in enumerate(op.inputs))
    node.output.extend(f"o{i}" for i in range(len(op.outputs)))
    hidden = False
    for a in sorted(bare_node(op).attribute, key=attrgetter("name")):
        if a.type in PLAIN_ATTRIBUTES and not a.ref_attr_name:
            node.attribute.add().CopyFrom(a)
            node.attribute[-1].ClearField("doc_string")
        else:
            node.attribute.add(name=a.name, type=AttributeProto.INT, i=0)
            hidden = True
    return node, hidden


def type_of(value: Value | None) -> bytes:
    """The type of a value, with numbers in its shape only; b"" if it is unknown."""
    if value is None or value.type is not None or not value.known_dtype:
        return b""
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims).SerializeToString(deterministic=True)


def constant_of(value: Value | None) -> bytes:
    """The message of a small constant; b"" for another value."""
    tensor = value.tensor if value is not None else None
    if tensor is None or tensor.nbytes > SMALL_TENSOR_BYTES or tensor.is_external:
        return b""
    return tensor.to_proto("").SerializeToString(deterministic=True)
