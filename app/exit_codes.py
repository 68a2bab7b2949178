"""Ends of commands: reports, errors in one line, exit codes, and SIGTERM."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from time import sleep
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from ..core.errors import PassesError, UnverifiableError, VerificationError
from ..core.support.printable_text import printable_line
from . import options

if TYPE_CHECKING:
    from .terminal import Terminal

BAD_INPUT, USAGE, WRONG, UNVERIFIED = 1, 2, 3, 4
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
EXHAUSTION = frozenset({errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors of a system that lacks something else; all others are mistakes of this program."""
TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT
GRACE_PERIOD = 10.0  # seconds to clean up after SIGTERM


class JsonReport(Protocol):
    """The report of a command."""

    def to_json(self) -> str:
        """The report as JSON text."""
        ...


AnyReport = TypeVar("AnyReport", bound=JsonReport)


@contextmanager
def one_line_errors(bad_input: int = BAD_INPUT) -> Generator[None]:
    """Turn expected errors into one line and an exit code, `bad_input` for those of models, inputs and plugins."""
    try:
        yield
    except PassesError as e:
        from ..core.pass_manager.pass_selection import UsageError  # noqa: PLC0415 - imports onnx

        codes = {UsageError: USAGE, VerificationError: WRONG, UnverifiableError: UNVERIFIED}
        typer.echo(printable_line(f"error: {e}"), err=True)
        raise typer.Exit(next((code for kind, code in codes.items() if isinstance(e, kind)), bad_input)) from e
    except OSError as e:
        if e.errno not in FULL_DISK | EXHAUSTION:
            raise
        discard_standard_output()
        failed = f"cannot write {e.filename or 'a temporary file'}: " if e.errno in FULL_DISK else ""
        typer.echo(printable_line(f"error: {failed}{e.strerror}"), err=True)
        raise typer.Exit(bad_input) from e
    except MemoryError as e:
        typer.echo("error: it takes more memory than there is", err=True)
        raise typer.Exit(bad_input) from e


def discard_standard_output() -> None:
    """Discard what standard output holds back, and what follows: it may be on a full disk."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def show_progress_and_report(
    json: Path | None, compute: Callable[..., AnyReport], show: Callable[[Terminal, AnyReport], None]
) -> AnyReport:
    """Call `compute` with `progress`, and print its report, as JSON if `json` is standard output."""
    from .terminal import Terminal  # noqa: PLC0415 - imports rich

    terminal = Terminal(quiet=json == options.STANDARD_OUTPUT)
    with terminal.progress() as progress:
        report = compute(progress=progress)
    try:
        show(terminal, report)
        echo_json(json, report)
    except OSError as e:
        if e.errno not in FULL_DISK:
            raise
        discard_standard_output()
        raise PassesError(f"cannot write to standard output: {e.strerror}; the output files are written") from e
    return report


def echo_json(json: Path | None, report: JsonReport) -> None:
    """Print a report as JSON if `json` is standard output."""
    if json == options.STANDARD_OUTPUT:
        typer.echo(report.to_json())


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that processes end and temporary folders are removed.

    Python raises nothing while native code runs; after GRACE_PERIOD the process ends in any case.
    """
    terminated = Event()

    def unwind(*_: object) -> None:
        terminated.set()
        raise KeyboardInterrupt

    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGTERM, unwind)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    start_new_thread(_exit_after_grace_period, (read_end,))
    try:
        yield
    finally:
        if terminated.is_set():
            sys.exit(TERMINATED)


def exit_on_bus_error() -> None:
    """Let the process end with one line where a mapped file is read beyond its end, as another process cut it.

    A handler of Python's would not be called, as it is called between instructions, and the one that reads never ends.
    """
    if hasattr(signal, "SIGBUS"):
        ctypes.CDLL(None).signal(signal.SIGBUS, _exit_with_line)


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _exit_with_line(_: int) -> None:
    os.write(2, b"error: a file of the model was cut while it was in use\n")
    os._exit(BAD_INPUT)


def _exit_after_grace_period(wakeup_fd: int) -> None:
    while os.read(wakeup_fd, 1) != bytes([signal.SIGTERM]):
        pass
    sleep(GRACE_PERIOD)
    os._exit(TERMINATED)
