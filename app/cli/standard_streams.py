"""Standard streams of the command."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from ...core.support.printable_text import printable

STANDARD_OUTPUT = Path("-")


def prepare_standard_streams() -> None:
    """Let standard streams show any text, and none of them be another file.

    A descriptor that is closed would be given to the next file that is opened, such as a model. Characters that the
    encoding of a stream lacks become escapes.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # becomes the lowest descriptor that is free
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PrintableFormatter("%(message)s"))


def discard_standard_output() -> None:
    """Discard the buffered and all later text of standard output, which may be on a full disk."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class PrintableFormatter(logging.Formatter):
    """A format of log messages in one line each."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the base class
        """The message, printable."""
        return printable(super().formatMessage(record))
