"""Cache of results in a folder, a file for each, of which the least recently used are removed.

An entry is a line with a digest of its header, the header as a line of JSON, and its parts, of which the header has
digests: nothing is used before it has been compared. Entries are data: they name no code, and no place to write to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import copyfileobj
from stat import S_ISREG, S_IWOTH
from typing import Any, BinaryIO, Self
from weakref import finalize

from ...core.errors import ModelError, PassesError
from ...core.support.folders import OpenFolder
from ...core.support.printable_text import json_text
from ...core.support.scratch_folder import staging_folder
from .byte_count import ByteCount
from .content_digests import DIGEST_BYTES, bytes_digest, regular_file_digest

MAGIC = b"passwright result 1 "
SUFFIX = ".result"
NAMES = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}{re.escape(SUFFIX)}")
MAX_HEADER_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
MANY = 256  # entries, more than which are not looked at each time that one is added
SPARE_PART = 16  # of the cache, which is free after removals of many entries, so that the next ones have room


class DamagedEntry(PassesError):
    """An entry is cut, changed or of another user; the message says which."""


class NotKept(PassesError):
    """A result was not kept; the message is the reason."""


@dataclass(slots=True, weakref_slot=True)
class CacheEntry:
    """An open entry: its `content`, which was compared with its digest, and its parts, which are when they are read.

    The file is closed with this object, so that it can be read after its removal.
    """

    name: str
    content: Mapping[str, Any]
    _file: BinaryIO = field(repr=False)
    _parts: Mapping[str, tuple[int, int, str]]

    def __post_init__(self) -> None:
        finalize(self, self._file.close)

    def __contains__(self, part: str) -> bool:
        return part in self._parts

    def copy(self, part: str, to: BinaryIO) -> None:
        """Write a part to a file. Raises DamagedEntry, if the part is found to be so at its end, and OSError."""
        start, left, digest = self._parts[part]
        found = blake2b(digest_size=DIGEST_BYTES)
        self._file.seek(start)
        while left > 0 and (piece := self._file.read(min(left, PIECE_BYTES))):
            found.update(piece)
            to.write(piece)
            left -= len(piece)
        if left or found.hexdigest() != digest:
            raise DamagedEntry(f"{self.name} is damaged")


@dataclass(frozen=True, slots=True)
class ResultCache:
    """The cache in `folder`, of at most so many bytes."""

    folder: OpenFolder
    max_bytes: int

    @classmethod
    def at(cls, path: Path, max_bytes: int) -> Self:
        """The cache in a folder, which is made, for this user alone, unless it is there.

        Raises ModelError if it cannot be used, or if others may write to it.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = OpenFolder(path)
            status = path.stat()
        except (OSError, ValueError) as e:
            raise ModelError(f"the cache {path} cannot be used: {getattr(e, 'strerror', e)}") from e
        if not _is_own(status):
            raise ModelError(f"the cache {path} cannot be used: others may write to it, and so change results")
        return cls(folder, max_bytes)

    def find(self, key: str) -> CacheEntry | None:
        """The entry of a key, the most recently used one from now on. Raises DamagedEntry."""
        name = key + SUFFIX
        try:
            file = os.fdopen(self.folder.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
        except FileNotFoundError:
            return None
        except OSError as e:
            raise DamagedEntry(f"{name} cannot be read: {e.strerror}") from e
        try:
            entry = _read(name, file)
        except BaseException:
            file.close()
            raise
        with suppress(OSError, TypeError, NotImplementedError):
            os.utime(file.fileno())
        return entry

    def add(self, key: str, content: Mapping[str, Any], parts: Mapping[str, Path]) -> None:
        """Keep a result, in place of an earlier one, and remove others that have no room. Raises NotKept."""
        sizes = {part: (file.stat().st_size, regular_file_digest(file)) for part, file in parts.items()}
        header = json_text({"content": content, "parts": sizes}, indent=None).encode() + b"\n"
        first = MAGIC + bytes_digest(header).encode() + b"\n"
        size = len(first) + len(header) + sum(file.stat().st_size for file in parts.values())
        if size > self.max_bytes or len(header) > MAX_HEADER_BYTES:
            raise NotKept(f"it has {size:,} bytes, and the cache at most {self.max_bytes:,}")
        name = key + SUFFIX
        try:
            with staging_folder(self.folder) as stage:
                place = OpenFolder(stage)
                with os.fdopen(place.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as entry:
                    entry.write(first + header)
                    for part in parts.values():
                        with part.open("rb") as file:
                            copyfileobj(file, entry, PIECE_BYTES)
                with self.folder.locked() as is_locked:
                    count = ByteCount(self.folder)
                    has_room = is_locked and count.add(size, self.max_bytes)
                    self.folder.take(place, name, name)
                    if not has_room:
                        self._remove_least_used(name, count if is_locked else None)
        except OSError as e:
            raise NotKept(f"{self.folder.path} cannot be written: {e.strerror}") from e

    def _remove_least_used(self, newest: str, count: ByteCount | None) -> None:
        """Remove entries, but the newest, until all have room; of many, the bytes of those that are left are kept."""
        found = list[tuple[int, int, str]]()
        for name in self.folder.names():
            with suppress(FileNotFoundError):  # removed by another process
                if NAMES.fullmatch(name):
                    status = self.folder.stat(name)
                    found.append((status.st_mtime_ns, status.st_size, name))
        total, is_counted = sum(size for _, size, _ in found), count is not None and len(found) > MANY
        if total > self.max_bytes:
            most = self.max_bytes - self.max_bytes // SPARE_PART * is_counted
            for _, size, name in sorted(entry for entry in found if entry[2] != newest):
                if total <= most:
                    break
                with suppress(OSError):
                    self.folder.unlink(name)
                total -= size
        if count is not None:
            count.set(total) if is_counted else count.remove()


def _read(name: str, file: BinaryIO) -> CacheEntry:
    """The entry in an open file, whose parts have not been read. Raises DamagedEntry."""
    status = os.fstat(file.fileno())
    if not S_ISREG(status.st_mode) or not _is_own(status):
        raise DamagedEntry(f"{name} is not a file of this user alone")
    try:
        first = file.readline(len(MAGIC) + 2 * DIGEST_BYTES + 1)
        header = file.readline(MAX_HEADER_BYTES)
        if first != MAGIC + bytes_digest(header).encode() + b"\n":
            raise DamagedEntry(f"{name} is damaged")
        data = json.loads(header)
        parts, start = dict[str, tuple[int, int, str]](), file.tell()
        for part, (size, digest) in data["parts"].items():
            parts[part] = start, int(size), str(digest)
            start += int(size)
        if start != status.st_size or not isinstance(data["content"], dict) or any(p[1] < 0 for p in parts.values()):
            raise DamagedEntry(f"{name} is damaged")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise DamagedEntry(f"{name} is damaged") from e
    return CacheEntry(name, data["content"], file, parts)


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is one of this user, or of root, to which not everybody may write."""
    is_known = not hasattr(os, "geteuid") or status.st_uid in {os.geteuid(), 0}
    return is_known and not status.st_mode & S_IWOTH
