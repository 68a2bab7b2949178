"""Model files, read without loading their weights, which stay on disk until a rewrite needs them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ..errors import ModelError
from ..ir import wire_format
from ..ir.tensor import RAW_DATA, MappedField, MappedFile, MessageBytes, Tensor, join_chunks
from ..processes.watchdog import require_time
from ..serialization.exporter import INITIALIZER, MODEL_GRAPH, NODE
from ..serialization.proto_queries import inner_tensors
from ..support.regular_files import open_regular, unreadable
from .convert import from_onnx, import_model, opsets_of
from .model import Model, SerializedModel, serialize, split
from .ort_format import REFUSAL, OrtFile, is_ort_file
from .split_models import Loadable, SplitModel

MAX_JOINED_BYTES = 16 << 20  # maximum bytes of weights for which a session gets a model as one message

FileVersion = tuple[int, int, int, int]
"""Device, inode, size and time of the last change; a write or replacement changes at least one."""


def _version_at(path: Path) -> FileVersion | None:
    """The version of a file; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(slots=True)
class ModelFile:
    """The file of a model, and the files of external data that it refers to.

    They must not change after the model is first loaded. If there is a `label`, it names the origin of the model, which
    has no other files. `takes_ort`: load the interface of a file in onnxruntime's own format, instead of rejecting it.
    """

    path: Path
    label: str = ""
    takes_ort: bool = False
    external_files: dict[Path, MappedFile] = field(default_factory=dict[Path, MappedFile])
    _versions: dict[Path, FileVersion | None] = field(default_factory=dict[Path, FileVersion | None], repr=False)

    @property
    def name(self) -> str:
        """The label, or the path."""
        return self.label or str(self.path)

    def read_tensor(self, proto: onnx.TensorProto) -> Tensor:
        """A tensor whose elements may be in another file in the model's folder."""
        return self.resolve_external(Tensor.from_proto(proto))

    def resolve_external(self, tensor: Tensor) -> Tensor:
        """Locate the elements of an external tensor in its file. Raises ModelError if they are not available."""
        if not tensor.is_external:
            return tensor
        proto = tensor.header(tensor.name)
        entries = {e.key: e.value for e in proto.external_data}
        file = self._external_file(tensor.name, entries.get("location", ""))
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", tensor.nbytes))
        except ValueError as e:
            raise ModelError(f"{tensor.name}: offset or length of its external data is not a number") from e
        if offset < 0 or length != tensor.nbytes or offset + length > file.path.stat().st_size:
            raise ModelError(f"{tensor.name}: {file.path.name} does not hold its {tensor.nbytes} bytes at {offset}")
        return Tensor.from_proto(proto, MappedField(RAW_DATA, file, offset, offset + length))

    def begin_use(self, path: Path) -> None:
        """Record the version of a file at its first use."""
        if path not in self._versions:
            self._versions[path] = _version_at(path)

    def require_unchanged(self) -> None:
        """Raise ModelError if a file was modified or replaced since its first use."""
        for path, version in self._versions.items():
            if _version_at(path) != version:
                raise ModelError(f"{path} was changed while it was in use")

    def _external_file(self, name: str, location: str) -> MappedFile:
        if self.label:
            raise ModelError(f"{name}: its external data '{location}' is in a file; the model must also be a file")
        folder = self.path.resolve().parent
        path = folder / location.replace("\0", "")
        is_name = location and "\0" not in location and not Path(location).is_absolute()
        if not is_name or not path.resolve().is_relative_to(folder):
            raise ModelError(f"{name}: its external data '{location}' lies outside the model's folder")
        if not path.is_file():
            raise ModelError(f"{name}: its external data file {location} is missing")
        self.begin_use(path)
        return self.external_files.setdefault(path, MappedFile(path))


def load(file: ModelFile, *, inline: bool = True) -> Model:
    """Load a model; nodes are parsed, weights are not. Raises ModelError with a one-line message."""
    with _one_line_errors(file.path, file.label):
        if file.takes_ort and is_ort_file(file.path):
            file.begin_use(file.path)
            return from_onnx(OrtFile.read(file.path).interface)
        _require_onnx(file.path)
        return _load(file, inline)


def split_model(model: Loadable) -> SplitModel:
    """The model with the elements of large initializers separated. Raises ModelError with a one-line message."""
    if isinstance(model, SplitModel):
        return model
    if isinstance(model, bytes):
        return _split(MessageBytes(model), None)
    file = ModelFile(model)
    with _one_line_errors(file.path, file.label):
        _require_onnx(file.path)
        file.begin_use(file.path)
        return _split(MappedFile(file.path), file)


