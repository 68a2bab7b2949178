"""Messages for authors of rules and passes: about wrong arguments, and exceptions in their code."""

from __future__ import annotations

import inspect
import linecache
import re
import reprlib
import sys
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import Any, cast

from ..errors import PassesError, UsageError, format_error
from .suggestions import did_you_mean

PACKAGE = __name__.partition(".")[0]
UNEXPECTED = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'$")
HAS_LINE = re.compile(r"\.py:\d+\)$")


def require_argument(is_right: object, call: str, wanted: str, given: object) -> None:
    """Raise UsageError unless `is_right`: the function `call` takes what is `wanted`; authors may not check types."""
    if not is_right:
        raise UsageError(f"{call} takes {wanted}, but got {reprlib.repr(given)}")


def require_type(given: object, kinds: type | tuple[type, ...], call: str, wanted: str) -> None:
    """Call `require_argument` for an object that must have one of some types."""
    require_argument(isinstance(given, kinds), call, wanted, given)


def is_each(items: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether `items` is a tuple or list of objects of these types."""
    return isinstance(items, tuple | list) and all(isinstance(i, kinds) for i in cast("Sequence[object]", items))


def describe_exception(error: BaseException, code: CodeType | None = None) -> str:
    """The text of an exception, with suggestions for a name that passwright lacks, and the line in the file of `code`.

    For an exception of the call itself, such as a wrong number of arguments, it is the first line of `code`. An error
    of passwright gets the line that called passwright, unless its text already contains a line.
    """
    text = format_error(error)
    if isinstance(error, AttributeError | ImportError):
        text += _similar_names(error)
    elif found := UNEXPECTED.search(text):
        called = getattr(sys.modules.get(f"{PACKAGE}.core"), found[1], None)
        text += did_you_mean(found[2], inspect.signature(called).parameters) if callable(called) else ""
    if code is None:
        return text
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == code.co_filename]
    if isinstance(error, PassesError) and (not own or own[-1] is frames[-1] or HAS_LINE.search(text)):
        return text
    return f"{text} ({Path(code.co_filename).name}:{own[-1].lineno if own else code.co_firstlineno})"


def describe_in(function: object, error: BaseException) -> str:
    """The text of a passwright error about a function, with the last line of its file there, or its first."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return format_error(error)
    frames = [*extract_tb(error.__traceback__), *(extract_tb(error.__cause__.__traceback__) if error.__cause__ else ())]
    lines = [f.lineno for f in frames if f.filename == code.co_filename]
    return f"{format_error(error)} ({Path(code.co_filename).name}:{lines[-1] if lines else code.co_firstlineno})"


def describe_failed_call(error: BaseException, code: CodeType | None) -> str:
    """Like `describe_exception`; for an error of passwright, with the call that raised it: `g.Add(x) in file.py:7`."""
    if code is None:
        return describe_exception(error)
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == code.co_filename]
    if not isinstance(error, PassesError) or not own or own[-1] is frames[-1]:
        return describe_exception(error, code)
    call, last = "", own[-1]
    if last.lineno is not None and last.lineno == last.end_lineno:
        line = linecache.getline(last.filename, last.lineno).encode()
        call = line[last.colno : last.end_colno].decode(errors="replace").strip()
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{format_error(error)} ({call} in {place})" if call else f"{format_error(error)} ({place})"


def _similar_names(error: AttributeError | ImportError) -> str:
    """A question with similar names if an object or module of passwright lacks a name; else ""."""
    owner: Any = sys.modules.get(error.name or "") if isinstance(error, ImportError) else error.obj
    name = str(error).partition("'")[2].partition("'")[0] if isinstance(error, ImportError) else error.name
    home = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__module__
    is_ours = home.partition(".")[0] == PACKAGE
    return did_you_mean(name, (n for n in dir(owner) if not n.startswith("_"))) if is_ours and name else ""
