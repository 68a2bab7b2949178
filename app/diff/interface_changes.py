"""What two graphs share at their rims: inputs, outputs, and what their bodies read from around them.

What two graphs take and give: inputs, outputs, their types, and constants that nothing reads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from ...core.io.graph_interface import type_text
from ...core.ir.graph import Graph
from ...core.ir.values import Value
from .constant_numbering import ConstantNumbering
from .diff_result import Delta

ValuePair = tuple[Value, Value]
OutputIndices = dict[Value, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class InterfacePairing:
    """Pairs of values that correspond from the start: `inputs` with what comes from around, and `outputs`."""

    inputs: list[ValuePair]
    outputs: list[ValuePair]
    input_indices: tuple[dict[Value, int], dict[Value, int]] = field(init=False)
    output_indices: tuple[OutputIndices, OutputIndices] = field(init=False)
    """The numbers of the outputs that each value is, for each graph."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_indices", tuple({p[s]: i for i, p in enumerate(self.inputs)} for s in (0, 1)))
        object.__setattr__(self, "output_indices", tuple(_output_indices(p[s] for p in self.outputs) for s in (0, 1)))

    def swapped(self) -> InterfacePairing:
        """The same with the other graph first."""
        return InterfacePairing([(b, a) for a, b in self.inputs], [(b, a) for a, b in self.outputs])

    def counterpart(self, side: int, value: Value) -> Value | None:
        """The input of the other graph that corresponds to one of `side`."""
        i = self.input_indices[side].get(value)
        return None if i is None else self.inputs[i][1 - side]


def _output_indices(values: Iterable[Value]) -> OutputIndices:
    found: OutputIndices = {}
    for i, v in enumerate(values):
        found[v] = (*found.get(v, ()), i)
    return found


def pair_by_name(a: Sequence[Value], b: Sequence[Value]) -> list[ValuePair]:
    """Values of one name, then those left over that are of one type, then the others if they are as many; in order."""
    theirs = {v.name: v for v in b}
    pairs = [(v, theirs[v.name]) for v in a if v.name in theirs]
    left, right = _without(a, [p[0] for p in pairs]), _without(b, [p[1] for p in pairs])
    forms: dict[object, deque[Value]] = {}
    for w in right:
        forms.setdefault(_type_key(w), deque()).append(w)
    pairs += [(v, alike.popleft()) for v in left if (alike := forms.get(_type_key(v)))]
    left, right = _without(left, [p[0] for p in pairs]), _without(right, [p[1] for p in pairs])
    return [*pairs, *zip(left, right, strict=True)] if len(left) == len(right) else pairs


def _without(values: Sequence[Value], gone: Sequence[Value]) -> list[Value]:
    taken = set(gone)
    return [v for v in values if v not in taken]


def _type_key(value: Value) -> tuple[int, int | None, bytes]:
    """Element type and rank, as far as they are stated."""
    dtype, shape = value.recorded_type
    return dtype, None if shape is None else len(shape), value.type.SerializeToString() if value.type else b""


def interface_changes(a: Graph, b: Graph, ends: InterfacePairing, *, named: bool) -> Iterator[Delta]:
    """Inputs and outputs that came, went, got another type, or, where they are `named`, another name or order."""
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
            yield from _order_changes(what, ours, theirs, pairs)
    yield from _default_changes(a, b, ends.inputs)


def _order_changes(
    what: str, ours: Sequence[Value], theirs: Sequence[Value], pairs: list[ValuePair]
) -> Iterator[Delta]:
    """Whether those that both have come in another order."""
    partner = dict(pairs)
    kept, expected = set(partner.values()), [partner[v] for v in ours if v in partner]
    found = [w for w in theirs if w in kept]
    if found != expected:
        yield Delta(f"order of {what}s", [w.name for w in expected], [w.name for w in found])


def _default_changes(a: Graph, b: Graph, pairs: list[ValuePair]) -> Iterator[Delta]:
    for v, w in pairs:
        had, has = v in a.input_defaults, w in b.input_defaults
        if had != has:
            yield Delta(f"default of input {v.name}", *("a constant" if d else None for d in (had, has)))


def _unpaired(values: Iterable[Value], paired: Iterable[Value]) -> list[Value]:
    taken = set(paired)
    return [v for v in values if v not in taken]


def _declared_types(graph: Graph, what: str) -> dict[Value, str]:
    """The declared types of inputs or outputs as texts."""
    if what == "input":
        declared = graph.declared.inputs
    else:
        declared = list(zip(graph.outputs, graph.declared.outputs, strict=False))
    return {v: type_text(onnx.ValueInfoProto.FromString(info).type) for v, info in declared}


def unread_changes(a: Graph, b: Graph, contents: ConstantNumbering) -> Iterator[Delta]:
    """Constants that nothing reads and that only one graph has."""
    held = [_unread_constants(g, contents) for g in (a, b)]
    for side, values in enumerate(held):
        others = Counter(contents[v] for v in held[1 - side])
        for v in values:
            others[contents[v]] -= 1
            if others[contents[v]] < 0:
                yield Delta("unread constant", *((v.name, None) if side == 0 else (None, v.name)))


def _unread_constants(graph: Graph, contents: ConstantNumbering) -> list[Value]:
    made = (v for op in graph.ops("Constant") for v in op.outputs)
    return [
        v for v in (*graph.initializers, *graph.sparse_initializers, *made)
        if v in contents and not v.consumers and not graph.is_output(v)
    ]  # fmt: skip
