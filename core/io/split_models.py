"""Models for sessions: serialized, in files, or as a message with separate elements of large initializers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
from msgspec import Struct
from onnx.external_data_helper import set_external_data

from ..ir.tensor import RAW_DATA, SMALL_TENSOR_BYTES, STRING, MappedField, MappedFile, Tensor
from ..serialization.proto_queries import copy_without

ALIGNMENT = 64  # bytes; onnxruntime maps elements at such offsets without a copy, and aligns its own tensors equally


class SplitModel(Struct, frozen=True):
    """A `message` without the elements of initializers over 1 KB, which are in `tensors`, by name.

    Only initializers of the main graph are split. A session of such a model maps the files of its tensors, or copies
    each tensor once; the message contains only the nodes and small tensors.
    """

    message: onnx.ModelProto
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, message: onnx.ModelProto, initializers: Iterable[tuple[str, Tensor]]) -> SplitModel:
        """Take over a `message` without initializers, and add these."""
        large = dict[str, Tensor]()
        for name, tensor in initializers:
            if is_large(tensor):
                large[name] = tensor
                message.graph.initializer.append(tensor.proto_without_elements(name))
            else:
                message.graph.initializer.append(tensor.to_proto(name))
        return cls(message, large)

    def whole_message(self) -> onnx.ModelProto:
        """The message with all elements, read from disk."""
        message = deepcopy(self.message)
        for t in message.graph.initializer:
            if t.name in self.tensors:
                t.CopyFrom(self.tensors[t.name].to_proto(t.name))
        return message


Loadable = bytes | Path | SplitModel
"""A model that backends can load: serialized, a file with its external weights next to it, or split."""


def message_of(model: Loadable) -> onnx.ModelProto:
    """The message of a model, without elements that are stored separately."""
    if isinstance(model, SplitModel):
        return model.message
    if isinstance(model, bytes):
        return onnx.ModelProto.FromString(model)
    library: Any = onnx
    return library.load(str(model), load_external_data=False)


def is_large(tensor: Tensor) -> bool:
    """Whether the elements of an initializer are separate from the message."""
    return tensor.dtype != STRING and tensor.nbytes > SMALL_TENSOR_BYTES


def refer_to_file(proto: onnx.TensorProto, location: str, begin: int | None = None, length: int | None = None) -> None:
    """Make a tensor without elements refer to bytes of a file."""
    proto.raw_data = b""  # the helper rejects a tensor without raw data
    set_external_data(proto, location, begin, length)
    proto.ClearField("raw_data")


def write_with_data(model: SplitModel, path: Path, *, is_portable: bool) -> None:
    """Write a message, and elements to `<path>.data`: all of them if it `is_portable`, otherwise those in memory.

    A portable message refers to the file beside it, another one to files by their absolute paths. Raises OSError.
    """
    message = deepcopy(model.message)
    beside = Path(f"{path}.data")
    with beside.open("wb") as data:
        for proto in message.graph.initializer:
            if (tensor := model.tensors.get(proto.name)) is None:
                continue
            span = tensor.mapped
            if not is_portable and span is not None and span.is_raw and isinstance(span.file, MappedFile):
                refer_to_file(proto, str(span.file.path.resolve()), span.begin, len(span))
            else:
                data.seek(-(-data.tell() // ALIGNMENT) * ALIGNMENT)
                location = beside.name if is_portable else str(beside.resolve())
                refer_to_file(proto, location, data.tell(), tensor.nbytes)
                data.write(tensor.raw_data())
                tensor.release_pages()
    path.write_bytes(message.SerializeToString())


class SplitFile(Struct, frozen=True):
    """The file of a split model for processes of this project; it may refer to files anywhere.

    Other programs reject such references.
    """

    path: Path

    def write(self, model: SplitModel) -> None:
        """Write the message, and the elements that are in memory to `<path>.data`. Raises OSError."""
        write_with_data(model, self.path, is_portable=False)

    def load(self) -> SplitModel:
        """The model. Raises OSError."""
        message = onnx.ModelProto.FromString(self.path.read_bytes())
        files, tensors = dict[str, MappedFile](), dict[str, Tensor]()
        for proto in message.graph.initializer:
            if proto.data_location == onnx.TensorProto.EXTERNAL:
                entries = {e.key: e.value for e in proto.external_data}
                file = files.setdefault(entries["location"], MappedFile(Path(entries["location"])))
                begin = int(entries["offset"])
                proto.CopyFrom(copy_without(proto, "external_data", "data_location"))
                span = MappedField(RAW_DATA, file, begin, begin + int(entries["length"]))
                tensors[proto.name] = Tensor.from_proto(copy_without(proto), span)
        return SplitModel(message, tensors)


def file_of(model: Loadable, path: Path) -> Path | SplitFile:
    """A file of the model for another process; models in memory are written to `path`. Raises OSError."""
    if isinstance(model, Path):
        return model.absolute()
    if isinstance(model, bytes):
        path.write_bytes(model)
        return path
    file = SplitFile(path)
    file.write(model)
    return file


def load_file(file: Path | SplitFile) -> Path | SplitModel:
    """The model of `file_of`, in a form that backends can load. Raises OSError."""
    return file.load() if isinstance(file, SplitFile) else file
