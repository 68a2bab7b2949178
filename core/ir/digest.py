"""What tells tensors apart, however they are stored: a few bytes first, then a hash."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from .tensor import STRING, Tensor

PIECE = 16 << 20  # bytes read at a time
SAMPLE = 64  # bytes looked at in three places before a large tensor is read whole


def glance(tensor: Tensor) -> object:
    """A key that equal tensors share that are stored alike, from a few bytes of each; of small ones, from all."""
    content = tensor.content()
    if len(content) > 3 * SAMPLE:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE], content[middle : middle + SAMPLE], content[-SAMPLE:]))
    return tensor.dtype, tensor.dims, bytes(content)


def digest(tensor: Tensor) -> bytes:
    """A hash of type, shape and elements, too long for two different tensors to share.

    What is on disk is read in pieces, and the memory of each given back. Raises ModelError if it cannot be read.
    """
    found = blake2b(f"{tensor.dtype}{tensor.dims}".encode())
    for piece in _strings(tensor) if tensor.dtype == STRING else _pieces(tensor):
        found.update(piece)
    return found.digest()


def _pieces(tensor: Tensor) -> Iterator[bytes | memoryview]:
    content = memoryview(tensor.raw())
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]
        tensor.forget_pages()


def _strings(tensor: Tensor) -> Iterator[bytes]:
    """The elements, each told from the next."""
    for s in tensor.to_proto("").string_data:
        yield len(s).to_bytes(8, "little")
        yield s
