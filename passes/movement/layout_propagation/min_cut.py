"""The ops of a region to compute in its layout, so that the fewest nodes are needed: a minimum cut.

Each op is on one of two sides, and so is each of its results. A value that is made on one side and read on the other
costs a Transpose, one for all its readers; a Transpose on the unchanged side costs itself.

The flow is not that of networkx: it runs in the loop of passes, stops after a number of steps that is bounded, which
those of networkx do not, and needs no import of networkx, which takes longer than a small model.
Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....core import Op, Value
from .layout import Layout, LayoutRewrite
from .layout_region import LayoutRegion

INFINITE = 1 << 60
MAX_STEPS_PER_EDGE = 40  # steps for each edge; networks of layouts take two or three


@dataclass(slots=True)
class FlowNetwork:
    """Nodes are numbers; 0 is the source and 1 the sink. Edges come in pairs, each with its reverse beside it."""

    heads: list[int] = field(default_factory=list[int])
    residual: list[int] = field(default_factory=list[int])
    edges: list[list[int]] = field(default_factory=lambda: [[], []])

    def add_node(self) -> int:
        """A new node."""
        self.edges.append([])
        return len(self.edges) - 1

    def add_edge(self, a: int, b: int, capacity: int, reverse_capacity: int = 0) -> None:
        """Add an edge from `a` to `b` of `capacity`, and of `reverse_capacity` from `b` to `a`."""
        self.edges[a].append(len(self.heads))
        self.edges[b].append(len(self.heads) + 1)
        self.heads += (b, a)
        self.residual += (capacity, reverse_capacity)

    def min_cut(self) -> list[bool] | None:
        """The fewest nodes that the source keeps in a cheapest cut; None where that takes too long to find out."""
        steps = 1000 + MAX_STEPS_PER_EDGE * len(self.heads)
        while True:
            levels = self._levels()
            if levels[1] < 0:
                return [level >= 0 for level in levels]
            steps -= len(self.heads) + self._blocking_flow(levels, steps)
            if steps <= 0:
                return None

    def _levels(self) -> list[int]:
        """The distance of each node from the source over edges with remaining capacity; -1 where unreachable."""
        levels = [-1] * len(self.edges)
        levels[0] = 0
        queue = [0]
        for a in queue:
            for e in self.edges[a]:
                b = self.heads[e]
                if levels[b] < 0 and self.residual[e]:
                    levels[b] = levels[a] + 1
                    queue.append(b)
        return levels

    def _blocking_flow(self, levels: list[int], max_steps: int) -> int:
        """Fill every shortest way to the sink, in at most so many steps; returns the steps it took."""
        left = [len(edges) for edges in self.edges]
        path: list[int] = []
        at, steps = 0, 0
        while steps < max_steps:
            steps += 1
            if at == 1:
                steps += len(path)
                path = self._augment(path)
                at = self.heads[path[-1]] if path else 0
            elif left[at]:
                e = self.edges[at][left[at] - 1]
                if self.residual[e] and levels[self.heads[e]] == levels[at] + 1:
                    path.append(e)
                    at = self.heads[e]
                else:
                    left[at] -= 1
            elif path:
                at = self.heads[path.pop() ^ 1]
                left[at] -= 1
            else:
                break
        return steps

    def _augment(self, path: list[int]) -> list[int]:
        """Send the maximum flow along a path; returns the part before the first saturated edge."""
        amount = min(self.residual[e] for e in path)
        for e in path:
            self.residual[e] -= amount
            self.residual[e ^ 1] += amount
        return path[: next(i for i, e in enumerate(path) if not self.residual[e])]


NODE_COST = 1 << 20  # the cost of a node
# A little more than any other node; all cost the same, or merge-transposes would undo the gain.
TRANSPOSE_COST = NODE_COST + 1
REWRITTEN, UNCHANGED = 0, 1  # source and sink
NORMALIZING_OPS = frozenset({"LogSoftmax", "LpNormalization", "Softmax"})
LARGE_CONSTANT_BYTES = 1 << 20  # bytes of a constant that is not to be stored in two layouts


def turns_last_axis(op: Op, found: LayoutRewrite) -> bool:
    """Whether an op would work along another axis than the last, where it does now: onnxruntime takes far longer."""
    layout = found.input_layouts[0]
    if layout is None:
        return False
    last = len(layout) - 1
    if op.type in NORMALIZING_OPS:
        axis = op.attr("axis", -1 if op.type == "LpNormalization" or op.version >= 13 else 1)
        return axis in {-1, last} and layout[-1] != last
    return False


def select_ops(region: LayoutRegion, *, keep_last_axes: bool = True) -> list[Op]:
    """The ops to compute in the region's layout; none where that saves nothing.

    `keep_last_axes`: ops that normalize along the last axis keep it last.
    """
    if region.transposes == 0:
        return []
    plan = _CostNetwork(region, keep_last_axes)
    side = plan.network.min_cut()
    return [] if side is None else [op for op in region.rewrites if side[plan.node_of[op]]]


@dataclass(slots=True)
class _CostNetwork:
    region: LayoutRegion
    keep_last_axes: bool
    network: FlowNetwork = field(default_factory=FlowNetwork)
    node_of: dict[Op, int] = field(default_factory=dict[Op, int])
    # The readers of each value in its layout, and in another one.
    reads_in_layout: set[tuple[Value, Op]] = field(default_factory=set[tuple[Value, Op]])
    reads_otherwise: set[tuple[Value, Op]] = field(default_factory=set[tuple[Value, Op]])

    def __post_init__(self) -> None:
        for op, found in self.region.rewrites.items():
            self.node_of[op] = self.network.add_node()
            for v, own in zip(op.inputs, found.input_layouts, strict=True):
                if v is not None:
                    (self.reads_in_layout if own == self.region.layouts.get(v) else self.reads_otherwise).add((v, op))
        for op in self.region.rewrites:
            self._add_op_cost(op)
        for v, layout in self.region.layouts.items():
            self._add_value_cost(v, layout)

    def _add_op_cost(self, op: Op) -> None:
        """Add the cost of an op on either side."""
        if op.type == "Transpose":
            self.network.add_edge(REWRITTEN, self.node_of[op], TRANSPOSE_COST)
        found = self.region.rewrites[op]
        more = found.extra_nodes * NODE_COST + INFINITE * (self.keep_last_axes and turns_last_axis(op, found))
        for v, own in zip(op.inputs, found.input_layouts, strict=True):
            if v is None or own is None:
                continue
            if v.tensor is None:
                more += TRANSPOSE_COST * (own != self.region.layouts[v])
            elif len(v.consumers) > 1 and v.tensor.nbytes > LARGE_CONSTANT_BYTES:
                more += INFINITE
        for v, own in zip(op.outputs, found.output_layouts, strict=True):
            if own is not None and own != self.region.layouts[v]:
                more += TRANSPOSE_COST
        if more:
            self.network.add_edge(self.node_of[op], UNCHANGED, more)

    def _add_value_cost(self, v: Value, layout: Layout) -> None:
        """Add the cost of a value that is made on one side and read on the other."""
        net = self.network
        maker = self._producer_node(v, layout)
        swayed, fixed = self._consumers(v)
        if maker == UNCHANGED:
            self._add_shared_transpose(swayed)
        elif not fixed and len(swayed) == 1:
            net.add_edge(maker, swayed[0], TRANSPOSE_COST, TRANSPOSE_COST)
        else:
            if swayed:
                self._add_shared_transpose(swayed, maker)
            if fixed:
                net.add_edge(maker, UNCHANGED, TRANSPOSE_COST)
            elif swayed:
                needed = net.add_node()
                net.add_edge(maker, needed, TRANSPOSE_COST)
                for reader in swayed:
                    net.add_edge(needed, reader, INFINITE)

    def _add_shared_transpose(self, readers: Sequence[int], maker: int = UNCHANGED) -> None:
        """Add one Transpose for all rewritten consumers of an unchanged producer."""
        if len(readers) == 1:
            self.network.add_edge(readers[0], maker, TRANSPOSE_COST)
        elif readers:
            moved = self.network.add_node()
            self.network.add_edge(moved, maker, TRANSPOSE_COST)
            for reader in readers:
                self.network.add_edge(reader, moved, INFINITE)

    def _producer_node(self, v: Value, layout: Layout) -> int:
        """The node of the producer of a value, or of the side that it is always on."""
        maker = self.region.graph.producer(v)
        if maker is None or maker not in self.region.rewrites:
            return UNCHANGED
        own = self.region.rewrites[maker].output_layouts[maker.outputs.index(v)]
        return self.node_of[maker] if own == layout else UNCHANGED

    def _consumers(self, v: Value) -> tuple[list[int], bool]:
        """The consumers of a value that may be on either side, and whether any other use keeps its layout."""
        pairs, graph = ((v, op) for op in v.consumers), self.region.graph
        swayed = [self.node_of[p[1]] for p in pairs if p in self.reads_in_layout and p not in self.reads_otherwise]
        return swayed, len(swayed) < len(v.consumers) or graph.is_output(v) or v in graph.pinned
