"""Merging of Transposes, and their movement through regions of ops.

A region is grown from a Transpose. A minimum cut chooses the ops of the region to compute in another layout, so that
the fewest nodes are needed: each op is on one of two sides, and so is each of its results. A value that is made on one
side and read on the other costs a Transpose, one for all its readers; a Transpose on the unchanged side costs itself.

The flow is not computed by networkx: it runs in the loop of passes, stops after a bounded number of steps, unlike the
algorithms of networkx, and importing networkx takes longer than a small model.
Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.

`merge-transposes`: Merging of Transposes, and removal of those that move nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Struct

from ....core import EXACT, ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Tensor, Value, made_from, require, rule
from ....core.ir.cost_model import CostModel, format_bytes, format_seconds
from ....core.ir.dtypes import FLOAT16_DTYPES
from ....core.ir.op import inherit_name, set_origin
from ....core.operators.declaration import Trait
from ....core.operators.operands import full_perm
from ....core.operators.table import ops_with
from ...support.operand_queries import operand, reduced_axes
from .layout_rules import (
    Layout,
    LayoutRewrite,
    apply_layout_rule,
    compose,
    inverse,
    is_constant_gather,
    is_identity,
    perm_of,
)

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


ValueLayout = tuple[Value, Layout]
MAX_REFUSALS = 16  # attempts with other operands of an op that declined
MAX_REGIONS_PER_OP = 4  # regions that an op is in, in one round


@dataclass(slots=True)
class LayoutRegion:
    """A region: the rewrite of each op, and the new layout of each value.

    A Transpose in `rewrites` is removed: its result in one layout is its input in another.
    """

    graph: Graph
    rewrites: dict[Op, LayoutRewrite] = field(default_factory=dict[Op, LayoutRewrite])
    layouts: dict[Value, Layout] = field(default_factory=dict[Value, Layout])

    @property
    def transposes(self) -> int:
        """The number of Transposes in the region."""
        return sum(op.type == "Transpose" for op in self.rewrites)


def grow_region(graph: Graph, start: ValueLayout, visits: Counter[Op], *, exact_only: bool) -> LayoutRegion:
    """Grow the region from `start`, a value and its new layout. O(region).

    `visits` counts for each op the regions that it is in.
    """
    region = LayoutRegion(graph)
    refused: Counter[Op] = Counter()
    region.layouts[start[0]] = start[1]
    queue = [start]
    for value, layout in queue:
        maker = graph.producer(value)
        # Not those in whose subgraphs it is read.
        readers = (op for op in value.consumers if op.graph is graph and not op.subgraphs)
        for op in readers if maker is None else (maker, *readers):
            if op in region.rewrites or refused[op] == MAX_REFUSALS or visits[op] == MAX_REGIONS_PER_OP:
                continue
            at = ~op.outputs.index(value) if value.producer is op else op.inputs.index(value)
            found = apply_layout_rule(op, at, layout, exact_only=exact_only)
            if found is None:
                refused[op] += 1
                continue
            region.rewrites[op] = found
            visits[op] += 1
            values = zip((*op.inputs, *op.outputs), (*found.input_layouts, *found.output_layouts), strict=True)
            for v, own in values:
                if v is not None and own is not None and not v.is_const and v not in region.layouts:
                    region.layouts[v] = own
                    queue.append((v, own))
    return region


def seed_layouts(transpose: Op) -> Iterator[ValueLayout]:
    """The two layouts that make a Transpose the identity: one of its result, one of its input."""
    perm, x = perm_of(transpose), transpose.input(0)
    if perm is not None and x is not None and not is_identity(perm):
        yield transpose.outputs[0], inverse(perm)
        if not x.is_const:
            yield x, perm


Replacements = dict[Value, tuple[Value, Layout]]


def apply_layout(region: LayoutRegion, ops: Sequence[Op], by: str) -> list[Op]:
    """Compute `ops` of a region in its layout; returns the added Transposes. O(ops and their edges)."""
    application = _LayoutApplication(region, ops, by)
    rewritten = [op for op in ops if op.type != "Transpose"]
    for op in rewritten:
        application.declare_results(op)
    application.alias_results_of_transposes()
    for op in rewritten:
        application.add_rewritten_op(op)
    application.replace_originals()
    return application.transposes


@dataclass(slots=True)
class _LayoutApplication:
    """The application of a layout to one region.

    `replacements` has the new value of each value made by the ops, and its layout.
    """

    region: LayoutRegion
    ops: Sequence[Op]
    by: str
    replacements: Replacements = field(default_factory=dict)
    converted: dict[tuple[Value, Layout, tuple[int, ...]], Value] = field(default_factory=dict)
    transposes: list[Op] = field(default_factory=list[Op])
    taken_over: dict[Value, Value] = field(default_factory=dict[Value, Value])  # the replacements of removed values

    @property
    def graph(self) -> Graph:
        return self.region.graph

    def declare_results(self, op: Op) -> None:
        """Create the results of a rewritten op."""
        for v, own in zip(op.outputs, self.region.rewrites[op].output_layouts, strict=True):
            shape, layout = v.recorded_type[1], own or ()
            if own is not None and shape is not None and len(shape) == len(own):
                shape = tuple(shape[axis] for axis in own)
            name = self.graph.fresh_name(v.name) if v.name else ""
            self.replacements[v] = Value(name, v.recorded_type[0], shape), layout

    def alias_results_of_transposes(self) -> None:
        """Let the result of each removed Transpose be its input, after those that feed it."""
        going = {op for op in self.ops if op.type == "Transpose"}
        for op in self.ops:
            chain: list[Op] = []
            at: Op | None = op
            while at is not None and at in going and at.outputs[0] not in self.replacements:
                chain.append(at)
                at = operand(at).producer
            for transpose in reversed(chain):
                found = self.region.rewrites[transpose]
                source = self.in_layout(operand(transpose), found.input_layouts[0], transpose)
                self.replacements[transpose.outputs[0]] = source, found.output_layouts[0] or ()

    def in_layout(self, v: Value, layout: Layout | None, reader: Op, unsqueezed: tuple[int, ...] = ()) -> Value:
        """A value in a layout, transposed if needed."""
        wanted = layout or ()
        source, own = self.replacements.get(v, (v, ()))
        if own == wanted and not unsqueezed:
            return source
        key = (v, wanted, unsqueezed)
        if key not in self.converted:
            self.converted[key] = self._convert(v, wanted, reader, unsqueezed)
        return self.converted[key]

    def _convert(self, v: Value, wanted: Layout, reader: Op, unsqueezed: tuple[int, ...]) -> Value:
        g = RewriteBuilder(self.graph, reader)
        if v.tensor is not None:
            data = v.const.transpose(wanted) if wanted else v.const
            for axis in unsqueezed:
                data = np.expand_dims(data, axis)
            return self.graph.add_constant(Tensor.from_array(data), v.name)
        if unsqueezed:
            out = g.Unsqueeze(self.in_layout(v, wanted, reader), axes=list(unsqueezed))
        else:
            source, own = self.replacements.get(v, (v, ()))
            rank = len(wanted or own)
            perm = compose(inverse(own or tuple(range(rank))), wanted or tuple(range(rank)))
            out = g.Transpose(source, perm=list(perm))
            self.transposes += g.added_ops
        set_origin(g.added_ops, self.by, (reader,))
        return out

    def add_rewritten_op(self, op: Op) -> None:
        """Add the rewritten op beside the original."""
        found = self.region.rewrites[op]
        kept = [None if i in found.constants else v for i, v in enumerate(op.inputs)]
        more = [found.unsqueezed_axes.get(i, ()) for i in range(len(kept))]
        wanted = zip(kept, found.input_layouts, more, strict=True)
        inputs = [v if v is None else self.in_layout(v, own, op, axes) for v, own, axes in wanted]
        for i, data in sorted(found.constants.items()):
            inputs += [None] * (i + 1 - len(inputs))
            inputs[i] = RewriteBuilder(self.graph, op).const(data)
        if found.swap_inputs:
            inputs[:2] = inputs[1::-1]
        attrs: dict[str, Any] = {k: v for k, v in {**op.attrs, **found.attrs}.items() if v is not None}
        new = Op(op.type, op.domain, "", attrs, None)
        new.order_key = op.order_key
        results = [self.replacements[v][0] for v in op.outputs]
        if found.gather_order is not None:
            results = [self._rewritten_shape(op, found.gather_order)]
        self.graph.add_op(new, inputs, results)
        made_from(new, self.by, (op,))
        inherit_name(new, op)

    def _rewritten_shape(self, shape: Op, order: Layout) -> Value:
        """The extents in the new layout; the consumers of a Shape get other indices or a Gather."""
        old, count = shape.outputs[0], len(order)
        numbers = Value(self.graph.fresh_name(old.name))
        g = RewriteBuilder(self.graph, shape)
        for reader in [user for user in old.consumers if is_constant_gather(user, old, count)]:
            indices = operand(reader, 1).const
            places = np.asarray(order, indices.dtype)[indices]
            self.graph.set_inputs(reader, [numbers, g.const(places)])
        if old.consumers or self.graph.is_output(old) or old in self.graph.pinned:
            ordered = g.Gather(numbers, g.const(np.asarray(order, np.int64)), axis=0)
            self.graph.take_over(ordered, self.replacements[old][0])
            set_origin(g.added_ops, self.by, (shape,))
        return numbers

    def replace_originals(self) -> None:
        """Restore values that are still used in their own layout, and remove the replaced ops."""
        gone, g = set(self.ops), self.graph
        replaced = [(op, v) for op in self.ops for v in op.outputs if v in self.replacements]
        # Aliases come last: by then the values that they rename are final.
        for op, v in sorted(replaced, key=lambda r: self._is_alias(*r)):
            if g.is_output(v) or v in g.pinned or any(user not in gone for user in v.consumers):
                self._restore(op, v)
        self.graph.discard(reversed(self.ops))

    def _is_alias(self, op: Op, v: Value) -> bool:
        return op.type == "Transpose" and self.replacements[v][1] == ()

    def _restore(self, op: Op, v: Value) -> None:
        """Compute `v` from its replacement."""
        source, own = self.replacements[v]
        source = self.taken_over.get(source, source)
        if self._is_alias(op, v):
            if (identity := self.graph.replace_value(v, source)) is not None:
                made_from(identity, self.by, (op,))
            return
        back = source if own == () else self.in_layout(v, None, op)
        self.graph.take_over(back, v)
        self.taken_over[back] = v
        self.replacements[v] = v, ()


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


class MoveTransposes(Struct, frozen=True):
    """Whole regions of ops change their layout where that takes fewer Transposes, and less time.

    Softmax, LogSoftmax and LpNormalization along the last axis keep it last.
    """

    name: str = "move-transposes"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Apply layouts to regions until none saves a Transpose, graph by graph. O(ops) a round."""
        changes = 0
        for g in tuple(graph.with_subgraphs()):
            begin: list[Op] = list(g.ops("Transpose"))
            for _ in range(MAX_ROUNDS):
                made, begin = self._round(g, begin, change_log)
                changes += made
                if not begin:
                    break
        return changes

    def _round(self, g: Graph, begin: list[Op], change_log: ChangeLog) -> tuple[int, list[Op]]:
        """Rewrite each region around a Transpose; returns the Transposes for the next round."""
        changes = 0
        touched: dict[Op, None] = {}
        visits: Counter[Op] = Counter()
        seen: dict[Value, set[Layout]] = {}
        for transpose in sorted(begin, key=attrgetter("order_key")):
            for value, layout in seed_layouts(transpose) if transpose in g and not transpose.domain else ():
                if transpose not in g or layout in seen.get(value, ()):
                    continue
                region = grow_region(g, (value, layout), visits, exact_only=change_log.exact_only)
                for v, own in region.layouts.items():
                    seen.setdefault(v, set()).add(own)
                made = self._apply(g, region, change_log)
                if made is not None:
                    changes += 1
                    touched.update(dict.fromkeys((*made, *region.rewrites)))
        return changes, [op for op in touched if op.type == "Transpose" and op in g]

    def _apply(self, g: Graph, region: LayoutRegion, change_log: ChangeLog) -> list[Op] | None:
        """Apply the layout where it saves Transposes; return the new Transposes, or None if nothing changes."""
        ops = select_ops(region)
        if not ops and change_log.record and (others := select_ops(region, keep_last_axes=False)):
            turned = next(op for op in others if turns_last_axis(op, region.rewrites[op]))
            change_log.record_decline(self.name, _place(others), f"{turned.label} would not be along the last axis")
        if not ops:
            return None
        place = _place(ops)
        try:
            require_profit(region, ops, g.context.costs)
        except MatchFailure as why:
            change_log.record_decline(self.name, place, str(why))
            return None
        if not change_log.request_change(self.name, place, ops, exact=all(_is_exact(region, op) for op in ops)):
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
    if layout is None:
        return 0
    gone = reduced_axes(op, len(layout))
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
