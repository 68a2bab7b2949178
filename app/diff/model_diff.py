"""Differences of two models: headers, functions, graphs and bodies, based on matched ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, cast

import onnx

from ...core.io.convert import from_function
from ...core.io.graph_interface import type_text
from ...core.io.model import Model
from ...core.io.model_source import ModelLike, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_report
from ...core.ir import op_schemas
from ...core.ir.graph import Graph, subgraphs_by_attribute
from ...core.ir.op import Op, attribute_value, without_trailing_omitted
from ...core.ir.op_schemas import qualified_op_type
from ...core.ir.tensor import Tensor
from ...core.ir.values import Value
from ...core.run.phase_timer import PhaseTimer
from ...core.serialization.node_attributes import bare_node
from ...core.serialization.proto_queries import opset_versions
from ...core.serialization.provenance import read_provenance
from ...core.support.gc_pause import gc_paused
from ..registry.environment import versions
from ..report.notebook import report_page
from ..report.progress import phase_callback, with_keywords_after_two
from .constants import Constants, constant_difference, constant_type, constants_equal, held_constant
from .diff_options import DiffOptions
from .diff_result import (
    ChangedOp,
    ConstantDifference,
    Counts,
    Delta,
    DiffReport,
    GraphDifference,
    ModelDifference,
    Node,
    Plain,
    SubgraphChange,
)
from .matching import Correspondence, InterfacePairing, Matching, in_order, match_ops, pair_by_name, unpaired
from .numbering import Numbering, output_mask, significant_attributes
from .unmatched_subgraphs import UnmatchedSubgraph, UnmatchedSubgraphs

OuterPartner = Callable[[int, Value], Value | None]
"""Maps a value captured by a graph of the first (0) or second (1) model to the corresponding one of the other model."""
MAX_SHOWN_ELEMENTS = 16  # of a tensor
DEFAULT_SUFFIX = " (default)"


def diff_graphs(a: Graph, b: Graph, numbering: Numbering, outer_partner: OuterPartner | None = None) -> GraphDifference:
    """Compare two graphs.

    If there is an `outer_partner`, they are bodies or functions, whose inputs and outputs correspond by position
    instead of by name.
    """
    if outer_partner is None:
        ends = InterfacePairing(pair_by_name(a.inputs, b.inputs), pair_by_name(a.outputs, b.outputs))
    else:
        captured = [(v, outer_partner(0, v)) for v in a.captured_values()]
        captured += [(outer_partner(1, w), w) for w in b.captured_values()]
        read = dict.fromkeys((v, w) for v, w in captured if v is not None and w is not None)
        inputs = [*zip(a.inputs, b.inputs, strict=False), *read]
        ends = InterfacePairing(inputs, list(zip(a.outputs, b.outputs, strict=False)))
    builder = _GraphDiffBuilder(match_ops(numbering.indexed(a), numbering.indexed(b), numbering, ends))
    builder.add_interface(a, b, named=outer_partner is None)
    builder.add_ops()
    return builder.result


class _GraphDiffBuilder:
    """The difference of two graphs with matched ops."""

    def __init__(self, matching: Matching) -> None:
        self.matching, self.constants = matching, matching.constants
        inputs = ((s, v) for s, side in enumerate(matching.sides) for v in side.graph.inputs)
        self.unpaired_inputs = {v for s, v in inputs if matching.partner(s, v) is None}
        self.result = GraphDifference()
        self._named_constants: set[tuple[Value, Value]] = set()

    def add_interface(self, a: Graph, b: Graph, *, named: bool) -> None:
        """Add inputs, outputs, and constants that are outputs or have no uses."""
        ends = self.matching.interface
        self.result.interface += interface_changes(a, b, ends, named=named)
        self.result.interface += unread_changes(a, b, self.constants)
        for v, w in ends.inputs:
            before, after = a.input_defaults.get(v), b.input_defaults.get(w)
            if before is not None and after is not None and not constants_equal(before, after):
                self.result.weights.append(constant_difference(f"default of {v.name}", (v.name, w.name), before, after))
            if not named:
                self._add_value_names(v, w)
        for v, w in ends.outputs:
            if v in self.constants and w in self.constants:
                self._add_constant(f"output {v.name}", v, w, self.result.weights)
            elif self.matching.correspondence(v, w) is Correspondence.DIFFERENT:
                twin = self.matching.partner(1, w)
                self.result.interface.append(
                    Delta(f"output {v.name} carries", v.name, (w if twin is None else twin).name)
                )

    def add_ops(self) -> None:
        """Add the changes of matched ops and the regions of unmatched ops, in order."""
        matched = [(i, self._changed_op(i, j)) for i, j in self.matching.pairs]
        changes: list[tuple[float, SubgraphChange | ChangedOp]] = [(i, op) for i, op in matched if op is not None]
        total, changed = len(matched), len(changes)
        self.result.counts.add(Counts(before=total, after=total, unchanged=total - changed, changed=changed))
        regions = UnmatchedSubgraphs(self.matching).subgraphs()
        changes += ((position, self._subgraph_change(subgraph)) for position, subgraph in regions)
        self.result.changes = [change for _, change in sorted(changes, key=lambda entry: entry[0])]

    def _changed_op(self, i: int, j: int) -> ChangedOp | None:
        """The changes of a matched op; None if there are none."""
        ours, theirs = self.matching.sides
        p, q = ours.ops[i], theirs.ops[j]
        self._add_annotations(p, q)
        attributes = [] if ours.attributes[i] == theirs.attributes[j] else attribute_changes(p, q)
        commuted = self.matching.is_swapped(i, j)
        inputs, weights = list[Delta](), list[ConstantDifference]()
        for index, (v, w) in enumerate(self.matching.operand_pairs(i, j)):
            if v is not None and w is not None and v in self.constants and w in self.constants:
                self._add_constant(str(index), v, w, weights)
            elif self._is_rewired(v, w):
                inputs.append(_delta(str(index), v, w))
        bodies = {name: body for name, body in self._diff_bodies(p, q) if not body.is_empty}
        if not (attributes or inputs or weights or bodies or commuted):
            return None
        return ChangedOp(node_data(p), node_data(q), attributes, inputs, weights, commuted, bodies)

    def _is_rewired(self, v: Value | None, w: Value | None) -> bool:
        """Whether two values at one position differ by more than an unmatched op."""
        if v is None or w is None:
            return v is not w
        edge = self.matching.correspondence(v, w)
        return edge is Correspondence.DIFFERENT or (
            edge is Correspondence.ONE_UNMATCHED and (v in self.unpaired_inputs or w in self.unpaired_inputs)
        )

    def _diff_bodies(self, p: Op, q: Op) -> Iterator[tuple[str, GraphDifference]]:
        """Compare the bodies that two ops have in common."""
        ours, theirs = subgraphs_by_attribute(p), subgraphs_by_attribute(q)
        for name in sorted(ours.keys() & theirs.keys()):
            body = diff_graphs(ours[name], theirs[name], self.matching.numbering, self.matching.partner)
            self.result.counts.add(body.counts)
            if body.is_empty:
                self.result.names += body.names
                self.result.notes += body.notes
            yield name, body

    def _subgraph_change(self, subgraph: UnmatchedSubgraph) -> SubgraphChange:
        removed, added = ([side.ops[i] for i in subgraph.ops[s]] for s, side in enumerate(self.matching.sides))
        gone, new = sum(map(op_count, removed)), sum(map(op_count, added))
        is_replaced = bool(removed and added)
        counts = Counts(replaced=gone, replacing=new) if is_replaced else Counts(removed=gone, added=new)
        self.result.counts.add(replace(counts, before=gone, after=new))
        return SubgraphChange(
            "replaced" if is_replaced else "removed" if removed else "added",
            [node_data(op) for op in removed],
            [node_data(op) for op in added],
            [self._boundary_delta(*pair) for pair in subgraph.inputs],
            [self._boundary_delta(*pair) for pair in subgraph.outputs],
            sorted({rule for op in added if (rule := read_provenance(bare_node(op))[0] or op.by)}),
        )

    def _boundary_delta(self, v: Value | None, w: Value | None) -> Delta:
        """A value at the boundary of a region, and the corresponding value or constant."""
        return _delta("constant" if v in self.constants or w in self.constants else "value", v, w)

    def _add_constant(self, location: str, v: Value, w: Value, into: list[ConstantDifference]) -> None:
        """Add the difference of two constants at one position, of their names, and of their producers."""
        if (v, w) not in self._named_constants:
            self._named_constants.add((v, w))
            _add_delta(self.result.names, "constant", v.name, w.name)
            holders = ("initializer" if x.producer is None else "Constant op" for x in (v, w))
            _add_delta(self.result.notes, f"constant {v.name}", *holders)
        if self.constants[v] != self.constants[w]:
            held = self.constants.contents
            into.append(constant_difference(location, (v.name, w.name), held[v], held[w]))

    def _add_annotations(self, p: Op, q: Op) -> None:
        """Add changed names of two ops and of their outputs, doc strings, and metadata."""
        _add_delta(self.result.names, "node", p.name, q.name)
        for v, w in zip(p.outputs, q.outputs, strict=False):
            self._add_value_names(v, w)
        before, after = p.loaded_proto_bytes, q.loaded_proto_bytes
        if before is not None and after is not None and before != after:
            nodes = [onnx.NodeProto.FromString(data) for data in (before, after)]
            _add_delta(self.result.notes, f"doc string of {p.label}", *(n.doc_string or None for n in nodes))
            _add_delta(self.result.notes, f"metadata of {p.label}", *(metadata_of(n) or None for n in nodes))

    def _add_value_names(self, v: Value, w: Value) -> None:
        if v.name and w.name:
            _add_delta(self.result.names, "value", v.name, w.name)


def op_count(op: Op) -> int:
    """The number of ops in an op and its bodies."""
    inner = (o for sub in op.subgraphs for g in sub.with_subgraphs() for o in g.ops())
    return 1 + sum(held_constant(o) is None for o in inner)


def node_data(op: Op) -> Node:
    """An op as data."""
    inputs = ["" if v is None else v.name for v in without_trailing_omitted(op.inputs)]
    outputs = without_trailing_omitted(v.name for v in op.outputs)
    attributes = {name: plain_value(op.attrs[name]) for name in sorted(op.attrs)}
    return Node(op.type, op.domain, op.name, inputs, outputs, attributes, op_count(op))


def attribute_changes(a: Op, b: Op) -> list[Delta]:
    """The attributes that differ, and the outputs if different ones are present."""
    ours, theirs = significant_attributes(a, b.version), significant_attributes(b, a.version)
    names = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    changes = [Delta(name, _attribute_data(a, name), _attribute_data(b, name)) for name in names]
    before, after = subgraphs_by_attribute(a).keys(), subgraphs_by_attribute(b).keys()
    changes += [Delta(name, "a graph", None) for name in sorted(before - after)]
    changes += [Delta(name, None, "a graph") for name in sorted(after - before)]
    if output_mask(a) != output_mask(b):
        changes.append(Delta("outputs", *([v.name for v in op.outputs] for op in (a, b))))
    return changes


def _attribute_data(op: Op, name: str) -> Plain:
    """An attribute as data; if it is absent, its default, marked as such."""
    if name in op.attrs:
        return plain_value(op.attrs[name])
    default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
    return None if default is None else f"{plain_value(default)}{DEFAULT_SUFFIX}"


def plain_value(value: Any) -> Plain:
    """An attribute's value for JSON."""
    if isinstance(value, list):
        return [plain_value(v) for v in cast("list[Any]", value)]
    if isinstance(value, float):
        return float(f"{value:.7g}") if isfinite(value) else str(value)  # the shortest text of a 32-bit float
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Tensor):
        few = value.size <= MAX_SHOWN_ELEMENTS
        return constant_type(value) + (f" {{{', '.join(map(str, value.array.ravel().tolist()))}}}" if few else "")
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, onnx.AttributeProto):
        return f"@{value.ref_attr_name}"
    return " ".join(str(value).split())


