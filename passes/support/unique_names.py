"""Names of values that move between the graphs of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...core import Graph, Value
from ...core.ir.origin import remember
from ...core.ir.subgraphs import all_names


@dataclass(slots=True)
class Namer:
    """Keeps names apart while values move between the graphs of a model; counts the bearers of each, once."""

    root: Graph
    _bearers: Counter[str] | None = field(default=None)

    def tell_apart(self, values: Iterable[Value]) -> None:
        """Rename those of `values`, about to move, whose names others bear too."""
        if self._bearers is None:
            self._bearers = Counter(all_names(self.root))
        for v in values:
            if v.name and self._bearers[v.name] > 1:
                self._bearers[v.name] -= 1
                remember(v.producer)
                v.name = self.root.fresh_name(v.name)
