"""Element types of ONNX as NumPy types, and floats as float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from ..ir.dtypes import INTEGER_DTYPES

Array = np.ndarray[Any, Any]
NUMPY_DTYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.DOUBLE: np.dtype(np.float64),
}
"""The float types whose values are evaluated as float64; narrower ones are exact codes, like integers."""
WIDENED = frozenset(NUMPY_DTYPES.values())


def dtype_of(element_type: int) -> np.dtype[Any]:
    """The NumPy type of elements."""
    return helper.tensor_dtype_to_np_dtype(element_type)


def integer_range(element_type: int) -> tuple[int, int] | None:
    """The smallest and largest number of an integer type; None for other types."""
    if element_type not in INTEGER_DTYPES:
        return None
    name = TensorProto.DataType.Name(element_type)
    bits = int(name.lstrip("UINT"))
    return (0, (1 << bits) - 1) if name.startswith("U") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def type_at(input_types: Sequence[int], index: int) -> int:
    """The element type of an input; 0 if unknown or omitted."""
    return input_types[index] if index < len(input_types) else 0


def widened(value: Any) -> Any:
    """Convert floats to float64 and complex numbers to complex128, including those in sequences and maps."""
    if isinstance(value, list):
        return [widened(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        if array.dtype in WIDENED:
            return array.astype(np.float64, copy=False)
        return array.astype(np.complex128, copy=False) if array.dtype.kind == "c" else array
    return widened(np.asarray(cast("Any", value))) if isinstance(value, np.generic) else value
