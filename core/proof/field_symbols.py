"""Inputs of integers, bools and strings whose elements a fragment only moves, or adds and multiplies.

Moved elements may have any value, and an equation of sums and products of integers holds modulo any number if it
always holds: such inputs are drawn as field elements. Other inputs, such as indices, are drawn as numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import onnx
from msgspec import Struct

from ..ir.dtypes import FLOATS, INTEGERS
from ..operators.declaration import Trait
from ..operators.table import READS_SHAPE, moved_inputs, ops_with, roles
from ..serialization.proto_queries import SUBGRAPH_ATTRIBUTE_TYPES
from .obligation import Obligation

MAX_TRIED = 5  # inputs for which all sets are tried
RING = ops_with(Trait.RING)


@dataclass(slots=True)
class Symbols:
    """The values of a model that field elements can replace: `inputs`, and `constants` combined with them.

    `computes`: they are added or multiplied somewhere. `failed`: an operator needs their actual values.
    """

    inputs: frozenset[str]
    values: set[str] = field(default_factory=set[str])
    constants: set[str] = field(default_factory=set[str])
    computes: bool = False
    failed: bool = False


def data_positions(node: onnx.NodeProto) -> Collection[int]:
    """The inputs of a node whose elements are moved, added or multiplied; empty for other operators."""
    if node.domain not in ("", "ai.onnx"):
        return ()
    if node.op_type in RING:
        return [i for i in range(len(node.input)) if i not in roles(node.op_type)]
    return moved_inputs(node)


def symbols_of(model: onnx.ModelProto, inputs: frozenset[str]) -> Symbols:
    """Follow inputs through a model."""
    found = Symbols(inputs, set(inputs))
    constants = {t.name for t in model.graph.initializer}
    constants |= {n.output[0] for n in model.graph.node if n.op_type == "Constant"}
    for node in model.graph.node:
        if any(a.type in SUBGRAPH_ATTRIBUTE_TYPES for a in node.attribute):
            found.failed |= not found.values.isdisjoint(names_in(node))
            continue
        positions = data_positions(node)
        read = [i for i, name in enumerate(node.input) if name in found.values]
        if not read or node.op_type in READS_SHAPE:
            continue
        companions = {node.input[i] for i in positions if i < len(node.input)} - found.values - {""}
        found.failed |= any(i not in positions for i in read) or not companions <= constants
        found.constants |= companions
        found.computes |= node.op_type in RING
        found.values |= set(node.output)
    for node in model.graph.node:  # a constant combined with them must have no other use
        uses = {i for i, name in enumerate(node.input) if name in found.constants}
        reads_values = any(name in found.values for name in node.input)
        found.failed |= bool(uses) and not (reads_values and uses <= set(data_positions(node)))
    found.failed |= not found.constants.isdisjoint(o.name for o in model.graph.output)
    return found


def names_in(node: onnx.NodeProto) -> Iterator[str]:
    """Yield all names that a node and its bodies read."""
    yield from node.input
    for a in node.attribute:
        for body in (a.g, *a.graphs) if a.type in SUBGRAPH_ATTRIBUTE_TYPES else ():
            yield from (o.name for o in body.output)
            for inner in body.node:
                yield from names_in(inner)


class SymbolicInputs(Struct, frozen=True):
    """The inputs of an obligation that are drawn as field elements instead of values of their type.

    `constants` are the constants of both fragments that are combined with them. `is_ring`: there are no other inputs,
    and these are added and multiplied.
    """

    names: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    is_ring: bool = False


def symbolic_inputs(obligation: Obligation) -> SymbolicInputs:
    """The largest set of inputs that can be drawn as field elements."""
    types = {i.name: i.dtype for i in obligation.inputs if i.dtype not in FLOATS}
    tried = list(types)[:MAX_TRIED]
    for count in range(len(tried), 0, -1):
        for names in combinations(tried, count):
            followed = [symbols_of(m, frozenset(names)) for m in obligation.models]
            computes = any(s.computes for s in followed)
            if any(s.failed for s in followed) or (computes and any(types[n] not in INTEGERS for n in names)):
                continue
            is_ring = computes and count == len(obligation.inputs)
            return SymbolicInputs(frozenset(names), frozenset(c for s in followed for c in s.constants), is_ring)
    return SymbolicInputs()
