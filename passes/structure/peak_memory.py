"""Reordering of independent ops, so that fewer computed values are in memory at a time.

The order is a list schedule. Of the ops that could run next, each is followed along the ops that it makes ready, to the
point after which memory grows again: a segment, with the memory at its peak and the memory that it keeps. Segments that
keep less memory than there was before come first, in the order of their peaks; the others follow, in the order of the
memory that they free after their peaks. For chains that share nothing, this is the best order (Liu, 1987: An
Application of Generalized Tree Pebbling to Sparse Matrix Factorization).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, pairwise
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...core import ChangeLog, Graph, Op, Value, is_pure
from ...core.analyses.liveness import Liveness, is_at_most
from ...core.ir.expressions import SymInt, substitute
from ...core.ir.graph import dependencies
from ...core.operators.effects import writes_inputs

if TYPE_CHECKING:
    import networkx as nx

Runs = Literal["any", "in-file-order", "depth-first"]
MAX_SEGMENT = 32  # ops that are followed for one decision


@dataclass(frozen=True, slots=True)
class ReducePeakMemory:
    """Independent ops in an order with a lower peak of the memory for computed values.

    Runtimes run the ops in the order of the file, as onnxruntime does with execution_order = PRIORITY_BASED, or
    depth-first from the outputs back, as onnxruntime does by default. `runs`: the order for which the peak is to be
    lower; for any of both, it becomes higher in neither.
    """

    runs: Runs = field(default="any", metadata={"doc": "The order in which the runtime runs ops."})
    name: str = "reduce-peak-memory"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Reorder each graph in which it lowers the peak; bodies first, as their peaks count in the graphs around."""
        return sum(self._reorder(g, change_log) for g in [*graph.with_subgraphs()][::-1])

    def _reorder(self, graph: Graph, change_log: ChangeLog) -> bool:
        before = graph.analysis(Liveness)
        if len(graph) < 3 or not before.peaks or before.unknown or any(map(writes_inputs, graph.ops())):
            return False
        name = next((v.name for v in graph.outputs), "")
        order = memory_order(graph, before, self.runs)
        if order is None:
            change_log.record_decline(self.name, name, f"no order is found with a lower peak than {before.peak} bytes")
            return False
        if not change_log.request_change(self.name, name, moved_ops(before.order, order)):
            return False
        graph.reorder(order)
        return True


def memory_order(graph: Graph, before: Liveness, runs: Runs = "any") -> list[Op] | None:
    """An order of the ops of a graph with a lower peak, or None; `runs`: see ReducePeakMemory. O(E * MAX_SEGMENT).

    It is made from the inputs on or back from the outputs, or such that it runs depth-first in the order made so.
    """
    needs = required_order(graph, before.order)
    onwards = list(Schedule(needs, before, is_backwards=False).ops())
    back = list(Schedule(needs.reverse(copy=False), before, is_backwards=True).ops())[::-1]
    ways: list[list[Op]] = [onwards, back]
    orders = [made for order in ways for made in (order, *(depth_first(needs, ends) for ends in (order, order[::-1])))]

    def in_memory(order: Sequence[Op]) -> list[Liveness]:
        """The values in memory if an order is written: run in that order, and depth-first."""
        run = {"in-file-order": [order], "depth-first": [depth_first(needs, order)]}
        return [Liveness(graph, ops) for ops in run.get(runs) or chain(*run.values())]

    old = in_memory(before.order)
    new = {i: in_memory(order) for i, order in enumerate(orders)}
    for i in sorted(new, key=lambda i: sorted(map(nominal_peak, new[i]), reverse=True)):
        pairs = list(zip(old, new[i], strict=True))
        is_lower = any(nominal_peak(after) < nominal_peak(earlier) for earlier, after in pairs)
        if is_lower and all(never_higher(after, earlier) for earlier, after in pairs):
            return orders[i]
    return None


def depth_first(needs: nx.DiGraph[Op], order: Sequence[Op]) -> list[Op]:
    """The ops depth-first: before each op, the ops that it needs, of which the last in `order` comes first.

    So onnxruntime orders the nodes of a file by default (`Graph::ReverseDFSFrom`).
    """
    position = {op: i for i, op in enumerate(order)}
    done: dict[Op, None] = {}
    entered = set[Op]()
    stack = [op for op in order if not needs.out_degree(op)]
    while stack:
        op = stack.pop()
        if op in entered:
            done[op] = None  # once the ops that it needs are done
            continue
        entered.add(op)
        stack += [op, *sorted((p for p in needs.predecessors(op) if p not in entered), key=position.__getitem__)]
    return list(done)


def never_higher(after: Liveness, before: Liveness) -> bool:
    """Whether the peak is known to be higher for no sizes of the symbols."""
    return bool(after.peaks) and all(
        any(is_at_most(new, old) for old in before.peaks.values()) for new in after.peaks.values()
    )


def moved_ops(before: Sequence[Op], after: Sequence[Op]) -> list[Op]:
    """The ops that follow another op than before."""
    previous = {op: earlier for earlier, op in pairwise(before)}
    return [op for earlier, op in pairwise(after) if previous.get(op) is not earlier]


