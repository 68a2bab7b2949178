"""Check of a model that another tool returned: inputs, outputs, defaults and opsets of the graph that was sent."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ..errors import InterfaceError
from ..ir.digest import tensors_equal
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import declared_shape
from ..serialization.proto_queries import opset_versions, undefined_operators, used_domains
from .graph_interface import (
    Default,
    default_values,
    info_names,
    input_infos,
    output_infos,
    require_same_defaults,
    require_same_names,
    type_text,
)
from .interchange import is_placeholder


def require_same_interface(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None) -> None:
    """Raise InterfaceError unless `model` has the inputs, outputs, defaults and opsets of `graph`.

    It may use further `domains`, any if None. Symbols of dims may differ, since the declarations of `graph` are
    written.
    """
    held = {t.name: t for t in model.graph.initializer}
    inputs = input_infos(graph)
    listed = set(info_names(inputs))
    old_style = graph.context.initializers_are_inputs
    given = [i for i in model.graph.input if not (old_style and i.name in held and i.name not in listed)]
    _require_same_values("input", inputs, given)
    _require_same_values("output", output_infos(graph), model.graph.output)
    sparse = {t.values.name: t for t in model.graph.sparse_initializer}
    names = {v.name for v in graph.inputs if not (old_style and v in graph.sparse_initializers)}
    defaults = {name: t for name, t in {**held, **sparse}.items() if name in names}
    require_same_defaults(default_values(graph), defaults, _is_same_default)
    _require_opsets(graph, model, domains)


def _require_same_values(what: str, before: Sequence[bytes], after: Sequence[onnx.ValueInfoProto]) -> None:
    require_same_names(what, info_names(before), [info.name for info in after])
    for info, new in zip(before, after, strict=True):
        old = onnx.ValueInfoProto.FromString(info)
        if not _types_compatible(old.type, new.type):
            raise InterfaceError(f"{what} {old.name} was {type_text(old.type)} and is {type_text(new.type)}")


def _types_compatible(a: onnx.TypeProto, b: onnx.TypeProto) -> bool:
    """Whether one value can have both types."""
    if not a.WhichOneof("value") or not b.WhichOneof("value"):
        return True
    if not (a.HasField("tensor_type") and b.HasField("tensor_type")):
        return a.WhichOneof("value") == b.WhichOneof("value")
    if a.tensor_type.elem_type != b.tensor_type.elem_type:
        return False
    mine, theirs = declared_shape(a.tensor_type), declared_shape(b.tensor_type)
    if mine is None or theirs is None:
        return True
    pairs = zip(mine, theirs, strict=False)
    return len(mine) == len(theirs) and all(m == n for m, n in pairs if isinstance(m, int) and isinstance(n, int))


def _is_same_default(before: Default, after: onnx.TensorProto | onnx.SparseTensorProto) -> bool:
    """Whether a default is equal, or its elements were not sent; sparse ones are never sent back changed."""
    if not isinstance(before, Tensor) or not isinstance(after, onnx.TensorProto):
        return True
    return is_placeholder(after) or tensors_equal(before, Tensor.from_proto(after))


def _require_opsets(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None) -> None:
    imports = opset_versions(model)
    for domain, version in graph.opsets.items():
        if imports.get(domain, version) != version:
            raise InterfaceError(f"opset {version} of {domain or 'ai.onnx'} became {imports[domain]}")
    for domain in used_domains(model.graph):
        if domain not in graph.opsets and domains is not None and domain not in domains:
            raise InterfaceError(f"it brought in operators of {domain}, which the model does not use")
    for domain, kind in undefined_operators(model):
        if not any(op.domain == domain for g in graph.with_subgraphs() for op in g.ops(kind)):
            version = imports.get(domain, graph.opsets.get(domain))
            raise InterfaceError(f"it brought in {kind}, which opset {version} of {domain or 'ai.onnx'} does not have")
