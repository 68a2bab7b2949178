"""Two graphs and what is inside them: from matched ops to what there is to tell.

Two models: their headers, graphs and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx

from ...core.errors import ModelError
from ...core.io.convert import from_onnx
from ...core.io.model import Model
from ...core.ir.graph import Graph
from ...core.ir.op import Op, attribute_value
from ...core.ir.values import Value
from ...core.serialization.importer import SPELLINGS
from .constant_numbering import Contents, constants_of, weight_change
from .diff_result import Change, ChangedOp, GraphDifference, ModelDifference, Region, Weight
from .edge_matching import Agreement, Rim, Tie
from .indexed_graph import ops_in
from .interface_changes import Ends, interface_changes, paired_by_name, unread_changes
from .node_data import DEFAULT, Notes, attribute_changes, bodies_of, metadata, node, plain, rule_of
from .numbering import Numbering
from .op_matching import matched
from .unmatched_subgraphs import Piece, Pieces

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


MAKERS = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def model_difference(a: Model, b: Model) -> ModelDifference:
    """Compare two models. Linear in their ops; of weights only what looks alike is read, and what changed.

    Raises ModelError for functions that are no graphs, and for weights that are not to be had.
    """
    ours, theirs = _functions(a.header), _functions(b.header)
    there = [{f"function {name}": "defined" for name in functions} for functions in (ours, theirs)]
    header = [*_header_changes(a.header, b.header), *_compared(*there)]
    functions = {
        name: _function_difference(ours[name], theirs[name], a, b)
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    }
    return ModelDifference(header, _graphs(a, b), functions, list(_notes(a, b)))


def _graphs(a: Model, b: Model, outside: Outside | None = None) -> GraphDifference:
    contents = Contents()
    contents.add(constants_of(a.graph), constants_of(b.graph))
    return graph_difference(a.graph, b.graph, Numbering(contents, (a.graph.opsets, b.graph.opsets)), outside)


def _header_changes(a: onnx.ModelProto, b: onnx.ModelProto) -> Iterator[Change]:
    yield from _compared({"IR version": a.ir_version}, {"IR version": b.ir_version})
    yield from _compared(_opsets(a.opset_import), _opsets(b.opset_import))
    yield from _compared(*({f"metadata {k}": v for k, v in metadata(m).items()} for m in (a, b)))
    trained = [[t.SerializeToString(deterministic=True) for t in m.training_info] for m in (a, b)]
    if trained[0] != trained[1]:
        yield Change("training information", *(f"{len(t)} of them" if t else None for t in trained))


def _notes(a: Model, b: Model) -> Iterator[Change]:
    """Who made the models, and what they say of themselves."""
    yield from _compared(*({name.replace("_", " "): getattr(m.header, name) for name in MAKERS} for m in (a, b)))
    graphs = [m.graph.declared.header for m in (a, b)]
    yield from _compared(*({"name of the graph": g.name, "doc string of the graph": g.doc_string} for g in graphs))
    yield from _compared(*({f"metadata {k} of the graph": v for k, v in metadata(g).items()} for g in graphs))


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {f"opset {SPELLINGS.get(e.domain, e.domain) or 'ai.onnx'}": e.version for e in imports}


def _compared(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Change]:
    """What two tables say differently. An empty text says nothing."""
    for what in dict.fromkeys((*a, *b)):
        before, after = (None if table.get(what) == "" else table.get(what) for table in (a, b))
        if before != after:
            yield Change(what, before, after)


# -- functions ---------------------------------------------------------------------------


def _functions(header: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    """The local functions by domain, name and overload."""
    named = ((f"{f.domain}::{f.name}{':' * bool(f.overload)}{f.overload}", f) for f in header.functions)
    return dict(named)


def _function_difference(f: onnx.FunctionProto, g: onnx.FunctionProto, a: Model, b: Model) -> GraphDifference:
    """Compare two functions of one name, and the opsets and attributes that they state."""
    found = _graphs(_as_model(f, a), _as_model(g, b), _nothing_outside)
    found.interface += _compared(_opsets(f.opset_import), _opsets(g.opset_import))
    found.interface += _compared(*(_attributes(function) for function in (f, g)))
    found.notes += _compared({"doc string": f.doc_string}, {"doc string": g.doc_string})
    return found


def _attributes(function: onnx.FunctionProto) -> dict[str, str]:
    """The attributes of a function, with their defaults where they have some."""
    stated = {f"attribute {name}": "required" for name in function.attribute}
    return stated | {f"attribute {a.name}": f"{plain(attribute_value(a))}{DEFAULT}" for a in function.attribute_proto}


def _as_model(function: onnx.FunctionProto, model: Model) -> Model:
    """The body of a function as the graph of a model of its own."""
    proto = onnx.ModelProto(ir_version=model.header.ir_version, opset_import=function.opset_import)
    proto.graph.node.extend(function.node)
    proto.graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    try:
        return from_onnx(proto)
    except ModelError as e:
        raise ModelError(f"function {function.domain}::{function.name}: {e}") from e


def _nothing_outside(_: int, __: Value) -> None:
    """A function sees nothing of what is around it."""