def _delta(what: str, v: Value | None, w: Value | None) -> Delta:
    return Delta(what, None if v is None else v.name, None if w is None else w.name)


def _add_delta(into: list[Delta], what: str, before: Plain, after: Plain) -> None:
    if before != after:
        into.append(Delta(what, before, after))


def metadata_of(message: onnx.NodeProto | onnx.ModelProto | onnx.GraphProto) -> dict[str, str]:
    """The metadata of a message by key."""
    return {p.key: p.value for p in message.metadata_props}


def interface_changes(a: Graph, b: Graph, ends: InterfacePairing, *, named: bool) -> Iterator[Delta]:
    """Yield added and removed inputs and outputs, and changed types and defaults; if `named`, also names and order."""
    taken = set(a.inputs)
    for what, ours, theirs, pairs in (
        ("input", a.inputs, b.inputs, [p for p in ends.inputs if p[0] in taken]),
        ("output", a.outputs, b.outputs, ends.outputs),
    ):
        types = [_declared_types(g, what) for g in (a, b)]
        for v, w in pairs:
            if named and v.name != w.name:
                yield Delta(what, v.name, w.name)
            if types[0].get(v) != types[1].get(w):
                yield Delta(f"type of {what} {v.name}", types[0].get(v), types[1].get(w))
        yield from (Delta(what, v.name, None) for v in unpaired(ours, (p[0] for p in pairs)))
        yield from (Delta(what, None, w.name) for w in unpaired(theirs, (p[1] for p in pairs)))
        if named:
            partner = dict(pairs)
            expected = [partner[v].name for v in ours if v in partner]
            kept = set(partner.values())
            found = [w.name for w in theirs if w in kept]
            if found != expected:
                yield Delta(f"order of {what}s", expected, found)
    for v, w in ends.inputs:
        had, has = ("a constant" if x in g.input_defaults else None for x, g in ((v, a), (w, b)))
        if had != has:
            yield Delta(f"default of input {v.name}", had, has)


