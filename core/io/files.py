"""Model files, read and written without loading their weights, and folders of models, inputs and texts.

Weights stay on disk until a rewrite needs them, and are copied from file to file otherwise.
"""

from __future__ import annotations

import os
import re
import zipfile
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from io import FileIO
from mmap import mmap
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import set_external_data

from ..errors import ModelError, format_error
from ..ir import wire_format
from ..ir.tensor import (
    RAW_DATA,
    SMALL_TENSOR_BYTES,
    STRING,
    Chunk,
    MappedField,
    MappedFile,
    MessageBytes,
    Tensor,
    join_chunks,
)
from ..serialization.exporter import INITIALIZER, MODEL_GRAPH, NODE
from ..serialization.proto_queries import inner_tensors
from ..support.regular_files import open_regular, unreadable
from ..support.scratch_folder import ScratchFolder
from ..support.threads import begin_call
from .convert import import_model, opsets_of
from .file_copies import PAGE_BYTES, write_chunk
from .model import MAX_MESSAGE_BYTES, Model, SerializedModel, serialize, split
from .split_models import Loadable, SplitModel

MAX_IN_MEMORY_BYTES = 256 << 20  # bytes of weights up to which a model is handed on without being written to disk
MAX_JOINED_BYTES = 16 << 20  # bytes of weights up to which a session gets a model as one message
MAX_NAME_BYTES = 255  # of a file, on common file systems
DIGEST_DIGITS = 16  # hexadecimal, of the content of external data in the name of its file
PIECE_BYTES = 256 << 10  # of a file that is read at a time
SAMPLED_BYTES = 16 << 20  # of external data that are read for its name; less is read whole
FLUSHED_BYTES = 256 << 20  # of external data that are flushed to disk at a time, beside the writing
MAX_KEPT_BYTES = 1 << 30  # of external data that are written by way of the memory of the system, where they stay

FileVersion = tuple[int, int, int, int]
"""Device, inode, size and time of the last change, of which a write or a replacement changes some."""


def file_version(status: os.stat_result) -> FileVersion:
    """The version of the file with a status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _version_at(path: Path) -> FileVersion | None:
    """The version of a file, None if there is none."""
    try:
        return file_version(path.stat())
    except OSError:
        return None


@dataclass(slots=True)
class ModelFile:
    """The file of a model and the files of external data to which it refers.

    They must stay as they are from the first time the model is loaded. A model with a `label` came from there, without
    other files.
    """

    path: Path
    label: str = ""
    external_files: dict[Path, MappedFile] = field(default_factory=dict[Path, MappedFile])
    _versions: dict[Path, FileVersion | None] = field(default_factory=dict[Path, FileVersion | None], repr=False)

    @property
    def name(self) -> str:
        """The label, or the path."""
        return self.label or str(self.path)

    def read_tensor(self, proto: onnx.TensorProto) -> Tensor:
        """A tensor whose elements may lie in another file of the model's folder."""
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
        """Raise ModelError if one of the files was written to or replaced since its first use."""
        for path, version in self._versions.items():
            if _version_at(path) != version:
                raise ModelError(f"{path} was changed while it was in use")

    def _external_file(self, name: str, location: str) -> MappedFile:
        if self.label:
            raise ModelError(f"{name}: its external data '{location}' are in a file; give the model as a file, too")
        folder = self.path.resolve().parent
        path = folder / location.replace("\0", "")
        is_name = location and "\0" not in location and not Path(location).is_absolute()
        if not is_name or not path.resolve().is_relative_to(folder):
            raise ModelError(f"{name}: its external data '{location}' lies outside the model's folder")
        if not path.is_file():
            raise ModelError(f"{name}: the file of its external data, {location}, is missing")
        self.begin_use(path)
        return self.external_files.setdefault(path, MappedFile(path))


def load(file: ModelFile, *, inline: bool = True) -> Model:
    """Load a model; nodes are parsed, weights are not. Raises ModelError with a one-line message."""
    with _one_line_errors(file.path, file.label):
        return _load(file, inline)


