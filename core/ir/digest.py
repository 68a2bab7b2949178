"""What tells tensors apart, however they are stored: a few bytes first, then a hash."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from .tensor import STRING, Tensor

CHUNK_BYTES = 16 << 20  # bytes read at a time
SAMPLE_BYTES = 64  # bytes looked at in three places before a large tensor is read whole


def sample_key(tensor: Tensor) -> object:
    """A key that equal tensors share that are stored alike, from a few bytes of each; of small ones, from all."""
    content = tensor.comparable_bytes()
    if len(content) > 3 * SAMPLE_BYTES:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE_BYTES], content[middle : middle + SAMPLE_BYTES], content[-SAMPLE_BYTES:]))
    return tensor.dtype, tensor.dims, bytes(content)


def digest(tensor: Tensor) -> bytes:
    """A hash of type, shape and elements, too long for two different tensors to share.

    What is on disk is read in pieces, and the memory of each given back. Raises ModelError if it cannot be read.
    """
    found = blake2b(f"{tensor.dtype}{tensor.dims}".encode())
    for piece in _string_chunks(tensor) if tensor.dtype == STRING else _raw_chunks(tensor):
        found.update(piece)
    return found.digest()


def _raw_chunks(tensor: Tensor) -> Iterator[bytes | memoryview]:
    content = memoryview(tensor.raw_data())
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
        tensor.release_pages()


def _string_chunks(tensor: Tensor) -> Iterator[bytes]:
    """The elements, each told from the next."""
    for s in tensor.to_proto("").string_data:
        yield len(s).to_bytes(8, "little")
        yield s
