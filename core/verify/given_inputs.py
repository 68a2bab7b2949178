"""Inputs given by the user: an .npz file, or a folder of serialized tensors in the layout of ONNX test data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from ..errors import ModelError
from ..ir.tensor import first_line
from ..transform.specialize import bind_dims, require_input_name
from .dim_expressions import Sizes
from .input_generation import InputSet
from .input_specs import OPTIONAL, SEQUENCE, TENSOR, InputSpec


def read_inputs(given: Mapping[str, Any] | str | Path, inputs: Sequence[InputSpec]) -> list[InputSet]:
    """The given input sets: one for a mapping or .npz file, or for each `test_data_set_*` folder. Raises ModelError."""
    if isinstance(given, Mapping):
        return [checked_inputs(InputSet("given", {}, dict(given)), inputs)]
    path = Path(given)
    if path.is_dir():
        folders = sorted(path.glob("test_data_set_*")) or [path]
        found = [InputSet(f"given ({folder.name})", {}, _from_folder(folder, inputs)) for folder in folders]
        return [checked_inputs(input_set, inputs) for input_set in found]
    return [checked_inputs(InputSet(f"given ({path.name})", {}, read_arrays(path)), inputs)]


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays in an .npz file, by name. Raises ModelError for other files."""
    if not path.is_file():
        raise ModelError(f"{path} does not exist")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, BadZipFile, OSError, EOFError, AttributeError, TypeError) as e:
        raise ModelError(f"{path} is not an .npz file of arrays") from e


def _from_folder(folder: Path, inputs: Sequence[InputSpec]) -> dict[str, Any]:
    numbered = {int(m[1]): f for f in folder.glob("input_*.pb") if (m := re.fullmatch(r"input_(\d+)", f.stem))}
    if not numbered:
        raise ModelError(f"{folder} holds no input_*.pb")
    feeds: dict[str, Any] = {}
    for i, spec in enumerate(inputs):
        if i in numbered:
            try:
                feeds[spec.name] = _deserialize(numbered[i].read_bytes(), spec.type_kind)
            except (DecodeError, ValueError, TypeError) as e:
                raise ModelError(f"{numbered[i]} is not a serialized {spec.type_kind}") from e
    return feeds


def _deserialize(data: bytes, form: str) -> Any:
    if form == SEQUENCE:
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if form == OPTIONAL:
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def checked_inputs(input_set: InputSet, inputs: Sequence[InputSpec]) -> InputSet:
    """`input_set` as arrays of the types of the input specs. Raises ModelError for an input that does not fit."""
    known = {i.name: i for i in inputs}
    for name in input_set.feeds:
        if name not in known:
            raise ModelError(f"the {input_set} name {name}, which is not an input of the model ({', '.join(known)})")
    feeds: dict[str, Any] = {}
    for spec in inputs:
        if spec.name in input_set.feeds:
            feeds[spec.name] = _converted(input_set.feeds[spec.name], spec, input_set)
        elif spec.default is None:
            raise ModelError(f"the {input_set} lack {spec.name}")
    return InputSet(input_set.kind, input_set.sizes, feeds)


def _converted(value: Any, spec: InputSpec, input_set: InputSet) -> Any:
    if spec.type_kind == OPTIONAL and value is None:
        return None
    if spec.type_kind in {TENSOR, OPTIONAL}:
        return _converted_array(value, spec, input_set)
    if spec.type_kind == SEQUENCE:
        if not isinstance(value, list | tuple):
            raise ModelError(f"{spec.name} of the {input_set} is not a list of arrays; the model needs a sequence")
        return [_converted_array(v, spec, input_set) for v in cast("Sequence[Any]", value)]
    return value


def _converted_array(value: Any, spec: InputSpec, input_set: InputSet) -> np.ndarray[Any, Any]:
    """An array of the required type; Python numbers and lists are converted, arrays must have it already."""
    wanted = helper.tensor_dtype_to_np_dtype(spec.dtype)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as e:
        raise ModelError(f"{spec.name} of the {input_set} is not an array: {first_line(e)}") from e
    if array.dtype == wanted:
        return array
    if wanted == np.object_ and array.dtype.kind in "UO" and all(isinstance(s, str) for s in array.flat):
        return array.astype(object)
    if array.dtype.newbyteorder("=") == wanted:
        return array.astype(wanted)
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize and not array.dtype.fields:
        return array.view(wanted)  # how .npz gives back the types that NumPy lacks
    literal = isinstance(value, list | tuple | int | float) and array.dtype.kind in "biuf"
    if literal and np.can_cast(array.dtype, wanted, "same_kind"):
        return array.astype(wanted)
    kind = type(cast("object", value)).__name__ if array.dtype.kind in "OU" else array.dtype
    raise ModelError(f"{spec.name} of the {input_set} is {kind}; the model needs {wanted}")


def with_given_shapes(shapes: Mapping[str, Sequence[int]], inputs: Sequence[InputSpec]) -> list[InputSpec]:
    """The inputs; those without a declared rank get the shape given for them."""
    return [i if i.is_ranked or i.name not in shapes else i.with_shape(tuple(shapes[i.name])) for i in inputs]


def sizes_from_shapes(shapes: Mapping[str, Sequence[int]], inputs: Sequence[InputSpec]) -> Sizes:
    """The sizes of symbols at the given shapes. Raises ModelError for a shape that does not fit its input."""
    known = {i.name: i for i in inputs}
    sizes: Sizes = {}
    for name, shape in shapes.items():
        require_input_name(name, known)
        bind_dims(name, known[name].shape, shape, sizes)
    return sizes