def required_order(graph: Graph, ops: Sequence[Op]) -> nx.DiGraph[Op]:
    """Each op with edges to the ops that have to be later: its readers, and of ops with effects the next one."""
    import networkx as nx  # noqa: PLC0415 - takes longer to import than a small model to optimize

    needs: nx.DiGraph[Op] = nx.DiGraph()
    needs.add_nodes_from(ops)
    needs.add_edges_from((p, op) for op in ops for p in dependencies(op) if p.graph is graph)
    needs.add_edges_from(pairwise(op for op in ops if not is_pure(op)))
    return needs


class OpSegment(NamedTuple):
    """Ops that run one after the other: the most bytes that they need and the bytes that they leave, both beyond now.

    `next`: the op at which it ends as that waits for others; `blocks` are those that it reads.
    """

    ops: tuple[Op, ...]
    need: int
    left: int
    next: Op | None
    blocks: tuple[Value, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Its rank among the segments that could run."""
        return (0, self.need) if self.left <= 0 else (1, self.left - self.need)


def nominal_peak(liveness: Liveness) -> int:
    """The peak for nominal sizes of the symbols."""
    return max((nominal_size(size, liveness.graph) for size in liveness.peaks.values()), default=0)


def nominal_size(size: SymInt, graph: Graph) -> int:
    """A size for nominal sizes of the symbols."""
    found = substitute(size, lambda _: graph.context.costs.nominal_dim)
    return found if isinstance(found, int) else 0


class Schedule:
    """The state of a list schedule, from the inputs on, or from the outputs back with `needs` reversed.

    A block is in memory from the first to the last op that uses it, whichever of them computes it.
    """

    def __init__(self, needs: nx.DiGraph[Op], liveness: Liveness, *, is_backwards: bool) -> None:
        self.needs = needs
        self.sizes = {v: nominal_size(size, liveness.graph) for v, size in liveness.sizes.items()}
        self.blocks = {op: (*liveness.blocks_made(op), *liveness.blocks_read(op)) for op in needs}
        self.position = {op: i for i, op in enumerate(needs)}
        self.waits: dict[Op, int] = dict(needs.in_degree())
        self.uses = Counter(v for blocks in self.blocks.values() for v in blocks)
        kept = [v for v in self.sizes if liveness.last_reader(v) is None]
        self.used = set(kept) if is_backwards else set[Value]()  # blocks in memory
        self.uses.update(() if is_backwards else kept)
        self.watched: dict[Op | Value, dict[Op, None]] = {}
        self.segments: dict[Op, OpSegment] = {}
        self.queue: list[tuple[tuple[int, int], int, int, OpSegment]] = []
        self.ranked = 0

    def ops(self) -> Iterator[Op]:
        """The ops in their new order."""
        for op, count in self.waits.items():
            if not count:
                self._rank(op)
        while self.queue:
            segment = heappop(self.queue)[-1]
            if self.segments.get(segment.ops[0]) is segment:
                yield from segment.ops
                for op, following in zip(segment.ops, (*segment.ops[1:], None), strict=True):
                    self._execute(op, following)

    def _rank(self, op: Op) -> None:
        """Find the segment of an op that could run, and rank it."""
        segment = self.segments[op] = self._follow(op)
        for watched in (*segment.blocks, *([segment.next] if segment.next is not None else [])):
            self.watched.setdefault(watched, {})[op] = None
        self.ranked += 1
        heappush(self.queue, (segment.rank, self.position[op], self.ranked, segment))

    def _execute(self, op: Op, following: Op | None) -> None:
        """Run an op and then the `following` one; rank the ops again whose segments that changes."""
        self.segments.pop(op, None)
        changed: dict[Op, None] = {}
        for v in self.blocks[op]:
            self.uses[v] -= 1
            if v not in self.used or self.uses[v] <= 2:
                changed.update(self.watched.get(v, {}))
            self.used.add(v)
        ready: list[Op] = []
        for later in self.needs.successors(op):
            self.waits[later] -= 1
            if self.waits[later] == 1:
                changed.update(self.watched.get(later, {}))
            if not self.waits[later] and later is not following:
                ready.append(later)
        for other in (*(o for o in changed if o in self.segments), *ready):
            self._rank(other)

    def _follow(self, op: Op) -> OpSegment:
        """The segment of an op that could run."""
        ops: list[Op] = []
        uses: dict[Value, int] = {}
        waits: dict[Op, int] = {}
        live = need = 0
        best = (inf, 0, 0)  # the bytes that the first ops leave, the number of these ops, and their need
        current: Op | None = op
        stop: Op | None = None
        while current is not None and len(ops) < MAX_SEGMENT and live >= 0:
            ops.append(current)
            blocks = self.blocks[current]
            live += sum(self.sizes[v] for v in blocks if v not in self.used and v not in uses)
            need = max(need, live)
            uses.update((v, uses.get(v, self.uses[v]) - 1) for v in blocks)
            live -= sum(self.sizes[v] for v in blocks if not uses[v])
            best = (live, len(ops), need) if live <= best[0] else best
            ready: list[Op] = []
            for later in self.needs.successors(current):
                waits[later] = waits.get(later, self.waits[later]) - 1
                if not waits[later]:
                    ready.append(later)
                else:
                    stop = later
            current = ready[0] if len(ready) == 1 else None
        left, count, need = best
        return OpSegment(tuple(ops[:count]), need, int(left), stop, tuple(uses))
