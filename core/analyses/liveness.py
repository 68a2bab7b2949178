"""The computed values in memory while each op runs, and the peak of their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ..ir.expressions import (
    SymInt,
    add,
    floor_divide,
    from_atom,
    is_known_le,
    is_simple,
    maximum,
    multiply,
    prod,
    substitute,
    subtract,
)
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.tensor import STRING, element_bits
from ..ir.values import Value

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Standard operators whose output shares the memory of their first input, in onnxruntime and other engines."""
MAX_PEAKS = 16  # expressions of symbols that do not bound each other


class Liveness:
    """The values in memory while each op of a graph runs, in an `order`, by default file order.

    A value is live from the op that computes it to the last op that reads it; an output of the graph is live until the
    end. Inputs and constants are not counted, because they are always in memory. The result of an op that only changes
    the shape shares the memory of its input. An op with bodies also needs the memory of the largest body while it runs.

    `sizes`: the bytes of each memory block, named by the value that is computed into it. `unknown`: blocks of unknown
    size, which do not count. `peaks`: the bytes at the ops that need most: expressions of symbols none of which is
    known to bound another. It is empty if there are too many.

    Examples:
        >>> liveness = graph.analysis(Liveness)
        >>> liveness.peak, [op.type for op in liveness.peaks]  # Relu has its input and its output in memory
        (32*N, ['Relu'])
        >>> [v.name for v in liveness.live_at(graph.sorted_ops()[2])]
        ['r', 'y']
    """

    def __init__(self, graph: Graph, order: Sequence[Op] | None = None) -> None:
        self.graph = graph
        self.order: Sequence[Op] = graph.sorted_ops() if order is None else order
        self.sizes: dict[Value, SymInt] = {}
        self.unknown: dict[Value, None] = {}
        self.peaks: dict[Op, SymInt] = {}
        self._blocks: dict[Value, Value] = {}
        self._last: dict[Value, int] = {}
        self._steps = {op: i for i, op in enumerate(self.order)}
        for i, op in enumerate(self.order):
            self._last.update(dict.fromkeys(self.blocks_read(op), i))
            for v in op.outputs:
                self._place(op, v)
        self._last.update((self._blocks[v], len(self.order)) for v in graph.outputs if v in self._blocks)
        self._find_peaks()

    @property
    def peak(self) -> SymInt | None:
        """The bytes at the peak; a maximum of expressions if it depends on symbols; None if unknown."""
        return reduce(maximum, self.peaks.values()) if self.peaks else None if self._steps else 0

    def blocks_read(self, op: Op) -> list[Value]:
        """The distinct memory blocks of computed values that an op or its bodies read."""
        read = (*op.inputs, *op.captures) if op.subgraphs else op.inputs
        return list(dict.fromkeys(self._blocks[v] for v in read if v is not None and v in self._blocks))

    def blocks_made(self, op: Op) -> list[Value]:
        """The memory blocks that an op needs for its results."""
        return [v for v in op.outputs if self._blocks.get(v) is v]

    def last_reader(self, value: Value) -> Op | None:
        """The last op that needs the memory of a computed value; None for outputs and values not computed here."""
        step = self._last.get(self._blocks.get(value, value), len(self.order))
        return self.order[step] if step < len(self.order) else None

    def live_at(self, op: Op) -> list[Value]:
        """The values whose memory is in use while an op runs, including those that it computes."""
        at = self._steps[op]
        made = {v: self._steps[v.producer] for v in self._last if v.producer is not None}
        return [v for v, step in made.items() if step <= at <= self._last[v]]

    def _place(self, op: Op, v: Value) -> None:
        """Determine the memory of a result: its own block, or its first input's block; none for a view of an input."""
        if not v.name or v.tensor is not None:
            return
        source = op.inputs[0] if op.type in VIEWS and not op.domain and op.inputs else None
        if source is not None and not self.graph.is_output(v):
            if source in self._blocks:
                self._blocks[v] = self._blocks[source]
            return
        self._blocks[v] = v
        self._last[v] = self._steps[op]
        size = byte_size(v)
        if size is None or not is_simple(size):
            self.unknown[v] = None
        else:
            self.sizes[v] = size

    def _find_peaks(self) -> None:
        ends: dict[int, list[Value]] = {}
        for v, step in self._last.items():
            ends.setdefault(step, []).append(v)
        live: SymInt = 0
        seen: set[SymInt] = set()
        for i, op in enumerate(self.order):
            live = reduce(add, (self.sizes.get(v, 0) for v in self.blocks_made(op)), live)
            needed = add(live, self._body_peak(op)) if op.subgraphs else live
            if needed not in seen:  # most ops need as much as another
                seen.add(needed)
                if not self._record_peak(op, needed):
                    return
            live = reduce(subtract, (self.sizes.get(v, 0) for v in ends.get(i, ())), live)

    def _record_peak(self, op: Op, needed: SymInt) -> bool:
        """Record what an op needs, unless another op needs as much; return whether the peak is still known."""
        if any(is_at_most(needed, other) for other in self.peaks.values()):
            return True
        self.peaks = {o: other for o, other in self.peaks.items() if not is_at_most(other, needed)}
        self.peaks[op] = needed
        if len(self.peaks) <= MAX_PEAKS and is_simple(needed):
            return True
        self.peaks.clear()
        return False

    def _body_peak(self, op: Op) -> SymInt:
        """The bytes that the largest body of an op needs."""
        found: SymInt = 0
        for body in op.subgraphs:
            inner = body.analysis(Liveness)
            self.unknown.update(inner.unknown)
            if (peak := inner.peak) is None:
                self.unknown[op.outputs[0]] = None
            else:
                found = maximum(found, peak)
        return found


def is_at_most(a: SymInt, b: SymInt) -> bool:
    """Whether a <= b for all positive sizes of the symbols; with a size of 0, almost nothing is in memory."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    difference = subtract(b, a)
    return is_known_le(0, difference) or is_known_le(0, substitute(difference, lambda atom: add(from_atom(atom), 1)))


def byte_size(value: Value) -> SymInt | None:
    """The bytes of a tensor's elements, inferred if necessary; None if unknown, as for sequences and strings."""
    dims, dtype = (value.known_shape, value.known_dtype) if value.type is None else (None, 0)
    known = [d for d in dims or () if d is not None]
    if dims is None or len(known) < len(dims) or dtype in {0, STRING}:
        return None
    bits = element_bits(dtype)
    return multiply(prod(known), bits // 8) if bits % 8 == 0 else floor_divide(add(multiply(prod(known), bits), 7), 8)
