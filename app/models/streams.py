"""Models on standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from ...core.errors import ModelError, UsageError
from ...core.io.files import ModelFile
from ...core.io.model import MAX_MESSAGE_BYTES
from ...core.support.scratch_folder import ScratchFolder
from ..cli.report_output import full_disk_behind_standard_output
from .model_files import STREAM

if TYPE_CHECKING:
    from ..optimize.optimize import Result

LABEL = "standard input"
PIECE_BYTES = 1 << 20


@contextmanager
def opened_model(model: Path) -> Generator[Path | ModelFile]:
    """The file of a model; that of standard input is a temporary one, for the time of the block.

    Raises ModelError for a model over 2 GB, which is no single message.
    """
    if model != STREAM:
        yield model
        return
    with ScratchFolder() as folder:
        file = folder / "model.onnx"
        with file.open("wb") as copy:
            _copy_standard_input(copy)
        yield ModelFile(file, LABEL)


def _copy_standard_input(copy: BinaryIO) -> None:
    stream = sys.stdin.buffer if sys.stdin is not None else None  # pyright: ignore[reportUnnecessaryComparison] - closed
    size = 0
    while stream is not None and (piece := stream.read(PIECE_BYTES)):
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise ModelError(f"{LABEL}: a model over 2 GB is no single message; give it as a file with external data")
        copy.write(piece)


def require_no_terminal() -> None:
    """Raise UsageError if standard output is a terminal, which shows no model."""
    if sys.stdout.isatty():
        raise UsageError("standard output is a terminal, and a model is no text: redirect it, or name a file")


def write_to_standard_output(result: Result, stdout: TextIO) -> None:
    """Write a model to standard output. Raises ModelError beyond 2 GB, and PassesError on a full disk."""
    with full_disk_behind_standard_output():
        result.write(stdout.buffer)
        stdout.buffer.flush()
