"""Progress of functions of the public API."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from passwright.app.report.progress import NOTHING, shown_progress, with_keywords
from rewriting import load

import passwright

MODEL = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"


class ZMQInteractiveShell:
    """The shell of a kernel, as rich recognizes it."""


class Notebook:
    """The outputs of a cell, and all that they showed."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.history: list[str] = []

    def display(self, shown: Any, *, display_id: bool) -> Notebook:
        assert display_id
        self.outputs.append(shown)
        self.history.append(shown.plain)
        return self

    def update(self, shown: Any, *, raw: bool = False) -> None:
        self.outputs[-1] = shown
        if not raw:
            self.history.append(shown.plain)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A kernel with the part of IPython that shows outputs."""
    found, display = Notebook(), ModuleType("IPython.display")
    vars(display).update(display=found.display)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    return found


def test_a_notebook_shows_the_phase_and_nothing_after_the_end(notebook: Notebook) -> None:
    passwright.optimize(load(MODEL), verify=False)
    assert notebook.history[0] == "loading ..."
    assert "rewriting ..." in notebook.history
    assert notebook.outputs == [NOTHING]


def test_a_notebook_is_cleared_after_an_error(notebook: Notebook) -> None:
    def fail() -> None:
        with shown_progress(None) as show:
            show("dividing [red]\x1b[2J")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert notebook.history == ["dividing [red]\\x1b[2J ..."]
    assert notebook.outputs == [NOTHING]


def test_progress_is_shown_where_it_is_asked_for(notebook: Notebook) -> None:
    called: list[str] = []
    passwright.diff(load(MODEL), load(MODEL), progress=called.append)
    assert called == ["loading", "verifying"]
    passwright.diff(load(MODEL), load(MODEL), progress=False)
    assert notebook.history == []
    passwright.diff(load(MODEL), load(MODEL), progress=True)
    assert notebook.history == ["loading ...", "verifying ..."]


def test_scripts_show_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for modules in ({}, {"IPython": ModuleType("IPython")}):  # as some libraries import it
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        passwright.diff(load(MODEL), load(MODEL))
        assert capsys.readouterr() == ("", "")


def test_terminal_shows_progress_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    passwright.diff(load(MODEL), load(MODEL), progress=True)
    assert capsys.readouterr() == ("", "")  # of CI, which asks for colours in its log
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    passwright.diff(load(MODEL), load(MODEL), progress=True)
    out, err = capsys.readouterr()
    assert "verifying" in err
    assert out == ""


def test_progress_reaches_the_function_as_a_function() -> None:
    @dataclass(frozen=True)
    class Options:
        progress: Any = None

    @with_keywords(Options, "given")
    def given(_: str, options: Options) -> Any:
        return options.progress

    for value in (None, True, False):
        assert callable(given("model", progress=value))
    assert callable(given("model"))
    assert given("model", progress=print) is print