def split_model(model: Loadable | SplitModel) -> SplitModel:
    """The model with the elements of large initializers apart. Raises ModelError with a one-line message."""
    if isinstance(model, SplitModel):
        return model
    if isinstance(model, bytes):
        return _split(MessageBytes(model), None)
    return split_file(ModelFile(model))


def split_file(file: ModelFile) -> SplitModel:
    """The model in a file, as of `split_model`; the versions of its files are recorded. Raises ModelError."""
    with _one_line_errors(file.path, file.label):
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
        model, info, nodes, initializers = _read_parts(MappedFile(path))
        model.graph.CopyFrom(info)
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(t.header(t.name) for t in initializers)
        return model


@contextmanager
def _one_line_errors(path: Path, label: str = "") -> Generator[None]:
    """Raise errors of reading the model in `path` as ModelError with a one-line message, about `label` if given."""
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
        is_deep = "MaxDepth" in str(e)  # in the message of protobuf's own library
        reason = "its subgraphs are nested too deeply for protobuf" if is_deep else "not an ONNX model"
        raise ModelError(f"{name}: {reason}") from e
    except OSError as e:
        raise ModelError(f"{name} cannot be read: {e.strerror}") from e


def _load(file: ModelFile, inline: bool) -> Model:
    file.begin_use(file.path)
    source = MappedFile(file.path)
    header, info, nodes, tensors = _read_parts(source)
    opsets_of(header)  # refuses unknown versions before anything is read
    initializers = [file.resolve_external(t) for t in tensors]
    model = import_model(header, info, nodes, initializers, file.read_tensor, inline=inline)
    source.release_pages()
    file.require_unchanged()
    return model


def _read_parts(
    source: MappedFile | MessageBytes,
) -> tuple[onnx.ModelProto, onnx.GraphProto, Iterator[onnx.NodeProto], Iterator[Tensor]]:
    """The header of a model, its graph without nodes and initializers, and both of these as they are read."""
    data = source.view()
    header, graphs = onnx.ModelProto(), list[wire_format.Field]()
    for f in wire_format.parse_fields(data, 0, len(data)):
        if f.number == MODEL_GRAPH and f.wire_type == wire_format.LEN:
            graphs.append(f)
        else:
            header.MergeFromString(bytes(data[f.tag_start : f.end]))
    if len(graphs) != 1:
        raise ModelError("not an ONNX model: it has no graph" if not graphs else "it has more than one graph")
    nodes, tensors, rest = array("q"), array("q"), bytearray()  # bounds in compact form, of perhaps a million nodes
    for f in wire_format.parse_fields(data, graphs[0].begin, graphs[0].end):
        if f.number in {NODE, INITIALIZER}:
            (nodes if f.number == NODE else tensors).extend((f.begin, f.end))
        else:
            rest += data[f.tag_start : f.end]
    initializers = (Tensor.from_wire(source, a, b) for a, b in zip(tensors[::2], tensors[1::2], strict=True))
    protos = (onnx.NodeProto.FromString(bytes(data[a:b])) for a, b in zip(nodes[::2], nodes[1::2], strict=True))
    return header, onnx.GraphProto.FromString(bytes(rest)), protos, initializers


def weight_bytes(model: Model) -> int:
    """Bytes of the initializers of the main graph."""
    return sum(t.nbytes for _, t in model.written_initializers())


def in_memory(model: Model, exported: SerializedModel | None = None) -> bytes | SplitModel:
    """The model for sessions of this project: a large one split, with its weights where they are."""
    if weight_bytes(model) <= MAX_JOINED_BYTES:
        return join_chunks((exported or serialize(model)).chunks())
    return split(model, exported)


@contextmanager
def as_loadable(model: Model, exported: SerializedModel | None = None) -> Generator[Loadable]:
    """The model in a form that backends load: bytes, or, for a large one, a temporary file."""
    if weight_bytes(model) <= MAX_IN_MEMORY_BYTES:
        yield join_chunks((exported or serialize(model)).chunks())
        return
    with ScratchFolder() as folder:
        path = folder / "model.onnx"
        try:
            write_model(model, path, external=True)
        except OSError as e:
            raise ModelError(f"cannot write to {folder.parent}: {e.strerror}") from e
        yield path


