"""What a model that came back from another tool must have kept: its inputs, outputs, defaults and opsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from ..errors import InterfaceError
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import Value, declared_shape
from ..serialization.exporter import renamed_value_info, written_inputs
from ..serialization.proto_queries import opset_versions, undefined_operators, used_domains
from .interchange import is_placeholder
from .node_equivalence import tensors_equal


def require_same_interface(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None) -> None:
    """Raise InterfaceError unless `model` has the inputs, outputs, defaults and opsets of `graph`.

    It may use further `domains`, any if None. That a symbol became a number or is gone does not count: what is
    written has the declarations of `graph`.
    """
    held = {t.name: t for t in model.graph.initializer}
    inputs = [renamed_value_info(info, v.name) for v, info in written_inputs(graph) if v.tensor is None]
    listed = {onnx.ValueInfoProto.FromString(i).name for i in inputs}
    old_style = graph.context.initializers_are_inputs
    given = [i for i in model.graph.input if not (old_style and i.name in held and i.name not in listed)]
    _require_same_values("input", inputs, given)
    _require_same_values("output", [renamed_value_info(i, v.name) for v, i in _outputs(graph)], model.graph.output)
    _require_defaults(graph, held, {t.values.name for t in model.graph.sparse_initializer})
    _require_opsets(graph, model, domains)


def _outputs(graph: Graph) -> Iterator[tuple[Value, bytes]]:
    return zip(graph.outputs, graph.declared.outputs, strict=True)


def _require_same_values(what: str, before: Sequence[bytes], after: Sequence[onnx.ValueInfoProto]) -> None:
    infos = [onnx.ValueInfoProto.FromString(info) for info in before]
    names = [info.name for info in after]
    for info in infos:
        if info.name not in names:
            raise InterfaceError(f"{what} {info.name} is gone")
    for name in names:
        if name not in {info.name for info in infos}:
            raise InterfaceError(f"{what} {name} was not there")
    if names != [info.name for info in infos]:
        raise InterfaceError(f"the {what}s have another order")
    for old, new in zip(infos, after, strict=True):
        if not _types_compatible(old.type, new.type):
            raise InterfaceError(f"the type of {what} {old.name} changed")


def _types_compatible(a: onnx.TypeProto, b: onnx.TypeProto) -> bool:
    """Whether two types can be those of one value."""
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


def _require_defaults(graph: Graph, held: dict[str, onnx.TensorProto], sparse: set[str]) -> None:
    for value, tensor in graph.input_defaults.items():
        if value.name not in held:
            raise InterfaceError(f"overridable initializer {value.name} is gone")
        found = held[value.name]
        if not is_placeholder(found) and not tensors_equal(tensor, Tensor.from_proto(found)):
            raise InterfaceError(f"overridable initializer {value.name} changed")
    inputs = set(graph.inputs)
    for value in graph.sparse_initializers:
        if value in inputs and value.name not in sparse:
            raise InterfaceError(f"overridable initializer {value.name} is gone")
    known = {v.name for v in graph.inputs if v not in graph.input_defaults and v not in graph.sparse_initializers}
    for name in (*held, *sparse):
        if name in known:
            raise InterfaceError(f"input {name} became an overridable initializer")


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
