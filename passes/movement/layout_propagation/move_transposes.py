"""Merging of Transposes, and their movement through regions of ops.

`merge-transposes`: Merging of Transposes, and removal of those that move nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

from ....core import EXACT, Graph, Ledger, MatchFailure, Op, RewriteBuilder, Value, require, rule
from ....core.ir.cost_model import CostModel, format_bytes, format_seconds
from ....core.ir.dtypes import FLOAT16_DTYPES
from ....core.operators.declaration import Trait
from ....core.operators.operands import full_perm, normalize_axes
from ....core.operators.table import ops_with
from ...support.operand_queries import constant_numbers, operand
from .apply_layout import apply_layout
from .layout import Layout, perm_of
from .layout_region import LayoutRegion, grow_region, seed_layouts
from .min_cut import select_ops, turns_last_axis

Perm = list[int] | None  # None, or an empty one, reverses all axes


@rule(
    lambda g, x, p, q: g.Transpose(g.Transpose(x, perm=p), perm=q),
    allow_other_uses=True,
    contract=EXACT,
    group="merge-transposes",
)
def merge_transposes(g: RewriteBuilder, x: Value, p: Perm, q: Perm) -> Value:
    """Transpose(Transpose(x, p), q) => Transpose(x, p[q]), or x where that moves nothing"""
    if not p and not q:
        return x
    rank = len(p or q or ())
    first, second = full_perm(p, rank), full_perm(q, rank)
    both = [first[i] for i in second]
    return x if both == list(range(rank)) else g.Transpose(x, perm=both)


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT, group="merge-transposes")
def drop_no_op_transpose(g: RewriteBuilder, x: Value, p: Perm) -> Value:
    """Transpose(x, 0 1 2 ...) => x"""
    order = p or full_perm(p, x.rank)
    require(order == list(range(len(order))), "the permutation is not the identity")
    return x


MAX_ROUNDS = 8
REDUCTIONS = ops_with(Trait.REDUCTION)


@dataclass(frozen=True, slots=True)
class MoveTransposes:
    """Whole regions of ops change their layout where that takes fewer Transposes, and less time.

    Softmax, LogSoftmax and LpNormalization along the last axis keep it last.
    """

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
                made = self._apply(g, region, ledger)
                if made is not None:
                    changes += 1
                    touched.update(dict.fromkeys((*made, *region.rewrites)))
        return changes, [op for op in touched if op.type == "Transpose" and op in g]

    def _apply(self, g: Graph, region: LayoutRegion, ledger: Ledger) -> list[Op] | None:
        """Apply the layout where that saves Transposes; returns the new ones, None where nothing changes."""
        ops = select_ops(region)
        if not ops and ledger.record and (others := select_ops(region, keep_last_axes=False)):
            turned = next(op for op in others if turns_last_axis(op, region.rewrites[op]))
            ledger.record_decline(self.name, _place(others), f"{turned.label} would not be along the last axis")
        if not ops:
            return None
        place = _place(ops)
        try:
            require_profit(region, ops, g.context.costs)
        except MatchFailure as why:
            ledger.record_decline(self.name, place, str(why))
            return None
        if not ledger.request_change(self.name, place, ops, exact=all(_is_exact(region, op) for op in ops)):
            return None
        return apply_layout(region, ops, self.name)


def _place(ops: list[Op]) -> str:
    return next((v.name for op in ops for v in op.outputs if v.name), "")


def require_profit(region: LayoutRegion, ops: list[Op], costs: CostModel) -> None:
    """Decline what takes longer than the Transposes that it saves; declines nothing if a size is unknown. O(ops)."""
    try:
        removed = [(operand(op), perm_of(op)) for op in ops if op.type == "Transpose"]
        before = [(costs.nbytes(v), perm is not None and perm[-1] == len(perm) - 1) for v, perm in removed]
        after = [(costs.nbytes(v), keeps) for v, keeps in added_transposes(region, ops)]
        turned = [(costs.nbytes(operand(op)), turn) for op in ops if (turn := reduction_turn(region, op))]
    except MatchFailure:
        return
    gain, cost = (sum(costs.transposing_seconds(n, keeps_last_axis=k) for n, k in sizes) for sizes in (before, after))
    slower = cost + sum(turn * costs.turned_reduction_seconds(n) for n, turn in turned)
    new, old = (format_bytes(sum(n for n, _ in sizes)) for sizes in (after, before))
    saved = f"to save {old}: {format_seconds(cost)} to save {format_seconds(gain)}"
    require(cost <= gain, f"moves {new} {saved}")
    require(slower <= gain, f"moves {new} {saved}, and reductions leave the last axis: {format_seconds(slower - cost)}")


def reduction_turn(region: LayoutRegion, op: Op) -> int:
    """1 for a reduction that includes the last axis now and not in the new layout, -1 for the opposite, else 0."""
    layout = region.rewrites[op].input_layouts[0] if op.type in REDUCTIONS else None
    axes = constant_numbers(op) if layout else None
    if not layout or not axes:
        return 0
    gone = normalize_axes(axes, len(layout))
    return (len(layout) - 1 in gone) - (layout[-1] in gone)


def added_transposes(region: LayoutRegion, ops: list[Op]) -> list[tuple[Value, bool]]:
    """The values of which `apply_layout` adds Transposes, and whether these keep the last axis. O(ops)."""
    chosen, found = set(ops), dict[tuple[Value, Layout | None], None]()
    layouts = {v: own for op in ops for v, own in zip(op.outputs, region.rewrites[op].output_layouts, strict=True)}
    for op in ops:
        for v, own in zip(op.inputs, region.rewrites[op].input_layouts, strict=True):
            if v is not None and v.tensor is None and layouts.get(v) != own:
                found[v, own] = None
    for v, own in layouts.items():
        is_kept = region.graph.is_output(v) or v in region.graph.pinned
        if own is not None and (is_kept or any(user not in chosen for user in v.consumers)):
            found[v, None] = None
    return [(v, _last_axis(v, layouts.get(v)) == _last_axis(v, own)) for v, own in found]


def _last_axis(v: Value, layout: Layout | None) -> int:
    return v.rank - 1 if layout is None else layout[-1]


def _is_exact(region: LayoutRegion, op: Op) -> bool:
    """Whether an op gives the same bits; 16-bit floats do not even where onnxruntime computes the same."""
    dtypes = {v.recorded_type[0] for v in (*op.inputs, *op.outputs) if v is not None}
    return region.rewrites[op].exact and dtypes.isdisjoint(FLOAT16_DTYPES)
