"""Element types, and sets of them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from onnx import TensorProto, helper

from ..errors import UsageError
from ..support.suggestions import did_you_mean


class DataType(int):
    """An element type: a number of `onnx.TensorProto.DataType` that also equals NumPy's dtype.

    `x.dtype == np.float16`, `x.dtype == "int64"`, `x.dtype == c.const.dtype` and `x.dtype == TensorProto.FLOAT` work,
    also in a tuple: `x.dtype in (np.float16, np.float32)`. It has the hash of the number, so sets and dicts may hold
    numbers or DataTypes: `x.dtype in FLOATS`. NumPy accepts it as a dtype (`np.zeros(3, x.dtype)`), ONNX as a number
    (`g.Cast(y, to=x.dtype)`). Names are NumPy's: `float32` is the type that ONNX names float.

    Examples:
        >>> DataType(np.float16) == TensorProto.FLOAT16, DataType("int64") == np.int64, DataType(TensorProto.BFLOAT16)
        (True, True, bfloat16)
        >>> x = graph.inputs[0]
        >>> x.dtype, x.dtype in (np.float32, np.float64), x.dtype.numpy.itemsize
        (float32, True, 4)
    """

    def __new__(cls, kind: int | DTypeLike) -> Self:
        """The type of a number, or of anything that NumPy accepts as a dtype. Raises TypeError."""
        number = kind if isinstance(kind, int) else helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return int.__new__(cls, number)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The dtype of arrays with such elements: from `ml_dtypes` if NumPy has none, object for strings."""
        return helper.tensor_dtype_to_np_dtype(self)

    dtype = numpy  # NumPy accepts other objects with this attribute as dtypes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return int(self) == int(other)
        if isinstance(other, str):
            _require_known(other)
            return bool(self) and (str(self) == other or self.numpy == other)
        return bool(self) and other is not None and bool(self.numpy == other)  # NumPy treats None as float64

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        if self in (TensorProto.UNDEFINED, TensorProto.STRING):
            return TensorProto.DataType.Name(self).lower()
        return self.numpy.name

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


@cache
def _require_known(name: str) -> None:
    """Raise UsageError for a string that names no element type; comparisons with it would always be false."""
    known = {str(DATA_TYPES[n]) for n in TensorProto.DataType.values()}
    if name not in known:
        try:
            np.dtype(name)
        except TypeError as e:
            raise UsageError(f"no element type is named {name!r}{did_you_mean(name, known)}") from e


class _DataTypes(dict[int, DataType]):
    def __missing__(self, number: int) -> DataType:
        return self.setdefault(number, DataType(number))


DATA_TYPES = _DataTypes()
"""The DataType of a number; always the same object, so that sets need no comparison."""


def _data_types(*numbers: int) -> frozenset[DataType]:
    return frozenset(DATA_TYPES[n] for n in numbers)


HALF_OR_SINGLE = _data_types(TensorProto.FLOAT16, TensorProto.FLOAT)
CPU_FLOATS = HALF_OR_SINGLE | _data_types(TensorProto.DOUBLE)
"""The floats in which onnxruntime's CPU provider computes."""
FLOATS = CPU_FLOATS | _data_types(TensorProto.BFLOAT16)
"""The floats that arithmetic is defined for: 16, 32 and 64 bits, and bfloat16.

Examples:
    >>> graph.inputs[0].dtype in FLOATS
    True
"""
FLOAT16_DTYPES = _data_types(TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTEGERS = _data_types(
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
)  # fmt: skip
"""The integers that arithmetic is defined for.

Examples:
    >>> DataType(np.uint8) in INTEGERS, DataType(bool) in INTEGERS
    (True, False)
"""
INTEGER_DTYPES = _data_types(*(t for name, t in TensorProto.DataType.items() if re.fullmatch(r"U?INT\d+", name)))
"""All integers, including types with less than 8 bits."""
DISCRETE_TYPES = INTEGERS | _data_types(TensorProto.BOOL, TensorProto.STRING)
"""Types whose elements have only one form: no negative zero, and no rounding."""