def _declared_types(graph: Graph, what: str) -> dict[Value, str]:
    """The declared types of inputs or outputs as texts."""
    outputs = zip(graph.outputs, graph.declared.outputs, strict=False)
    declared = graph.declared.inputs if what == "input" else outputs
    return {v: type_text(onnx.ValueInfoProto.FromString(info).type) for v, info in declared}


def unread_changes(a: Graph, b: Graph, constants: Constants) -> Iterator[Delta]:
    """The constants without uses that only one graph has."""
    unread: list[list[Value]] = []
    for g in (a, b):
        made = (v for op in g.ops("Constant") for v in op.outputs)
        values = (*g.initializers, *g.sparse_initializers, *made)
        unread.append([v for v in values if v in constants and not v.consumers and not g.is_output(v)])
    for side, values in enumerate(unread):
        others = Counter(constants[v] for v in unread[1 - side])
        for v in values:
            others[constants[v]] -= 1
            if others[constants[v]] < 0:
                yield Delta("unread constant", *in_order(side, v.name, None))


PRODUCER_FIELDS = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def compare_graphs(original: ModelLike, other: ModelLike, options: DiffOptions) -> DiffReport:
    """Match the ops of two models by their results, and list those that were removed, added, replaced or changed.

    Names, doc strings, metadata of nodes and the storage of constants are compared only with `include_names`. Takes
    linear time; reads only weights that look alike or have changed. Raises ModelError for an unusable model.

    Examples:
        >>> found = diff("model.onnx", optimize("model.onnx").model)
        >>> found.difference.counts.before, found.difference.counts.after
        (3, 2)
    """
    timer = PhaseTimer(phase_callback(options.progress))
    first, second = (model_source(m, inline=False) for m in (original, other))
    paths = OutputPaths.of(report=options.json, page=options.html)
    with gc_paused():
        with timer.phase("loading"):
            a, b = first.load(), second.load()
        paths.require_distinct((*first.files, *second.files))
        with timer.phase("comparing"):
            found = DiffReport(
                first.label, second.label, diff_models(a, b), options.include_names, versions(), options=options.chosen
            )
    publish_report(paths, found.to_json, lambda: report_page(found))
    return found


