"""Progress of public functions, shown in a notebook, on a terminal, or by a function of the caller."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from ...core.errors import PassesError
from ...core.support.printable_text import printable_line
from ...core.support.suggestions import did_you_mean
from ..options import Progress

P = ParamSpec("P")
Subject = TypeVar("Subject")
Other = TypeVar("Other")
Options = TypeVar("Options")
Outcome = TypeVar("Outcome")
Subject_contra = TypeVar("Subject_contra", contravariant=True)
Other_contra = TypeVar("Other_contra", contravariant=True)
Outcome_co = TypeVar("Outcome_co", covariant=True)
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])(?: [A-Z]{2,}\b)?")
"""An option of the command line in a message, possibly with the name of its value."""
NOTHING = {"text/html": "", "text/plain": ""}
"""A cell output without content."""


def with_keywords(
    options: Callable[P, Options], name: str
) -> Callable[[Callable[[Subject, Options], Outcome]], Callable[Concatenate[Subject, P], Outcome]]:
    """Decorate a function of a subject and `options`; the result, called `name`, takes the options as keywords.

    Progress is shown according to the option `progress`; the decorated function receives a function instead.
    """
    return _with_keywords(options, name)


class WithSecond(Protocol[Subject_contra, Other_contra, P, Outcome_co]):
    """A function of one or two subjects, with options as keywords."""

    def __call__(
        self, original: Subject_contra, other: Other_contra | None = None, *args: P.args, **options: P.kwargs
    ) -> Outcome_co:
        """Call the function."""
        ...


def with_keywords_after_two(
    options: Callable[P, Options], name: str
) -> Callable[[Callable[[Subject, Other, Options], Outcome]], Callable[Concatenate[Subject, Other, P], Outcome]]:
    """Like `with_keywords`, for a function of two subjects."""
    return _with_keywords(options, name)


def with_keywords_after_one_or_two(
    options: Callable[P, Options], name: str
) -> Callable[[Callable[[Subject, Other | None, Options], Outcome]], WithSecond[Subject, Other, P, Outcome]]:
    """Like `with_keywords`, for a function of two subjects of which the second is optional."""
    return _with_keywords(options, name, optional=1)


def _with_keywords(options: Callable[..., Any], name: str, optional: int = 0) -> Any:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        *subjects, _ = signature(function).parameters.values()
        required = len(subjects) - optional
        subjects[required:] = [p.replace(default=None) for p in subjects[required:]]
        own = signature(function).replace(parameters=[*subjects, *signature(options).parameters.values()])

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for unknown in keywords.keys() - own.parameters.keys():
                hint = did_you_mean(unknown, own.parameters)
                raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}{hint}")
            try:
                given = own.bind(*args, **keywords).arguments
            except TypeError as e:
                raise TypeError(f"{name}(): {e}") from None
            first = [given.pop(p.name, p.default) for p in subjects]
            with messages_for_python():
                chosen = options(**given)
                with shown_progress(chosen.progress) as show:
                    return _with_notes_for_python(function(*first, replace(chosen, progress=show)))

        vars(call)["__signature__"] = own
        call.__name__ = call.__qualname__ = name
        return call

    return decorate


@contextmanager
def messages_for_python() -> Generator[None]:
    """Make errors of the block name Python arguments instead of command-line options."""
    try:
        yield
    except PassesError as e:
        e.args = tuple(in_python(text) if isinstance(text, str) else text for text in e.args)
        raise


def _with_notes_for_python(outcome: Any) -> Any:
    """A report, or a result with one, whose notes name arguments of Python."""
    for report in (outcome, getattr(outcome, "report", None)):
        notes: object = getattr(report, "notes", None)
        if isinstance(notes, list):
            notes[:] = map(in_python, cast("list[str]", notes))
    return outcome


def in_python(text: str) -> str:
    """Replace command-line options in a message by Python arguments, except within a command."""
    parts = text.split("`")
    parts[::2] = (FLAG.sub(_argument, part) for part in parts[::2])
    return "`".join(parts)


def _argument(flag: re.Match[str]) -> str:
    name = flag[1].replace("-", "_")
    return {"no_verify": "verify=False", "keep_overridable": "freeze_initializers=False"}.get(name, name)


def phase_callback(progress: Progress) -> Callable[[str], None]:
    """The function of a caller, or one that does nothing."""
    return progress if callable(progress) else lambda _: None


@contextmanager
def shown_progress(progress: Progress) -> Generator[Callable[[str], None]]:
    """Show the current phase, as passed to the function, within the context."""
    is_shown = progress is True or (progress is None and "IPython" in sys.modules)
    if not is_shown:
        yield phase_callback(progress)
        return
    from .terminal import Terminal  # noqa: PLC0415 - imports rich

    terminal = Terminal()
    if terminal.out.is_jupyter:
        with _shown_in_notebook() as show:
            yield show
    elif progress is True:
        with terminal.progress() as show:
            yield show
    else:
        yield phase_callback(None)


@contextmanager
def _shown_in_notebook() -> Generator[Callable[[str], None]]:
    """Show the current phase below the cell, within the context.

    A live display of rich would need ipywidgets, and would remain in the notebook as a widget without state.
    """
    from rich.text import Text  # noqa: PLC0415 - as above

    ipython: Any = import_module("IPython.display")  # it is available, and not a dependency
    shown: list[Any] = []

    def show(phase: str) -> None:
        text = Text(printable_line(f"{phase} ..."))
        if shown:
            shown[0].update(text)
        else:
            shown.append(ipython.display(text, display_id=True))

    try:
        yield show
    finally:
        for display in shown:
            display.update(NOTHING, raw=True)
