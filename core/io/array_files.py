"""Arrays in .npz files and in ONNX test data, whose headers are checked before their elements are read."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from msgspec import Struct
from numpy.lib import format as npy
from onnx import helper, numpy_helper

from ..errors import ModelError
from ..ir.tensor import KNOWN_DTYPES, first_line
from ..support.regular_files import open_regular, unreadable

MAX_HEADER_BYTES = 10_000  # of one array
MAX_ARRAY_BYTES = 2 << 30  # of all arrays in a small file
MAX_EXPANSION = 4  # bytes of all arrays for each byte of a larger file
MAX_MESSAGE_BYTES = (2 << 30) - 1  # of a protobuf message
TEXT_BYTES = 64  # minimum for a Python string
MAX_REASON = 200  # characters of a library's message, which may quote the file
SUFFIX = ".npy"
UNREADABLE = "cannot be read"
Array = np.ndarray[Any, Any]


class ArrayHeader(Struct, frozen=True):
    """The type and the shape of a stored array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the elements in a file."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def memory_bytes(self) -> int:
        """The bytes of the elements in memory, where text becomes Python strings."""
        least = TEXT_BYTES if self.dtype.kind in "OSU" else 1
        return prod(self.shape) * max(self.dtype.itemsize, least)


HeaderCheck = Callable[[str, ArrayHeader], None]
"""Raises ModelError if the array with that name must not be read."""


class ArrayFile(Struct, frozen=True):
    """An open .npz file; `headers` describes its arrays by name; no elements have been read."""

    path: Path
    headers: Mapping[str, ArrayHeader]
    _archive: zipfile.ZipFile
    _members: Mapping[str, zipfile.ZipInfo]

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Read the named arrays. Raises ModelError."""
        import psutil  # noqa: PLC0415 - takes a while, and files of arrays are seldom given

        wanted = list(names)
        needed, free = sum(self.headers[n].memory_bytes for n in wanted), psutil.virtual_memory().available
        if needed > free:
            raise ModelError(f"{self.path}: its arrays need {_size(needed)} of memory, of which {_size(free)} are free")
        return {name: self._read(self._members[name]) for name in wanted}

    def _read(self, member: zipfile.ZipInfo) -> Array:
        with _one_line_errors(f"{self.path}: {member.filename}", UNREADABLE), self._archive.open(member) as stream:
            array = npy.read_array(stream, allow_pickle=False, max_header_size=MAX_HEADER_BYTES)
            _require_text(array)
            if stream.read(1):
                raise ValueError("it holds more than its header says")
            return array


@contextmanager
def open_arrays(path: Path) -> Generator[ArrayFile]:
    """Open the arrays in an .npz file. Raises ModelError for other files. Objects are never unpickled."""
    try:
        file = open_regular(path)
    except OSError as e:
        raise ModelError(unreadable(path, e)) from e
    with file:
        with _one_line_errors(str(path), "is not an .npz file of arrays"):
            archive = zipfile.ZipFile(file)
        members = _array_members(path, archive)
        headers: dict[str, ArrayHeader] = {}
        for name, member in members.items():
            with _one_line_errors(f"{path}: {member.filename}", UNREADABLE), archive.open(member) as stream:
                headers[name] = _read_header(stream)
            _require_plain(f"{path}: {member.filename}", headers[name], member.file_size)
        _require_expansion(path, sum(h.memory_bytes for h in headers.values()), os.fstat(file.fileno()).st_size)
        yield ArrayFile(path, headers, archive, members)


def read_arrays(path: Path, check: HeaderCheck = lambda _name, _header: None) -> dict[str, Array]:
    """Read all arrays of an .npz file after all headers pass `check`. Raises ModelError."""
    with open_arrays(path) as file:
        for name, header in file.headers.items():
            check(name, header)
        return file.read(file.headers)


@contextmanager
def _one_line_errors(what: str, failure: str) -> Generator[None]:
    """Convert the errors of libraries that read a file to ModelError, and hide their warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ModelError as e:
        raise ModelError(f"{what}: {e}") from e
    except MemoryError as e:
        raise ModelError(f"{what} {failure}: there is not enough memory") from e
    except OSError as e:
        raise ModelError(f"{what} {failure}: {e.strerror or first_line(e)[:MAX_REASON]}") from e
    except Exception as e:  # the errors of NumPy, zipfile and its decompressors, protobuf and onnx are not documented
        raise ModelError(f"{what} {failure}: {first_line(e)[:MAX_REASON]}") from e