diff = with_keywords_after_two(DiffOptions, "diff")(compare_graphs)


def diff_models(a: Model, b: Model) -> ModelDifference:
    """Compare two models. Linear in their ops; only weights that look alike or have changed are read.

    Raises ModelError for functions that are not graphs, and for weights that cannot be read.
    """
    ours, theirs = _functions_by_name(a.header), _functions_by_name(b.header)
    defined = [{f"function {name}": "defined" for name in functions} for functions in (ours, theirs)]
    header = [*_header_changes(a.header, b.header), *_table_deltas(*defined)]
    functions = {
        name: _diff_functions(ours[name], theirs[name], a, b)
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    }
    return ModelDifference(header, _diff_graphs(a, b), functions, [*_table_deltas(_annotations(a), _annotations(b))])


def _diff_graphs(a: Model, b: Model, outside: OuterPartner | None = None) -> GraphDifference:
    numbering = Numbering(Constants(a.graph, b.graph), (a.graph.opsets, b.graph.opsets))
    return diff_graphs(a.graph, b.graph, numbering, outside)


def _header_changes(a: onnx.ModelProto, b: onnx.ModelProto) -> Iterator[Delta]:
    yield from _table_deltas({"IR version": a.ir_version}, {"IR version": b.ir_version})
    yield from _table_deltas(_opset_table(a), _opset_table(b))
    yield from _table_deltas(*({f"metadata {k}": v for k, v in metadata_of(m).items()} for m in (a, b)))
    trained = [[t.SerializeToString(deterministic=True) for t in m.training_info] for m in (a, b)]
    if trained[0] != trained[1]:
        yield Delta("training information", *(f"{len(t)} of them" if t else None for t in trained))