def data_name(model_name: str, digest: str) -> str:
    """The name of the file with the external data of a model, of at most 255 bytes; `digest` is that of its content."""
    end = f".{digest}.data"
    start = os.fsencode(model_name)[: MAX_NAME_BYTES - len(end)]
    return start.decode(errors="ignore") + end


def data_name_pattern(model_name: str) -> str:
    """A regular expression for the names of external data of a model of this name."""
    example = "0" * DIGEST_DIGITS
    start, end = data_name(model_name, example).rsplit(example, 1)
    return f"{re.escape(start)}[0-9a-f]{{{DIGEST_DIGITS}}}{re.escape(end)}"


ReportBytes = Callable[[int, int], object]
"""Is called with the bytes written so far, and how many there are, more or less."""


def write_model(
    model: Model | SerializedModel,
    path: Path,
    *,
    external: bool = False,
    external_above: int = SMALL_TENSOR_BYTES,
    report: ReportBytes = lambda _written, _total: None,
) -> Path | None:
    """Write a model, which is not flushed to disk; `report` is called as it grows.

    With `external` or beyond 2 GB, tensors of a Model of more than `external_above` bytes are written to another file
    in its folder, which is returned if there are any: its name holds a digest of its content, beyond 16 MiB of pages
    of it. Raises OSError.
    """
    data: Path | None = None
    if isinstance(model, SerializedModel):
        exported = model
    elif external or weight_bytes(model) > MAX_MESSAGE_BYTES:
        exported, data = _write_external_data(model, path, external_above, report)
    else:
        exported = serialize(model)
    with path.open("wb") as f:
        total = exported.size
        for chunk in exported.chunks():
            write_chunk(f, chunk)
            if data is None:
                report(f.tell(), total)
    return data


