"""Schemas of operators: those of ONNX, and onnxruntime's for contrib operators."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from ...core.errors import EvaluationError
from ...core.ir import op_schemas
from ...core.ort.backends import OnnxRuntime

CONTRIB_DOMAIN = "com.microsoft"
OpKey = tuple[str, str]
"""The domain and the type."""


@cache
def schema(op_type: str, domain: str, version: int) -> defs.OpSchema | None:
    """The schema of an operator at an opset of ONNX, or None where there is no such operator."""
    if domain == op_schemas.ONNX_DOMAIN:
        return op_schemas.schema(op_type, domain, version)
    found = op_schemas.schema(op_type, domain, op_schemas.latest_opset_version(domain))
    return found or _contrib_schemas().get((domain, op_type))


def is_contrib(spec: defs.OpSchema) -> bool:
    """Whether the operator is onnxruntime's own, for which ONNX infers no types."""
    return (spec.domain, spec.name) in _contrib_schemas()


def infer_types_by_running(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
    imports: Sequence[onnx.OperatorSetIdProto],
) -> dict[str, onnx.TypeProto]:
    """The output types of `node` from a run on ones. Raises EvaluationError if it does not run."""
    inputs = [helper.make_value_info(name, t) for name, t in types.items() if name not in data]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    held = [onnx.TensorProto.FromString(t.SerializeToString()) for t in data.values()]
    for name, tensor in zip(data, held, strict=True):
        tensor.name = name
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    results = OnnxRuntime(model.SerializeToString()).run(list(node.output), {i.name: _ones(i.type) for i in inputs})
    if not all(isinstance(r, np.ndarray) for r in results):
        raise EvaluationError(f"{node.op_type} makes something else than tensors")
    made = (numpy_helper.from_array(r) for r in results)
    return {
        name: helper.make_tensor_type_proto(t.data_type, tuple(t.dims))
        for name, t in zip(node.output, made, strict=True)
    }


def _ones(type_: onnx.TypeProto) -> np.ndarray[Any, Any]:
    tensor = type_.tensor_type
    return np.ones([d.dim_value for d in tensor.shape.dim], helper.tensor_dtype_to_np_dtype(tensor.elem_type))


@cache
def _contrib_schemas() -> Mapping[OpKey, defs.OpSchema]:
    """The newest schemas of onnxruntime's own operators, as schemas of ONNX."""
    bindings: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found: dict[OpKey, defs.OpSchema] = {}
    for spec in sorted(bindings.get_all_operator_schema(), key=lambda s: s.since_version):
        if spec.domain == CONTRIB_DOMAIN:
            found[spec.domain, spec.name] = _onnx_schema(spec)
    return MappingProxyType(found)


def _onnx_schema(spec: Any) -> defs.OpSchema:
    return defs.OpSchema(
        spec.name,
        spec.domain,
        spec.since_version,
        inputs=[_formal_parameter(p) for p in spec.inputs],
        outputs=[_formal_parameter(p) for p in spec.outputs],
        type_constraints=[(c.type_param_str, list(c.allowed_type_strs), "") for c in spec.type_constraints],
        attributes=[_attribute(name, a) for name, a in spec.attributes.items()],
    )


def _formal_parameter(parameter: Any) -> defs.OpSchema.FormalParameter:
    option = getattr(defs.OpSchema.FormalParameterOption, parameter.option.name)
    kind: Any = defs.OpSchema.FormalParameter
    return kind(
        parameter.name, parameter.typeStr, param_option=option, is_homogeneous=parameter.isHomogeneous, min_arity=0
    )


def _attribute(name: str, attribute: Any) -> defs.OpSchema.Attribute:
    kind: Any = defs.OpSchema.Attribute
    default = onnx.AttributeProto.FromString(attribute._default_value)  # noqa: SLF001 - it is called so
    if default.name:
        return kind(name, default)
    return kind(name, getattr(defs.OpSchema.AttrType, attribute.type.name), required=attribute.required)