def _annotations(model: Model) -> Mapping[str, object]:
    """The producer of a model, and names, doc strings and metadata."""
    graph = model.graph.declared.header
    fields = {name.replace("_", " "): getattr(model.header, name) for name in PRODUCER_FIELDS}
    fields |= {"name of the graph": graph.name, "doc string of the graph": graph.doc_string}
    return fields | {f"metadata {k} of the graph": v for k, v in metadata_of(graph).items()}


def _opset_table(holder: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {f"opset {domain or 'ai.onnx'}": version for domain, version in opset_versions(holder).items()}


def _table_deltas(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Delta]:
    """Yield the entries in which two tables differ. An empty string counts as absent."""
    for what in dict.fromkeys((*a, *b)):
        before, after = (None if table.get(what) == "" else table.get(what) for table in (a, b))
        if before != after:
            yield Delta(what, before, after)


def _functions_by_name(header: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    """The local functions by domain, name and overload."""
    return {f"{qualified_op_type(f.domain, f.name)}{':' * bool(f.overload)}{f.overload}": f for f in header.functions}


def _diff_functions(f: onnx.FunctionProto, g: onnx.FunctionProto, a: Model, b: Model) -> GraphDifference:
    """Compare two functions with the same name, including their opsets and attributes."""
    before, after = from_function(f, a.header.ir_version), from_function(g, b.header.ir_version)
    found = _diff_graphs(before, after, lambda _side, _value: None)
    found.interface += _table_deltas(_opset_table(f), _opset_table(g))
    attributes = [
        {f"attribute {name}": "required" for name in function.attribute}
        | {
            f"attribute {x.name}": f"{plain_value(attribute_value(x))}{DEFAULT_SUFFIX}"
            for x in function.attribute_proto
        }
        for function in (f, g)
    ]
    found.interface += _table_deltas(*attributes)
    found.notes += _table_deltas({"doc string": f.doc_string}, {"doc string": g.doc_string})
    return found
