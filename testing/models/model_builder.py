"""Builder of models, which checks each node and infers its output types when it is added."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.shape_inference import InferenceError

from ...core.errors import EvaluationError
from ...core.ir import op_schemas
from ...core.ort.backends import LoadedModel

CONTRIB_DOMAIN = "com.microsoft"
ML_DOMAIN = "ai.onnx.ml"
OpKey = tuple[str, str]
"""The domain and the type."""


@cache
def schema(op_type: str, domain: str, version: int) -> defs.OpSchema | None:
    """The schema of an operator at an opset of ONNX, or None if there is no such operator.

    The schema of an operator of another domain is the newest one that is not deprecated.
    """
    if domain == op_schemas.ONNX_DOMAIN:
        return op_schemas.schema(op_type, domain, version)
    versions = range(op_schemas.latest_opset_version(domain), 0, -1)
    found = (op_schemas.schema(op_type, domain, v) for v in versions)
    return next(filter(None, found), None) or _contrib_schemas().get((domain, op_type))


def infer_types_by_running(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
    imports: Sequence[onnx.OperatorSetIdProto],
) -> dict[str, onnx.TypeProto]:
    """The output types of `node`, from a run on ones. Raises EvaluationError if it does not run."""
    inputs = [helper.make_value_info(name, t) for name, t in types.items() if name not in data]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    held = list(data.values())
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    tensors = {i.name: i.type.tensor_type for i in inputs}
    feeds = {name: np.full([d.dim_value for d in t.shape.dim], *_sample(t.elem_type)) for name, t in tensors.items()}
    results = LoadedModel(model.SerializeToString()).run(list(node.output), feeds)
    if not all(isinstance(r, np.ndarray) for r in results):
        raise EvaluationError(f"{node.op_type} has outputs that are not tensors")
    made = zip(node.output, map(numpy_helper.from_array, results), strict=True)
    return {name: helper.make_tensor_type_proto(t.data_type, tuple(t.dims)) for name, t in made}


def _sample(elem_type: int) -> tuple[object, np.dtype[Any]]:
    """An element of a type, and the type."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    return ("a" if elem_type == onnx.TensorProto.STRING else 1), dtype


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
    kind: Any = defs.OpSchema

    def formal(p: Any) -> defs.OpSchema.FormalParameter:
        option = getattr(kind.FormalParameterOption, p.option.name)
        return kind.FormalParameter(p.name, p.typeStr, param_option=option, is_homogeneous=p.isHomogeneous, min_arity=0)

    def attributes() -> Iterator[defs.OpSchema.Attribute]:
        for name, a in spec.attributes.items():
            default = onnx.AttributeProto.FromString(a._default_value)  # noqa: SLF001 - it is called so
            stated = getattr(kind.AttrType, a.type.name)
            yield kind.Attribute(name, default) if default.name else kind.Attribute(name, stated, required=a.required)

    return defs.OpSchema(
        spec.name,
        spec.domain,
        spec.since_version,
        inputs=list(map(formal, spec.inputs)),
        outputs=list(map(formal, spec.outputs)),
        type_constraints=[(c.type_param_str, list(c.allowed_type_strs), "") for c in spec.type_constraints],
        attributes=list(attributes()),
    )


MAX_ELEMENTS = 4096
INVALID_NODE_ERRORS = (
    EvaluationError, InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, LookupError,
)  # fmt: skip
Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


class GenerationError(Exception):
    """The choices lead to no valid model."""


