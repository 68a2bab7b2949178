"""Equal constants are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core import Graph, Ledger, Tensor, Value

SAMPLE = 64  # bytes looked at in three places before a large tensor is read whole


@dataclass(frozen=True, slots=True)
class MergeConstants:
    """Initializers of the same type, shape and content become one."""

    name: str = "merge-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Merge within each graph, and into those of enclosing graphs. O(constants); only likely twins are read."""
        return self._merge(graph, {}, ledger)

    def _merge(self, g: Graph, outer: dict[object, list[Value]], ledger: Ledger) -> int:
        changes = 0
        known = {key: list(values) for key, values in outer.items()} if g.owner is not None else outer
        for value in tuple(g.initializers):
            tensor = value.tensor
            if tensor is None or not mergeable(g, value):
                continue
            twins = known.setdefault(sample(tensor), [])
            twin = next((t for t in twins if t.tensor is not None and same(t.tensor, tensor)), None)
            if twin is None:
                twins.append(value)
            elif value.uses and ledger.permits(self.name, value.name, (value.name,)):
                g.replace_uses(value, twin)
                g.drop_initializer(value)
                changes += 1
        return changes + sum(self._merge(sub, known, ledger) for sub in inner_graphs(g))


def inner_graphs(g: Graph) -> Iterator[Graph]:
    """The subgraphs of a graph's ops."""
    for op in g.ops():
        yield from op.subgraphs


def mergeable(g: Graph, value: Value) -> bool:
    """Whether the value has no name to keep."""
    return not g.is_output(value) and value not in g.pinned


def sample(tensor: Tensor) -> object:
    """A key that equal tensors share, from a few bytes of each."""
    content = tensor.content()
    if len(content) > 3 * SAMPLE:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE], content[middle : middle + SAMPLE], content[-SAMPLE:]))
    return tensor.dtype, tensor.dims, bytes(content)


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one sample are equal throughout."""
    return a is b or a.content() == b.content()
