"""Builder of models, which checks each node and infers its output types as it is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.shape_inference import InferenceError

from ...core.errors import EvaluationError
from ...core.ir import op_schemas
from . import signatures

MAX_ELEMENTS = 4096
Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


class GenerationError(Exception):
    """The choices lead to no valid model."""


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value of the model; `array` has the elements of a constant."""

    name: str
    type: onnx.TypeProto
    array: Array | None = None

    @property
    def dtype(self) -> int:
        """The element type; 0 for values other than tensors."""
        return self.type.tensor_type.elem_type

    @property
    def shape(self) -> Shape:
        """The dims. Raises GenerationError if they are not fixed."""
        if not self.type.HasField("tensor_type") or not self.type.tensor_type.HasField("shape"):
            raise GenerationError(f"{self.name} has no fixed shape")
        dims = self.type.tensor_type.shape.dim
        if not all(d.HasField("dim_value") for d in dims):
            raise GenerationError(f"{self.name} has no fixed shape")
        return tuple(d.dim_value for d in dims)

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
        known = TypedValue(self._fresh_name("x", len(self.inputs)), tensor_type(dtype, shape))
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
        spec = signatures.schema(op_type, domain, self.opset)
        if spec is None:
            raise GenerationError(f"{op_type} does not exist at opset {self.opset}")
        if domain:
            self.domain_versions[domain] = max(spec.since_version, self.domain_versions.get(domain, 0))
        node = onnx.NodeProto(op_type=op_type, domain=domain, output=names)
        node.input.extend(k.name if k else "" for k in inputs)
        node.attribute.extend(op_schemas.make_attribute(k, v, spec) for k, v in attrs.items() if v is not None)
        types = {name: self._checked_value(name, t) for name, t in self._infer_types(node, spec, inputs).items()}
        if set(types) != set(names):
            raise GenerationError(f"the outputs of {op_type} have no types")
        self.nodes.append(node)
        found = [types[name] for name in names]
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
        data = {k.name: numpy_helper.from_array(k.array) for k in inputs if k and k.array is not None}
        try:
            if signatures.is_contrib(spec):
                return signatures.infer_types_by_running(node, types, data, self.opset_imports)
            return shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=self.opset_imports)
        except (
            EvaluationError,
            InferenceError,
            onnx.checker.ValidationError,
            RuntimeError,
            ValueError,
            KeyError,
            IndexError,
        ) as e:
            raise GenerationError(str(e)) from e

    def _checked_value(self, name: str, type_: onnx.TypeProto) -> TypedValue:
        dims = [d.dim_value for d in type_.tensor_type.shape.dim]
        if min(dims, default=0) < 0:
            raise GenerationError(f"{name} has a negative dim")
        if np.prod(dims, dtype=np.int64) > MAX_ELEMENTS:
            raise GenerationError(f"{name} is large")
        return TypedValue(name, type_)


def tensor_type(dtype: int, shape: Sequence[int]) -> onnx.TypeProto:
    """The type of a tensor."""
    return helper.make_tensor_type_proto(dtype, tuple(shape))
