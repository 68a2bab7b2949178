"""Values, which ops read and produce, with their types, shapes and small constant elements."""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import helper

from ..errors import MatchFailure, UsageError
from .dtypes import DATA_TYPES, DataType
from .expressions import Elements, Shape, as_integers, is_unresolved, merge_dim, merge_inferred_dim
from .op import NOT_INFERRED, Op
from .python_operators import PythonOperators
from .tensor import Tensor

MAX_LISTED_CONSUMERS = 8


BUILDER: ContextVar[Any] = ContextVar("BUILDER", default=None)
"""The RewriteBuilder of the running rule."""


class Value(PythonOperators["Value"]):
    """One tensor (or sequence, map, optional). Its producer may change.

    In the function of a rule, `x * 2` is `g.Mul(x, 2)`.

    Examples:
        >>> (x,), c = graph.inputs, next(graph.ops("Add")).input(1)
        >>> x.dtype, x.shape, x.rank, x.is_const, [op.type for op in x.consumers]
        (float32, ('N', 4), 2, False, ['Abs'])
        >>> c.const.tolist(), c.dtype == c.const.dtype, graph.producer(c)
        ([1.0, 2.0, 3.0, 4.0], True, None)
    """

    __slots__ = ("_consumers", "_dtype", "_shape", "elements", "name", "producer", "tensor", "type")

    def __init__(self, name: str, dtype: int = 0, shape: Shape | None = None) -> None:
        self.name = name
        self._dtype = dtype
        self._shape = shape
        self.tensor: Tensor | None = None  # set if the value is constant
        self.type: onnx.TypeProto | None = None  # set if the value is not a dense tensor
        self.producer: Op | None = None
        self.elements: Elements | None = None  # inferred elements of small integer values; see known_elements
        self._consumers: list[Op] | dict[Op, None] = []  # a list if there are few, which halves the memory

    def __repr__(self) -> str:
        return f"Value({self.name!r})"

    def _operator(self, op_type: str, *operands: Any) -> Value:
        builder = BUILDER.get()
        if builder is None:
            raise UsageError(f"operators build ops only in rules; elsewhere use RewriteBuilder(graph, op).{op_type}")
        return getattr(builder, op_type)(*operands)

    def __bool__(self) -> NoReturn:
        raise UsageError(
            "a value has no truth value, because its elements are computed when the model runs: use g.Where for a"
            " choice by elements, and `x is None`, x.const or x.dtype for one by the graph"
        )

    @property
    def consumers(self) -> Collection[Op]:
        """The distinct ops that read the value, in order, in its graph and in subgraphs that capture it."""
        return self._consumers

    def add_consumer(self, op: Op) -> None:
        """Add `op` to the consumers. Only for the mutators of Graph."""
        if isinstance(self._consumers, dict):
            self._consumers[op] = None
        elif op not in self._consumers:
            self._consumers.append(op)
            if len(self._consumers) > MAX_LISTED_CONSUMERS:
                self._consumers = dict.fromkeys(self._consumers)

    def remove_consumer(self, op: Op) -> None:
        """Remove `op` from the consumers. Only for the mutators of Graph."""
        if isinstance(self._consumers, dict):
            self._consumers.pop(op, None)
        elif op in self._consumers:
            self._consumers.remove(op)

    def clear_consumers(self) -> None:
        """Remove all consumers. Only for the mutators of Graph."""
        self._consumers = []

    @property
    def dtype(self) -> DataType:
        """The element type. Raises MatchFailure if unknown."""
        if not (found := self.known_dtype):
            raise MatchFailure(f"the type of {self.name} is unknown")
        return found

    @property
    def shape(self) -> Shape:
        """The shape. Raises MatchFailure if the rank is unknown."""
        if (found := self.known_shape) is None:
            raise MatchFailure(f"the shape of {self.name} is unknown")
        return found

    @property
    def rank(self) -> int:
        """The number of dims. Raises MatchFailure if unknown."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as integers. Raises MatchFailure if a dim is symbolic or unknown."""
        dims = as_integers(self.shape)
        if dims is None:
            raise MatchFailure(f"the shape of {self.name} is not fixed: {list(self.shape)}")
        return dims

    @property
    def const(self) -> np.ndarray[Any, Any]:
        """The constant's elements, read-only. Raises MatchFailure for a computed value."""
        if self.tensor is None:
            raise MatchFailure(f"{self.name} is not a constant")
        return self.tensor.array

    @property
    def is_const(self) -> bool:
        """Whether the value is the same in every run; false for an initializer that is also an input."""
        return self.tensor is not None

    @property
    def is_fully_known(self) -> bool:
        """Whether type, shape and elements are known, so that inference cannot refine them."""
        if self.type is not None or self.tensor is not None:
            return True
        if self._dtype == 0 or self._shape is None or any(map(is_unresolved, self._shape)):
            return False
        return self.elements is None or not any(map(is_unresolved, self.elements))

    @property
    def refining_producer(self) -> Op | None:
        """The producer whose inference may refine the value; None if there is none."""
        maker = self.producer
        if maker is None or self.tensor is not None:
            return None
        return maker if maker.inferred_epoch == NOT_INFERRED or not self.is_fully_known else None

    @property
    def known_dtype(self) -> DataType:
        """The element type, inferred if necessary; 0, which is false, if unknown."""
        if self._dtype == 0 and self.producer is not None:
            self.producer.graph.context.infer_dtype(self)
        return DATA_TYPES[self._dtype]

    @property
    def known_shape(self) -> Shape | None:
        """The shape, inferred if necessary; None if the rank is unknown."""
        self._infer()
        return self._shape

    @property
    def known_elements(self) -> Elements | None:
        """The elements of a small integer or boolean value of rank 0 or 1, as expressions; None for other values."""
        if self.tensor is not None:
            return self.tensor.elements
        self._infer()
        return self.elements

    def _infer(self) -> None:
        if (maker := self.refining_producer) is not None:
            maker.graph.context.infer(maker)

    @property
    def recorded_type(self) -> tuple[int, Shape | None]:
        """The element type and shape recorded so far, without inference."""
        return self._dtype, self._shape

    @property
    def recorded_facts(self) -> tuple[int, Shape | None, Elements | None]:
        """The element type, shape and elements recorded so far, without inference."""
        return self._dtype, self._shape, self.elements

    @property
    def known_facts(self) -> tuple[int, Shape | None, Elements | None]:
        """The element type, shape and elements, inferred if necessary."""
        self._infer()
        return self.recorded_facts

    def merge_type(self, dtype: int, shape: Shape | None, *, inferred: bool = False) -> None:
        """Record a type if none is known; in a known shape, only symbols are replaced by numbers.

        An inferred type also replaces the file's names of intermediate dims, and a shape that it contradicts: files
        declare wrong shapes, which onnxruntime also ignores.
        """
        self._dtype = self._dtype or dtype
        if self._shape is None or (inferred and shape is not None and len(shape) != len(self._shape)):
            self._shape = shape
        elif shape is not None and len(shape) == len(self._shape) and shape != self._shape:
            self._shape = tuple(map(merge_inferred_dim if inferred else merge_dim, self._shape, shape))

    def clear_shape(self) -> None:
        """Remove the recorded shape, so that inference computes it again."""
        self._shape = None

    def reset(self) -> None:
        """Remove type, shape, elements and constant; keep name, producer and consumers."""
        self._dtype, self._shape, self.elements, self.tensor, self.type = 0, None, None, None, None

    def take_facts(self, other: Value, *, declared: bool) -> None:
        """Take the facts of another value; if this value is `declared`, only its own type and shape are kept."""
        self._dtype, self._shape, self.type = other._dtype, other._shape, other.type
        self.elements, self.tensor = other.elements, other.tensor
        other.elements = other.tensor = None
        if not declared:
            other.reset()

    def set_constant(self, tensor: Tensor) -> None:
        """Make the value a constant."""
        self.tensor, self._dtype, self._shape = tensor, tensor.dtype, tensor.dims


def declared_shape(tensor_type: onnx.TypeProto.Tensor) -> Shape | None:
    """Declared dims: each a number, a symbol or None; None for an undeclared rank.

    A dim of -1, which some exporters write, counts as None.
    """
    if not tensor_type.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.dim_value >= 0 and d.HasField("dim_value") else d.dim_param or None
        for d in tensor_type.shape.dim
    )


def inferred_type_proto(value: Value) -> onnx.TypeProto | None:
    """The type of a value with its numbers and symbols, inferred if necessary; None if unknown."""
    if value.type is not None or not value.known_dtype:
        return value.type
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int | str) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims)
