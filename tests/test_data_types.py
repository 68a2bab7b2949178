"""Element types: equal to the numbers of ONNX and the dtypes of NumPy."""

from __future__ import annotations

import json
import pickle

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from passwright.core import FLOATS, INTEGERS, DataType, Tensor

NUMBERS = [t for t in TensorProto.DataType.values() if t]


@pytest.mark.parametrize("number", NUMBERS, ids=TensorProto.DataType.Name)
def test_a_type_is_the_number_of_onnx_and_the_dtype_of_numpy(number: int) -> None:
    kind, array = DataType(number), helper.tensor_dtype_to_np_dtype(number)
    assert kind == number
    assert number == kind
    assert kind == array
    assert array == kind
    assert kind == DataType(array)
    assert hash(kind) == hash(number)
    assert kind in (TensorProto.UNDEFINED, array)
    assert kind not in (np.complex64 if number != TensorProto.COMPLEX64 else np.int8, 0, None)
    assert np.dtype(kind) == array
    assert json.dumps(kind) == str(number)
    copy = pickle.loads(pickle.dumps(kind))
    assert (type(copy), copy) == (DataType, kind)


@pytest.mark.parametrize(("given", "name"), [
    (np.float32, "float32"), ("float16", "float16"), (ml_dtypes.bfloat16, "bfloat16"), (np.dtype("int8"), "int8"),
    (TensorProto.STRING, "string"), (TensorProto.INT4, "int4"), (0, "undefined"), (bool, "bool"),
])  # fmt: skip
def test_a_type_has_the_name_of_numpy(given: object, name: str) -> None:
    kind = DataType(given)
    assert (str(kind), repr(kind), f"{kind:>4}") == (name, name, f"{name:>4}")


def test_an_unknown_type_equals_none_but_itself() -> None:
    assert not DataType(0)
    assert [kind for kind in (np.float32, "float32", None, *NUMBERS) if DataType(0) == kind] == []


def test_sets_hold_types_and_numbers() -> None:
    assert DataType(np.float32) in FLOATS
    assert TensorProto.INT8 in INTEGERS
    assert DataType(bool) not in FLOATS | INTEGERS


def test_tensors_have_such_types() -> None:
    tensor = Tensor.from_array(np.zeros(3, ml_dtypes.bfloat16))
    assert tensor.dtype == tensor.array.dtype
    assert tensor.dtype == TensorProto.BFLOAT16
