"""Value numbering: equal numbers mean equal values, independent of names and of the order of ops.

Source: Briggs, Cooper and Simpson, "Value Numbering", 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...core import Graph, Op, Tensor, Value, is_pure
from ...core.ir.graph import subgraphs_by_attribute
from ...core.ir.tensor import digest
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.rewriting.pattern import COMMUTATIVE
from ...core.serialization.node_attributes import non_default_attributes

NodeKey = tuple[object, ...]
T = TypeVar("T")
EXACTLY_COMMUTATIVE = COMMUTATIVE - {"Max", "Min"}  # of 0 and -0 onnxruntime gives one or the other, by their order
AXIS_OF_FIRST_INPUT = ops_with(Trait.HAS_AXIS)
SINGLE_OUTPUT = (True,)  # one for all: there are as many as ops


@dataclass(slots=True)
class ValueNumbering:
    """Numbers values by the ops that compute them, across graphs that were given the same instance.

    Values of enclosing graphs are equal if they are the same. `constant_key` tells constants apart.
    """

    constant_key: Callable[[Tensor], object] = digest
    _numbers: dict[NodeKey, int] = field(default_factory=dict[NodeKey, int])

    def outputs(self, graph: Graph, outer: dict[Value, int] | None = None, depth: int = 0) -> list[int]:
        """A number for each output of a body. O(its ops)."""
        of = self.values(graph, outer, depth)
        return [self._number_of(of, v) for v in graph.outputs]

    def bodies(self, op: Op, outer: dict[Value, int] | None = None, depth: int = 0) -> list[NodeKey]:
        """A key for each body of an op: its attribute, its number of inputs, and its outputs."""
        graphs = sorted(subgraphs_by_attribute(op).items()) if op.subgraphs else []
        return [(name, len(g.inputs), *self.outputs(g, outer, depth)) for name, g in graphs]

    def values(self, graph: Graph, outer: dict[Value, int] | None, depth: int) -> dict[Value, int]:
        """A number for each value of a body, added to `outer`, if given; impure ops equal nothing."""
        of = {} if outer is None else outer  # a copy for each body takes quadratic time; no value is in two graphs
        for i, v in enumerate(graph.inputs):
            of[v] = self._number(("input", depth, i))
        for v in graph.initializers:
            if v.tensor is not None:
                of[v] = self._number(("constant", self.constant_key(v.tensor)))
        for op in graph.sorted_ops():
            self._add(op, of, depth)
        return of

    def _add(self, op: Op, of: dict[Value, int], depth: int) -> None:
        constant = op.outputs[0].tensor if op.type == "Constant" and op.outputs else None
        if constant is not None:
            of[op.outputs[0]] = self._number(("constant", self.constant_key(constant)))
        elif op.type == "Identity" and not op.domain and op.inputs[0] is not None:
            of[op.outputs[0]] = self._number_of(of, op.inputs[0])
        elif is_pure(op):
            key = self._key(op, of, depth)
            of.update((v, self._number((i, key))) for i, v in enumerate(op.outputs))
        else:
            of.update((v, self._number((i, op))) for i, v in enumerate(op.outputs))

    def _key(self, op: Op, of: dict[Value, int], depth: int) -> NodeKey:
        inputs = [0 if v is None else self._number_of(of, v) for v in op.inputs]
        bodies = self.bodies(op, of, depth + 1)
        return (*operator_key(op), canonical_inputs(op, inputs, int), attribute_key(op), *bodies)

    def _number_of(self, of: dict[Value, int], v: Value) -> int:
        return of[v] if v in of else self._number(("outside", v))

    def _number(self, key: NodeKey) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def operator_key(op: Op) -> NodeKey:
    """Operator and outputs, whose presence can change the results (BatchNormalization before 14)."""
    alone = len(op.outputs) == 1 and bool(op.outputs[0].name)
    return op.type, op.domain, SINGLE_OUTPUT if alone else tuple(bool(v.name) for v in op.outputs)


def canonical_inputs(op: Op, inputs: Sequence[T], sort_key: Callable[[T], int]) -> tuple[T, ...]:
    """The inputs, by `sort_key` where theirs does not matter."""
    swaps = len(inputs) == 2 and op.type in EXACTLY_COMMUTATIVE and not op.domain
    return tuple(sorted(inputs, key=sort_key) if swaps else inputs)


def attribute_key(op: Op) -> frozenset[object]:
    """The attributes that differ from their defaults, serialized; subgraphs aside, an axis counted from the front."""
    found, axis = non_default_attributes(op), normalized_axis(op)
    if axis is not None:
        found.pop("axis", None)
    return frozenset({*found.items(), ("axis", axis)})


def normalized_axis(op: Op) -> int | None:
    """The attribute `axis`, written or not, as a number from 0 on; None where that cannot be said."""
    first = op.input(0)
    shape = first.known_shape if first is not None and op.type in AXIS_OF_FIRST_INPUT and not op.domain else None
    axis = op.attr("axis") if shape is not None else None
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return axis % len(shape)
