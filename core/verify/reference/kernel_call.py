"""A node with its attributes, as a float64 kernel receives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
BodyRunner = Callable[[onnx.GraphProto, Sequence[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A node of the opset `version` of its domain. `attributes` has the defaults of the schema too.

    Tensors in attributes are arrays, their floats float64. `input_types` are the element types
    (`onnx.TensorProto.DataType`) that the model has for the inputs, whose floats are all float64 here; 0 where unknown.
    `run_body` evaluates a graph in an attribute on its inputs.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    input_types: Sequence[int]
    run_body: BodyRunner

    @property
    def output_count(self) -> int:
        """How many outputs are declared, the omitted ones before the last included."""
        return len(self.node.output)

    def has_output(self, index: int) -> bool:
        """Whether an output is read or given a name."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or `default` where neither the node nor the schema has one."""
        return self.attributes.get(name, default)

    def input_type(self, index: int) -> int:
        """The element type of an input; 0 where unknown or omitted."""
        return self.input_types[index] if index < len(self.input_types) else 0


Kernel = Callable[..., Any]
"""Computes a node from a `KernelCall` and its inputs (None for omitted ones); a tuple is several outputs."""
