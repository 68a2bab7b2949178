"""Interfaces of graphs: inputs, outputs, defaults and opsets, and their comparison with a returned model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import onnx

from ..errors import InterfaceError
from ..ir.dims import contradict
from ..ir.graph import Graph
from ..ir.tensor import Tensor, dims_text, element_type, tensors_equal
from ..ir.values import declared_shape
from ..serialization.exporter import renamed_value_info, written_initializers, written_inputs, written_sparse
from ..serialization.proto_queries import opset_versions, undefined_operators, used_domains
from .interchange import is_placeholder

Default = Tensor | onnx.SparseTensorProto
S = TypeVar("S")
T = TypeVar("T")


def input_infos(graph: Graph) -> tuple[bytes, ...]:
    """The serialized ValueInfoProtos of the inputs that a caller may give."""
    return tuple(
        renamed_value_info(info, value.name)
        for value, info in written_inputs(graph)
        if not (graph.context.initializers_are_inputs and value in graph.initializers)
    )


def output_infos(graph: Graph) -> tuple[bytes, ...]:
    """The serialized ValueInfoProtos of the outputs. Raises InterfaceError if some are undeclared."""
    declared = graph.declared.outputs
    if len(graph.outputs) != len(declared):
        raise InterfaceError(f"the graph has {len(graph.outputs)} outputs and declares {len(declared)}")
    return tuple(renamed_value_info(info, v.name) for v, info in zip(graph.outputs, declared, strict=True))


def default_values(graph: Graph) -> dict[str, Default]:
    """The initializers that a caller may override, the sparse ones last; there are none before IR version 4."""
    if graph.context.initializers_are_inputs:
        return {}
    inputs = {v for v, _ in graph.declared.inputs}
    dense = {v.name: tensor for v, tensor in written_initializers(graph) if v in inputs}
    return {**dense, **{v.name: sparse for v, sparse in written_sparse(graph) if v in inputs}}


def info_names(infos: Sequence[bytes]) -> list[str]:
    """The names in serialized ValueInfoProtos."""
    return [onnx.ValueInfoProto.FromString(info).name for info in infos]


def require_same_names(what: str, before: Sequence[str], after: Sequence[str], where: str = "") -> None:
    """Raise InterfaceError for names that are gone, new, changed, or in another order."""
    if before == after:
        return
    sides = (before, set(after)), (after, set(before))
    gone, new = ([n for n in these if n not in those] for these, those in sides)
    if len(before) == len(after) and gone and new:
        at = before.index(gone[0])
        raise InterfaceError(f"{what} {gone[0]}{where} is now called {after[at]}")
    if gone or new:
        raise InterfaceError(f"{what} {gone[0]}{where} is gone" if gone else f"{what} {new[0]}{where} was not there")
    raise InterfaceError(f"the {what}s{where} were {', '.join(before)} and are {', '.join(after)}")


def require_same_defaults(
    before: Mapping[str, S], after: Mapping[str, T], are_equal: Callable[[S, T], bool], where: str = ""
) -> None:
    """Raise InterfaceError for defaults of inputs that are gone, new, or not equal."""
    for name, default in before.items():
        if name not in after:
            raise InterfaceError(f"overridable initializer {name}{where} is gone")
        if not are_equal(default, after[name]):
            raise InterfaceError(f"overridable initializer {name}{where} changed")
    for name in after:
        if name not in before:
            raise InterfaceError(f"input {name}{where} became an overridable initializer")


def type_text(proto: onnx.TypeProto) -> str:
    """A type in ONNX's text form: `float[N,4]`; `float[?,4]` with an unknown dim, `float` with an unknown rank."""
    kind = proto.WhichOneof("value")
    if kind not in {"tensor_type", "sparse_tensor_type"}:
        return " ".join(str(proto).split()) or "of any type"
    tensor = proto.tensor_type if kind == "tensor_type" else proto.sparse_tensor_type
    dims = (d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return element_type(tensor.elem_type) + (dims_text(dims) if tensor.HasField("shape") else "")


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

    def is_same(before: Default, after: onnx.TensorProto | onnx.SparseTensorProto) -> bool:  # sparse ones never change
        if not isinstance(before, Tensor) or not isinstance(after, onnx.TensorProto):
            return True
        return is_placeholder(after) or tensors_equal(before, Tensor.from_proto(after))

    require_same_defaults(default_values(graph), defaults, is_same)
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
    return mine is None or theirs is None or (len(mine) == len(theirs) and not contradict(mine, theirs))


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