class TypedValue(Struct, frozen=True):
    """A value of the model; `array` has the elements of a constant."""

    name: str
    type: onnx.TypeProto
    array: Array | None = None

    @property
    def dtype(self) -> int:
        """The element type; 0 for values other than tensors."""
        return self.type.tensor_type.elem_type

    @property
    def known_shape(self) -> Shape | None:
        """The dims; None if they are not fixed."""
        if not self.type.tensor_type.HasField("shape"):
            return None
        dims = self.type.tensor_type.shape.dim
        return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None

    @property
    def shape(self) -> Shape:
        """The dims. Raises GenerationError if they are not fixed."""
        if (found := self.known_shape) is None:
            raise GenerationError(f"{self.name} has no fixed shape")
        return found

    def dim_at(self, axis: int) -> int:
        """The dim of an axis. Raises GenerationError if there is no such axis."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise GenerationError(f"{self.name} has no axis {axis}")
        return self.shape[axis]


@dataclass(slots=True)
class ModelBuilder:
    """The nodes, inputs and constants of a model under construction, at one opset."""

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    inputs: list[TypedValue] = field(default_factory=list[TypedValue])
    constants: list[TypedValue] = field(default_factory=list[TypedValue])
    node_outputs: list[TypedValue] = field(default_factory=list[TypedValue])
    overridable: set[str] = field(default_factory=set[str])
    reserved_names: set[str] = field(default_factory=set[str])  # names that an example uses
    domain_versions: dict[str, int] = field(default_factory=dict[str, int])  # opsets of other domains

    @property
    def opset_imports(self) -> list[onnx.OperatorSetIdProto]:
        """The opsets of all domains in use."""
        return [
            helper.make_opsetid(domain, version) for domain, version in {"": self.opset, **self.domain_versions}.items()
        ]

    def input(self, dtype: int, shape: Sequence[int]) -> TypedValue:
        """A graph input."""
        return self.typed_input(tensor_type(dtype, shape))

    def typed_input(self, type_: onnx.TypeProto) -> TypedValue:
        """A graph input of any type."""
        known = TypedValue(self._fresh_name("x", len(self.inputs)), type_)
        self.inputs.append(known)
        return known

    def constant(self, array: Array) -> TypedValue:
        """An initializer."""
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        known = TypedValue(self._fresh_name("c", len(self.constants)), tensor_type(dtype, array.shape), array)
        self.constants.append(known)
        return known

    def node(
        self,
        op_type: str,
        inputs: Sequence[TypedValue | None],
        attrs: Mapping[str, Any],
        domain: str = "",
        outputs: int = 1,
    ) -> list[TypedValue]:
        """Add a node and return its outputs. Raises GenerationError if it is invalid in ONNX."""
        start = len(self.node_outputs)
        names = [self._fresh_name("v", start + i) for i in range(outputs)]
        spec = schema(op_type, domain, self.opset)
        if spec is None:
            raise GenerationError(f"{op_type} does not exist at opset {self.opset}")
        if domain:
            self.domain_versions[domain] = max(spec.since_version, self.domain_versions.get(domain, 0))
        node = onnx.NodeProto(op_type=op_type, domain=domain, output=names)
        node.input.extend(k.name if k else "" for k in inputs)
        node.attribute.extend(op_schemas.make_attribute(k, v, spec) for k, v in attrs.items() if v is not None)
        types = self._infer_types(node, spec, inputs)
        for name, type_ in types.items():
            dims = [d.dim_value for d in type_.tensor_type.shape.dim]
            if min(dims, default=0) < 0 or prod(dims) > MAX_ELEMENTS:
                raise GenerationError(f"{name} has a negative dim, or is large")
        if set(types) != set(names):
            raise GenerationError(f"the outputs of {op_type} have no types")
        self.nodes.append(node)
        found = [TypedValue(name, types[name]) for name in names]
        if op_type == "Shape" and inputs[0] is not None:
            dims = np.asarray(inputs[0].shape, np.int64)[attrs.get("start") or 0 : attrs.get("end")]
            found = [TypedValue(names[0], found[0].type, dims)]
        self.node_outputs += found
        return found

    def _fresh_name(self, kind: str, number: int) -> str:
        while (name := f"{kind}{number}") in self.reserved_names:
            number += 1000
        return name

    def _infer_types(
        self, node: onnx.NodeProto, spec: onnx.defs.OpSchema, inputs: Sequence[TypedValue | None]
    ) -> dict[str, onnx.TypeProto]:
        types = {k.name: k.type for k in inputs if k}
        data = {k.name: numpy_helper.from_array(k.array, k.name) for k in inputs if k and k.array is not None}
        try:
            is_ml = spec.domain == ML_DOMAIN and not spec.has_type_and_shape_inference_function
            if is_ml or (spec.domain, spec.name) in _contrib_schemas():
                return infer_types_by_running(node, types, data, self.opset_imports)
            return shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=self.opset_imports)
        except INVALID_NODE_ERRORS as e:
            raise GenerationError(str(e)) from e


def tensor_type(dtype: int, shape: Sequence[int]) -> onnx.TypeProto:
    """The type of a tensor."""
    return helper.make_tensor_type_proto(dtype, tuple(shape))
