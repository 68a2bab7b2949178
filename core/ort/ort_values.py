"""OrtValues with element types that NumPy lacks, which contain the bytes of elements."""

from __future__ import annotations

import ctypes
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

# With onnxruntime's names.
NUMPY_ELEMENT_TYPES = frozenset({
    "float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "string", "complex64", "complex128",
})  # fmt: skip
TENSOR_TYPE = re.compile(r"tensor\((\w+)\)")


def lacks_numpy_dtype(kind: str) -> bool:
    """Whether NumPy lacks the elements of a type in onnxruntime's notation, such as `tensor(bfloat16)`."""
    return not NUMPY_ELEMENT_TYPES.issuperset(TENSOR_TYPE.findall(kind))


Array = np.ndarray[Any, Any]


def is_exchangeable(kinds: Iterable[str]) -> bool:
    """Whether OrtValues of all these types can be exchanged with Python: dense numeric tensors."""
    return all(TENSOR_TYPE.fullmatch(kind) and kind != "tensor(string)" for kind in kinds)


def packed_elements(array: Array) -> Array:
    """The bytes of elements of a type that NumPy lacks; two 4-bit elements per byte."""
    return np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)


def to_ortvalue(array: Array) -> Any:
    """An OrtValue over the memory of `array`, or of a packed copy, and the array that must outlive it."""
    ort: Any = importlib.import_module("onnxruntime").OrtValue
    array = np.asarray(array, order="C")
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    if array.dtype.isbuiltin == 1:
        return ort.ortvalue_from_numpy(array), array
    held: Array = np.zeros(array.size, np.dtype(f"u{array.dtype.itemsize}"))
    packed = packed_elements(array)
    held.view(np.uint8)[: len(packed)] = packed
    held = held.reshape(array.shape)
    return ort.ortvalue_from_numpy_with_onnx_type(held, dtype), held


def from_ortvalue(value: Any) -> Array:
    """The elements of a tensor, as ml_dtypes for types that NumPy lacks."""
    if not lacks_numpy_dtype(value.data_type()):
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    proto = onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
    return numpy_helper.to_array(proto)


def run_bound(session: Any, outputs: Sequence[str], values: Mapping[str, Any], options: Any) -> list[Any]:
    """Run a session with OrtValues in linear time. Other methods search for each name among all input names."""
    binding, names = session.io_binding(), dict.fromkeys(outputs)
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        binding.bind_output(name)
    session.run_with_iobinding(binding, options)
    found = dict(zip(names, map(from_ortvalue, binding.get_outputs()), strict=True))
    return [found[name] for name in outputs]
