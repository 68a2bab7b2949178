"""Inference by the functions of operator schemas, which get constants up to 1 KB and no weights."""

from __future__ import annotations

from math import prod

import onnx
from onnx import checker, helper, shape_inference

from ..ir.expressions import DeclaredSymbol, Dim, SymInt, possible_dim
from ..ir.op import Op
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..ir.values import declared_shape
from ..serialization.exporter import node_bytes

# ValueError: for type 0. RuntimeError: for fewer outputs than the function expects.
INVALID_OP_ERRORS = (shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError)
MAX_PLAIN_NUMBER = (1 << 40) - 1  # of attributes, elements and tensors, beyond which extents are left to onnxruntime
MAX_RANK = 1000
SHAPED_BY_LAST_INPUT = frozenset({"ConstantOfShape", "Expand", "Reshape"})
ANONYMOUS_DIM_PREFIX = "\N{SECTION SIGN}"  # before the number of a dim that has no name of its own


def infer_from_schema(op: Op, spec: onnx.defs.OpSchema) -> None:
    """Infer the output types with `onnx.shape_inference.infer_node_outputs`."""
    names: dict[SymInt, str] = {}  # of dims that are expressions or may be replaced
    try:
        found = _inferred_types(op, spec, names)
    except INVALID_OP_ERRORS:
        return  # the op is invalid, or the schema infers nothing; onnxruntime decides
    named: dict[Dim, Dim] = {name: dim for dim, name in names.items()}
    for v in op.outputs:
        proto = found.get(v.name) if v.name else None
        if proto is not None and proto.HasField("tensor_type"):
            shape = declared_shape(proto.tensor_type)
            inferred = None if shape is None else tuple(possible_dim(named.get(d, d)) for d in shape)
            v.merge_type(proto.tensor_type.elem_type, inferred, inferred=True)
        elif proto is not None and proto.WhichOneof("value"):
            v.type = proto


def schema_violation(op: Op) -> str:
    """The reason for which the schema of `op` rejects its attributes, input types or constant inputs; or ""."""
    spec = op.schema
    if spec is None:
        return ""
    for v in op.inputs:
        if v is not None:
            _ = v.known_shape  # infers what is not known yet
    try:
        _inferred_types(op, spec, {})
    except INVALID_OP_ERRORS as e:
        return " ".join(str(e).split())
    return ""


def _inferred_types(op: Op, spec: onnx.defs.OpSchema, names: dict[SymInt, str]) -> dict[str, onnx.TypeProto]:
    """The output types by name, none if the type of an input is unknown; adds the `names` of dims that get one.

    Raises one of INVALID_OP_ERRORS.
    """
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for v in op.inputs:
        if v is None:
            continue
        dtype, shape = v.recorded_type
        if v.type is None and not dtype:
            return {}
        dims = None if shape is None else [_dim_name(d, names) for d in shape]
        types[v.name] = v.type or helper.make_tensor_type_proto(dtype, dims)
        if v.tensor is not None and v.tensor.nbytes <= SMALL_TENSOR_BYTES and not v.tensor.is_external:
            data[v.name] = v.tensor.to_proto(v.name)
    node = onnx.NodeProto.FromString(node_bytes(op))
    _require_safe(op, node)
    imports = [helper.make_opsetid(d, n) for d, n in op.graph.opsets.items()]
    found: dict[str, onnx.TypeProto] = shape_inference.infer_node_outputs(
        spec, node, types, data, opset_imports=imports
    )
    if _may_overflow(op, node):
        for proto in found.values():
            for dim in proto.tensor_type.shape.dim if proto.HasField("tensor_type") else ():
                dim.Clear()
    return found


def _require_safe(op: Op, node: onnx.NodeProto) -> None:
    """Raise ValueError for numbers with which functions of schemas access any memory, or take all of it.

    LayerNormalization and GatherND do not check their axes, and a shape without elements gives as many dims.
    """
    shapes = [None if v is None else v.recorded_type[1] for v in op.inputs]
    rank = len(shapes[0]) if shapes and shapes[0] is not None else None
    for a in node.attribute:
        if a.name in {"axis", "batch_dims"} and rank is not None and not -rank <= a.i <= rank:
            raise ValueError(f"{a.name} {a.i} does not fit rank {rank}")
    extents = (shapes[-1] or ()) if shapes and op.type in SHAPED_BY_LAST_INPUT else ()
    if any(isinstance(d, int) and d > MAX_RANK for d in extents):
        raise ValueError("a shape has too many dims")


def _may_overflow(op: Op, node: onnx.NodeProto) -> bool:
    """Whether numbers of an op are so large that sums and products of them may wrap around in int64."""
    for v in filter(None, op.inputs):
        sizes = [d for d in v.recorded_type[1] or () if isinstance(d, int)]
        elements = (v.tensor.elements or ()) if v.tensor is not None else ()
        if prod(sizes) > MAX_PLAIN_NUMBER or any(abs(e) > MAX_PLAIN_NUMBER for e in elements):
            return True
    return any(abs(n) > MAX_PLAIN_NUMBER for a in node.attribute for n in (a.i, *a.ints))


def _dim_name(dim: Dim, names: dict[SymInt, str]) -> int | str | None:
    """A number or a name for a dim."""
    if dim is None or isinstance(dim, int) or (isinstance(dim, str) and not isinstance(dim, DeclaredSymbol)):
        return dim
    return names.setdefault(dim, f"{ANONYMOUS_DIM_PREFIX}{len(names)}")
