"""Writing of model files, in one file or with external data next to it, and of other files.

Weights that no rewrite needed are copied between files.
"""

from __future__ import annotations

import errno
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import onnx

from ..errors import ModelError, format_error
from ..ir.tensor import CHUNK_BYTES, SMALL_TENSOR_BYTES, STRING, Chunk, MappedField, MappedFile, Tensor, chunk_bytes
from .files import weight_bytes
from .model import MAX_MESSAGE_BYTES, Model, SerializedModel, serialize
from .split_models import refer_to_file

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MAX_WHOLE_BYTES = 256 << 20  # of weights, up to which a temporary model is one file
MAX_NAME_BYTES = 255  # of a file, on common file systems
DIGEST_DIGITS = 16  # hexadecimal, of the digest of external data in its file name
DIGEST_THREADS = 2  # a single thread takes longer for digests than for copying
PAGE_BYTES = 4096  # alignment of a tensor's external data
PIECE_BYTES = 256 << 10  # of a file that is read at a time

ReportBytes = Callable[[int, int], object]
"""Called with the bytes written so far, and the approximate total."""


def write_for_sessions(model: Model, path: Path) -> None:
    """Write a model to a temporary file, with separate weights if it is large. Raises ModelError."""
    try:
        write_model(model, path, external=weight_bytes(model) > MAX_WHOLE_BYTES)
    except OSError as e:
        raise ModelError(f"cannot write to {path.parent}: {e.strerror}") from e


def data_name(model_name: str, digest: str) -> str:
    """The file name of a model's external data, at most 255 bytes, with the `digest` of the data."""
    end = f".{digest}.data"
    start = os.fsencode(model_name)[: MAX_NAME_BYTES - len(end)]
    return start.decode(errors="ignore") + end


def data_name_pattern(model_name: str) -> str:
    """A regular expression for the file names of external data of a model with this name."""
    example = "0" * DIGEST_DIGITS
    start, end = data_name(model_name, example).rsplit(example, 1)
    return f"{re.escape(start)}[0-9a-f]{{{DIGEST_DIGITS}}}{re.escape(end)}"


def write_model(
    model: Model | SerializedModel,
    path: Path,
    *,
    external: bool = False,
    external_above: int = SMALL_TENSOR_BYTES,
    is_final: bool = False,
    report: ReportBytes = lambda _written, _total: None,
) -> Path | None:
    """Write a model, calling `report` with the progress.

    With `external` or over 2 GB, tensors of a Model with more than `external_above` bytes are written to another file
    in its folder, which is returned if it exists. With `is_final`, its name contains a digest of its contents, and it
    is flushed to disk, unlike the model. Raises OSError.
    """
    data: Path | None = None
    if isinstance(model, SerializedModel):
        exported = model
    elif external or weight_bytes(model) > MAX_MESSAGE_BYTES:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - seldom needed

        digits = os.urandom(DIGEST_DIGITS // 2).hex() if is_final else "0" * DIGEST_DIGITS
        data = path.with_name(data_name(path.name, digits))
        with data.open("w+b") as file, ThreadPoolExecutor(DIGEST_THREADS) as threads:
            writer = _ExternalDataWriter(
                file, external_above, weight_bytes(model), report, threads if is_final else None
            )
            exported = serialize(model, writer.chunks)
            is_empty = not file.tell()
            digest = writer.finish() if is_final else ""
        if is_empty:
            data.unlink()
            data = None
        elif is_final:
            named = path.with_name(data_name(path.name, digest))
            exported = _renamed(exported, data.name, named.name)
            data = data.replace(named)
    else:
        exported = serialize(model)
    with path.open("wb") as f:
        total = exported.size
        for chunk in exported.chunks():
            write_chunk(f, chunk)
            if data is None:
                report(f.tell(), total)
    return data


def _renamed(model: SerializedModel, old: str, new: str) -> SerializedModel:
    """Rename the external data in a model; names have equal lengths, and the `old` one occurs nowhere else."""
    before, after = old.encode(), new.encode()
    initializers = tuple(
        tuple(chunk.replace(before, after) if isinstance(chunk, bytes) else chunk for chunk in chunks)
        for chunks in model.initializers
    )
    return SerializedModel(model.header, model.body.replace(before, after), initializers)


@dataclass(slots=True)
class _ExternalDataWriter:
    """Writes the elements of tensors of more than `above` bytes to a file, and references to them into the messages.

    `threads`, if given, compute a digest of each tensor from the page cache, in parallel with writing.
    """

    file: BinaryIO
    above: int
    total: int
    report: ReportBytes
    threads: ThreadPoolExecutor | None
    _digests: list[Future[bytes]] = field(default_factory=list["Future[bytes]"])

    def chunks(self, tensor: Tensor, name: str) -> Iterator[Chunk]:
        if tensor.nbytes <= self.above or tensor.dtype == STRING:
            yield from tensor.chunks(name)
            return
        content = tensor.mapped if tensor.mapped is not None and tensor.mapped.is_raw else tensor.raw_data()
        self.file.write(b"\0" * (-self.file.tell() % PAGE_BYTES))
        begin = self.file.tell()
        proto = tensor.proto_without_elements(name)
        refer_to_file(proto, Path(self.file.name).name, begin, len(content))
        write_chunk(self.file, content)
        if self.threads is not None:
            self.file.flush()
            self._digests.append(self.threads.submit(_digest, self.file.fileno(), begin, self.file.tell()))
        self.report(self.file.tell(), self.total)
        yield proto.SerializeToString(deterministic=True)

    def finish(self) -> str:
        """Flush the file to disk; return a digest of all its tensors. Raises OSError."""
        self.file.flush()
        os.fsync(self.file.fileno())
        whole = b"".join(digest.result() for digest in self._digests)
        return sha1(whole, usedforsecurity=False).hexdigest()[:DIGEST_DIGITS]  # no digest of 16 digits is secure


def _digest(descriptor: int, begin: int, end: int) -> bytes:
    """The digest of a part of an open file, which is not read again."""
    digest, piece = sha1(usedforsecurity=False), memoryview(bytearray(PIECE_BYTES))
    for start in range(begin, end, PIECE_BYTES):
        count = os.preadv(descriptor, [piece], start)
        digest.update(piece[: min(count, end - start)])
    if hasattr(os, "posix_fadvise"):  # lets the disk write while copying
        os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)
    return digest.digest()


