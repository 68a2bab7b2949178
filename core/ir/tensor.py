"""Constant tensors, decoded on first use, and comparison independent of their storage.

A tensor is a TensorProto, a span of a mapped file, or an array made by a rewrite. Tensors of the file are written back
byte for byte.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakSet, finalize

import numpy as np
import onnx
from msgspec import Struct
from onnx import helper, numpy_helper

from ..errors import ModelError
from ..support.regular_files import open_descriptor
from . import wire_format
from .dtypes import DATA_TYPES

MAX_INTERNED_BYTES = 64 << 10  # bytes
SMALL_TENSOR_BYTES = 1024  # bytes; smaller tensors are parsed completely and passed to shape inference
MAX_READ_BYTES = 1 << 22  # bytes; smaller files are read, because truncation of a mapped file kills the process
MAX_MAPPED_BYTES = 1 << 30  # bytes; of larger files, only the parts in use are mapped
RAW_DATA = 9
# The fields of TensorProto with elements: float, int32, string, int64, raw, double, uint64.
ELEMENT_FIELDS = frozenset({4, 5, 6, 7, RAW_DATA, 10, 11})
STRING = DATA_TYPES[onnx.TensorProto.STRING]
TRACKED_DTYPES = frozenset(
    DATA_TYPES[t] for t in (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
)
MAX_TRACKED_ELEMENTS = 64  # of a tensor whose elements are tracked individually
KNOWN_DTYPES = frozenset(DATA_TYPES[t] for t in onnx.TensorProto.DataType.values() if t)
SUB_BYTE_BITS = {
    "INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6,
}  # fmt: skip


@dataclass(slots=True, weakref_slot=True)
class MappedFile:
    """A file of weights, opened on first use and mapped into memory; above 1 GB, only the parts in use.

    A file up to 4 MB is read instead.
    """

    path: Path
    _descriptor: int | None = field(default=None, repr=False, compare=False)
    _content: bytes | None = field(default=None, repr=False, compare=False)
    _map: mmap.mmap | None = field(default=None, repr=False, compare=False)
    _parts: WeakSet[mmap.mmap] = field(default_factory=WeakSet[mmap.mmap], repr=False, compare=False)

    def __reduce__(self) -> tuple[type[MappedFile], tuple[Path]]:
        """Its path, for another process."""
        return MappedFile, (self.path.absolute(),)

    def fileno(self) -> int:
        """The descriptor of the file, which is open as long as this object lives, even if the file is replaced."""
        if self._descriptor is None:
            self._descriptor = open_descriptor(self.path)
            finalize(self, os.close, self._descriptor)
        return self._descriptor

    def view(self, begin: int = 0, end: int | None = None) -> memoryview:
        """The bytes of the file from `begin` to `end`. Raises ModelError if the file was truncated."""
        if self._content is not None:
            return memoryview(self._content)[begin:end]
        now = os.fstat(self.fileno()).st_size
        size = now if self._map is None else len(self._map)
        end = size if end is None else end
        if begin == end:
            return memoryview(b"")
        if now < end:
            raise ModelError(f"{self.path} was truncated while it was in use")
        if size <= MAX_READ_BYTES:
            self._content = self._read(size)
            return memoryview(self._content)[begin:end]
        if self._map is None and size > MAX_MAPPED_BYTES and end - begin < size:
            start = begin - begin % mmap.ALLOCATIONGRANULARITY
            part = mmap.mmap(self.fileno(), end - start, access=mmap.ACCESS_READ, offset=start)
            self._parts.add(part)
            return memoryview(part)[begin - start :]
        if self._map is None:
            self._map = mmap.mmap(self.fileno(), 0, access=mmap.ACCESS_READ)
        return memoryview(self._map)[begin:end]

    def _read(self, size: int) -> bytes:
        content = bytearray()
        os.lseek(self.fileno(), 0, os.SEEK_SET)
        while len(content) < size:
            if not (piece := os.read(self.fileno(), size - len(content))):
                raise ModelError(f"{self.path} was truncated while it was in use")
            content += piece
        return bytes(content)

    def release_pages(self) -> None:
        """Release the memory of pages that were read; they are read again on the next use."""
        for part in (self._map, *self._parts):
            if part is not None and hasattr(mmap, "MADV_DONTNEED"):
                part.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class MessageBytes:
    """A serialized model in memory, used like a file."""

    content: bytes = field(repr=False)

    def view(self, begin: int = 0, end: int | None = None) -> memoryview:
        """The bytes of the message from `begin` to `end`."""
        return memoryview(self.content)[begin:end]

    def release_pages(self) -> None:
        """Do nothing, because the memory belongs to the message."""


class MappedField(Struct, frozen=True):
    """The span of an element field of a TensorProto in its file or message, and its length."""

    field_number: int
    file: MappedFile | MessageBytes
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def view(self) -> memoryview:
        """The bytes of the value."""
        return self.file.view(self.begin, self.end)

    @property
    def is_raw(self) -> bool:
        """Whether the elements have ONNX's raw form."""
        return self.field_number == RAW_DATA


