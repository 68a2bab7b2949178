"""The cheapest cut between two ends of a network (Dinic 1970).

Which ops of a region to compute in its layout, so that the fewest nodes are needed: a cheapest cut.

Each op is on one of two sides, and so is each of its results. A value that is made on one side and read on the other
costs a Transpose, one for all its readers; a Transpose on the side of things as they are costs itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....core import Op, Value
from .layout import Layout
from .layout_region import Region

ENDLESS = 1 << 60
PATIENCE = 40  # steps for each edge; networks of layouts take two or three


@dataclass(slots=True)
class Network:
    """Nodes are numbers; 0 is the source and 1 the sink. Edges come in pairs, each with its reverse beside it."""

    heads: list[int] = field(default_factory=list[int])
    room: list[int] = field(default_factory=list[int])
    edges: list[list[int]] = field(default_factory=lambda: [[], []])

    def node(self) -> int:
        """A new node."""
        self.edges.append([])
        return len(self.edges) - 1

    def join(self, a: int, b: int, cost: int, back: int = 0) -> None:
        """It costs `cost` to have `a` on the side of the source and `b` on the other, `back` the other way round."""
        self.edges[a].append(len(self.heads))
        self.edges[b].append(len(self.heads) + 1)
        self.heads += (b, a)
        self.room += (cost, back)

    def source_side(self) -> list[bool] | None:
        """The fewest nodes that the source keeps in a cheapest cut; None where that takes too long to find out."""
        steps = 1000 + PATIENCE * len(self.heads)
        while True:
            levels = self._levels()
            if levels[1] < 0:
                return [level >= 0 for level in levels]
            steps -= len(self.heads) + self._fill(levels, steps)
            if steps <= 0:
                return None

    def _levels(self) -> list[int]:
        """How far each node is from the source over edges with room; -1 where it is out of reach."""
        levels = [-1] * len(self.edges)
        levels[0] = 0
        queue = [0]
        for a in queue:
            for e in self.edges[a]:
                b = self.heads[e]
                if levels[b] < 0 and self.room[e]:
                    levels[b] = levels[a] + 1
                    queue.append(b)
        return levels

    def _fill(self, levels: list[int], most: int) -> int:
        """Fill every shortest way to the sink, in at most so many steps; returns the steps it took."""
        left = [len(edges) for edges in self.edges]
        path: list[int] = []
        at, steps = 0, 0
        while steps < most:
            steps += 1
            if at == 1:
                steps += len(path)
                path = self._push(path)
                at = self.heads[path[-1]] if path else 0
            elif left[at]:
                e = self.edges[at][left[at] - 1]
                if self.room[e] and levels[self.heads[e]] == levels[at] + 1:
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

    def _push(self, path: list[int]) -> list[int]:
        """Send what fits along a path; returns the part of it before the first edge that is full now."""
        amount = min(self.room[e] for e in path)
        for e in path:
            self.room[e] -= amount
            self.room[e ^ 1] += amount
        return path[: next(i for i, e in enumerate(path) if not self.room[e])]


NODE = 1 << 20  # the cost of a node
TRANSPOSE = NODE + 1  # a little more than any other; all cost the same, or merge-transposes would undo what is won
MOVED, KEPT = 0, 1  # source and sink
BULKY = 1 << 20  # bytes of a constant that is not to be stored in two layouts


def chosen(region: Region) -> list[Op]:
    """The ops to compute in the region's layout; none where nothing is won by it."""
    if region.transposes == 0:
        return []
    plan = _Plan(region)
    side = plan.network.source_side()
    return [] if side is None else [op for op in region.moves if side[plan.node[op]]]


@dataclass(slots=True)
class _Plan:
    region: Region
    network: Network = field(default_factory=Network)
    node: dict[Op, int] = field(default_factory=dict[Op, int])
    agreed: set[tuple[Value, Op]] = field(default_factory=set[tuple[Value, Op]])  # who reads what in its layout
    fixed: set[tuple[Value, Op]] = field(default_factory=set[tuple[Value, Op]])  # and who does in another one

    def __post_init__(self) -> None:
        for op, found in self.region.moves.items():
            self.node[op] = self.network.node()
            for v, own in zip(op.inputs, found.inputs, strict=True):
                if v is not None:
                    (self.agreed if own == self.region.layouts.get(v) else self.fixed).add((v, op))
        for op in self.region.moves:
            self._weigh(op)
        for v, layout in self.region.layouts.items():
            self._connect(v, layout)

    def _weigh(self, op: Op) -> None:
        """What an op costs on either side."""
        if op.type == "Transpose":
            self.network.join(MOVED, self.node[op], TRANSPOSE)
        found = self.region.moves[op]
        more = found.extra * NODE
        for v, own in zip(op.inputs, found.inputs, strict=True):
            if v is None or own is None:
                continue
            if v.tensor is None:
                more += TRANSPOSE * (own != self.region.layouts[v])
            elif len(v.uses) > 1 and v.tensor.nbytes > BULKY:
                more += ENDLESS
        for v, own in zip(op.outputs, found.outputs, strict=True):
            if own is not None and own != self.region.layouts[v]:
                more += TRANSPOSE
        if more:
            self.network.join(self.node[op], KEPT, more)

    def _connect(self, v: Value, layout: Layout) -> None:
        """What it costs to have a value made on one side and read on the other."""
        net = self.network
        maker = self._side_of_maker(v, layout)
        swayed, fixed = self._readers(v)
        if maker == KEPT:
            self._gathered(swayed)
        elif not fixed and len(swayed) == 1:
            net.join(maker, swayed[0], TRANSPOSE, TRANSPOSE)
        else:
            if swayed:
                self._gathered(swayed, maker)
            if fixed:
                net.join(maker, KEPT, TRANSPOSE)
            elif swayed:
                needed = net.node()
                net.join(maker, needed, TRANSPOSE)
                for reader in swayed:
                    net.join(needed, reader, ENDLESS)

    def _gathered(self, readers: Sequence[int], maker: int = KEPT) -> None:
        """One Transpose for all readers that are moved, if their maker is not."""
        if len(readers) == 1:
            self.network.join(readers[0], maker, TRANSPOSE)
        elif readers:
            moved = self.network.node()
            self.network.join(moved, maker, TRANSPOSE)
            for reader in readers:
                self.network.join(reader, moved, ENDLESS)

    def _side_of_maker(self, v: Value, layout: Layout) -> int:
        """The node of the op that makes a value, or of the side that it is on anyhow."""
        maker = self.region.graph.producer(v)
        if maker is None or maker not in self.region.moves:
            return KEPT
        own = self.region.moves[maker].outputs[maker.outputs.index(v)]
        return self.node[maker] if own == layout else KEPT

    def _readers(self, v: Value) -> tuple[list[int], bool]:
        """The ops that may read a value on either side, and whether anything reads it as it is."""
        swayed = [self.node[op] for op in v.uses if (v, op) in self.agreed and (v, op) not in self.fixed]
        graph = self.region.graph
        return swayed, len(swayed) < len(v.uses) or graph.is_output(v) or v in graph.pinned
