"""Inference by the functions of the operators' own schemas, which see constants up to 1 KB and no weights."""

from __future__ import annotations

import onnx
from onnx import checker, helper, shape_inference

from ..ir.dims import Dim
from ..ir.expressions import Known
from ..ir.op import Op
from ..ir.tensor import SMALL
from ..ir.values import Value, shape_of
from ..serialization.exporter import node_bytes

MARK = "\N{SECTION SIGN}"  # before the number of a dim that has no name of its own


def learn_from_schema(op: Op, spec: onnx.defs.OpSchema) -> None:
    """Let the outputs learn what `onnx.shape_inference.infer_node_outputs` tells of them."""
    names = Names()
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for v in op.inputs:
        if v is None:
            continue
        proto = type_proto(v, names)
        if proto is None:
            return
        types[v.name] = proto
        if v.tensor is not None and v.tensor.nbytes <= SMALL and not v.tensor.is_external:
            data[v.name] = v.tensor.to_proto(v.name)
    node = onnx.NodeProto.FromString(node_bytes(op))
    imports = [helper.make_opsetid(d, n) for d, n in op.graph.opsets.items()]
    try:
        found = shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, checker.ValidationError):
        return  # the op is wrong or its schema cannot tell; onnxruntime has the last word on it
    for v in op.outputs:
        if v.name and v.name in found:
            _typed(v, found[v.name], names)


class Names:
    """Dims as the strings that a TypeProto holds, and back."""

    def __init__(self) -> None:
        self._of: dict[Known, str] = {}
        self._back: dict[str, Known] = {}

    def of(self, dim: Dim) -> int | str | None:
        """A number or a name for a dim."""
        if dim is None or isinstance(dim, int | str):
            return dim
        name = self._of.setdefault(dim, f"{MARK}{len(self._of)}")
        self._back[name] = dim
        return name

    def dim(self, said: Dim) -> Dim:
        """The dim that a TypeProto names."""
        return self._back.get(said, said) if isinstance(said, str) else said


def type_proto(value: Value, names: Names) -> onnx.TypeProto | None:
    """What is known of a value as a TypeProto; None where its type is unknown."""
    if value.type is not None:
        return value.type
    dtype, shape = value.stated
    if not dtype:
        return None
    return helper.make_tensor_type_proto(dtype, None if shape is None else list(map(names.of, shape)))


def type_of(value: Value) -> onnx.TypeProto | None:
    """The type of a value as far as it can be written down, inferred if need be; None where it is unknown."""
    if value.type is not None or not value.known_dtype:
        return value.type
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int | str) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims)


def _typed(value: Value, proto: onnx.TypeProto, names: Names) -> None:
    if proto.HasField("tensor_type"):
        shape = shape_of(proto.tensor_type)
        value.conclude(proto.tensor_type.elem_type, None if shape is None else tuple(map(names.dim, shape)))
    elif proto.WhichOneof("value"):
        value.type = proto
