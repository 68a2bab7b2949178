"""Names of values that move between the graphs of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...core import Graph, Value
from ...core.ir.origin import record_source
from ...core.ir.subgraphs import all_value_names


@dataclass(slots=True)
class NameDisambiguator:
    """Disambiguates names while values move between the graphs of a model."""

    root: Graph
    _name_counts: Counter[str] | None = field(default=None)

    def make_unique(self, values: Iterable[Value]) -> None:
        """Rename those of `values`, about to move, whose names others bear too."""
        if self._name_counts is None:
            self._name_counts = Counter(all_value_names(self.root))
        for v in values:
            if v.name and self._name_counts[v.name] > 1:
                self._name_counts[v.name] -= 1
                record_source(v.producer)
                v.name = self.root.fresh_name(v.name)
