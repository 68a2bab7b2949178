"""Copies of chunks of messages into files; spans of other files are copied by the kernel."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import BinaryIO

from ..ir.tensor import CHUNK_BYTES, Chunk, MappedField, MappedFile, chunk_bytes


def write_chunk(file: BinaryIO, chunk: Chunk) -> None:
    """Write a chunk at the end of `file`. A span of another file is copied there; holes in it become holes.

    The kernel copies without a detour through the memory of this process, and shares the blocks where the file system
    can (copy_file_range(2)). Raises OSError.
    """
    if not isinstance(chunk, MappedField) or not isinstance(chunk.file, MappedFile):
        file.write(chunk_bytes(chunk))
        return
    file.flush()
    start, source = file.tell(), chunk.file.fileno()
    if os.fstat(source).st_size < chunk.end:
        raise OSError(errno.EIO, f"{chunk.file.path.name} became shorter")
    for begin, end in _data_spans(source, chunk.begin, chunk.end):
        _copy_span(source, begin, end, file.fileno(), start + begin - chunk.begin)
    file.truncate(start + len(chunk))  # longer, if it ends with a hole
    file.seek(start + len(chunk))


def _data_spans(source: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a span of a file that are not holes; one where the system does not tell."""
    if not hasattr(os, "SEEK_DATA"):
        yield begin, end
        return
    while begin < end:
        try:
            start = os.lseek(source, begin, os.SEEK_DATA)
            stop = min(os.lseek(source, start, os.SEEK_HOLE), end)
        except OSError as e:
            if e.errno != errno.ENXIO:  # which says that the rest is a hole
                yield begin, end
            return
        if start < end:
            yield start, stop
        begin = max(start, stop)


def _copy_span(source: int, begin: int, end: int, target: int, at: int) -> None:
    """Copy bytes of one open file to position `at` of another, in memory where the kernel does not. Raises OSError."""
    offset = at - begin
    while begin < end and hasattr(os, "copy_file_range"):
        try:
            count = os.copy_file_range(source, target, min(end - begin, CHUNK_BYTES), begin, begin + offset)
        except OSError:  # not between these file systems; if the disk is full, the next write says so
            break
        if count == 0:
            break
        begin += count
    os.lseek(source, begin, os.SEEK_SET)
    os.lseek(target, begin + offset, os.SEEK_SET)
    while begin < end:
        data = os.read(source, min(end - begin, CHUNK_BYTES))
        if not data:
            raise OSError(errno.EIO, "a file of weights became shorter")
        begin += len(data)
        while data:
            data = data[os.write(target, data) :]
