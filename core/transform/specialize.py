"""Fixed sizes for the inputs of a model; they replace symbols wherever these are declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from msgspec import Struct

from ..errors import ModelError
from ..io.model import Model
from ..ir.expressions import Dim, Shape, contradict
from ..ir.graph import Graph, revise_declarations
from ..ir.tensor import dims_text
from ..ir.values import Value, declared_shape, inferred_type_proto


class Specialize(Struct, frozen=True):
    """Fixes the shapes of inputs, by name, and the sizes of symbols, wherever these occur."""

    shapes: Mapping[str, Sequence[int]]
    dims: Mapping[str, int]
    name: str = "specialize"

    def transform(self, model: Model) -> int:
        """Write the sizes; returns the number of inputs whose declarations change. O(ops + values)."""
        before = dict(model.graph.declared.inputs)
        specialize(model, self.shapes, self.dims)
        return sum(info != before[v] for v, info in model.graph.declared.inputs)


def specialize(model: Model, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> None:
    """Set the `shapes` of inputs (by name) and the sizes `dims` of symbols, wherever these occur.

    Raises ModelError for a name that the model does not have, or for sizes that contradict it or each other.
    """
    graph = model.graph
    sizes = dict(dims)
    known = {v.name: v for v in graph.inputs}
    for name, shape in shapes.items():
        require_input_name(name, known)
        for tensor in _tensor_types(inferred_type_proto(known[name])):
            if tensor.HasField("shape"):
                bind_dims(name, declared_shape(tensor) or (), shape, sizes)
        for size in shape:
            require_size(f"--shape {name}", size)
    fixed = {v: v.recorded_type[1] for v in graph.outputs}
    require_symbols(graph, dims)
    for g in graph.with_subgraphs():
        _write_sizes(g, shapes if g is graph else {}, sizes)
    graph.context.inference_epoch += 1
    graph.mark_changed()
    _reconcile(graph, fixed)


def require_symbols(graph: Graph, dims: Mapping[str, int]) -> None:
    """Raise ModelError unless inputs have all these symbols and the sizes are valid."""
    tensors = [t for v in graph.inputs for t in _tensor_types(inferred_type_proto(v))]
    symbols = {d for t in tensors for d in declared_shape(t) or () if isinstance(d, str)}
    for symbol, size in dims.items():
        if symbol not in symbols:
            has = f"it has {', '.join(sorted(symbols))}" if symbols else "it has none"
            raise ModelError(f"--dim {symbol}: the model has no such symbol ({has})")
        require_size(f"--dim {symbol}", size)


def _tensor_types(proto: onnx.TypeProto | None) -> list[onnx.TypeProto.Tensor]:
    """The tensor type, or the element type of a sequence or optional, to be changed in place; None for a map."""
    while proto is not None and (kind := proto.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        proto = proto.sequence_type.elem_type if kind == "sequence_type" else proto.optional_type.elem_type
    return [proto.tensor_type] if proto is not None and proto.HasField("tensor_type") else []


def _write_sizes(graph: Graph, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> None:
    """Write the sizes into the declarations of inputs, outputs and intermediate values."""
    declared = graph.declared
    declared.inputs[:] = [(v, _with_sizes(v, info, shapes.get(v.name), sizes)) for v, info in declared.inputs]
    outputs = zip(graph.outputs, declared.outputs, strict=True)
    declared.outputs[:] = [_with_sizes(v, info, None, sizes) for v, info in outputs]
    declared.value_infos[:] = [(v, _with_sizes(v, info, None, sizes)) for v, info in declared.value_infos]


def _with_sizes(value: Value | None, info: bytes, shape: Sequence[int] | None, sizes: Mapping[str, int]) -> bytes:
    proto = onnx.ValueInfoProto.FromString(info)
    for tensor in _tensor_types(proto.type):
        if shape is not None:
            del tensor.shape.dim[:]
            tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=n) for n in shape)
        for d in tensor.shape.dim:
            if d.dim_param in sizes:
                d.dim_value = sizes[d.dim_param]
        if value is not None and proto.type.HasField("tensor_type"):
            known = declared_shape(tensor)
            numbers = None if known is None else tuple(d if isinstance(d, int) else None for d in known)
            value.merge_type(tensor.elem_type, numbers)
        elif value is not None:
            value.type = proto.type
    return proto.SerializeToString(deterministic=True)


def _reconcile(graph: Graph, fixed: Mapping[Value, Shape | None]) -> None:
    """Correct declared shapes that contradict those inferred from the sizes, except numbers in outputs.

    `fixed`: the declared shapes of outputs. O(ops and declared values). Raises ModelError for a contradicted output.
    """
    known = (*graph.outputs, *(v for v, _ in graph.declared.value_infos))
    computed = [v for v in known if v is not None and v.producer]
    stated = {v: v.recorded_type[1] for v in computed}
    for v in stated:
        v.clear_shape()
    found = {v: v.known_shape for v in stated}
    for v in graph.outputs:
        if v in stated and contradict(fixed[v], found[v]):
            raise ModelError(
                f"output {v.name} is declared {dims_text(fixed[v] or ())}, "
                f"and with these sizes is {dims_text(found[v] or ())}"
            )
    wrong = {v: found[v] or () for v, shape in stated.items() if contradict(shape, found[v])}
    for v in stated.keys() - wrong.keys():
        v.merge_type(0, stated[v])
    revise_declarations(graph, lambda v, info: _corrected(info, wrong[v]) if v in wrong else info)


def _corrected(info: bytes, shape: Shape) -> bytes:
    proto = onnx.ValueInfoProto.FromString(info)
    for dim, d in zip(proto.type.tensor_type.shape.dim, shape, strict=True):
        if isinstance(d, int):
            dim.dim_value = d
    return proto.SerializeToString(deterministic=True)


def require_input_name(name: str, inputs: Iterable[str]) -> None:
    """Raise ModelError unless there is an input of that name."""
    if name not in inputs:
        raise ModelError(f"--shape {name}: the model has no such input (it has {', '.join(inputs)})")


def require_size(option: str, size: int) -> None:
    """Raise ModelError for a size that ONNX cannot represent."""
    if not 0 <= size < 1 << 63:
        raise ModelError(f"{option}: {size} is not a size")


def bind_dims(name: str, declared: Sequence[Dim], shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Record the sizes of the symbols of an input in `sizes`. Raises ModelError for a shape that does not fit."""
    if len(shape) != len(declared):
        raise ModelError(f"--shape {name}: {len(shape)} dims given, the input has {len(declared)}")
    for d, n in zip(declared, shape, strict=True):
        require_size(f"--shape {name}", n)
        if isinstance(d, int) and d != n:
            raise ModelError(f"--shape {name}: a dim fixed at {d} cannot be {n}")
        if isinstance(d, str) and sizes.setdefault(d, n) != n:
            raise ModelError(f"--shape {name}: {d} cannot be both {sizes[d]} and {n}")
