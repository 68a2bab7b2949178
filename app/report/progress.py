"""Progress of functions of the public API: in a notebook, on a terminal, or by a function of the caller."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

from ...core.support.printable_text import printable_line

P = ParamSpec("P")
Outcome = TypeVar("Outcome")
NOTHING = {"text/html": "", "text/plain": ""}
"""An output of a cell without content."""
Progress = Callable[[str], None] | bool | None
"""A function that is called with the name of each phase; True to show it, False not to; None: in a notebook alone."""


def shows_progress(function: Callable[P, Outcome]) -> Callable[P, Outcome]:
    """Decorate a function with the keyword `progress`, a Progress: it is called with a function in its place."""

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> Outcome:
        with shown_progress(cast("Progress", keywords.get("progress"))) as show:
            keywords["progress"] = show
            return function(*args, **keywords)

    return call


def phase_callback(progress: Progress) -> Callable[[str], None]:
    """The function of a caller, or one that does nothing."""
    return progress if callable(progress) else lambda _: None


@contextmanager
def shown_progress(progress: Progress) -> Generator[Callable[[str], None]]:
    """Show the current phase, as passed to the function, until the context ends."""
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
    """Show the current phase below the cell, until the context ends.

    A live display of rich would need ipywidgets, and remain in the notebook as a widget without its state.
    """
    from rich.text import Text  # noqa: PLC0415 - as above

    ipython: Any = import_module("IPython.display")  # it is there, and no dependency
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
