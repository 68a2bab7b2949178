"""What a model asks of its inputs: types, and extents that go together."""

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
from ..ir.values import Value, shape_of
from . import dim_expressions
from .control_values import steering_values
from .decision_boundaries import NO_BOUNDARIES, Boundaries, boundaries
from .empty_tensor_support import bears_emptiness, has_fixed_windows
from .input_roles import Role, role
from .required_extents import decided_extents
from .transitive_uses import is_only_chosen

TENSOR, SEQUENCE, OPTIONAL = "tensor", "sequence", "optional"
DRAWABLE = frozenset({TENSOR, SEQUENCE, OPTIONAL})


@dataclass(frozen=True, slots=True)
class Input:
    """One input: `shape` holds numbers and symbols; an unnamed dim is a symbol of its own.

    `form` is tensor, sequence or optional (of tensors), or says what else it is; of an input with no stated
    rank the shape is empty. `decided` has the extents that the weights leave no choice about, by axis;
    `around` the numbers at which the model changes its mind. What `steers` decides how long a run takes or how
    much memory, so it is no place for the ends of a type; what is `only_chosen` is not computed with;
    what `may_be_empty` does no harm without elements; what is `never_empty` may leave
    a convolution nothing to sum over.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]
    role: Role
    default: Tensor | None = None
    form: str = TENSOR
    is_ranked: bool = True
    decided: Mapping[int, int] = field(default_factory=dict[int, int])
    around: Boundaries = NO_BOUNDARIES
    steers: bool = False
    only_chosen: bool = False
    may_be_empty: bool = False
    never_empty: bool = False

    def is_emptied_by(self, array: Any) -> bool:
        """Whether an array has an extent of 0 that the model does not ask for."""
        stated = (*self.shape, *[None] * np.ndim(array))
        return any(size == 0 != wanted for size, wanted in zip(np.shape(array), stated, strict=False))

    def of_rank(self, rank: int) -> Input:
        """The input with a rank, and a symbol of its own for each dim."""
        return self.of_shape(tuple(_named(None, self.name, axis) for axis in range(rank)))

    def of_shape(self, shape: tuple[int | str, ...]) -> Input:
        """The input with another shape."""
        return replace(self, shape=shape, is_ranked=True)


def signature(model: Model) -> list[Input]:
    """The inputs of a model, in order, overridable ones last."""
    graph = model.graph
    required = [v for v in graph.inputs if v not in graph.defaults]
    steering, bears = steering_values(graph), bears_emptiness(graph)
    fixed = has_fixed_windows(graph)
    found = [_described(graph, v, v in steering) for v in (*required, *graph.defaults)]
    return [replace(i, may_be_empty=bears, never_empty=not fixed) for i in found]


def _described(graph: Graph, value: Value, steers: bool) -> Input:
    form, (dtype, shape) = TENSOR, value.stated
    if value.type is not None:
        form, tensor = _inner(value.type)
        dtype, shape = tensor.elem_type, shape_of(tensor)
    elif dtype not in onnx.TensorProto.DataType.values() or dtype == onnx.TensorProto.UNDEFINED:
        form = "tensor of an unknown type"
    symbolic = tuple(_named(d, value.name, i) for i, d in enumerate(shape or ()))
    decided = decided_extents(value, len(symbolic)) if form == TENSOR and graph.defaults.get(value) is None else {}
    return Input(
        value.name,
        dtype,
        symbolic,
        role(value),
        graph.defaults.get(value),
        form,
        shape is not None,
        decided,
        boundaries(value),
        steers,
        is_only_chosen(value),
    )


def _named(dim: Dim, name: str, axis: int) -> int | str:
    """A dim with a symbol where it has none. First dims are taken to be the batch, and so the same in all inputs."""
    if isinstance(dim, int | str):
        return dim
    return f"{name}[{axis}]" if axis else "[0]"


def _inner(proto: onnx.TypeProto) -> tuple[str, onnx.TypeProto.Tensor]:
    """The form of a type, and the tensors it is made of; an empty type where there are none."""
    kind = proto.WhichOneof("value")
    outer = {"sequence_type": SEQUENCE, "optional_type": OPTIONAL}.get(kind or "")
    if outer is None:
        return {"map_type": "map", "sparse_tensor_type": "sparse tensor"}.get(kind or "", "value of no stated type"), (
            onnx.TypeProto.Tensor()
        )
    inner = proto.sequence_type.elem_type if outer == SEQUENCE else proto.optional_type.elem_type
    if inner.HasField("tensor_type"):
        return outer, inner.tensor_type
    return f"{outer} of {_inner(inner)[0]}s", onnx.TypeProto.Tensor()


def symbols(inputs: list[Input]) -> list[str]:
    """The free symbols of all shapes, in order. `past + 1` is a name of its own unless `past` is a dim elsewhere."""
    symbolic = [d for i in inputs for d in i.shape if isinstance(d, str)]
    plain = {d for d in symbolic if dim_expressions.names(d) == [d]}
    found: dict[str, None] = {}
    for d in symbolic:
        names = dim_expressions.names(d)
        found.update(dict.fromkeys(names if plain.issuperset(names) else [d]))
    return list(found)
