"""Inference by the functions of operator schemas, which get constants up to 1 KB and no weights."""

from __future__ import annotations

import onnx
from onnx import checker, helper, shape_inference

from ..ir.dims import Dim
from ..ir.expressions import SymInt
from ..ir.op import Op
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..ir.values import Value, declared_shape
from ..serialization.exporter import node_bytes

ANONYMOUS_DIM_PREFIX = "\N{SECTION SIGN}"  # before the number of a dim that has no name of its own


def infer_from_schema(op: Op, spec: onnx.defs.OpSchema) -> None:
    """Infer the output types with `onnx.shape_inference.infer_node_outputs`."""
    names = DimNames()
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for v in op.inputs:
        if v is None:
            continue
        proto = type_proto(v, names)
        if proto is None:
            return
        types[v.name] = proto
        if v.tensor is not None and v.tensor.nbytes <= SMALL_TENSOR_BYTES and not v.tensor.is_external:
            data[v.name] = v.tensor.to_proto(v.name)
    node = onnx.NodeProto.FromString(node_bytes(op))
    imports = [helper.make_opsetid(d, n) for d, n in op.graph.opsets.items()]
    try:
        found = shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, checker.ValidationError):
        return  # the op is invalid, or the schema infers nothing; onnxruntime decides
    for v in op.outputs:
        if v.name and v.name in found:
            _merge_type_proto(v, found[v.name], names)


class DimNames:
    """Dims as the strings that a TypeProto holds, and back."""

    def __init__(self) -> None:
        self._name_by_dim: dict[SymInt, str] = {}
        self._dim_by_name: dict[str, SymInt] = {}

    def name_of(self, dim: Dim) -> int | str | None:
        """A number or a name for a dim."""
        if dim is None or isinstance(dim, int | str):
            return dim
        name = self._name_by_dim.setdefault(dim, f"{ANONYMOUS_DIM_PREFIX}{len(self._name_by_dim)}")
        self._dim_by_name[name] = dim
        return name

    def dim_named(self, name: Dim) -> Dim:
        """The dim that a TypeProto names."""
        return self._dim_by_name.get(name, name) if isinstance(name, str) else name


def type_proto(value: Value, names: DimNames) -> onnx.TypeProto | None:
    """The known type of a value as a TypeProto; None if it is unknown."""
    if value.type is not None:
        return value.type
    dtype, shape = value.recorded_type
    if not dtype:
        return None
    return helper.make_tensor_type_proto(dtype, None if shape is None else list(map(names.name_of, shape)))


def inferred_type_proto(value: Value) -> onnx.TypeProto | None:
    """The type of a value with its numbers and symbols, inferred if necessary; None if it is unknown."""
    if value.type is not None or not value.known_dtype:
        return value.type
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int | str) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims)


def _merge_type_proto(value: Value, proto: onnx.TypeProto, names: DimNames) -> None:
    if proto.HasField("tensor_type"):
        shape = declared_shape(proto.tensor_type)
        value.merge_inferred_type(
            proto.tensor_type.elem_type, None if shape is None else tuple(map(names.dim_named, shape))
        )
    elif proto.WhichOneof("value"):
        value.type = proto
