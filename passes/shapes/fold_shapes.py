"""Folding and merging of shape arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import helper

from ...core import Graph, Ledger, Op, Tensor, Value
from ...core.inference.element_inference import ELEMENT_FUNCTIONS
from ...core.ir.dims import Elements, as_integers
from ...core.rewriting.worklist import Worklist


@dataclass(frozen=True, slots=True)
class FoldShapes:
    """Integers computed from shapes become constants where they are numbers, whatever the inputs."""

    name: str = "fold-shapes"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Fold in every graph. O(ops that compute with shapes)."""
        return sum(self._fold(g, ledger) for g in tuple(graph.with_subgraphs()) if g.can_hold_initializers)

    def _fold(self, g: Graph, ledger: Ledger) -> int:
        changes, makers = 0, list[Op]()
        for op in shape_computations(g):
            for v in op.outputs:
                elements = v.known_elements
                numbers = None if elements is None else as_integers(elements)
                if numbers is None or v.is_const or not _is_read(g, v):
                    continue
                if ledger.request_change(self.name, v.name, (op,)):
                    kind = helper.tensor_dtype_to_np_dtype(v.dtype)
                    g.make_constant(v, Tensor.from_array(np.array(numbers, kind).reshape(v.static_shape)))
                    makers.append(op)
                    changes += 1
        g.prune(makers)
        return changes


@dataclass(frozen=True, slots=True)
class MergeShapes:
    """Equal expressions of shapes that are computed twice are computed once."""

    name: str = "merge-shapes"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Merge within each graph. O(ops)."""
        return sum(self._merge(g, ledger) for g in tuple(graph.with_subgraphs()))

    def _merge(self, g: Graph, ledger: Ledger) -> int:
        inside = dict.fromkeys(shape_computations(g))
        if len(inside) < 2:
            return 0
        known: dict[tuple[int, int, Elements], Value] = {}
        changes = 0
        for op in [op for op in g.sorted_ops() if op in inside]:
            if op not in g:
                continue  # it fed one that is gone
            for v in op.outputs:
                if v.is_const or not v.known_elements or v in g.pinned or as_integers(v.known_elements) is not None:
                    continue
                first = known.setdefault((v.dtype, v.rank, v.known_elements), v)
                if g.producer(first) is None:  # all that read it was merged into others
                    first = known[v.dtype, v.rank, v.known_elements] = v
                replaceable = first is not v and _is_read(g, v) and not g.is_output(v)
                if replaceable and ledger.request_change(self.name, v.name, (op,)):
                    g.replace_uses(v, first)
                    g.prune([op])
                    changes += 1
        return changes


def shape_computations(g: Graph) -> Iterator[Op]:
    """Shape and Size, and the ops that compute with their elements. May be changed as it goes."""
    queue = Worklist()
    queue.add(g.ops("Shape", "Size"))
    done: dict[Op, None] = {}
    for op in queue:
        if op in done or op not in g or op.domain or op.type not in ELEMENT_FUNCTIONS:
            continue
        done[op] = None
        if any(v.known_elements is not None for v in op.outputs):
            readers = dict.fromkeys(user for v in op.outputs for user in v.consumers)
            yield op
            queue.add(readers)


def _is_read(g: Graph, v: Value) -> bool:
    return bool(v.consumers) or g.is_output(v)