def write_chunk(file: BinaryIO, chunk: Chunk) -> None:
    """Append a chunk to `file`. A span of another file is copied; its holes are kept.

    The kernel copies without using this process's memory, and shares blocks if the file system can
    (copy_file_range(2)). Raises OSError.
    """
    if not isinstance(chunk, MappedField) or not isinstance(chunk.file, MappedFile):
        file.write(chunk_bytes(chunk))
        return
    file.flush()
    start, source = file.tell(), chunk.file.fileno()
    if os.fstat(source).st_size < chunk.end:
        raise OSError(errno.EIO, f"{chunk.file.path.name} became shorter")
    for begin, end in _data_spans(source, chunk.begin, chunk.end):
        _copy_span(source, begin, end, file.fileno(), begin + start - chunk.begin)
    file.truncate(start + len(chunk))  # necessary if it ends with a hole
    file.seek(start + len(chunk))


def _data_spans(source: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span of a file that are not holes; one part if the system cannot tell."""
    if not hasattr(os, "SEEK_DATA"):
        yield begin, end
        return
    while begin < end:
        try:
            start = os.lseek(source, begin, os.SEEK_DATA)
            stop = min(os.lseek(source, start, os.SEEK_HOLE), end)
        except OSError as e:
            if e.errno != errno.ENXIO:  # the rest is a hole
                yield begin, end
            return
        if start < end:
            yield start, stop
        begin = max(start, stop)


def _copy_span(source: int, begin: int, end: int, target: int, at: int) -> None:
    """Copy bytes of one open file to position `at` of another, in memory if the kernel cannot. Raises OSError."""
    copy = getattr(os, "copy_file_range", None)
    while begin < end:
        length = min(end - begin, CHUNK_BYTES)
        count = 0
        if copy is not None:
            try:
                count = copy(source, target, length, begin, at)
            except OSError:  # unsupported by these file systems; if the disk is full, the next write fails
                copy = None
        if not count:
            count = os.pwrite(target, os.pread(source, length, begin), at)
        if not count:
            raise OSError(errno.EIO, "a file of weights became shorter")
        begin, at = begin + count, at + count


def encode_text(text: str) -> bytes:
    """Text as UTF-8, with the original bytes of paths; other lone surrogates are escaped."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def write_files(folder: Path, files: Mapping[str, Any]) -> list[str]:
    """Write `files`; return the error for each that cannot be written."""
    lost: list[str] = []
    for name, content in files.items():
        try:
            write_file(folder / name, content)
        except Exception as e:  # noqa: BLE001 - a pass may leave anything
            (folder / name).unlink(missing_ok=True)
            lost.append(f"{name}: {format_error(e)}")
    return lost


def write_file(path: Path, content: Any) -> None:
    """Write a model, or arrays by name as an .npz file if there are any."""
    if isinstance(content, onnx.ModelProto):
        path.write_bytes(content.SerializeToString())
        return
    if isinstance(content, Model):
        write_model(content, path)
        return
    arrays: dict[str, Any] = content
    if not arrays:
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # np.savez does not accept an array named `file`
        for name, elements in arrays.items():
            found = np.asarray(elements)
            plain = found.astype(np.str_) if found.dtype == np.object_ else found  # avoids pickling strings
            with archive.open(f"{name}.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, plain, allow_pickle=False)