def _array_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by array name. Raises ModelError."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(SUFFIX)
        if name == member.filename:
            raise ModelError(f"{path}: {name} is not an array: its name must end in {SUFFIX}")
        if name in found:
            raise ModelError(f"{path}: there are two arrays named {name}")
        found[name] = member
    return found


def _read_header(stream: IO[bytes]) -> ArrayHeader:
    """Read the header at the start of a stream, up to the maximum size of a header. Raises ValueError."""
    start = BytesIO(stream.read(npy.MAGIC_LEN + 4 + MAX_HEADER_BYTES))
    version = npy.read_magic(start)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:  # (3, 0) is for field names
        raise ValueError(f"its version {version} is unknown")
    shape, _, dtype = readers[version](start, max_header_size=MAX_HEADER_BYTES)
    if any(n < 0 for n in shape):
        raise ValueError(f"its shape {list(shape)} is negative")
    return ArrayHeader(dtype, tuple(map(int, shape)))


def _require_plain(what: str, header: ArrayHeader, held: int) -> None:
    """Raise ModelError for objects, structures, and headers that announce more than the `held` bytes."""
    if header.dtype.hasobject:
        raise ModelError(f"{what} contains pickled objects, which are never read")
    if header.dtype.fields is not None or header.dtype.subdtype is not None:
        raise ModelError(f"{what} contains structures instead of numbers or text")
    if header.stored_bytes > held:
        raise ModelError(f"{what} contains {held} bytes, but its header says {header.stored_bytes}")


def _require_expansion(path: Path, needed: int, stored: int) -> None:
    """Raise ModelError for arrays that are much larger than their file, which has `stored` bytes."""
    allowed = max(MAX_ARRAY_BYTES, MAX_EXPANSION * stored)
    if needed > allowed:
        raise ModelError(f"{path}: its arrays need {_size(needed)}; the limit for its size is {_size(allowed)}")


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 10**15 else "more than 1,000,000 GB"


def _require_text(array: Array) -> None:
    """Raise ValueError for text that is not Unicode."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return
    codes = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))):
        raise ValueError("its text is not Unicode")


def read_tensor(path: Path, check: HeaderCheck) -> Array:
    """Read a serialized TensorProto after its header, with an empty name, passes `check`. Raises ModelError."""
    with _one_line_errors(str(path), "is not a serialized tensor"):
        return _array(onnx.TensorProto.FromString(_read_message(path)), check)


def read_sequence(path: Path, check: HeaderCheck) -> list[Array]:
    """Read a serialized SequenceProto of tensors. Raises ModelError."""
    with _one_line_errors(str(path), "is not a serialized sequence of tensors"):
        proto = onnx.SequenceProto.FromString(_read_message(path))
        _require_tensors(proto)
        return [_array(tensor, check) for tensor in proto.tensor_values]


def read_optional(path: Path, check: HeaderCheck) -> Array | None:
    """Read a serialized OptionalProto of a tensor; None if it is empty. Raises ModelError."""
    with _one_line_errors(str(path), "is not a serialized optional tensor"):
        proto = onnx.OptionalProto.FromString(_read_message(path))
        _require_tensors(proto)
        return _array(proto.tensor_value, check) if proto.HasField("tensor_value") else None


def _read_message(path: Path) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_MESSAGE_BYTES:
            raise ModelError(f"it has {_size(size)}; the limit for a message is {_size(MAX_MESSAGE_BYTES)}")
        return file.read(size)


def _require_tensors(proto: onnx.SequenceProto | onnx.OptionalProto) -> None:
    if proto.elem_type not in {proto.UNDEFINED, proto.TENSOR}:
        raise ModelError(f"its elements are of kind {proto.elem_type}, not tensors")


def _array(proto: onnx.TensorProto, check: HeaderCheck) -> Array:
    if proto.data_location == onnx.TensorProto.EXTERNAL or proto.external_data:
        raise ModelError("its elements are in another file, which is not read")
    if proto.data_type not in KNOWN_DTYPES:
        raise ModelError(f"its element type {proto.data_type} is unknown")
    if min(proto.dims, default=0) < 0:
        raise ModelError(f"its shape {list(proto.dims)} is negative")
    header = ArrayHeader(np.dtype(helper.tensor_dtype_to_np_dtype(proto.data_type)), tuple(proto.dims))
    check("", header)
    return numpy_helper.to_array(proto)
