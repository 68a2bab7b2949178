"""Split models in the forms that onnxruntime and other engines accept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import helper
from onnx.external_data_helper import load_external_data_for_model

from ..io.convert import import_model
from ..io.files import split_model
from ..io.split_models import ALIGNMENT, Loadable, SplitModel, message_of, refer_to_file, write_with_data
from ..ir.tensor import MappedFile, Tensor
from ..serialization.proto_queries import copy_without
from ..support.scratch_folder import ScratchFolder
from .ort_values import Array, to_ortvalue

NO_FILE = "elements_in_memory"  # the location of elements that the session gets as OrtValues
MAX_WHOLE_BYTES = 1 << 30  # bytes of weights; up to this size, a model is one message


class SessionSource(NamedTuple):
    """The `data` and `folder` for a session of a split model, and the OrtValues that it copies, by name.

    Each OrtValue is paired with the array that must outlive it.
    """

    data: bytes
    folder: Path | None
    values: Mapping[str, tuple[Any, Array]]


def session_source(model: SplitModel) -> SessionSource:
    """The model for a session: it refers to aligned elements in files; other elements are passed as values."""
    message = deepcopy(model.message)
    paths = {name: path for name, t in model.tensors.items() if (path := _aligned_file(t)) is not None}
    folder = Path(os.path.commonpath([p.parent for p in paths.values()])) if paths else None
    values = dict[str, tuple[Any, Array]]()
    for proto in message.graph.initializer:
        if (tensor := model.tensors.get(proto.name)) is None:
            continue
        if folder is not None and proto.name in paths and tensor.mapped is not None:
            location = paths[proto.name].relative_to(folder).as_posix()
            refer_to_file(proto, location, tensor.mapped.begin, tensor.nbytes)
        else:
            refer_to_file(proto, NO_FILE)
            values[proto.name] = to_ortvalue(tensor.array)
    return SessionSource(message.SerializeToString(), folder, values)


def _aligned_file(tensor: Tensor) -> Path | None:
    """The file with the elements in raw form, if their offset is aligned."""
    mapped = tensor.mapped
    if mapped is None or not mapped.is_raw or mapped.begin % ALIGNMENT or not isinstance(mapped.file, MappedFile):
        return None
    return mapped.file.path.resolve()


def with_output_types(model: Loadable) -> Loadable:
    """Add the types of outputs, which models of parts lack; files are unchanged.

    An unknown type, for example of a custom operator's output, remains undefined.
    """
    if isinstance(model, Path) or all(o.type.WhichOneof("value") for o in message_of(model).graph.output):
        return model
    split = split_model(model)
    message, tensors = deepcopy(split.message), split.tensors
    initializers = [tensors.get(t.name) or Tensor.from_proto(t) for t in message.graph.initializer]
    header, info = copy_without(message, "graph"), copy_without(message.graph, "node", "initializer")
    graph = import_model(header, info, message.graph.node, initializers, Tensor.from_proto, inline=False).graph
    for output, value in zip(message.graph.output, graph.outputs, strict=True):
        if not output.type.WhichOneof("value") and value.known_dtype:
            shape = value.known_shape
            dims = None if shape is None else [d if isinstance(d, int) else None for d in shape]
            output.type.CopyFrom(helper.make_tensor_type_proto(value.known_dtype, dims))
    return SplitModel(message, tensors)


def whole_model(model: Loadable, folder: Path | None, exits: ExitStack, most: int = MAX_WHOLE_BYTES) -> bytes | Path:
    """A model as one message, or as a file with its large weights next to it, which is removed with `exits`.

    `folder` has the external weights of a model given as bytes. Of a split model, up to `most` bytes are in a message.
    """
    if isinstance(model, Path):
        return model
    if isinstance(model, bytes):
        message = onnx.ModelProto.FromString(model)
        if folder is not None:
            load_external_data_for_model(message, str(folder))
        return message.SerializeToString()
    if sum(t.nbytes for t in model.tensors.values()) <= most:
        return model.whole_message().SerializeToString()
    path = exits.enter_context(ScratchFolder()) / "model.onnx"
    write_with_data(model, path, is_portable=True)
    return path
