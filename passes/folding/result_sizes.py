"""Upper bounds on the bytes of results, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod

import numpy as np
from onnx import TensorProto

from ...core import Op, Value
from ...core.ir.expressions import as_integers
from ...core.ir.tensor import STRING, element_bits
from ...core.operators.declaration import Trait
from ...core.operators.table import OPERATORS, ops_with

SEQUENCE_OPS = ("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence")
OUT_OF_SEQUENCE_OPS = ("ConcatFromSequence", "SequenceAt")
# Operators that give at most one element for each of their input, and so many bits more for each.
ADDED_BITS = {"NonZero": 8 * 8, "Unique": 8, "Compress": 0}  # NonZero has an int64 for each of 8 axes at most
STRING_BYTES = 64  # of a string besides its text
NUMBER_LENGTH = 64  # characters of a number, at most
KEEPING_TEXT = (
    ops_with(Trait.MOVES_DATA)
    | {op_type for op_type, row in OPERATORS.items() if row.data != ()}
    | {"StringSplit", "Unique"}
)
MAX_CASE_GROWTH = 3  # characters for one, in a change of case (Unicode, SpecialCasing)


class ResultSizes:
    """Bounds on the bytes of constants and of results of ops, which are added in order, each once.

    Those of dense tensors are their sizes by inference; of sequences, the sum of all tensors that were inserted, one
    for each time; of strings, the longest text of each. A shape that a file declares and that inference cannot confirm
    is taken to be true, but not for a tensor from a sequence.
    """

    def __init__(self) -> None:
        self._bytes: dict[Value, int | None] = {}
        self._lengths: dict[Value, int | None] = {}  # the longest text of strings, in bytes

    def of(self, value: Value) -> int | None:
        """The bound of a constant, or of a result that was added; None if it is unknown."""
        if value in self._bytes:
            return self._bytes[value]
        return value.tensor.nbytes if value.tensor is not None else _static_bytes(value)

    def of_all(self, values: Iterable[Value | None]) -> int:
        """The sum of the known bounds of values."""
        return sum(self.of(v) or 0 for v in values if v is not None)

    def add(self, op: Op) -> int | None:
        """Add the results of an op, whose inputs are constants or have been added; None if one is unknown."""
        results = [v for v in op.outputs if v.name]
        for v in results:
            self._bytes[v] = self._bound(op, v)
        known = [b for v in results if (b := self._bytes[v]) is not None]
        return sum(known) if len(known) == len(results) else None

    def _bound(self, op: Op, value: Value) -> int | None:
        size = _static_bytes(value)
        if value.type is not None:
            return self._sum(op.inputs) if op.type in SEQUENCE_OPS and not op.domain else None
        if value.recorded_type[0] == STRING:
            length = self._lengths[value] = self._length_of_result(op)
            return None if size is None or length is None else size // 8 * (STRING_BYTES + length)
        if op.domain:
            return size
        if op.type in OUT_OF_SEQUENCE_OPS:
            whole = self._sum(op.inputs)
            return None if size is None or whole is None else max(size, whole)
        return self._data_dependent_bound(op) if size is None else size

    def _sum(self, values: Iterable[Value | None]) -> int | None:
        given = [v for v in values if v is not None]
        sizes = [n for v in given if (n := self.of(v)) is not None]
        return sum(sizes) if len(sizes) == len(given) else None

    def _length(self, value: Value) -> int | None:
        """The bytes of the longest string, also of one inside a sequence of strings; None if it is unknown."""
        if value not in self._lengths and value.tensor is not None:
            is_text = value.tensor.dtype == STRING
            self._lengths[value] = max((len(str(s)) * 4 for s in value.const.flat), default=0) if is_text else 0
        return self._lengths.get(value)

    def _length_of_result(self, op: Op) -> int | None:
        inputs = [v for v in op.inputs if v is not None and (v.recorded_type[0] == STRING or v.type is not None)]
        known = [n for v in inputs if (n := self._length(v)) is not None]
        if len(known) < len(inputs):
            return None
        if op.domain:  # a text of an input, or of an attribute
            return max([len(op.proto_bytes or b""), *known]) if op.proto_bytes else None
        if op.type == "StringConcat":
            return sum(known)
        if op.type == "StringNormalizer":
            return MAX_CASE_GROWTH * max(known, default=0)
        if op.type == "Cast" and not inputs:
            return NUMBER_LENGTH
        return max(known, default=0) if op.type in KEEPING_TEXT else None

    def _data_dependent_bound(self, op: Op) -> int | None:
        """The bound of a result whose size depends on the data; None for most operators."""
        if op.type == "Range":
            ends = [v.const.reshape(-1) if v is not None and v.is_const else np.empty(0) for v in op.inputs]
            if any(e.size != 1 for e in ends) or not ends[2][0]:
                return None
            start, limit, delta = (float(e[0]) for e in ends)
            count = (limit - start) / delta
            return max(ceil(count), 0) * ends[0].dtype.itemsize if np.isfinite(count) else None
        data = op.input(0) if op.type in ADDED_BITS else None
        size = None if data is None else self.of(data)
        if data is None or size is None:
            return None
        return size + ADDED_BITS[op.type] * size * 8 // element_bits(data.known_dtype)


def _static_bytes(value: Value) -> int | None:
    """Bytes of a tensor of known type and extent, 8 for each string; None for others."""
    if value.producer is not None:
        value.producer.graph.context.infer(value.producer)  # a declared symbol may turn out to be a number
    dtype, shape = value.recorded_type
    if value.type is not None or dtype == TensorProto.UNDEFINED or shape is None:
        return None
    extents = as_integers(shape)
    return None if extents is None else prod(extents) * element_bits(dtype) // 8
