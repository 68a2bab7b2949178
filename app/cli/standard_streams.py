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
    """Make standard streams accept any text, and keep their descriptors from being reused.

    A closed descriptor would be assigned to the next opened file, such as a model. Characters that a stream's encoding
    lacks are written as escapes.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PrintableFormatter("%(message)s"))


def discard_standard_output() -> None:
    """Discard buffered and later standard output, for example when its disk is full."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class PrintableFormatter(logging.Formatter):
    """A formatter that writes each log message as one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the base class
        """The message, printable."""
        return printable(super().formatMessage(record))
