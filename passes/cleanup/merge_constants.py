"""Equal constants are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from ...core import Graph, Ledger, Tensor, Value
from ...core.ir.effects import writes_inputs

SAMPLE = 64  # bytes looked at in three places before a large tensor is read whole


@dataclass(frozen=True, slots=True)
class MergeConstants:
    """Initializers of the same type, shape and content become one."""

    name: str = "merge-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Merge within each graph, and into those of enclosing graphs. O(constants); only likely twins are read."""
        return self._merge(graph, Known(), ledger)

    def _merge(self, g: Graph, outer: Known, ledger: Ledger) -> int:
        changes = 0
        known = outer if g.owner is None else Known(outer)
        for value in tuple(g.initializers):
            tensor = value.tensor
            if tensor is None or not mergeable(g, value):
                continue
            twin = known.twin(value, tensor)
            if twin is not value and value.uses and ledger.permits(self.name, value.name, (value,)):
                g.replace_uses(value, twin)
                g.drop_initializer(value)
                changes += 1
        return changes + sum(self._merge(sub, known, ledger) for sub in inner_graphs(g))


@dataclass(slots=True)
class Known:
    """Constants met so far, by content. A large tensor is read only if its size and a sample occur twice."""

    outer: Known | None = None
    found: dict[object, Value] = field(default_factory=dict[object, Value])

    def twin(self, value: Value, tensor: Tensor) -> Value:
        """The first constant with the content of this one; itself if there was none."""
        key = sample(tensor)
        other = self.first(key, value)
        if other is value or len(tensor.content()) <= 3 * SAMPLE:
            return other
        if other.tensor is not None:
            self.first((key, digest(other.tensor)), other)
        return self.first((key, digest(tensor)), value)

    def first(self, key: object, value: Value) -> Value:
        """What an enclosing graph or this one has under `key`; `value` from now on if there is nothing."""
        scope: Known | None = self
        while scope is not None:
            if key in scope.found:
                return scope.found[key]
            scope = scope.outer
        self.found[key] = value
        return value


def inner_graphs(g: Graph) -> Iterator[Graph]:
    """The subgraphs of a graph's ops."""
    for op in g.ops():
        yield from op.subgraphs


def mergeable(g: Graph, value: Value) -> bool:
    """Whether the value has no name to keep, and no reader that may write to it."""
    return not g.is_output(value) and value not in g.pinned and not any(map(writes_inputs, value.uses))


def sample(tensor: Tensor) -> object:
    """A key that equal tensors share, from a few bytes of each."""
    content = tensor.content()
    if len(content) > 3 * SAMPLE:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE], content[middle : middle + SAMPLE], content[-SAMPLE:]))
    return tensor.dtype, tensor.dims, bytes(content)


def digest(tensor: Tensor) -> bytes:
    """A hash of the whole content, too long for two different ones to share."""
    return blake2b(tensor.content()).digest()
