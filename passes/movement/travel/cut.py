"""The cheapest cut between two ends of a network (Dinic 1970)."""

from __future__ import annotations

from dataclasses import dataclass, field

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
