"""Two models: their headers, graphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from ..errors import ModelError
from ..io.convert import from_onnx
from ..io.importer import SPELLINGS
from ..io.model import Model
from ..ir.attributes import attribute_value
from ..ir.values import Value
from .contents import Contents, constants_of
from .difference import Change, GraphDifference, ModelDifference
from .graphs import Outside, graph_difference
from .nodes import DEFAULT, plain
from .notes import metadata
from .numbering import Numbering

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
