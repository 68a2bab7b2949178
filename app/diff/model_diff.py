"""Differences of two models: headers, graphs and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from msgspec import to_builtins

from ...core.io.convert import from_function
from ...core.io.model import Model
from ...core.io.model_source import model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.ir.op import attribute_value
from ...core.ir.op_schemas import qualified_op_type
from ...core.run.phase_timer import PhaseTimer
from ...core.serialization.proto_queries import opset_versions
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text
from ..registry.environment import versions
from ..report.notebook import report_card
from ..report.progress import phase_callback, with_keywords_after_two
from .constants import Constants
from .diff_options import DiffOptions
from .diff_result import Delta, GraphDifference, ModelDifference
from .graph_diff import OuterPartner, diff_graphs, metadata_of
from .node_data import DEFAULT_SUFFIX, plain_value
from .numbering import Numbering

PRODUCER_FIELDS = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


@dataclass(slots=True)
class DiffReport:
    """The differences of two models. `include_names`: whether names, doc strings, metadata of nodes and so on count.

    Examples:
        >>> diff("model.onnx", "model.onnx").difference.is_identical
        True
    """

    original: str
    other: str
    difference: ModelDifference
    include_names: bool = False
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_equal(self) -> bool:
        """Whether nothing that counts differs."""
        return self.difference.is_identical if self.include_names else self.difference.is_empty

    def to_json(self) -> str:
        """The differences as JSON text, names and notes included. The same for the same models."""
        data = {
            "original": self.original,
            "other": self.other,
            "equal": self.is_equal,
            "names_count": self.include_names,
            "counts": to_builtins(self.difference.counts),
            **to_builtins(self.difference),
            "versions": self.versions,
            "options": self.options,
        }
        return json_text(data)

    _repr_html_ = report_card


def compare_graphs(
    original: onnx.ModelProto | str | Path, other: onnx.ModelProto | str | Path, options: DiffOptions
) -> DiffReport:
    """Match the ops of two models by their results, and list the removed, added, replaced and changed ones.

    Names, doc strings, metadata of nodes and the holders of constants count only with `include_names`. Linear in the
    ops; only weights that look alike or changed are read. Raises ModelError for an unusable model.

    Examples:
        >>> found = diff("model.onnx", optimize("model.onnx").model)
        >>> found.difference.counts.before, found.difference.counts.after
        (3, 2)
    """
    timer = PhaseTimer(phase_callback(options.progress))
    first, second = (model_source(m, inline=False) for m in (original, other))
    paths = OutputPaths.of(report=options.json)
    with gc_paused():
        with timer.phase("loading"):
            a, b = first.load(), second.load()
        paths.require_distinct((*first.files, *second.files))
        with timer.phase("comparing"):
            found = DiffReport(
                first.label, second.label, diff_models(a, b), options.include_names, versions(), options=options.chosen
            )
    publish_text(paths.report, found.to_json)
    return found


diff = with_keywords_after_two(DiffOptions, "diff")(compare_graphs)


def diff_models(a: Model, b: Model) -> ModelDifference:
    """Compare two models. Linear in their ops; only weights that look alike or changed are read.

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
    """The entries in which two tables differ. An empty text is as none."""
    for what in dict.fromkeys((*a, *b)):
        before, after = (None if table.get(what) == "" else table.get(what) for table in (a, b))
        if before != after:
            yield Delta(what, before, after)


def _functions_by_name(header: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    """The local functions by domain, name and overload."""
    return {f"{qualified_op_type(f.domain, f.name)}{':' * bool(f.overload)}{f.overload}": f for f in header.functions}


def _diff_functions(f: onnx.FunctionProto, g: onnx.FunctionProto, a: Model, b: Model) -> GraphDifference:
    """Compare two functions of one name, with their opsets and attributes; nothing from outside is visible in them."""
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