Chunk = bytes | bytearray | memoryview | MappedField
"""A part of a serialized message: in memory, or a span of a file that is copied unchanged."""


def chunk_bytes(chunk: Chunk) -> bytes | bytearray | memoryview:
    """The bytes of a chunk; a span of a file is mapped into memory."""
    return chunk.view if isinstance(chunk, MappedField) else chunk


def join_chunks(chunks: Iterable[Chunk]) -> bytes:
    """Concatenate the chunks of a message."""
    return b"".join(map(chunk_bytes, chunks))


class Tensor:
    """A constant: `dtype` is its DataType, `dims` its static shape.

    `mapped` is the span of the elements in their file, if they are still on disk.

    Examples:
        >>> tensor = Tensor.from_array(np.ones((2, 3), np.float16))
        >>> tensor.dtype, tensor.dims, tensor.nbytes, tensor.array.sum()
        (float16, (2, 3), 12, np.float16(6.0))
    """

    __slots__ = ("_array", "_header", "dims", "dtype", "is_external", "mapped", "name")

    def __init__(
        self, header: onnx.TensorProto | None, mapped: MappedField | None, array: np.ndarray[Any, Any] | None
    ) -> None:
        self._header: onnx.TensorProto | bytes | None = header
        self.mapped, self._array = mapped, array
        self.name = ""  # in the original message
        self.is_external = False  # whether the original message refers to another file
        if header is not None:
            self.dtype, self.dims = DATA_TYPES[header.data_type], tuple(header.dims)
            self.name = header.name
            self.is_external = header.data_location == onnx.TensorProto.EXTERNAL
            self._check(header)
        elif array is not None:
            self.dtype, self.dims = DATA_TYPES[helper.np_dtype_to_tensor_dtype(array.dtype)], array.shape

    def _check(self, header: onnx.TensorProto) -> None:
        """Raise ModelError unless type, dims and the amount of data are consistent."""
        if self.dtype not in KNOWN_DTYPES:
            raise ModelError(f"initializer {self.name} has the unknown element type {int(self.dtype)}")
        if min(self.dims, default=0) < 0:
            raise ModelError(f"initializer {self.name} has the negative dims {list(self.dims)}")
        if header.HasField("segment"):  # onnx.numpy_helper does not read segments
            raise ModelError(f"initializer {self.name} is a segment of a tensor, which cannot be read")
        if self.dtype == STRING:
            return
        if self.mapped is not None and self.mapped.is_raw:
            found = self.mapped.end - self.mapped.begin
        else:
            found = len(header.raw_data) if header.HasField("raw_data") else self.nbytes
        if found != self.nbytes:
            raise ModelError(f"initializer {self.name} has {found} bytes of data instead of {self.nbytes}")

    @classmethod
    def from_array(cls, array: np.ndarray[Any, Any]) -> Tensor:
        """Make a tensor for a rewrite. The array, possibly of a subclass, must not be modified afterwards."""
        array = np.asanyarray(array, order="C")
        array.flags.writeable = False
        return cls(None, None, array)

    @classmethod
    def intern(cls, array: np.ndarray[Any, Any], known: dict[bytes, Tensor]) -> Tensor:
        """Like `from_array`, but share a small tensor equal to one in `known`, because rewrites often repeat tensors.

        An array of a subclass, which contains more than elements, is not shared.
        """
        if array.nbytes > MAX_INTERNED_BYTES or array.dtype.hasobject or type(array) is not np.ndarray:
            return cls.from_array(array)
        key = blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=16)
        key.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        return known.setdefault(key.digest(), cls.from_array(array))

    @classmethod
    def from_proto(cls, proto: onnx.TensorProto, external: MappedField | None = None) -> Tensor:
        """A tensor that shares `proto`; `external` has its elements if they are not in the message."""
        return cls(proto, external, None)

    @classmethod
    def from_bytes(cls, message: bytes) -> Tensor:
        """A tensor from a small serialized TensorProto, which takes a tenth of the memory of the parsed message."""
        tensor = cls(onnx.TensorProto.FromString(message), None, None)
        tensor._header = message
        return tensor

    @classmethod
    def from_wire(cls, source: MappedFile | MessageBytes, begin: int, end: int) -> Tensor:
        """A tensor from the serialized TensorProto in a span; a large element field stays on disk."""
        data = source.view()
        if end - begin <= SMALL_TENSOR_BYTES:
            return cls.from_bytes(bytes(data[begin:end]))
        elements = [f for f in wire_format.parse_fields(data, begin, end) if f.number in ELEMENT_FIELDS]
        if len(elements) != 1 or elements[0].wire_type != wire_format.LEN:  # in several pieces, or not packed
            return cls(onnx.TensorProto.FromString(bytes(data[begin:end])), None, None)
        (f,) = elements
        rest = bytes(data[begin : f.tag_start]) + bytes(data[f.end : end])
        return cls(onnx.TensorProto.FromString(rest), MappedField(f.number, source, f.begin, f.end), None)

    @property
    def _message(self) -> onnx.TensorProto | None:
        """The message in the file, without elements that are still on disk."""
        return onnx.TensorProto.FromString(self._header) if isinstance(self._header, bytes) else self._header

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements as packed by ONNX; for strings, of their text."""
        if self.dtype == STRING:
            message = self._message
            return message.ByteSize() if message is not None else sum(map(len, self.array.flat))
        return (self.size * element_bits(self.dtype) + 7) // 8  # sub-byte types are packed (ONNX IR, TensorProto)

    @property
    def elements(self) -> tuple[int, ...] | None:
        """The elements of a small integer or boolean tensor of rank 0 or 1; None for other tensors."""
        if len(self.dims) > 1 or self.dtype not in TRACKED_DTYPES or self.size > MAX_TRACKED_ELEMENTS:
            return None
        return tuple(map(int, self.array.reshape(-1).tolist()))

    @property
    def is_readable(self) -> bool:
        """Whether its elements can be read; false for external elements of a model given as a message."""
        return self.mapped is not None or not self.is_external

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements, read-only; ml_dtypes are used for types that NumPy lacks, and objects for strings."""
        if self._array is not None:
            return self._array
        found = self._decode()
        found.flags.writeable = False
        if not self._is_view_of_file:  # views are cheap to create, and would keep the file mapped
            self._array = found
        return found

    @property
    def _is_view_of_file(self) -> bool:
        """Whether the elements are a view of the mapped file."""
        return self.mapped is not None and self.mapped.is_raw and element_bits(self.dtype) % 8 == 0

    def _decode(self) -> np.ndarray[Any, Any]:
        if not self.is_readable:
            raise ModelError(f"{self.name}: its data is in another file; load the model by its path")
        try:
            if self.mapped is None or not self._is_view_of_file:
                return numpy_helper.to_array(self.to_proto(self.name))
            return np.frombuffer(self.mapped.view, helper.tensor_dtype_to_np_dtype(self.dtype)).reshape(self.dims)
        except (ValueError, TypeError) as e:
            raise ModelError(f"initializer {self.name} cannot be read: {first_line(e)}") from e

    def comparable_bytes(self) -> bytes | memoryview:
        """The elements as comparable bytes: equal dtype, dims and bytes mean equal tensors."""
        if self.dtype == STRING:
            return self.to_proto("").SerializeToString(deterministic=True)
        return self.raw_data()

    def raw_data(self) -> bytes | memoryview:
        """The elements in ONNX's raw form: little-endian, with sub-byte types packed. Not for strings."""
        if self.mapped is not None and self.mapped.is_raw:
            return self.mapped.view
        if (message := self._message) is not None and message.raw_data:
            return message.raw_data
        return self._array_bytes or numpy_helper.from_array(self.array).raw_data

    @property
    def _array_bytes(self) -> memoryview | None:
        """A view of a large array made by a rewrite, if its memory has ONNX's raw form."""
        if self._header is not None or self._array is None or self._array.nbytes <= SMALL_TENSOR_BYTES:
            return None
        if sys.byteorder != "little" or self._array.dtype.hasobject or element_bits(self.dtype) % 8:
            return None
        return self._array.reshape(-1).view(np.uint8).data

    def release_pages(self) -> None:
        """Release the memory of elements read from disk; they are read again on the next use."""
        if self.mapped is not None and self._array is None:
            self.mapped.file.release_pages()

    def header(self, name: str) -> onnx.TensorProto:
        """The message without elements that are still on disk."""
        proto = onnx.TensorProto()
        if (message := self._message) is not None:
            proto.CopyFrom(message)
        elif self._array is not None:
            proto = numpy_helper.from_array(self._array, name)
        proto.name = name
        if self.mapped is not None and self.is_external:  # the written message contains its elements
            proto.ClearField("data_location")
            del proto.external_data[:]
        return proto

    def clear_field(self, field: str) -> bool:
        """Clear the doc string or metadata of the message, by field name; return whether it had any."""
        message = self._message
        if message is None or not getattr(message, field):
            return False
        bare = deepcopy(message)
        bare.ClearField(field)
        self._header = bare.SerializeToString(deterministic=True) if isinstance(self._header, bytes) else bare
        return True

    def proto_without_elements(self, name: str) -> onnx.TensorProto:
        """The message without elements, wherever these are stored."""
        proto = onnx.TensorProto(data_type=self.dtype, dims=self.dims, name=name)
        if (message := self._message) is not None:
            proto.metadata_props.extend(message.metadata_props)
            if message.doc_string:
                proto.doc_string = message.doc_string
        return proto

    def to_proto(self, name: str) -> onnx.TensorProto:
        """The complete message; reads the elements from disk."""
        proto = self.header(name)
        if self.mapped is not None and self.mapped.is_raw:
            proto.raw_data = bytes(self.mapped.view)
        elif self.mapped is not None:
            proto.MergeFromString(wire_format.encode_field(self.mapped.field_number, bytes(self.mapped.view)))
        return proto

    def chunks(self, name: str) -> Iterator[Chunk]:
        """Yield the serialized message in chunks; large elements are not copied."""
        elements: Chunk
        if self.mapped is not None:
            proto, number, elements = self.header(name), self.mapped.field_number, self.mapped
        elif (array := self._array_bytes) is not None:
            proto, number, elements = self.proto_without_elements(name), RAW_DATA, array
        else:
            yield self.to_proto(name).SerializeToString(deterministic=True)
            return
        yield proto.SerializeToString(deterministic=True)
        yield wire_format.encode_prefix(number, len(elements))
        yield elements


