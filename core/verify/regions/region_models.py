"""Models of regions, the parts between given and wanted values, run by onnxruntime or evaluated in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import helper

from ...io.split_models import SplitModel
from ...ir.tensor import Tensor
from ...operators.declaration import Trait
from ...operators.table import ops_with
from ...ort.backends import Arrays
from ...ort.kernels import PRODUCTS_OF_BYTES, saturates_sums_of_bytes
from ...serialization.proto_queries import all_nodes
from ..reference.float64_evaluation import Float64Value, evaluate_in_float64, evaluate_rounded
from ..reference.judgement import kernel_error
from ..seeded_session import Session
from .value_graph import ValueGraph

COMPUTED = "__computed"  # suffix of the name of a value that the region computes, if that value is also given


class RegionModel(Struct, frozen=True):
    """A region as a `model`: `inputs` are its given values, `outputs` names its result for each wanted value.

    `constants` are the wanted values that are constants.
    """

    model: SplitModel
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    constants: Mapping[str, Tensor]


def cut_region(
    values: ValueGraph, wanted: Sequence[str], is_given: Callable[[str], bool], types: Mapping[str, onnx.TypeProto]
) -> RegionModel:
    """The region of a model that computes the `wanted` values, with given values as inputs.

    A wanted value that is also given is computed from others, but read as given. `types` has the types of given values;
    graph inputs have their own.
    """
    kept, outside = values.ancestors(wanted, is_given)
    constants = {n: t for n in wanted if isinstance(t := values.constants.get(n), Tensor)}
    initializers = [n for n in outside if n in values.initializers and not is_given(n)]
    known = {*initializers, *(o for n in kept for o in values.nodes[n].output)}
    inputs = tuple(n for n in outside if n in values.inputs or is_given(n))
    model = values.part(kept, initializers)
    graph = model.message.graph
    graph.name = values.model.message.graph.name
    taken = known | set(inputs)
    renamed = {n: _free_name(n, taken) for n in inputs if n in values.producers}
    for n in kept:
        node = graph.node.add()
        node.CopyFrom(values.nodes[n])
        for i, output in enumerate(node.output):
            if output in renamed:
                node.output[i] = renamed[output]
    for name in inputs:
        own = values.inputs.get(name)
        graph.input.append(own if own is not None else onnx.ValueInfoProto(name=name, type=types[name]))
    outputs = {n: renamed.get(n, n) for n in wanted if n not in constants}
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in outputs.values())
    return RegionModel(model, inputs, outputs, constants)


def _free_name(name: str, taken: set[str]) -> str:
    found = name + COMPUTED
    while found in taken:
        found += "_"
    taken.add(found)
    return found


def value_type(value: Any, inferred: onnx.TypeProto | None = None) -> onnx.TypeProto:
    """The type of an array: its rank, and those extents that are `inferred` as numbers."""
    array = np.asarray(value)
    dtype = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    dims = inferred.tensor_type.shape.dim if inferred is not None else ()
    known = [d.dim_value for d in dims] if len(dims) == array.ndim else [0] * array.ndim
    pairs = zip(known, array.shape, strict=True)
    return helper.make_tensor_type_proto(dtype, [extent if dim == extent else None for dim, extent in pairs])


LoadRegion = Callable[[SplitModel], Session]
"""Loads a model. Raises ModelLoadError."""
STEPWISE_OPS = ops_with(Trait.STEPWISE)


class LoadedRegion(Struct, frozen=True):
    """A region and its session; None if it has only constants."""

    model: RegionModel
    session: Session | None

    def run(self, values: Arrays, timeout: float | None) -> dict[str, Any]:
        """The wanted values, computed from the inputs among `values`. Raises EvaluationError."""
        outputs, constants = self.model.outputs, {name: t.array for name, t in self.model.constants.items()}
        if self.session is None:
            return constants
        found = self.session.run(list(outputs.values()), self.feeds(values), timeout)
        return {**dict(zip(outputs, found, strict=True)), **constants}

    def in_float64(self, cut_point: str, values: Arrays) -> Float64Value:
        """The value of its only cut point in double precision. Raises EvaluationError."""
        message, output, arrays = self._evaluated(cut_point)
        return evaluate_in_float64(message, self.feeds(values), output, arrays)[cut_point]

    def with_rounded_ops(self, cut_point: str, values: Arrays) -> Any:
        """The value of its only cut point if each op rounds to the declared type. Raises EvaluationError."""
        message, output, arrays = self._evaluated(cut_point)
        return evaluate_rounded(message, self.feeds(values), output, arrays)[cut_point]

    def _evaluated(self, cut_point: str) -> tuple[onnx.ModelProto, dict[str, str], dict[str, Any]]:
        """The model, its output by the name of the cut point, and its constants."""
        model = self.model.model
        arrays = {name: t.array for name, t in (*model.tensors.items(), *self.model.constants.items())}
        return model.message, {cut_point: self.model.outputs.get(cut_point, cut_point)}, arrays

    @property
    def has_steps(self) -> bool:
        """Whether an op computes in steps over which rounding errors accumulate."""
        return any(node.op_type in STEPWISE_OPS for node in self._nodes())

    @property
    def may_saturate(self) -> bool:
        """Whether sums of products of bytes may saturate in kernels for this processor."""
        return may_saturate(self.model.model)

    def kernel_error(self, dtype: np.dtype[Any]) -> float:
        """The absolute error of kernels of bounded functions in the region whose results have that float type."""
        return kernel_error(self.model.model.message, dtype)

    def _nodes(self) -> Iterator[onnx.NodeProto]:
        return all_nodes(self.model.model.message.graph.node)

    def feeds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs among `values`; an input of the model may lack a value if it has a default or is optional."""
        return {name: values[name] for name in self.model.inputs if name in values}


def may_saturate(model: SplitModel) -> bool:
    """Whether sums of products of bytes may saturate in kernels for this processor."""
    has_products = any(node.op_type in PRODUCTS_OF_BYTES for node in all_nodes(model.message.graph.node))
    return has_products and saturates_sums_of_bytes()
