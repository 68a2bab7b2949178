"""Copies of chunks of messages into files; spans of other files are copied by the kernel."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from typing import Any, BinaryIO

from ..ir.tensor import CHUNK_BYTES, Chunk, MappedField, MappedFile, chunk_bytes

PAGE_BYTES = 4096  # a multiple of what file systems require of places and lengths of direct writes
MIN_DIRECT_BYTES = 1 << 20  # of a span that is written directly; a write of less waits longer than a copy takes
FICLONERANGE = 0x4020940D  # ioctl_ficlonerange(2)


def write_chunk(file: BinaryIO, chunk: Chunk, *, direct: bool = False) -> None:
    """Write a chunk at the end of `file`. A span of another file is copied there; holes in it become holes.

    The kernel copies without a detour through the memory of this process, and shares the blocks where the file system
    can (copy_file_range(2)). With `direct`, pages of the other file go to the disk from where they are, if the file
    system is on one: the system keeps no second copy in memory. Raises OSError.
    """
    if not isinstance(chunk, MappedField) or not isinstance(chunk.file, MappedFile):
        file.write(chunk_bytes(chunk))
        return
    file.flush()
    start, source = file.tell(), chunk.file.fileno()
    if os.fstat(source).st_size < chunk.end:
        raise OSError(errno.EIO, f"{chunk.file.path.name} became shorter")
    for begin, end in _data_spans(source, chunk.begin, chunk.end):
        offset = start - chunk.begin
        rest = _write_directly(source, begin, end, file.fileno(), begin + offset) if direct else begin
        _copy_span(source, rest, end, file.fileno(), rest + offset)
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


def _write_directly(source: int, begin: int, end: int, target: int, at: int) -> int:
    """Write whole pages of one open file to position `at` of another, from where they are in memory to the disk.

    Returns where it stopped: at `begin`, unless pages in the one are pages in the other and the system can.
    """
    end = begin + (end - begin) // PAGE_BYTES * PAGE_BYTES
    is_local = os.major(os.fstat(target).st_dev) != 0  # others copy in their own ways: servers, overlays, memory
    if end - begin < MIN_DIRECT_BYTES or at % PAGE_BYTES or not is_local or not hasattr(os, "O_DIRECT"):
        return begin
    if _share_blocks(source, begin, end, target, at):
        return end
    offset = at - begin
    with suppress(OSError, ValueError), _direct_writes(target):  # the rest is copied, which raises if it cannot be
        while begin < end:
            length = min(end - begin, CHUNK_BYTES)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(source, begin + length, CHUNK_BYTES, os.POSIX_FADV_WILLNEED)
            before = begin % ALLOCATIONGRANULARITY
            with (
                mmap(source, before + length, access=ACCESS_READ, offset=begin - before) as pages,
                memoryview(pages) as view,
                view[before:] as content,
            ):
                written = os.pwrite(target, content, begin + offset)
            begin += written
            if written % PAGE_BYTES:
                break
    return begin


def _share_blocks(source: int, begin: int, end: int, target: int, at: int) -> bool:
    """Let two files share the blocks of whole pages, if their file system can."""
    fcntl: Any = import_module("fcntl")
    try:
        fcntl.ioctl(target, FICLONERANGE, struct.pack("qQQQ", source, begin, end - begin, at))
    except OSError:
        return False
    return True


@contextmanager
def _direct_writes(descriptor: int) -> Generator[None]:
    """Writes to an open file by-pass the memory of the system (O_DIRECT). Raises OSError where they cannot."""
    fcntl: Any = import_module("fcntl")
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


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
