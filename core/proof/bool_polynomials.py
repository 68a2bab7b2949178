"""Obligations with numbers instead of bools: logic is computed by polynomials that agree with it at 0 and 1.

Polynomials that are equal for all numbers are equal for 0 and 1. Those of `a` and `a and a` differ, so not every
identity of logic can be proved in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from msgspec import structs
from onnx import TensorProto, helper, numpy_helper

from ..ir.dtypes import FLOATS
from ..operators.table import READS_SHAPE
from ..serialization.proto_queries import copy_without, has_subgraphs
from .field_symbols import data_positions, names_in
from .obligation import Fragment, NotApplicable, Obligation

ONE = "1 (number)"
Emit = Callable[..., str]
"""Adds a node of an operator with inputs, and returns the name of its output."""


def with_numbers(obligation: Obligation) -> Obligation:
    """Replace bool inputs by floats. Raises NotApplicable if there is no polynomial."""
    inputs = tuple(structs.replace(i, dtype=FLOAT) if i.dtype == TensorProto.BOOL else i for i in obligation.inputs)
    before, after = (_Numbers(f.model, f.element_types).fragment(f) for f in obligation.fragments)
    return replace(obligation, before=before, after=after, inputs=inputs)


FLOAT = TensorProto.FLOAT


@dataclass(slots=True)
class _Numbers:
    """A model that is rewritten node by node; `numbers` are the bools that are numbers in `made`."""

    model: onnx.ModelProto
    types: Mapping[str, int]
    numbers: set[str] = field(default_factory=set[str])
    made: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    cast: dict[str, str] = field(default_factory=dict[str, str])

    def fragment(self, fragment: Fragment) -> Fragment:
        """Rewrite the logic of a fragment to polynomials. Raises NotApplicable."""
        found = copy_without(self.model)
        for given in found.graph.input:
            if given.type.tensor_type.elem_type == TensorProto.BOOL:
                given.type.tensor_type.elem_type = FLOAT
                self.numbers.add(given.name)
        for node in found.graph.node:
            self.add(node)
        del found.graph.node[:]
        found.graph.node.extend(self.made)
        found.graph.initializer.append(numpy_helper.from_array(np.ones((), np.float32), ONE))
        return replace(fragment, model=found)

    def add(self, node: onnx.NodeProto) -> None:
        """Add the computation of a node's outputs."""
        if self.numbers.isdisjoint(names_in(node)) or node.op_type in READS_SHAPE - {"EyeLike"}:
            self.made.append(node)
        elif node.domain not in ("", "ai.onnx") or has_subgraphs(node):
            raise NotApplicable(f"{node.op_type} of bools has no polynomial")
        elif node.op_type in LOGIC:
            LOGIC[node.op_type](self.emit, node.output[0], *map(self.number, node.input))
            self.numbers.add(node.output[0])
        elif node.op_type == "Where":
            self.select(node)
        elif node.op_type == "Cast":
            self.convert(node)
        else:
            self.move(node)

    def emit(self, op_type: str, *inputs: str, output: str = "") -> str:
        """Add a node; return the name of its output."""
        output = output or f"number {len(self.made)}"
        self.made.append(helper.make_node(op_type, list(inputs), [output]))
        return output

    def number(self, name: str) -> str:
        """The name of a bool as a number."""
        if name in self.numbers:
            return name
        if self.types.get(name) != TensorProto.BOOL:
            raise NotApplicable("bools and numbers are mixed")
        if name not in self.cast:
            self.cast[name] = f"{name} (number)"
            self.made.append(helper.make_node("Cast", [name], [self.cast[name]], to=FLOAT))
        return self.cast[name]

    def select(self, node: onnx.NodeProto) -> None:
        """Where(c, x, y) => c * x + (1 - c) * y"""
        condition, x, y = node.input
        is_logic = self.types.get(x) == TensorProto.BOOL
        if not is_logic and (self.types.get(x) not in FLOATS or self.types.get(y) not in FLOATS):
            raise NotApplicable("Where of integers by bools has no polynomial")
        x, y = (self.number(x), self.number(y)) if is_logic else (x, y)
        if condition in self.numbers:
            first, other = self.emit("Mul", condition, x), self.emit("Sub", ONE, condition)
            self.emit("Add", first, self.emit("Mul", other, y), output=node.output[0])
        else:
            self.emit("Where", condition, x, y, output=node.output[0])
        if is_logic:
            self.numbers.add(node.output[0])

    def convert(self, node: onnx.NodeProto) -> None:
        """A Cast of a bool keeps the number; a cast to integers is not supported."""
        to = next(a.i for a in node.attribute if a.name == "to")
        if to not in FLOATS | {TensorProto.BOOL}:
            raise NotApplicable("a Cast converts bools to integers")
        self.emit("Identity", node.input[0], output=node.output[0])
        if to == TensorProto.BOOL:
            self.numbers.add(node.output[0])

    def move(self, node: onnx.NodeProto) -> None:
        """An operator that moves elements."""
        positions = data_positions(node)
        if any(name in self.numbers and i not in positions for i, name in enumerate(node.input)) or not positions:
            raise NotApplicable(f"{node.op_type} of bools has no polynomial")
        found = copy_without(node)
        for i, name in enumerate(node.input):
            if i in positions and name:
                found.input[i] = self.number(name)
        self.made.append(found)
        self.numbers.update(found.output)


def _or(emit: Emit, output: str, a: str, b: str) -> None:
    emit("Sub", emit("Add", a, b), emit("Mul", a, b), output=output)


def _xor(emit: Emit, output: str, a: str, b: str) -> None:
    product = emit("Mul", a, b)
    emit("Sub", emit("Add", a, b), emit("Add", product, product), output=output)


def _and(emit: Emit, output: str, a: str, b: str) -> None:
    emit("Mul", a, b, output=output)


def _not(emit: Emit, output: str, a: str) -> None:
    emit("Sub", ONE, a, output=output)


LOGIC: Mapping[str, Callable[..., None]] = {"And": _and, "Or": _or, "Xor": _xor, "Not": _not}