def _split(source: MappedFile | MessageBytes, file: ModelFile | None) -> SplitModel:
    message, info, nodes, initializers = _read_parts(source)
    message.graph.CopyFrom(info)
    message.graph.node.extend(nodes)
    if file is None:
        return SplitModel.of(message, ((t.name, t) for t in initializers))
    for proto in inner_tensors(message.graph.node):
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            proto.CopyFrom(file.read_tensor(proto).to_proto(proto.name))
    return SplitModel.of(message, ((t.name, file.resolve_external(t)) for t in initializers))


def load_without_weights(path: Path) -> onnx.ModelProto:
    """The message of a model without the elements of large initializers. Raises ModelError with a one-line message."""
    with _one_line_errors(path):
        _require_onnx(path)
        model, info, nodes, initializers = _read_parts(MappedFile(path))
        model.graph.CopyFrom(info)
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(t.header(t.name) for t in initializers)
        return model


def _require_onnx(path: Path) -> None:
    if is_ort_file(path):
        raise ModelError(REFUSAL)


@contextmanager
def _one_line_errors(path: Path, label: str = "") -> Generator[None]:
    """Convert errors while reading the model in `path` to ModelError with one line, about `label` if given."""
    name = label or path
    try:
        with open_regular(path) as file:
            is_empty = os.fstat(file.fileno()).st_size == 0
    except OSError as e:
        raise ModelError(unreadable(path, e, "model")) from e
    if is_empty:
        raise ModelError(f"{name} is empty")
    try:
        yield
    except ModelError as e:
        raise ModelError(f"{name}: {e}") from e
    except DecodeError as e:
        is_deep = "MaxDepth" in str(e)  # in the message of protobuf
        reason = "its subgraphs are nested too deeply for protobuf" if is_deep else "not an ONNX model"
        raise ModelError(f"{name}: {reason}") from e
    except OSError as e:
        raise ModelError(f"{name} cannot be read: {e.strerror}") from e


def _load(file: ModelFile, inline: bool) -> Model:
    file.begin_use(file.path)
    source = MappedFile(file.path)
    header, info, nodes, tensors = _read_parts(source)
    opsets_of(header)  # rejects unknown versions before anything is read
    initializers = [file.resolve_external(t) for t in tensors]
    model = import_model(header, info, nodes, initializers, file.read_tensor, inline=inline)
    source.release_pages()
    file.require_unchanged()
    return model


def _read_parts(
    source: MappedFile | MessageBytes,
) -> tuple[onnx.ModelProto, onnx.GraphProto, Iterator[onnx.NodeProto], Iterator[Tensor]]:
    """Read the header of a model, its graph without nodes and initializers, and separately these two."""
    data = source.view()
    header, graphs = onnx.ModelProto(), list[wire_format.Field]()
    for f in wire_format.parse_fields(data, 0, len(data)):
        if f.number == MODEL_GRAPH and f.wire_type == wire_format.LEN:
            graphs.append(f)
        else:
            header.MergeFromString(bytes(data[f.tag_start : f.end]))
    if len(graphs) != 1:
        raise ModelError("not an ONNX model: it has no graph" if not graphs else "it has more than one graph")
    nodes, tensors, rest = array("q"), array("q"), bytearray()  # compact bounds, perhaps of a million nodes
    for f in wire_format.parse_fields(data, graphs[0].begin, graphs[0].end):
        require_time()
        if f.number in {NODE, INITIALIZER}:
            (nodes if f.number == NODE else tensors).extend((f.begin, f.end))
        else:
            rest += data[f.tag_start : f.end]
    initializers = (Tensor.from_wire(source, a, b) for a, b in zip(tensors[::2], tensors[1::2], strict=True))
    protos = (onnx.NodeProto.FromString(bytes(data[a:b])) for a, b in zip(nodes[::2], nodes[1::2], strict=True))
    return header, onnx.GraphProto.FromString(bytes(rest)), protos, initializers


def weight_bytes(model: Model) -> int:
    """The bytes of the initializers of the main graph."""
    return sum(t.nbytes for _, t in model.written_initializers())


def model_bytes(model: Loadable) -> int:
    """The bytes of a model and its weights; without external weights for an unreadable file."""
    if isinstance(model, bytes):
        return len(model)
    if isinstance(model, SplitModel):
        return model.message.ByteSize() + sum(t.nbytes for t in model.tensors.values())
    file = ModelFile(model)
    with suppress(ModelError, DecodeError, OSError):
        *_, initializers = _read_parts(MappedFile(model))
        for tensor in initializers:
            file.resolve_external(tensor)
    with suppress(OSError):
        return sum(path.stat().st_size for path in (model, *file.external_files))
    return 0


def in_memory(model: Model, exported: SerializedModel | None = None) -> bytes | SplitModel:
    """The model for sessions of this project; a large one is split, and its weights are not copied."""
    if weight_bytes(model) <= MAX_JOINED_BYTES:
        return join_chunks((exported or serialize(model)).chunks())
    return split(model, exported)
