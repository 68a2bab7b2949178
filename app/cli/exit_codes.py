"""Exit codes of commands, and the errors that cause them."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer

from ...core.errors import PassesError, UnverifiableError, UsageError, VerificationError
from ...core.support.printable_text import printable_line
from ...core.support.supervision import END, tell
from .standard_streams import discard_standard_output

BAD_INPUT, USAGE, WRONG, UNVERIFIED = (
    e.exit_code for e in (PassesError, UsageError, VerificationError, UnverifiableError)
)
MAX_OPTIONS = 3  # in a question
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
EXHAUSTION = frozenset({errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors of a system that lacks some other resource; all other OSErrors are bugs of this program."""


@contextmanager
def one_line_errors(bad_input: int = BAD_INPUT) -> Generator[None]:
    """Turn expected errors into one line and an exit code: `bad_input` for unusable models, inputs and plugins."""
    try:
        yield
    except (PassesError, OSError, MemoryError) as e:
        failure = expected_failure(e, bad_input)
        if failure is None:
            raise
        if isinstance(e, OSError):
            discard_standard_output()
        code, message = failure
        tell(END, "")
        typer.echo(printable_line(f"error: {message}"), err=True)
        raise typer.Exit(code) from e


def expected_failure(error: Exception, bad_input: int = BAD_INPUT) -> tuple[int, str] | None:
    """The exit code and message of an expected error; None for an error that is a bug of this program."""
    if isinstance(error, PassesError):
        return bad_input if error.exit_code == BAD_INPUT else error.exit_code, str(error)
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        return bad_input, f"cannot write {error.filename or 'a temporary file'}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in EXHAUSTION:
        return bad_input, str(error.strerror)
    return (bad_input, "out of memory") if isinstance(error, MemoryError) else None


def is_shortage(error: BaseException) -> bool:
    """Whether an error is caused by a full disk or another shortage on this machine."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL_DISK | EXHAUSTION:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@contextmanager
def printable_messages() -> Generator[None]:
    """Make the message of a usage error printable, and show it as one line like other errors."""
    try:
        yield
    except Exception as e:
        if isinstance(message := getattr(e, "message", None), str):
            vars(e)["message"] = printable_line(message)
            vars(e)["show"] = lambda file=None, e=e: typer.echo(f"error: {_usage_text(e)}", file=file, err=True)
        raise


def _words(option: str) -> set[str]:
    """The words of an option, in the singular: other tools often say the same with one more."""
    return {word.removesuffix("s") for word in option.strip("-").split("-")}


def _usage_text(error: Any) -> str:
    """Convert a usage error of typer to the style of this command's messages."""
    if isinstance(error, typer.BadParameter) and error.message:
        option = error.param if getattr(error.param, "param_type_name", "") == "option" else None
        return error.message if option is None else f"{max(option.opts, key=len)} {error.message}"
    if (typed := getattr(error, "option_name", "")) and error.ctx is not None:
        known = [o for p in error.ctx.command.params for o in p.opts if o.startswith("--")]
        near = [o for o in known if not _words(o).isdisjoint(_words(typed))] or list(
            getattr(error, "possibilities", None) or ()
        )
        hint = f"; did you mean {' or '.join(near[:MAX_OPTIONS])}?" if near else ""
        return f"no such option: {typed}{hint}"
    text = " ".join(error.format_message().split())
    return text[:1].lower() + text[1:].removesuffix(".")
