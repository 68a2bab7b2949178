"""Merging of Transposes, and their movement through regions of ops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

from ....core import EXACT, Build, Graph, Ledger, Op, RulePass, Value, require, rule
from ....core.ir.dtypes import FLOAT16_DTYPES
from .apply_layout import apply_layout
from .layout import Layout
from .layout_region import LayoutRegion, grow_region, seed_layouts
from .min_cut import select_ops

Perm = list[int] | None  # None reverses all axes


@rule(lambda g, x, p, q: g.Transpose(g.Transpose(x, perm=p), perm=q), shared=True, contract=EXACT)
def merge_transposes(g: Build, x: Value, p: Perm, q: Perm) -> Value:
    """Transpose(Transpose(x, p), q) => Transpose(x, p[q]), or x where that moves nothing"""
    if p is None and q is None:
        return x
    rank = len(p or q or ())
    first, second = p or default_perm(rank), q or default_perm(rank)
    both = [first[i] for i in second]
    return x if both == list(range(rank)) else g.Transpose(x, perm=both)


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def drop_no_op_transpose(g: Build, x: Value, p: Perm) -> Value:
    """Transpose(x, 0 1 2 ...) => x"""
    order = default_perm(x.rank) if p is None else p
    require(order == list(range(len(order))), "the permutation is not the identity")
    return x


def default_perm(rank: int) -> list[int]:
    """The default permutation of a Transpose."""
    return list(range(rank))[::-1]


MERGE_TRANSPOSES = RulePass("merge-transposes", (merge_transposes, drop_no_op_transpose))
"""Merging of Transposes, and removal of those that move nothing."""


MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class MoveTransposes:
    """Whole regions of ops change their layout where that takes fewer Transposes."""

    name: str = "move-transposes"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Apply layouts to regions until none saves a Transpose, graph by graph. O(ops) a round."""
        changes = 0
        for g in tuple(graph.with_subgraphs()):
            begin: list[Op] = list(g.ops("Transpose"))
            for _ in range(MAX_ROUNDS):
                made, begin = self._round(g, begin, ledger)
                changes += made
                if not begin:
                    break
        return changes

    def _round(self, g: Graph, begin: list[Op], ledger: Ledger) -> tuple[int, list[Op]]:
        """Rewrite each region around a Transpose; returns the Transposes for the next round."""
        changes = 0
        touched: dict[Op, None] = {}
        visits: Counter[Op] = Counter()
        seen: dict[Value, set[Layout]] = {}
        for transpose in sorted(begin, key=attrgetter("order_key")):
            for value, layout in seed_layouts(transpose) if transpose in g and not transpose.domain else ():
                if transpose not in g or layout in seen.get(value, ()):
                    continue
                region = grow_region(g, (value, layout), visits, exact_only=ledger.exact_only)
                for v, own in region.layouts.items():
                    seen.setdefault(v, set()).add(own)
                made = self._apply(region, ledger)
                if made is not None:
                    changes += 1
                    touched.update(dict.fromkeys((*made, *region.rewrites)))
        return changes, [op for op in touched if op.type == "Transpose" and op in g]

    def _apply(self, region: LayoutRegion, ledger: Ledger) -> list[Op] | None:
        """Apply the layout where that saves Transposes; returns the new ones, None where nothing changes."""
        ops = select_ops(region)
        if not ops:
            return None
        place = next((v.name for op in ops for v in op.outputs if v.name), "")
        if not ledger.request_change(self.name, place, ops, exact=all(_is_exact(region, op) for op in ops)):
            return None
        return apply_layout(region, ops, self.name)


def _is_exact(region: LayoutRegion, op: Op) -> bool:
    """Whether an op gives the same bits; 16-bit floats do not even where onnxruntime computes the same."""
    dtypes = {v.recorded_type[0] for v in (*op.inputs, *op.outputs) if v is not None}
    return region.rewrites[op].exact and dtypes.isdisjoint(FLOAT16_DTYPES)
