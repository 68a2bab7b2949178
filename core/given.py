"""Inputs that the user gives: an .npz file, or a folder of serialized tensors as ONNX test data has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from .draws import Draw
from .errors import ModelError
from .signature import Input, Sizes


def read_inputs(path: Path, inputs: Sequence[Input]) -> list[Draw]:
    """The draws in `path`: one for an .npz, one for each `test_data_set_*` folder. Raises ModelError."""
    if path.is_dir():
        folders = sorted(path.glob("test_data_set_*")) or [path]
        return [checked(Draw(f"given ({folder.name})", {}, _from_folder(folder, inputs)), inputs) for folder in folders]
    if not path.is_file():
        raise ModelError(f"{path} does not exist")
    try:
        with np.load(path, allow_pickle=False) as archive:
            feeds = {name: archive[name] for name in archive.files}
    except (ValueError, BadZipFile, OSError, EOFError, AttributeError, TypeError) as e:
        raise ModelError(f"{path} is not an .npz file of arrays") from e
    return [checked(Draw(f"given ({path.name})", {}, feeds), inputs)]


def _from_folder(folder: Path, inputs: Sequence[Input]) -> dict[str, Any]:
    numbered = {int(m[1]): f for f in folder.glob("input_*.pb") if (m := re.fullmatch(r"input_(\d+)", f.stem))}
    if not numbered:
        raise ModelError(f"{folder} holds no input_*.pb")
    feeds: dict[str, Any] = {}
    for i, spec in enumerate(inputs):
        if i in numbered:
            try:
                feeds[spec.name] = _value(numbered[i].read_bytes(), spec.form)
            except (DecodeError, ValueError, TypeError) as e:
                raise ModelError(f"{numbered[i]} is not a serialized {spec.form}") from e
    return feeds


def _value(data: bytes, form: str) -> Any:
    if form == "sequence":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if form == "optional":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def checked(draw: Draw, inputs: Sequence[Input]) -> Draw:
    """`draw`, if it fits the signature. Raises ModelError naming the input that does not."""
    known = {i.name: i for i in inputs}
    for name in draw.feeds:
        if name not in known:
            raise ModelError(f"the {draw} name {name}, which is no input of the model ({', '.join(known)})")
    for spec in inputs:
        if spec.name not in draw.feeds:
            if spec.default is None:
                raise ModelError(f"the {draw} lack {spec.name}")
            continue
        value = draw.feeds[spec.name]
        if spec.form == "tensor":
            wanted = helper.tensor_dtype_to_np_dtype(spec.dtype)
            if value.dtype != wanted and not (wanted == np.object_ and value.dtype.kind in "UO"):
                raise ModelError(f"{spec.name} of the {draw} is {value.dtype}; the model wants {wanted}")
    return draw


def sizes_from_shapes(shapes: dict[str, tuple[int, ...]], inputs: Sequence[Input]) -> Sizes:
    """What symbols become when inputs take the given shapes. Raises ModelError for a shape that cannot be."""
    known = {i.name: i for i in inputs}
    sizes: Sizes = {}
    for name, shape in shapes.items():
        if name not in known:
            raise ModelError(f"--shape {name}: the model has no such input (it has {', '.join(known)})")
        declared = known[name].shape
        if len(shape) != len(declared):
            raise ModelError(f"--shape {name}: {len(shape)} dims given, the input has {len(declared)}")
        for d, n in zip(declared, shape, strict=True):
            if isinstance(d, int) and d != n:
                raise ModelError(f"--shape {name}: a dim fixed at {d} cannot be {n}")
            if isinstance(d, str) and sizes.setdefault(d, n) != n:
                raise ModelError(f"--shape {name}: {d} cannot be both {sizes[d]} and {n}")
    return sizes