def _write_external_data(
    model: Model, path: Path, above: int, report: ReportBytes
) -> tuple[SerializedModel, Path | None]:
    """Write tensors of more than `above` bytes beside `path`; returns the model that refers to them, and the file."""
    provisional = data_name(path.name, token_hex(DIGEST_DIGITS // 2))
    unnamed = path.with_name(provisional)
    with unnamed.open("w+b") as file, ThreadPoolExecutor(1) as thread:
        writer = _ExternalDataWriter(file, provisional, above, weight_bytes(model), report, thread)
        exported = serialize(model, writer.chunks)
        is_empty = not file.tell()
        writer.finish()
        name = data_name(path.name, _sampled_digest(file.fileno()))
    if is_empty:
        unnamed.unlink()
        return exported, None
    before, after = provisional.encode(), name.encode()
    initializers = tuple(
        tuple(chunk.replace(before, after) if isinstance(chunk, bytes) else chunk for chunk in chunks)
        for chunks in exported.initializers
    )
    renamed = SerializedModel(exported.header, exported.body.replace(before, after), initializers)
    return renamed, unnamed.replace(path.with_name(name))


def is_named_by_content(data: Path) -> bool:
    """Whether the name that `write_model` gave to a file of external data tells all of its content. Raises OSError."""
    return data.stat().st_size <= SAMPLED_BYTES


def name_by_content(model: Path, data: Path) -> Path:
    """Rename a file of external data, as `write_model` wrote it, by a digest of all of it, also in its model.

    Returns its path; it has no other content there, nor elsewhere. Raises OSError.
    """
    if is_named_by_content(data):
        return data
    with data.open("rb") as file:
        named = data.with_name(data_name(model.name, _content_digest(file.fileno(), PIECE_BYTES, PIECE_BYTES)))
    before, after = data.name.encode(), named.name.encode()
    with model.open("r+b") as file, mmap(file.fileno(), 0) as text:
        at = text.find(before)
        while at >= 0:
            text[at : at + len(before)] = after
            at = text.find(before, at + len(before))
        text.flush()
        os.fsync(file.fileno())
    return data.replace(named)


def have_same_bytes(a: FileIO, b: FileIO) -> bool:
    """Whether two open files have the same content from where they are on. Raises OSError."""
    left, right = bytearray(PIECE_BYTES), bytearray(PIECE_BYTES)
    while count := a.readinto(left):
        if b.readinto(right) != count or left != right:
            return False
    return not b.read(1)


def _sampled_digest(descriptor: int) -> str:
    """The digest of an open file by pages at equal distances, by all if it is small. Raises OSError."""
    pages_of_each = max(1, -(-os.fstat(descriptor).st_size // SAMPLED_BYTES))
    return _content_digest(descriptor, PAGE_BYTES, PAGE_BYTES * pages_of_each)


def _content_digest(descriptor: int, length: int, distance: int) -> str:
    """The digest of the size of an open file and of pieces of this length at equal distances. Raises OSError."""
    size = os.fstat(descriptor).st_size
    found = sha256(size.to_bytes(8, "little"))
    if distance > length and hasattr(os, "posix_fadvise"):  # all at once from the disk, where they are not in memory
        for start in range(0, size, distance):
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)
    for start in range(0, size, distance):
        found.update(os.pread(descriptor, length, start))
    return found.hexdigest()[:DIGEST_DIGITS]


def begin_to_flush(paths: Iterable[Path]) -> Future[None]:
    """Flush files to disk in a thread, also if they are moved meanwhile. Raises OSError, here or in the result."""
    files = [path.open("r+b") for path in paths]

    def flush() -> None:
        for file in files:
            with file:
                os.fsync(file.fileno())

    return begin_call(flush)


@dataclass(slots=True)
class _ExternalDataWriter:
    """Writes the elements of tensors of more than `above` bytes to a file, and references to them into the messages.

    A `thread` flushes parts of a large file to disk beside the writing.
    """

    file: BinaryIO
    location: str
    above: int
    total: int
    report: ReportBytes
    thread: ThreadPoolExecutor
    _flushed: int = 0
    _flushing: list[Future[None]] = field(default_factory=list[Future[None]])

    def chunks(self, tensor: Tensor, name: str) -> Iterator[Chunk]:
        if tensor.nbytes <= self.above or tensor.dtype == STRING:
            yield from tensor.chunks(name)
            return
        content = tensor.mapped if tensor.mapped is not None and tensor.mapped.is_raw else tensor.raw_data()
        self.file.write(b"\0" * (-self.file.tell() % PAGE_BYTES))
        proto = tensor.proto_without_elements(name)
        proto.raw_data = b""  # the helper refuses a tensor that has none
        set_external_data(proto, self.location, self.file.tell(), len(content))
        proto.ClearField("raw_data")
        write_chunk(self.file, content, direct=self.total > MAX_KEPT_BYTES)
        self.report(self.file.tell(), self.total)
        if self.file.tell() - self._flushed >= FLUSHED_BYTES:
            self.file.flush()
            self._flushed = self.file.tell()
            self._flushing.append(self.thread.submit(os.fsync, self.file.fileno()))
        yield proto.SerializeToString(deterministic=True)

    def finish(self) -> None:
        """Write the end of the file, and wait until the parts before it are on the disk. Raises OSError."""
        for part in self._flushing:
            part.result()
        self.file.flush()


def encode_text(text: str) -> bytes:
    """Text as UTF-8, with the original bytes of paths; other lone surrogates are escaped."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def write_files(folder: Path, files: Mapping[str, Any]) -> list[str]:
    """Write `files`; returns the error for each that cannot be written."""
    lost: list[str] = []
    for name, content in files.items():
        try:
            write_file(folder / name, content)
        except Exception as e:  # noqa: BLE001 - a pass may leave anything
            (folder / name).unlink(missing_ok=True)
            lost.append(f"{name}: {format_error(e)}")
    return lost


def write_file(path: Path, content: Any) -> None:
    """Write a model, or arrays by name as an .npz if there are any."""
    if isinstance(content, onnx.ModelProto):
        path.write_bytes(content.SerializeToString())
        return
    if isinstance(content, Model):
        write_model(content, path)
        return
    arrays: dict[str, Any] = content
    if not arrays:
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # np.savez takes no array called `file`
        for name, elements in arrays.items():
            found = np.asarray(elements)
            plain = found.astype(np.str_) if found.dtype == np.object_ else found  # no pickles for strings
            with archive.open(f"{name}.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, plain, allow_pickle=False)