def element_type(dtype: int) -> str:
    """An element type in ONNX's text format: `float`, `int64`."""
    return onnx.TensorProto.DataType.Name(dtype).lower()


def dims_text(dims: Iterable[object]) -> str:
    """Dims in ONNX's text format, with `?` for unknown ones: `[N,4]`."""
    return f"[{','.join('?' if d is None else str(d) for d in dims)}]"


@cache
def element_bits(dtype: int) -> int:
    """The bits of an element in raw form."""
    bits = SUB_BYTE_BITS.get(onnx.TensorProto.DataType.Name(dtype))
    return bits or 8 * helper.tensor_dtype_to_np_dtype(dtype).itemsize


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


CHUNK_BYTES = 16 << 20  # bytes read at a time
SAMPLE_BYTES = 64  # bytes at the start, middle and end of a large tensor


def sample_key(tensor: Tensor) -> object:
    """A key from a few bytes of a large tensor, or all bytes of a small one; equal for equal tensors stored alike."""
    content = tensor.comparable_bytes()
    if len(content) > 3 * SAMPLE_BYTES:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE_BYTES], content[middle : middle + SAMPLE_BYTES], content[-SAMPLE_BYTES:]))
    return tensor.dtype, tensor.dims, bytes(content)


def tensors_equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same type, shape and elements."""
    if (a.dtype, a.dims) != (b.dtype, b.dims):
        return False
    x, y = memoryview(a.comparable_bytes()), memoryview(b.comparable_bytes())
    if len(x) != len(y):
        return False
    for start in range(0, len(x), CHUNK_BYTES):
        span = slice(start, start + CHUNK_BYTES)
        if not np.array_equal(np.frombuffer(x[span], np.uint8), np.frombuffer(y[span], np.uint8)):
            return False
    return True


def digest(tensor: Tensor) -> bytes:
    """A collision-resistant hash of type, shape and elements.

    Elements on disk are read in chunks, whose memory is released. Raises ModelError if they cannot be read.
    """
    found = blake2b(f"{int(tensor.dtype)}{tensor.dims}".encode())
    if tensor.dtype == STRING:
        for s in tensor.to_proto("").string_data:
            found.update(len(s).to_bytes(8, "little") + s)  # lengths make boundaries count
        return found.digest()
    content = memoryview(tensor.raw_data())
    for start in range(0, len(content), CHUNK_BYTES):
        found.update(content[start : start + CHUNK_BYTES])
        tensor.release_pages()
    return found.digest()
