"""Configurations that `passes tune` finds, and the files in which it writes them: how to make a model and to run it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field, structs, to_builtins

from ...core.errors import UsageError
from ...core.ort.sessions import ENABLE_ALL, SessionConfig
from ...core.support.printable_text import json_text
from ...core.support.regular_files import read_text, unreadable
from ...passes.pipelines import PIPELINES
from ...passes.trades import OPTIONAL, TRADING
from .execution_provider import ExecutionProvider
from .session_settings import USUAL, settings_data, settings_from_data

ORIGINAL = "none"  # the pipeline without passes
USERS_SESSION = ExecutionProvider().session_config(ENABLE_ALL, 0)
"""A session with onnxruntime's defaults."""
FORMAT = 1  # of files; others are refused
MAX_BYTES = 1 << 20  # of a file
MAX_OPSET, MAX_CALLERS = 1000, 1024
KEYS = frozenset({"format", "model", "run", "session", "callers", "measured"})


class Recipe(Struct, frozen=True):
    """A way to make a model of the original: a pipeline, passes that are left out or added, and the opset.

    `opset` is None for that of the model or the pipeline. With a `scheme` of `passes quantize`, the rest is that of
    this command.
    """

    pipeline: str = ORIGINAL
    skip: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    opset: int | None = None
    scheme: str = ""

    @property
    def is_original(self) -> bool:
        """Whether the model stays as it is."""
        return self == Recipe()


class Configuration(Struct, frozen=True):
    """A model and a session. `callers`: threads that call the session at the same time."""

    recipe: Recipe = Recipe()
    session: SessionConfig = USERS_SESSION
    callers: int = 1

    @property
    def key(self) -> str:
        """A text that differs between configurations, and is the same in another process."""
        return repr(to_builtins(self))


class TunedSettings(Struct, frozen=True):
    """The settings of a result: its configuration, the name of its model, and figures with their conditions."""

    configuration: Configuration = field(default_factory=Configuration)
    model: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def recipe(self) -> Recipe:
        """The way to make the model. Raises UsageError for a quantized one, which is not verified as others are."""
        if self.configuration.recipe.scheme:
            scheme = self.configuration.recipe.scheme
            raise UsageError(f"--settings: the model is quantized: `passes quantize --scheme {scheme}` makes it")
        return self.configuration.recipe

    @property
    def session(self) -> SessionConfig:
        """The session to run it in."""
        return self.configuration.session

    def to_json(self) -> str:
        """The text of the file."""
        data = {
            "format": FORMAT,
            "model": self.model,
            "run": to_builtins(self.configuration.recipe),
            "session": settings_data(self.configuration.session),
            "callers": self.configuration.callers,
            "measured": self.measured,
        }
        return json_text(data)


def read_tuned_settings(path: Path) -> TunedSettings:
    """The settings in a file. Raises UsageError for another file, and for settings that make no sense.

    No text in it is run: pipelines and passes are those of this package, optimizers and providers those of onnxruntime.
    """
    try:
        data = json.loads(read_text(path, MAX_BYTES))
    except OSError as e:
        raise UsageError(f"--settings: {unreadable(path, e)}") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f"--settings {path}: not a file of `passes tune`") from e
    try:
        return _settings(data)
    except UsageError as e:
        raise UsageError(f"--settings {path}: {e}") from e


def _settings(data: object) -> TunedSettings:
    if not isinstance(data, dict) or "format" not in data:
        raise UsageError("not a file of `passes tune`")
    given = cast("dict[str, Any]", data)
    if given["format"] != FORMAT:
        raise UsageError(f"its format is {json_text(given['format'], indent=None)[:20]}, not {FORMAT}")
    if unknown := sorted(given.keys() - KEYS):
        raise UsageError(f"{unknown[0]} is unknown; there are {', '.join(sorted(KEYS))}")
    callers, model, measured = given.get("callers", 1), given.get("model", ""), given.get("measured", {})
    if type(callers) is not int or not 1 <= callers <= MAX_CALLERS:
        raise UsageError(f"callers: a number from 1 to {MAX_CALLERS}")
    if not isinstance(model, str) or not isinstance(measured, dict):
        raise UsageError("model is not a text, or measured is not an object")
    session = settings_from_data(given.get("session", settings_data(USUAL)))
    recipe = _recipe(given.get("run", {}))
    return TunedSettings(Configuration(recipe, session, callers), model, cast("dict[str, Any]", measured))


def _recipe(data: object) -> Recipe:
    known = structs.asdict(Recipe())
    if not isinstance(data, dict):
        raise UsageError("run: not an object")
    given = cast("dict[str, Any]", data)
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"run: {unknown[0]} is unknown; there are {', '.join(known)}")
    chosen = known | given
    if not isinstance(chosen["pipeline"], str) or chosen["pipeline"] not in PIPELINES:
        raise UsageError(f"run: pipeline is none of {', '.join(PIPELINES)}")
    groups = {"skip": TRADING, "enable": OPTIONAL}
    passes = {name: _passes(name, chosen[name], groups[name]) for name in groups}
    opset, scheme = chosen["opset"], chosen["scheme"]
    if opset is not None and (type(opset) is not int or not 1 <= opset <= MAX_OPSET):
        raise UsageError("run: opset is not the number of one")
    if not isinstance(scheme, str):
        raise UsageError("run: scheme is not a text")
    return Recipe(chosen["pipeline"], **passes, opset=opset, scheme=scheme)


def _passes(name: str, given: object, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    known = {p for passes in groups.values() for p in passes}
    names = cast("list[object]", list(given)) if isinstance(given, list | tuple) else [None]
    if not all(isinstance(p, str) and p in known for p in names):
        raise UsageError(f"run: {name} has other things than passes that `passes tune` chooses")
    return tuple(map(str, names))


def relative_name(path: Path, folder: Path) -> str:
    """A file as seen from a folder."""
    return os.path.relpath(path.absolute(), folder.absolute())
