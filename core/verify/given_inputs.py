"""Checks of inputs given by the user against those of a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
from onnx import helper

from ..errors import ModelError
from ..io.array_files import ArrayHeader, HeaderCheck
from ..ir.tensor import dims_text, first_line
from ..support.printable_text import is_utf8
from ..transform.specialize import bind_dims, require_input_name
from .dim_expressions import Sizes
from .input_sets import InputSet
from .input_specs import GENERATABLE, OPTIONAL, SEQUENCE, TENSOR, InputSpec

MAX_LISTED_NAMES = 10  # names that a message lists


def header_check(input_set: InputSet, inputs: Sequence[InputSpec], *, has_rows: bool = False) -> HeaderCheck:
    """A check of headers, of arrays that are not read yet, against the inputs of those names.

    If the set `has_rows`, shapes are not checked, as each input gets a part of its array.
    """
    known = {i.name: i for i in inputs}

    def check(name: str, header: ArrayHeader) -> None:
        _require_known(name, known, input_set)
        if (spec := known[name]).type_kind in GENERATABLE:
            if not _is_convertible(header.dtype, _wanted_dtype(spec)):
                raise _wrong_type(spec, input_set, header.dtype)
            if not has_rows:
                _require_shape(header.shape, spec, input_set)

    return check


def fitting_inputs(input_set: InputSet, inputs: Sequence[InputSpec]) -> InputSet:
    """`input_set` as arrays of the types and shapes of the inputs. Raises ModelError."""
    found = checked_inputs(input_set, inputs)
    for spec in inputs:
        value = found.feeds.get(spec.name)
        for array in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if array is not None and spec.type_kind in GENERATABLE:
                _require_shape(np.shape(array), spec, input_set)
    return found


def _require_shape(shape: Sequence[int], spec: InputSpec, input_set: InputSet) -> None:
    """Raise ModelError for a rank or fixed dims other than those of an input; onnxruntime runs scalars of any rank."""
    pairs = zip(spec.shape, shape, strict=False)
    if spec.shape and (len(shape) != len(spec.shape) or any(isinstance(d, int) and d != n for d, n in pairs)):
        found = f"{spec.name} of the {input_set} has shape {dims_text(shape)}"
        raise ModelError(f"{found}; the model needs {dims_text(spec.shape)}")


def checked_inputs(input_set: InputSet, inputs: Sequence[InputSpec]) -> InputSet:
    """`input_set` as arrays of the types of the input specs. Raises ModelError for an input that does not fit."""
    known = {i.name: i for i in inputs}
    for name in input_set.feeds:
        _require_known(name, known, input_set)
    feeds: dict[str, Any] = {}
    for spec in inputs:
        if spec.name in input_set.feeds:
            feeds[spec.name] = _converted(input_set.feeds[spec.name], spec, input_set)
        elif spec.default is None:
            raise ModelError(f"the {input_set} lack {spec.name}")
    return InputSet(input_set.kind, input_set.sizes, feeds)


def _require_known(name: str, known: Collection[str], input_set: InputSet) -> None:
    if name not in known:
        listed = ", ".join(islice(known, MAX_LISTED_NAMES)) + (", ..." if len(known) > MAX_LISTED_NAMES else "")
        raise ModelError(f"the {input_set} name {name}, which is not an input of the model ({listed})")


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
    wanted = _wanted_dtype(spec)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as e:
        raise ModelError(f"{spec.name} of the {input_set} is not an array: {first_line(e)}") from e
    if wanted == np.object_ and array.dtype.kind in "UO" and all(isinstance(s, str) for s in array.flat):
        if not all(map(is_utf8, array.flat)):
            raise ModelError(f"{spec.name} of the {input_set} has text that is not Unicode")
        return array.astype(object)
    if array.dtype == wanted != np.object_:
        return array
    if array.dtype.kind == "V" and wanted != np.object_ and _is_convertible(array.dtype, wanted):
        return array.view(wanted)
    literal = isinstance(value, list | tuple | int | float) and array.dtype.kind in "biuf"
    if (array.dtype.newbyteorder("=") == wanted != np.object_) or (
        literal and np.can_cast(array.dtype, wanted, "same_kind")
    ):
        return array.astype(wanted)
    kind = type(cast("object", value)).__name__ if array.dtype.kind in "OU" else array.dtype
    raise _wrong_type(spec, input_set, kind)


def _wanted_dtype(spec: InputSpec) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(spec.dtype))


def _is_convertible(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether an array of that type, in a file, can be an input of type `wanted`."""
    if wanted == np.object_:
        return dtype.kind in "UO"
    if dtype.kind == "V" and dtype.itemsize == wanted.itemsize and not dtype.fields:
        return True  # how .npz gives back the types that NumPy lacks
    return dtype.newbyteorder("=") == wanted


def _wrong_type(spec: InputSpec, input_set: InputSet, found: object) -> ModelError:
    return ModelError(f"{spec.name} of the {input_set} is {found}; the model needs {_wanted_dtype(spec)}")


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
