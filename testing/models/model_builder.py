"""A model in the making: each node is checked, and its outputs typed, as it is added."""

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

MOST_ELEMENTS = 4096
Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


class Unmade(Exception):
    """The choices led to no valid model."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value of the model; `array` is what it holds, where that is fixed."""

    name: str
    type: onnx.TypeProto
    array: Array | None = None

    @property
    def dtype(self) -> int:
        """The element type; 0 of what is no tensor."""
        return self.type.tensor_type.elem_type

    @property
    def shape(self) -> Shape:
        """The dims. Raises Unmade where they are not fixed."""
        if not self.type.HasField("tensor_type") or not self.type.tensor_type.HasField("shape"):
            raise Unmade(f"{self.name} has no fixed shape")
        dims = self.type.tensor_type.shape.dim
        if not all(d.HasField("dim_value") for d in dims):
            raise Unmade(f"{self.name} has no fixed shape")
        return tuple(d.dim_value for d in dims)

    def along(self, axis: int) -> int:
        """The dim of an axis. Raises Unmade where there is no such axis."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise Unmade(f"{self.name} has no axis {axis}")
        return self.shape[axis]


@dataclass(slots=True)
class Sketch:
    """Nodes, inputs and constants so far, at one opset."""

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    inputs: list[Known] = field(default_factory=list[Known])
    constants: list[Known] = field(default_factory=list[Known])
    made: list[Known] = field(default_factory=list[Known])
    overridable: set[str] = field(default_factory=set[str])
    taken: set[str] = field(default_factory=set[str])  # names that an example uses
    others: dict[str, int] = field(default_factory=dict[str, int])  # opsets of other domains

    @property
    def imports(self) -> list[onnx.OperatorSetIdProto]:
        """The opsets of all domains in use."""
        return [helper.make_opsetid(domain, version) for domain, version in {"": self.opset, **self.others}.items()]

    def input(self, dtype: int, shape: Sequence[int]) -> Known:
        """A graph input."""
        known = Known(self._name("x", len(self.inputs)), tensor_type(dtype, shape))
        self.inputs.append(known)
        return known

    def constant(self, array: Array) -> Known:
        """An initializer."""
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        known = Known(self._name("c", len(self.constants)), tensor_type(dtype, array.shape), array)
        self.constants.append(known)
        return known

    def node(
        self, op_type: str, inputs: Sequence[Known | None], attrs: Mapping[str, Any], domain: str = "", outputs: int = 1
    ) -> list[Known]:
        """The outputs of a new node. Raises Unmade where ONNX allows none such."""
        start = len(self.made)
        names = [self._name("v", start + i) for i in range(outputs)]
        spec = signatures.schema(op_type, domain, self.opset)
        if spec is None:
            raise Unmade(f"{op_type} does not exist at opset {self.opset}")
        if domain:
            self.others[domain] = max(spec.since_version, self.others.get(domain, 0))
        node = onnx.NodeProto(op_type=op_type, domain=domain, output=names)
        node.input.extend(k.name if k else "" for k in inputs)
        node.attribute.extend(op_schemas.attribute(k, v, spec) for k, v in attrs.items() if v is not None)
        types = {name: self._typed(name, t) for name, t in self._inferred(node, spec, inputs).items()}
        if set(types) != set(names):
            raise Unmade(f"the outputs of {op_type} have no types")
        self.nodes.append(node)
        found = [types[name] for name in names]
        if op_type == "Shape" and inputs[0] is not None:
            dims = np.asarray(inputs[0].shape, np.int64)[attrs.get("start") or 0 : attrs.get("end")]
            found = [Known(names[0], found[0].type, dims)]
        self.made += found
        return found

    def _name(self, kind: str, number: int) -> str:
        while (name := f"{kind}{number}") in self.taken:
            number += 1000
        return name

    def _inferred(
        self, node: onnx.NodeProto, spec: onnx.defs.OpSchema, inputs: Sequence[Known | None]
    ) -> dict[str, onnx.TypeProto]:
        types = {k.name: k.type for k in inputs if k}
        data = {k.name: numpy_helper.from_array(k.array) for k in inputs if k and k.array is not None}
        try:
            if signatures.is_added(spec):
                return signatures.types_made(node, types, data, self.imports)
            return shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=self.imports)
        except (
            EvaluationError,
            InferenceError,
            onnx.checker.ValidationError,
            RuntimeError,
            ValueError,
            KeyError,
            IndexError,
        ) as e:
            raise Unmade(str(e)) from e

    def _typed(self, name: str, type_: onnx.TypeProto) -> Known:
        dims = [d.dim_value for d in type_.tensor_type.shape.dim]
        if min(dims, default=0) < 0:
            raise Unmade(f"{name} has a negative dim")
        if np.prod(dims, dtype=np.int64) > MOST_ELEMENTS:
            raise Unmade(f"{name} is large")
        return Known(name, type_)


def tensor_type(dtype: int, shape: Sequence[int]) -> onnx.TypeProto:
    """The type of a tensor."""
    return helper.make_tensor_type_proto(dtype, tuple(shape))
