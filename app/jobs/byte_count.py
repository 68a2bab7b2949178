"""Count of the bytes in a folder of many files, by which another file is added without a look at all of them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISREG
from struct import Struct

from ...core.support.folders import OpenFolder

FILE = ".passwright-bytes"
MAX_ADDED = 1024  # files after which all are counted again: others may have put some there, or removed some
NUMBER = Struct("<Q")
FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class ByteCount:
    """The bytes in a folder when they were counted, and those of each file since: 8 bytes a number in a file of it.

    The lock of the folder has to be held. A count that is missing, damaged or old is none.
    """

    folder: OpenFolder

    def add(self, size: int, most: int) -> bool:
        """Take note of another file, if all have at most so many bytes with it; False, too, if there is no count."""
        with suppress(OSError), os.fdopen(self.folder.open(FILE, os.O_RDWR | os.O_APPEND | FLAGS), "r+b", 0) as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            known = file.read(NUMBER.size * (MAX_ADDED + 1))
            if 0 < len(known) <= NUMBER.size * MAX_ADDED and len(known) % NUMBER.size == 0:
                used = sum(number for (number,) in NUMBER.iter_unpack(known)) + size
                return used <= most and file.write(NUMBER.pack(size)) == NUMBER.size
        return False

    def set(self, total: int) -> None:
        """Take note of the bytes of all files."""
        self.remove()
        with (
            suppress(OSError),
            os.fdopen(self.folder.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f,
        ):
            f.write(NUMBER.pack(total))

    def remove(self) -> None:
        """Have the bytes counted next time."""
        with suppress(OSError):
            self.folder.unlink(FILE)
