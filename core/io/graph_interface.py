"""Interfaces of graphs: inputs, outputs and defaults, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import onnx

from ..errors import InterfaceError
from ..ir.graph import Graph
from ..ir.tensor import Tensor, dims_text, element_type
from ..serialization.exporter import renamed_value_info, written_initializers, written_inputs, written_sparse

Default = Tensor | onnx.SparseTensorProto
S = TypeVar("S")
T = TypeVar("T")


def input_infos(graph: Graph) -> tuple[bytes, ...]:
    """The serialized ValueInfoProtos of the inputs that a caller may set."""
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
    """The initializers that a caller may override, sparse ones last; empty before IR version 4."""
    if graph.context.initializers_are_inputs:
        return {}
    inputs = {v for v, _ in graph.declared.inputs}
    dense = {v.name: tensor for v, tensor in written_initializers(graph) if v in inputs}
    return {**dense, **{v.name: sparse for v, sparse in written_sparse(graph) if v in inputs}}


def lists_all_initializers(graph: Graph) -> bool:
    """Whether nearly all initializers, including matrices, are overridable: the exporter lists weights as inputs.

    Nearly all means 90 % of them, and of the bytes of all constants, because other tools may have added some. If a
    model lists only a few, this is intended.
    """
    listed = default_values(graph)
    others = [v.tensor for v in (*graph.initializers, *(v for op in graph.ops("Constant") for v in op.outputs))]
    sizes = [t.nbytes for t in others if t is not None]
    initializers = sum(v.tensor is not None for v in graph.initializers)
    bytes_listed = sum(t.nbytes if isinstance(t, Tensor) else t.ByteSize() for t in listed.values())
    is_most = 9 * initializers <= len(listed) and 9 * sum(sizes) <= bytes_listed
    return is_most and any(len(t.dims) > 1 for t in listed.values())


def info_names(infos: Sequence[bytes]) -> list[str]:
    """The names in serialized ValueInfoProtos."""
    return [onnx.ValueInfoProto.FromString(info).name for info in infos]


def require_same_names(what: str, before: Sequence[str], after: Sequence[str], where: str = "") -> None:
    """Raise InterfaceError for names that were removed, added, changed or reordered."""
    if before == after:
        return
    sides = (before, set(after)), (after, set(before))
    gone, new = ([n for n in these if n not in those] for these, those in sides)
    if len(before) == len(after) and gone and new:
        at = before.index(gone[0])
        raise InterfaceError(f"{what} {gone[0]}{where} is now called {after[at]}")
    if gone or new:
        raise InterfaceError(f"{what} {gone[0]}{where} was removed" if gone else f"{what} {new[0]}{where} was added")
    raise InterfaceError(f"the {what}s{where} were {', '.join(before)} and are {', '.join(after)}")


def require_same_defaults(
    before: Mapping[str, S], after: Mapping[str, T], are_equal: Callable[[S, T], bool], where: str = ""
) -> None:
    """Raise InterfaceError for input defaults that were removed, added or changed."""
    for name, default in before.items():
        if name not in after:
            raise InterfaceError(f"overridable initializer {name}{where} is gone")
        if not are_equal(default, after[name]):
            raise InterfaceError(f"overridable initializer {name}{where} changed")
    for name in after:
        if name not in before:
            raise InterfaceError(f"input {name}{where} became an overridable initializer")


def type_text(proto: onnx.TypeProto) -> str:
    """A type in ONNX's text format: `float[N,4]`, `float[?,4]` with an unknown dim, `seq(map(int64, float))`."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            tensor = proto.tensor_type
        case "sparse_tensor_type":
            tensor = proto.sparse_tensor_type
        case "sequence_type":
            return f"seq({type_text(proto.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_text(proto.optional_type.elem_type)})"
        case "map_type":
            return f"map({element_type(proto.map_type.key_type)}, {type_text(proto.map_type.value_type)})"
        case _:
            return " ".join(str(proto).split()) or "of any type"
    dims = (d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return element_type(tensor.elem_type) + (dims_text(dims) if tensor.HasField("shape") else "")
