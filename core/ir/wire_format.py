"""Protocol Buffers wire format: reading and writing of messages without copying large fields.

Weights are most of a model file. Parsing only the top-level fields leaves them on disk: their positions are recorded,
and the bytes are written back unchanged. Source: the Protocol Buffers encoding specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import ModelError

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """A field: its number and wire type, the start of its tag, and the span of its value."""

    number: int
    wire_type: int
    tag_start: int
    begin: int
    end: int


def parse_fields(data: memoryview, begin: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in `data[begin:end]`, in order. Raises ModelError for a malformed message."""
    at = begin
    while at < end:
        start = at
        tag, at = decode_varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == LEN:
            length, at = decode_varint(data, at, end)
        elif kind == VARINT:
            length = decode_varint(data, at, end)[1] - at
        elif kind in {FIXED64, FIXED32}:
            length = 8 if kind == FIXED64 else 4
        else:
            raise ModelError("not an ONNX model: this is not a protobuf message")
        if number == 0 or at + length > end:
            raise ModelError("the protobuf message is truncated or damaged")
        yield Field(number, kind, start, at, at + length)
        at += length


def decode_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Decode the varint at `at`; return it and the position after it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ModelError("the protobuf message is truncated or damaged")


def encode_varint(value: int) -> bytes:
    """Encode `value` as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SINGLE_BYTE_VARINTS = [bytes((n,)) for n in range(128)]  # the varints of one byte


def encode_prefix(number: int, length: int) -> bytes:
    """The tag and length of a length-delimited field."""
    if number < 16 and length < 128:
        return SINGLE_BYTE_VARINTS[number << 3 | LEN] + SINGLE_BYTE_VARINTS[length]
    return encode_varint(number << 3 | LEN) + encode_varint(length)


def encode_field(number: int, data: bytes) -> bytes:
    """A complete length-delimited field."""
    return encode_prefix(number, len(data)) + data
