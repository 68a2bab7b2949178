"""Keys and digests for comparing tensors independently of their storage."""

from __future__ import annotations

from hashlib import blake2b

from .tensor import STRING, Tensor

CHUNK_BYTES = 16 << 20  # bytes read at a time
SAMPLE_BYTES = 64  # bytes at the start, middle and end of a large tensor


def sample_key(tensor: Tensor) -> object:
    """A key from a few bytes of a large tensor or all bytes of a small one; equal for equal tensors stored alike."""
    content = tensor.comparable_bytes()
    if len(content) > 3 * SAMPLE_BYTES:
        middle = len(content) // 2
        content = b"".join((content[:SAMPLE_BYTES], content[middle : middle + SAMPLE_BYTES], content[-SAMPLE_BYTES:]))
    return tensor.dtype, tensor.dims, bytes(content)


def tensors_equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same type, shape and elements."""
    return (a.dtype, a.dims) == (b.dtype, b.dims) and a.comparable_bytes() == b.comparable_bytes()


def digest(tensor: Tensor) -> bytes:
    """A collision-resistant hash of type, shape and elements.

    Elements on disk are read in chunks, and the memory of each chunk is released. Raises ModelError if they cannot be
    read.
    """
    found = blake2b(f"{tensor.dtype}{tensor.dims}".encode())
    if tensor.dtype == STRING:
        for s in tensor.to_proto("").string_data:
            found.update(len(s).to_bytes(8, "little") + s)  # with the lengths, so that boundaries count
        return found.digest()
    content = memoryview(tensor.raw_data())
    for start in range(0, len(content), CHUNK_BYTES):
        found.update(content[start : start + CHUNK_BYTES])
        tensor.release_pages()
    return found.digest()
