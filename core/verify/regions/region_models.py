"""Models of regions: parts of a model between values that are given and values that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...io.split_models import SplitModel
from ...ir.tensor import Tensor
from .value_graph import ValueGraph

COMPUTED = "__computed"  # ends the name of a value that the region computes, beside the given one


@dataclass(frozen=True, slots=True)
class RegionModel:
    """A region as a `model`: `inputs` are the values it is given, `outputs` names its result for each wanted value.

    `constants` are wanted values that are constants.
    """

    model: SplitModel
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    constants: Mapping[str, Tensor]


def cut_region(
    values: ValueGraph, wanted: Sequence[str], is_given: Callable[[str], bool], types: Mapping[str, onnx.TypeProto]
) -> RegionModel:
    """The region of a model that computes the `wanted` values, with values that are given as inputs.

    A wanted value that is given too is computed from others, and read as given. `types` are those of given values;
    graph inputs have their own.
    """
    kept, outside = values.ancestors(wanted, is_given)
    constants = {n: t for n in wanted if isinstance(t := values.constants.get(n), Tensor)}
    initializers = [n for n in outside if n in values.initializers and not is_given(n)]
    known = {*initializers, *(o for n in kept for o in values.nodes[n].output)}
    inputs = tuple(n for n in outside if n in values.inputs or is_given(n))
    graph = onnx.GraphProto(name=values.model.message.graph.name)
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
    message = onnx.ModelProto(ir_version=values.model.message.ir_version, graph=graph)
    message.opset_import.extend(values.model.message.opset_import)
    message.functions.extend(values.called_functions(kept))
    large = dict[str, Tensor]()
    for name in initializers:
        proto = values.initializers[name]
        if isinstance(proto, onnx.SparseTensorProto):
            message.graph.sparse_initializer.append(proto)
            continue
        message.graph.initializer.append(proto)
        if name in values.model.tensors:
            large[name] = values.model.tensors[name]
    return RegionModel(SplitModel(message, large), inputs, outputs, constants)


def _free_name(name: str, taken: set[str]) -> str:
    found = name + COMPUTED
    while found in taken:
        found += "_"
    taken.add(found)
    return found


def value_type(value: Any, inferred: onnx.TypeProto | None = None) -> onnx.TypeProto:
    """The type of an array: its rank, and those of its extents that are `inferred` as numbers."""
    array = np.asarray(value)
    dtype = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    dims = inferred.tensor_type.shape.dim if inferred is not None else ()
    known = [d.dim_value for d in dims] if len(dims) == array.ndim else [0] * array.ndim
    pairs = zip(known, array.shape, strict=True)
    return helper.make_tensor_type_proto(dtype, [extent if dim == extent else None for dim, extent in pairs])
