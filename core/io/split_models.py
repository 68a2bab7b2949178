"""Models for sessions: serialized, in files, or as a message and the elements of large initializers apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx.external_data_helper import set_external_data

from ..ir.tensor import RAW_DATA, SMALL_TENSOR_BYTES, STRING, MappedField, MappedFile, Tensor

Loadable = bytes | Path
"""A serialized model, or its file; external weights are beside that."""
ALIGNMENT = 64  # bytes; onnxruntime maps elements at such an offset without a copy, and aligns its own tensors as much


@dataclass(frozen=True, slots=True)
class SplitModel:
    """A `message` whose initializers above 1 KB have no elements; `tensors` has those, by name.

    Only initializers of the main graph are split. A session of such a model maps the files of its tensors, or copies
    each tensor once; the message is never larger than the nodes and small tensors are.
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
        """The message with all elements, which are read from disk."""
        message = onnx.ModelProto()
        message.CopyFrom(self.message)
        for t in message.graph.initializer:
            if t.name in self.tensors:
                t.CopyFrom(self.tensors[t.name].to_proto(t.name))
        return message


def is_large(tensor: Tensor) -> bool:
    """Whether the elements of an initializer are apart from the message."""
    return tensor.dtype != STRING and tensor.nbytes > SMALL_TENSOR_BYTES


def refer_to_file(proto: onnx.TensorProto, location: str, begin: int | None = None, length: int | None = None) -> None:
    """Let a tensor without elements refer to bytes of a file."""
    proto.raw_data = b""  # the helper refuses a tensor that has none
    set_external_data(proto, location, begin, length)
    proto.ClearField("raw_data")


def save_split(model: SplitModel, path: Path) -> None:
    """Write the message to `path`, with references to the files of its tensors; only elements in memory are written.

    Those are in `<path>.data`. Other programs refuse such references, which may point anywhere. Raises OSError.
    """
    message = onnx.ModelProto()
    message.CopyFrom(model.message)
    with Path(f"{path}.data").open("wb") as data:
        for proto in message.graph.initializer:
            if (tensor := model.tensors.get(proto.name)) is None:
                continue
            span = tensor.mapped
            if span is not None and span.is_raw and isinstance(span.file, MappedFile):
                refer_to_file(proto, str(span.file.path.resolve()), span.begin, len(span))
            else:
                data.seek(-(-data.tell() // ALIGNMENT) * ALIGNMENT)
                refer_to_file(proto, str(Path(data.name).resolve()), data.tell(), tensor.nbytes)
                data.write(tensor.raw_data())
    path.write_bytes(message.SerializeToString())


def load_split(path: Path) -> SplitModel:
    """The model that `save_split` wrote. Raises OSError."""
    message = onnx.ModelProto.FromString(path.read_bytes())
    files, tensors = dict[str, MappedFile](), dict[str, Tensor]()
    for proto in message.graph.initializer:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            entries = {e.key: e.value for e in proto.external_data}
            file = files.setdefault(entries["location"], MappedFile(Path(entries["location"])))
            begin = int(entries["offset"])
            proto.ClearField("external_data")
            proto.ClearField("data_location")
            elements = onnx.TensorProto()
            elements.CopyFrom(proto)
            span = MappedField(RAW_DATA, file, begin, begin + int(entries["length"]))
            tensors[proto.name] = Tensor.from_proto(elements, span)
    return SplitModel(message, tensors)


@dataclass(frozen=True, slots=True)
class SplitFile:
    """The file of a split model, as `save_split` writes it."""

    path: Path

    def load(self) -> SplitModel:
        """The model. Raises OSError."""
        return load_split(self.path)
