"""Input specs of a model: types, shapes with shared symbols, and restrictions of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from ..io.model import Model
from ..ir.dims import Dim
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import Value, declared_shape
from . import dim_expressions
from .decision_boundaries import NO_BOUNDARIES, DecisionBoundaries, decision_boundaries
from .empty_tensor_support import has_nonempty_filters, supports_empty_tensors
from .input_roles import InputRole, control_values, input_role
from .required_extents import required_extents
from .transitive_uses import is_selection_only

TENSOR, SEQUENCE, OPTIONAL = "tensor", "sequence", "optional"
GENERATABLE = frozenset({TENSOR, SEQUENCE, OPTIONAL})


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: `shape` has numbers and symbols; an unnamed dim is a symbol of its own.

    `type_kind` is tensor, sequence or optional (of tensors), or describes another type; the shape of an input without
    declared rank is empty. `required_extents` are the extents that the weights determine, by axis; `boundaries` the
    decision boundaries. An input that `is_control` determines the time or memory of a run, so it gets no extremes of
    its type; one that `is_selection_only` is never an operand of arithmetic; one that `may_be_empty` crashes no kernel
    without elements; one that `must_be_nonempty` would otherwise make the filter of a convolution empty.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]
    role: InputRole
    default: Tensor | None = None
    type_kind: str = TENSOR
    is_ranked: bool = True
    required_extents: Mapping[int, int] = field(default_factory=dict[int, int])
    boundaries: DecisionBoundaries = NO_BOUNDARIES
    is_control: bool = False
    is_selection_only: bool = False
    may_be_empty: bool = False
    must_be_nonempty: bool = False

    def is_emptied_by(self, array: Any) -> bool:
        """Whether an array has an extent of 0 that the model does not declare."""
        stated = (*self.shape, *[None] * np.ndim(array))
        return any(size == 0 != wanted for size, wanted in zip(np.shape(array), stated, strict=False))

    def with_rank(self, rank: int) -> InputSpec:
        """The input with a rank and a new symbol for each dim."""
        return self.with_shape(tuple(_dim_or_symbol(None, self.name, axis) for axis in range(rank)))

    def with_shape(self, shape: tuple[int | str, ...]) -> InputSpec:
        """The input with another shape."""
        return replace(self, shape=shape, is_ranked=True)


def input_specs(model: Model) -> list[InputSpec]:
    """The inputs of a model, in order, overridable ones last."""
    graph = model.graph
    required = [v for v in graph.inputs if v not in graph.input_defaults]
    steering, bears = control_values(graph), supports_empty_tensors(graph)
    fixed = has_nonempty_filters(graph)
    found = [_input_spec(graph, v, v in steering) for v in (*required, *graph.input_defaults)]
    return [replace(i, may_be_empty=bears, must_be_nonempty=not fixed) for i in found]


def _input_spec(graph: Graph, value: Value, is_control: bool) -> InputSpec:
    form, (dtype, shape) = TENSOR, value.recorded_type
    if value.type is not None:
        form, tensor = _element_type(value.type)
        dtype, shape = tensor.elem_type, declared_shape(tensor)
    elif dtype not in onnx.TensorProto.DataType.values() or dtype == onnx.TensorProto.UNDEFINED:
        form = "tensor of an unknown type"
    symbolic = tuple(_dim_or_symbol(d, value.name, i) for i, d in enumerate(shape or ()))
    decided = (
        required_extents(value, len(symbolic)) if form == TENSOR and graph.input_defaults.get(value) is None else {}
    )
    return InputSpec(
        value.name,
        dtype,
        symbolic,
        input_role(value),
        graph.input_defaults.get(value),
        form,
        shape is not None,
        decided,
        decision_boundaries(value),
        is_control,
        is_selection_only(value),
    )


def _dim_or_symbol(dim: Dim, name: str, axis: int) -> int | str:
    """A dim, with a symbol for an unnamed one. First dims count as the batch, so they share one symbol."""
    if isinstance(dim, int | str):
        return dim
    return f"{name}[{axis}]" if axis else "[0]"


def _element_type(proto: onnx.TypeProto) -> tuple[str, onnx.TypeProto.Tensor]:
    """The kind of a type, and its tensor type; an empty type if there is none."""
    kind = proto.WhichOneof("value")
    outer = {"sequence_type": SEQUENCE, "optional_type": OPTIONAL}.get(kind or "")
    if outer is None:
        return {"map_type": "map", "sparse_tensor_type": "sparse tensor"}.get(kind or "", "value of no stated type"), (
            onnx.TypeProto.Tensor()
        )
    inner = proto.sequence_type.elem_type if outer == SEQUENCE else proto.optional_type.elem_type
    if inner.HasField("tensor_type"):
        return outer, inner.tensor_type
    return f"{outer} of {_element_type(inner)[0]}s", onnx.TypeProto.Tensor()


def free_symbols(inputs: list[InputSpec]) -> list[str]:
    """The free symbols of all shapes, in order. `past + 1` is a name of its own unless `past` is a dim elsewhere."""
    symbolic = [d for i in inputs for d in i.shape if isinstance(d, str)]
    plain = {d for d in symbolic if dim_expressions.dim_symbols(d) == [d]}
    found: dict[str, None] = {}
    for d in symbolic:
        names = dim_expressions.dim_symbols(d)
        found.update(dict.fromkeys(names if plain.issuperset(names) else [d]))
    return list(found)
