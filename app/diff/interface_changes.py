"""Corresponding inputs and outputs of two graphs, and the changes of their names, types, order and defaults."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import onnx

from ...core.io.graph_interface import type_text
from ...core.ir.graph import Graph
from ...core.ir.values import Value
from .constant_numbering import ConstantNumbering
from .diff_result import Delta

T = TypeVar("T")
ValuePair = tuple[Value, Value]


@dataclass(slots=True)
class InterfacePairing:
    """Corresponding `inputs`, with values from around the graph, and `outputs`.

    For each graph, `input_partners` has the inputs of the other, and `output_indices` the pairs of an output.
    """

    inputs: list[ValuePair]
    outputs: list[ValuePair]
    input_partners: tuple[dict[Value, Value], dict[Value, Value]] = field(init=False)
    output_indices: tuple[dict[Value, tuple[int, ...]], dict[Value, tuple[int, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self.input_partners = dict(self.inputs), {w: v for v, w in self.inputs}
        self.output_indices = {}, {}
        for i, pair in enumerate(self.outputs):
            for found, v in zip(self.output_indices, pair, strict=True):
                found[v] = (*found.get(v, ()), i)

    def swapped(self) -> InterfacePairing:
        """The same with the other graph first."""
        return InterfacePairing([(b, a) for a, b in self.inputs], [(b, a) for a, b in self.outputs])


def in_order(side: int, own: T, other: T) -> tuple[T, T]:
    """Something of the graph `side`, and its counterpart: that of the first graph first."""
    return (own, other) if side == 0 else (other, own)


def pair_by_name(a: Sequence[Value], b: Sequence[Value]) -> list[ValuePair]:
    """Pair values by name, then by type, then, if as many are left in both, by order."""
    theirs = {v.name: v for v in b}
    pairs = [(v, theirs[v.name]) for v in a if v.name in theirs]
    left, right = _unpaired(a, (p[0] for p in pairs)), _unpaired(b, (p[1] for p in pairs))
    by_type: dict[object, deque[Value]] = {}
    for w in right:
        by_type.setdefault(_type_key(w), deque()).append(w)
    pairs += [(v, alike.popleft()) for v in left if (alike := by_type.get(_type_key(v)))]
    left, right = _unpaired(left, (p[0] for p in pairs)), _unpaired(right, (p[1] for p in pairs))
    return [*pairs, *zip(left, right, strict=True)] if len(left) == len(right) else pairs


def _unpaired(values: Iterable[Value], paired: Iterable[Value]) -> list[Value]:
    taken = set(paired)
    return [v for v in values if v not in taken]


def _type_key(value: Value) -> tuple[int, int | None, bytes]:
    """Element type and rank, as far as they are declared."""
    dtype, shape = value.recorded_type
    return dtype, None if shape is None else len(shape), value.type.SerializeToString() if value.type else b""


def interface_changes(a: Graph, b: Graph, ends: InterfacePairing, *, named: bool) -> Iterator[Delta]:
    """Added and removed inputs and outputs, and changed types and defaults; if `named`, also names and order."""
    taken = set(a.inputs)
    for what, ours, theirs, pairs in (
        ("input", a.inputs, b.inputs, [p for p in ends.inputs if p[0] in taken]),
        ("output", a.outputs, b.outputs, ends.outputs),
    ):
        types = [_declared_types(g, what) for g in (a, b)]
        for v, w in pairs:
            if named and v.name != w.name:
                yield Delta(what, v.name, w.name)
            if types[0].get(v) != types[1].get(w):
                yield Delta(f"type of {what} {v.name}", types[0].get(v), types[1].get(w))
        yield from (Delta(what, v.name, None) for v in _unpaired(ours, (p[0] for p in pairs)))
        yield from (Delta(what, None, w.name) for w in _unpaired(theirs, (p[1] for p in pairs)))
        if named:
            partner = dict(pairs)
            expected = [partner[v].name for v in ours if v in partner]
            kept = set(partner.values())
            found = [w.name for w in theirs if w in kept]
            if found != expected:
                yield Delta(f"order of {what}s", expected, found)
    for v, w in ends.inputs:
        had, has = ("a constant" if x in g.input_defaults else None for x, g in ((v, a), (w, b)))
        if had != has:
            yield Delta(f"default of input {v.name}", had, has)


def _declared_types(graph: Graph, what: str) -> dict[Value, str]:
    """The declared types of inputs or outputs as texts."""
    outputs = zip(graph.outputs, graph.declared.outputs, strict=False)
    declared = graph.declared.inputs if what == "input" else outputs
    return {v: type_text(onnx.ValueInfoProto.FromString(info).type) for v, info in declared}


def unread_changes(a: Graph, b: Graph, constants: ConstantNumbering) -> Iterator[Delta]:
    """The constants without uses that only one graph has."""
    unread: list[list[Value]] = []
    for g in (a, b):
        made = (v for op in g.ops("Constant") for v in op.outputs)
        values = (*g.initializers, *g.sparse_initializers, *made)
        unread.append([v for v in values if v in constants and not v.consumers and not g.is_output(v)])
    for side, values in enumerate(unread):
        others = Counter(constants[v] for v in unread[1 - side])
        for v in values:
            others[constants[v]] -= 1
            if others[constants[v]] < 0:
                yield Delta("unread constant", *in_order(side, v.name, None))
