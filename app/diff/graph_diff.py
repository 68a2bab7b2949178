"""Two graphs and what is inside them: from matched ops to what there is to tell.

Two models: their headers, graphs and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import onnx

from ...core.errors import ModelError
from ...core.io.convert import from_onnx
from ...core.io.model import Model
from ...core.ir.graph import Graph
from ...core.ir.op import Op, attribute_value
from ...core.ir.values import Value
from ...core.serialization.proto_queries import opset_versions
from .constant_numbering import ConstantNumbering, constant_difference, constants_of
from .diff_result import ChangedOp, ConstantDifference, Delta, GraphDifference, ModelDifference, SubgraphChange
from .edge_matching import Correspondence, EdgeMatching, OptionalValuePair
from .indexed_graph import op_count
from .interface_changes import InterfacePairing, interface_changes, pair_by_name, unread_changes
from .node_data import (
    DEFAULT_SUFFIX,
    AnnotationRecorder,
    attribute_changes,
    metadata_of,
    node_data,
    plain_value,
    rule_of,
    subgraphs_by_attribute,
)
from .numbering import Numbering
from .op_matching import match_ops
from .unmatched_subgraphs import UnmatchedSubgraph, UnmatchedSubgraphs

OuterPartner = Callable[[int, Value], Value | None]
"""What corresponds in the other model to a value from around a graph of the first (0) or second (1)."""


def diff_graphs(a: Graph, b: Graph, numbering: Numbering, outer_partner: OuterPartner | None = None) -> GraphDifference:
    """Compare two graphs.

    The ends of a body or function, which has an `outer_partner`, are known by place, not by name.
    """
    if outer_partner is None:
        ends = InterfacePairing(pair_by_name(a.inputs, b.inputs), pair_by_name(a.outputs, b.outputs))
    else:
        around = [(v, outer_partner(0, v)) for v in a.captured_values()] + [
            (outer_partner(1, w), w) for w in b.captured_values()
        ]
        read = dict.fromkeys((v, w) for v, w in around if v is not None and w is not None)
        ends = InterfacePairing(
            [*zip(a.inputs, b.inputs, strict=False), *read], list(zip(a.outputs, b.outputs, strict=False))
        )
    told = _GraphDiffBuilder(match_ops(numbering.indexed(a), numbering.indexed(b), numbering, ends), numbering)
    told.add_interface(a, b, named=outer_partner is None)
    told.add_ops()
    return told.result


class _GraphDiffBuilder:
    """Puts into words what an agreement leaves apart."""

    def __init__(self, edges: EdgeMatching, numbering: Numbering) -> None:
        self.edges, self.numbering = edges, numbering
        inputs = ((s, v) for s, side in enumerate(edges.matching.sides) for v in side.graph.inputs)
        self.unpaired_inputs = {v for s, v in inputs if edges.partner(s, v) is None}
        self.result = GraphDifference()
        self.annotations = AnnotationRecorder(self.result, numbering.constants)

    def add_interface(self, a: Graph, b: Graph, *, named: bool) -> None:
        """Inputs, outputs, and constants that nothing reads or that are outputs."""
        ends, contents = self.edges.interface, self.numbering.constants
        self.result.interface += interface_changes(a, b, ends, named=named)
        self.result.interface += unread_changes(a, b, contents)
        for v, w in ends.inputs:
            ours, theirs = a.input_defaults.get(v), b.input_defaults.get(w)
            if ours is not None and theirs is not None and not contents.are_equal(ours, theirs):
                self.result.weights.append(constant_difference(f"default of {v.name}", (v.name, w.name), ours, theirs))
            if not named:
                self.annotations.add_values(v, w)
        for v, w in ends.outputs:
            if v in contents and w in contents:
                self._add_constant(f"output {v.name}", v, w, self.result.weights)
            elif self.edges.correspondence(v, w) is Correspondence.DIFFERENT:
                twin = self.edges.partner(1, w)
                self.result.interface.append(Delta(f"output {v.name} carries", v.name, (twin or w).name))

    def add_ops(self) -> None:
        """All ops: those that changed and the regions of those without a partner, in order."""
        a, b = self.edges.matching.sides
        told: list[tuple[float, SubgraphChange | ChangedOp]] = []
        for i, j in self.edges.matching.pairs:
            changed = self._changed_op(i, j)
            self.result.counts.before += 1
            self.result.counts.after += 1
            if changed is None:
                self.result.counts.unchanged += 1
            else:
                self.result.counts.changed += 1
                told.append((i, changed))
        for at, piece in UnmatchedSubgraphs(self.edges).subgraphs():
            region = self._subgraph_change(piece, [a.ops[i] for i in piece.ops[0]], [b.ops[j] for j in piece.ops[1]])
            told.append((at, region))
        self.result.changes = [change for _, change in sorted(told, key=lambda entry: entry[0])]

    def _changed_op(self, i: int, j: int) -> ChangedOp | None:
        """What changed of a matched op; None if nothing did."""
        p, q = self.edges.matching.sides[0].ops[i], self.edges.matching.sides[1].ops[j]
        self.annotations.add_op(p, q)
        ours, theirs = self.edges.labels
        attributes = [] if ours.attributes[i] == theirs.attributes[j] else attribute_changes(p, q)
        commuted = self.edges.is_swapped(i, j)
        inputs, weights = list[Delta](), list[ConstantDifference]()
        for place, (v, w) in enumerate(self.edges.operand_pairs(i, j)):
            if v is not None and w is not None and v in self.numbering.constants and w in self.numbering.constants:
                self._add_constant(str(place), v, w, weights)
            elif self._is_rewired(v, w):
                inputs.append(Delta(str(place), *(x if x is None else x.name for x in (v, w))))
        bodies = {name: body for name, body in self._diff_bodies(p, q) if not body.is_empty}
        if not (attributes or inputs or weights or bodies or commuted):
            return None
        return ChangedOp(node_data(p), node_data(q), attributes, inputs, weights, commuted, bodies)

    def _is_rewired(self, v: Value | None, w: Value | None) -> bool:
        """Whether one place has other values for which no op without a partner accounts."""
        if v is None or w is None:
            return v is not w
        tie = self.edges.correspondence(v, w)
        return tie is Correspondence.DIFFERENT or (
            tie is Correspondence.ONE_UNMATCHED and (v in self.unpaired_inputs or w in self.unpaired_inputs)
        )

    def _add_constant(self, place: str, v: Value, w: Value, into: list[ConstantDifference]) -> None:
        contents = self.numbering.constants
        self.annotations.add_constant(v, w)
        if contents[v] != contents[w]:
            into.append(constant_difference(place, (v.name, w.name), contents.constants[v], contents.constants[w]))

    def _diff_bodies(self, p: Op, q: Op) -> Iterator[tuple[str, GraphDifference]]:
        """The bodies that two ops both have, compared."""
        ours, theirs = subgraphs_by_attribute(p), subgraphs_by_attribute(q)
        for name in ours:
            if name not in theirs:
                continue
            body = diff_graphs(ours[name], theirs[name], self.numbering, self.edges.partner)
            self.result.counts.add(body.counts)
            if body.is_empty:
                self.result.names += body.names
                self.result.notes += body.notes
            yield name, body

    def _subgraph_change(self, subgraph: UnmatchedSubgraph, removed: list[Op], added: list[Op]) -> SubgraphChange:
        sizes = sum(map(op_count, removed)), sum(map(op_count, added))
        counts = self.result.counts
        counts.before, counts.after = counts.before + sizes[0], counts.after + sizes[1]
        if removed and added:
            counts.replaced, counts.replacing = counts.replaced + sizes[0], counts.replacing + sizes[1]
        else:
            counts.removed, counts.added = counts.removed + sizes[0], counts.added + sizes[1]
        return SubgraphChange(
            "replaced" if removed and added else "removed" if removed else "added",
            [node_data(op) for op in removed],
            [node_data(op) for op in added],
            [self._boundary_delta(r) for r in subgraph.inputs],
            [self._boundary_delta(r) for r in subgraph.outputs],
            sorted({rule for op in added if (rule := rule_of(op)) is not None}),
        )

    def _boundary_delta(self, pair: OptionalValuePair) -> Delta:
        """A value at the rim of a region, and the value or constant that stands in its place."""
        v, w = pair
        is_constant = v in self.numbering.constants or w in self.numbering.constants
        what = "constant" if is_constant else "value"
        return Delta(what, None if v is None else v.name, None if w is None else w.name)


PRODUCER_FIELDS = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def diff_models(a: Model, b: Model) -> ModelDifference:
    """Compare two models. Linear in their ops; of weights only what looks alike is read, and what changed.

    Raises ModelError for functions that are no graphs, and for weights that are not to be had.
    """
    ours, theirs = _functions_by_name(a.header), _functions_by_name(b.header)
    there = [{f"function {name}": "defined" for name in functions} for functions in (ours, theirs)]
    header = [*_header_changes(a.header, b.header), *_table_deltas(*there)]
    functions = {
        name: _diff_functions(ours[name], theirs[name], a, b)
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    }
    return ModelDifference(header, _diff_graphs(a, b), functions, list(_annotation_deltas(a, b)))


def _diff_graphs(a: Model, b: Model, outside: OuterPartner | None = None) -> GraphDifference:
    contents = ConstantNumbering()
    contents.add(constants_of(a.graph), constants_of(b.graph))
    return diff_graphs(a.graph, b.graph, Numbering(contents, (a.graph.opsets, b.graph.opsets)), outside)


def _header_changes(a: onnx.ModelProto, b: onnx.ModelProto) -> Iterator[Delta]:
    yield from _table_deltas({"IR version": a.ir_version}, {"IR version": b.ir_version})
    yield from _table_deltas(_opset_table(a), _opset_table(b))
    yield from _table_deltas(*({f"metadata {k}": v for k, v in metadata_of(m).items()} for m in (a, b)))
    trained = [[t.SerializeToString(deterministic=True) for t in m.training_info] for m in (a, b)]
    if trained[0] != trained[1]:
        yield Delta("training information", *(f"{len(t)} of them" if t else None for t in trained))


def _annotation_deltas(a: Model, b: Model) -> Iterator[Delta]:
    """Who made the models, and what they say of themselves."""
    yield from _table_deltas(
        *({name.replace("_", " "): getattr(m.header, name) for name in PRODUCER_FIELDS} for m in (a, b))
    )
    graphs = [m.graph.declared.header for m in (a, b)]
    yield from _table_deltas(*({"name of the graph": g.name, "doc string of the graph": g.doc_string} for g in graphs))
    yield from _table_deltas(*({f"metadata {k} of the graph": v for k, v in metadata_of(g).items()} for g in graphs))


def _opset_table(holder: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {f"opset {domain or 'ai.onnx'}": version for domain, version in opset_versions(holder).items()}


def _table_deltas(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Delta]:
    """What two tables say differently. An empty text says nothing."""
    for what in dict.fromkeys((*a, *b)):
        before, after = (None if table.get(what) == "" else table.get(what) for table in (a, b))
        if before != after:
            yield Delta(what, before, after)


# -- functions ---------------------------------------------------------------------------


def _functions_by_name(header: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    """The local functions by domain, name and overload."""
    named = ((f"{f.domain}::{f.name}{':' * bool(f.overload)}{f.overload}", f) for f in header.functions)
    return dict(named)


def _diff_functions(f: onnx.FunctionProto, g: onnx.FunctionProto, a: Model, b: Model) -> GraphDifference:
    """Compare two functions of one name, and the opsets and attributes that they state."""
    found = _diff_graphs(_as_model(f, a), _as_model(g, b), _no_outer_partner)
    found.interface += _table_deltas(_opset_table(f), _opset_table(g))
    found.interface += _table_deltas(*(_attribute_table(function) for function in (f, g)))
    found.notes += _table_deltas({"doc string": f.doc_string}, {"doc string": g.doc_string})
    return found


def _attribute_table(function: onnx.FunctionProto) -> dict[str, str]:
    """The attributes of a function, with their defaults where they have some."""
    stated = {f"attribute {name}": "required" for name in function.attribute}
    return stated | {
        f"attribute {a.name}": f"{plain_value(attribute_value(a))}{DEFAULT_SUFFIX}" for a in function.attribute_proto
    }


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


def _no_outer_partner(_: int, __: Value) -> None:
    """A function sees nothing of what is around it."""
