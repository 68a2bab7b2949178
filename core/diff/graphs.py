"""Two graphs and what is inside them: from matched ops to what there is to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from .agreement import Agreement, Rim, Tie
from .difference import Change, ChangedOp, GraphDifference, Region, Weight
from .ends import Ends, paired_by_name
from .interface import interface_changes, unread_changes
from .nodes import attribute_changes, bodies_of, node, rule_of
from .notes import Notes
from .numbering import Numbering
from .regions import Piece, Pieces
from .search import matched
from .side import ops_in
from .weights import weight_change

Outside = Callable[[int, Value], Value | None]
"""What corresponds in the other model to a value from around a graph of the first (0) or second (1)."""


def graph_difference(a: Graph, b: Graph, numbering: Numbering, outside: Outside | None = None) -> GraphDifference:
    """Compare two graphs. The ends of a body or function, which has an `outside`, are known by place, not by name."""
    if outside is None:
        ends = Ends(paired_by_name(a.inputs, b.inputs), paired_by_name(a.outputs, b.outputs))
    else:
        around = [(v, outside(0, v)) for v in a.outer_values()] + [(outside(1, w), w) for w in b.outer_values()]
        read = dict.fromkeys((v, w) for v, w in around if v is not None and w is not None)
        ends = Ends([*zip(a.inputs, b.inputs, strict=False), *read], list(zip(a.outputs, b.outputs, strict=False)))
    told = _Telling(matched(numbering.side(a), numbering.side(b), numbering, ends), numbering)
    told.ends(a, b, named=outside is None)
    told.ops()
    return told.found


class _Telling:
    """Puts into words what an agreement leaves apart."""

    def __init__(self, agreement: Agreement, numbering: Numbering) -> None:
        self.agreement, self.numbering = agreement, numbering
        inputs = ((s, v) for s, side in enumerate(agreement.found.sides) for v in side.graph.inputs)
        self.lone_inputs = {v for s, v in inputs if agreement.partner(s, v) is None}
        self.found = GraphDifference()
        self.notes = Notes(self.found, numbering.contents)

    def ends(self, a: Graph, b: Graph, *, named: bool) -> None:
        """Inputs, outputs, and constants that nothing reads or that are outputs."""
        ends, contents = self.agreement.ends, self.numbering.contents
        self.found.interface += interface_changes(a, b, ends, named=named)
        self.found.interface += unread_changes(a, b, contents)
        for v, w in ends.inputs:
            ours, theirs = a.defaults.get(v), b.defaults.get(w)
            if ours is not None and theirs is not None and not contents.are_equal(ours, theirs):
                self.found.weights.append(weight_change(f"default of {v.name}", (v.name, w.name), ours, theirs))
            if not named:
                self.notes.values(v, w)
        for v, w in ends.outputs:
            if v in contents and w in contents:
                self._constant(f"output {v.name}", v, w, self.found.weights)
            elif self.agreement.tie(v, w) is Tie.OTHER:
                twin = self.agreement.partner(1, w)
                self.found.interface.append(Change(f"output {v.name} carries", v.name, (twin or w).name))

    def ops(self) -> None:
        """All ops: those that changed and the regions of those without a partner, in order."""
        a, b = self.agreement.found.sides
        told: list[tuple[float, Region | ChangedOp]] = []
        for i, j in self.agreement.found.pairs:
            changed = self._changed(i, j)
            self.found.counts.before += 1
            self.found.counts.after += 1
            if changed is None:
                self.found.counts.unchanged += 1
            else:
                self.found.counts.changed += 1
                told.append((i, changed))
        for at, piece in Pieces(self.agreement).found():
            region = self._region(piece, [a.ops[i] for i in piece.ops[0]], [b.ops[j] for j in piece.ops[1]])
            told.append((at, region))
        self.found.changes = [change for _, change in sorted(told, key=lambda entry: entry[0])]

    def _changed(self, i: int, j: int) -> ChangedOp | None:
        """What changed of a matched op; None if nothing did."""
        p, q = self.agreement.found.sides[0].ops[i], self.agreement.found.sides[1].ops[j]
        self.notes.op(p, q)
        ours, theirs = self.agreement.labels
        attributes = [] if ours.attributes[i] == theirs.attributes[j] else attribute_changes(p, q)
        commuted = self.agreement.is_swapped(i, j)
        inputs, weights = list[Change](), list[Weight]()
        for place, (v, w) in enumerate(self.agreement.slots(i, j)):
            if v is not None and w is not None and v in self.numbering.contents and w in self.numbering.contents:
                self._constant(str(place), v, w, weights)
            elif self._is_rewired(v, w):
                inputs.append(Change(str(place), *(x if x is None else x.name for x in (v, w))))
        bodies = {name: body for name, body in self._bodies(p, q) if not body.is_empty}
        if not (attributes or inputs or weights or bodies or commuted):
            return None
        return ChangedOp(node(p), node(q), attributes, inputs, weights, commuted, bodies)

    def _is_rewired(self, v: Value | None, w: Value | None) -> bool:
        """Whether one place has other values for which no op without a partner accounts."""
        if v is None or w is None:
            return v is not w
        tie = self.agreement.tie(v, w)
        return tie is Tie.OTHER or (tie is Tie.ONE_OPEN and (v in self.lone_inputs or w in self.lone_inputs))

    def _constant(self, place: str, v: Value, w: Value, into: list[Weight]) -> None:
        contents = self.numbering.contents
        self.notes.constant(v, w)
        if contents[v] != contents[w]:
            into.append(weight_change(place, (v.name, w.name), contents.held[v], contents.held[w]))

    def _bodies(self, p: Op, q: Op) -> Iterator[tuple[str, GraphDifference]]:
        """The bodies that two ops both have, compared."""
        ours, theirs = bodies_of(p), bodies_of(q)
        for name in ours:
            if name not in theirs:
                continue
            body = graph_difference(ours[name], theirs[name], self.numbering, self.agreement.partner)
            self.found.counts.add(body.counts)
            if body.is_empty:
                self.found.names += body.names
                self.found.notes += body.notes
            yield name, body

    def _region(self, piece: Piece, removed: list[Op], added: list[Op]) -> Region:
        sizes = sum(map(ops_in, removed)), sum(map(ops_in, added))
        counts = self.found.counts
        counts.before, counts.after = counts.before + sizes[0], counts.after + sizes[1]
        if removed and added:
            counts.replaced, counts.replacing = counts.replaced + sizes[0], counts.replacing + sizes[1]
        else:
            counts.removed, counts.added = counts.removed + sizes[0], counts.added + sizes[1]
        return Region(
            "replaced" if removed and added else "removed" if removed else "added",
            [node(op) for op in removed],
            [node(op) for op in added],
            [self._rim(r) for r in piece.reads],
            [self._rim(r) for r in piece.writes],
            sorted({rule for op in added if (rule := rule_of(op)) is not None}),
        )

    def _rim(self, rim: Rim) -> Change:
        """A value at the rim of a region, and the value or constant that stands in its place."""
        v, w = rim
        is_constant = v in self.numbering.contents or w in self.numbering.contents
        what = "constant" if is_constant else "value"
        return Change(what, None if v is None else v.name, None if w is None else w.name)
