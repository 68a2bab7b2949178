"""Ends of commands: reports, errors in one line, exit codes, and SIGTERM."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from time import sleep
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from ..core.errors import PassesError, UnverifiableError, UsageError, VerificationError
from ..core.support.printable_text import printable_line

if TYPE_CHECKING:
    from .formats.finding import Document
    from .formats.outputs import Outputs
    from .terminal import Terminal

STANDARD_OUTPUT = Path("-")
BAD_INPUT, USAGE, WRONG, UNVERIFIED = 1, 2, 3, 4
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
EXHAUSTION = frozenset({errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors of a system that lacks something else; all others are mistakes of this program."""
TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT
GRACE_PERIOD = 10.0  # seconds to clean up after SIGTERM
REPEAT_AFTER = 0.05  # seconds in which the finalization of an object ends


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
    except (PassesError, OSError, MemoryError) as e:
        failure = expected_failure(e, bad_input)
        if failure is None:
            raise
        if isinstance(e, OSError):
            discard_standard_output()
        code, message = failure
        typer.echo(printable_line(f"error: {message}"), err=True)
        raise typer.Exit(code) from e


def expected_failure(error: Exception, bad_input: int = BAD_INPUT) -> tuple[int, str] | None:
    """The exit code and the message of an error; None for one that is a mistake of this program."""
    if isinstance(error, PassesError):
        codes = {UsageError: USAGE, VerificationError: WRONG, UnverifiableError: UNVERIFIED}
        return next((code for kind, code in codes.items() if isinstance(error, kind)), bad_input), str(error)
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        return bad_input, f"cannot write {error.filename or 'a temporary file'}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in EXHAUSTION:
        return bad_input, str(error.strerror)
    return (bad_input, "it takes more memory than there is") if isinstance(error, MemoryError) else None


def is_shortage(error: BaseException) -> bool:
    """Whether an error comes of a full disk, or of another lack of this machine."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL_DISK | EXHAUSTION:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def discard_standard_output() -> None:
    """Discard what standard output holds back, and what follows: it may be on a full disk."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def show_progress_and_report(
    json: Path | None,
    compute: Callable[..., AnyReport],
    show: Callable[[Terminal, AnyReport], None],
    terminal: Terminal | None = None,
    outputs: Outputs | None = None,
    describe: Callable[[AnyReport], Document] | None = None,
) -> AnyReport:
    """Call `compute` with `progress`, and print its report, as JSON if `json` is standard output.

    `outputs` are the other formats, whose content is that of `describe`.
    """
    from .terminal import Terminal  # noqa: PLC0415 - imports rich

    is_quiet = json == STANDARD_OUTPUT or (outputs is not None and outputs.is_quiet)
    terminal = terminal or Terminal(quiet=is_quiet)
    try:
        with terminal.progress() as progress:
            report = compute(progress=progress)
    except KeyboardInterrupt as e:
        if type(e) is KeyboardInterrupt:  # others are those of a time limit
            *_, outcome = ("nothing was written", *getattr(e, "__notes__", ()))
            terminal.warning(f"interrupted while {terminal.phase.name}; {outcome}")
        raise
    with full_disk_behind_standard_output():
        show(terminal, report)
        echo_json(json, report)
        if outputs is not None and describe is not None:
            outputs.write(partial(describe, report), typer.echo)
    return report


@contextmanager
def full_disk_behind_standard_output(outcome: str = "the output files are written") -> Generator[None]:
    """Raise PassesError if standard output is a file on a full disk; its message ends with `outcome`."""
    try:
        yield
    except OSError as e:
        if e.errno not in FULL_DISK:
            raise
        discard_standard_output()
        raise PassesError(f"cannot write to standard output: {e.strerror}; {outcome}") from e


def echo_json(json: Path | None, report: JsonReport) -> None:
    """Print a report as JSON if `json` is standard output."""
    if json == STANDARD_OUTPUT:
        typer.echo(report.to_json())


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that processes end and temporary folders are removed.

    Python raises nothing while native code runs; after GRACE_PERIOD the process ends in any case. An interruption of
    the finalization of an object, which Python ignores, is repeated once that is over.
    """
    terminated, report = Event(), sys.unraisablehook

    def repeat_interruption(ignored: sys.UnraisableHookArgs) -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            start_new_thread(_interrupt, (signal.SIGTERM if terminated.is_set() else signal.SIGINT,))
        else:
            report(ignored)

    def unwind(*_: object) -> None:
        terminated.set()
        raise KeyboardInterrupt

    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    sys.unraisablehook = repeat_interruption
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


def _interrupt(number: signal.Signals) -> None:
    sleep(REPEAT_AFTER)
    interrupt_main(number)


def _exit_after_grace_period(wakeup_fd: int) -> None:
    while os.read(wakeup_fd, 1) != bytes([signal.SIGTERM]):
        pass
    sleep(GRACE_PERIOD)
    os._exit(TERMINATED)
