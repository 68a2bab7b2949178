"""Pipelines that are written down in a TOML file: `[mine]`, `passes = ["basic", "my-pass{threshold=0.7}"]`.

What the names in a pipeline stand for: passes and pipelines, built in, given, installed or written in a file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ...core.errors import PluginError, told
from ...core.pass_manager.pass_selection import BadUsage, UnknownName, selected
from ...core.pass_manager.pipeline import Fixpoint, Pass, Pipeline, leaves
from ...core.plugins.discovery import Broken, Installed
from ...core.plugins.pass_options import configured
from ...core.plugins.pass_registry import Found, FoundPipeline, Shelf
from ...core.plugins.pass_spec import Spec, parse
from ...core.support.suggestions import meant
from .. import adapters
from .pass_sources import Given, everything, given, known

DEFAULT = Path("pipelines.toml")
KEYS = {"passes": list, "skip": list, "repeat": bool}
FORM = 'passes = ["basic", "my-pass{threshold=0.7}"], and if wanted repeat = true and skip = ["fuse-gemm"]'


@dataclass(frozen=True, slots=True)
class Written:
    """A pipeline as a file has it: what runs, once or again and again, less what is to be skipped."""

    where: str
    specs: tuple[Spec, ...]
    repeat: bool = False
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """The pipelines of one file, by name."""

    path: Path
    pipelines: dict[str, Written]

    def called(self, name: str) -> str:
        """A name of it as it is written anywhere else."""
        return f"{self.path.resolve()}:{name}"


def split(name: str) -> tuple[Path, str] | None:
    """The file and the name in `path/to/file.toml:mine`; None for a name of another form."""
    path, colon, inner = name.rpartition(":")
    return (Path(path), inner) if colon and path.endswith(".toml") else None


def read(path: Path, taken: Mapping[str, str]) -> PipelineFile:
    """Read a file. Raises BadUsage with file and line for what is wrong in it.

    `taken` are the names that have a meaning already, with where that comes from.
    """
    import tomllib  # noqa: PLC0415 - seldom needed

    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, place = str(e).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        raise BadUsage(f"{path}:{line[1] if line is not None else text.count(chr(10)) + 1}: {message}") from e
    except (ValueError, RecursionError) as e:  # numbers too long, lists too deep
        raise BadUsage(f"{path}: cannot be read: {told(e)}") from e
    for name in tables:
        if name in taken:
            raise BadUsage(f"{path}:{_line(text, name)}: {name} is taken: that name comes from {taken[name]}")
    return PipelineFile(path, {name: _pipeline(name, table, text, path) for name, table in tables.items()})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise BadUsage(f"{path}:1: not a text in UTF-8") from e
    except (OSError, ValueError) as e:
        raise BadUsage(f"cannot read {path}: {e.strerror if isinstance(e, OSError) else e}") from e


def _line(text: str, table: str, key: str = "") -> int:
    """The line of a table, or of a key in it; 1 where it is written in a way that is not looked for."""
    lines = text.splitlines()
    heads = (rf"\s*\[\s*[\"']?{re.escape(table)}[\"']?\s*\]", rf"\s*[\"']?{re.escape(table)}[\"']?\s*[.=]")
    start = next((i for i, line in enumerate(lines) if any(re.match(h, line) for h in heads)), 0)
    wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=") if key else re.compile("")
    return next((i for i in range(start, len(lines)) if wanted.match(lines[i])), start) + 1


def _pipeline(name: str, table: Any, text: str, path: Path) -> Written:
    where = f"{path}:{_line(text, name)}"
    given = cast("dict[str, Any]", table if isinstance(table, dict) else {})
    if "passes" not in given:
        raise BadUsage(f"{where}: {name} is no pipeline, which has {FORM}")
    for key, value in given.items():
        _require_key(f"{path}:{_line(text, name, key)}", key, value)
    try:
        specs = [s.from_anywhere(path.parent) for s in parse(",".join(given["passes"]))] if given["passes"] else []
    except BadUsage as e:
        raise BadUsage(f"{path}:{_line(text, name, 'passes')}: {e}") from e
    return Written(where, tuple(specs), given.get("repeat", False), tuple(given.get("skip", ())))


def _require_key(where: str, key: str, value: Any) -> None:
    if key not in KEYS:
        raise BadUsage(f"{where}: {key} is not known; a pipeline has {FORM}")
    is_list = KEYS[key] is list
    items = cast("list[Any]", value if isinstance(value, list) else [])
    if not isinstance(value, KEYS[key]) or not all(isinstance(v, str) for v in items):
        raise BadUsage(f"{where}: {key} is to be {'a list of names' if is_list else 'true or false'}")


DEEPEST = 30  # pipelines inside each other
LOG = logging.getLogger(__name__)
InFile = tuple[PipelineFile, str]
"""A pipeline that is written in a file, by its name there."""


class Names:
    """Looks names up, and loads nothing before it has to be.

    A name means, in this order: what a file named with it holds, what is built in or given by the caller, another
    optimizer, what an installed package brings, what `pipelines.toml` in the working folder holds.
    `given` is what the caller gave, each file by itself; `named` is what was looked up of that and of what is built
    in; `used` are all passes that may be in the pipeline, by name.
    """

    def __init__(self, plugins: Sequence[Given] = ()) -> None:
        self.given: list[Shelf] = given(plugins)
        self.known: Shelf = known(self.given)
        self.used: dict[str, Found] = {name: found for shelf in self.given for name, found in shelf.passes.items()}
        self.named: set[str] = set()
        self._installed = Installed()
        self._files: dict[Path, PipelineFile] = {}
        self._full: dict[str, str] = {}  # names out of pipelines.toml as they are written in any folder
        self._open: list[str] = []

    @property
    def files(self) -> list[Path]:
        """The files that were read for pipelines."""
        return list(self._files)

    def pipeline(self, text: str) -> Pass:
        """The pipeline of that name, or of these. Raises BadUsage, UnknownName, PluginError."""
        specs = parse(text)
        if len(specs) == 1:
            return self.resolved(specs[0])
        return Pipeline(",".join(map(str, specs)), tuple(self.resolved(s) for s in specs))

    def pass_named(self, name: str) -> Found:
        """A pass to be enabled, as `pipeline`; a pipeline is none."""
        found = self.find(name)
        if not isinstance(found, Found):
            raise BadUsage(f"{name} is a pipeline: it is for --pipeline, with others as in a,b")
        return self._use(found)

    def resolved(self, spec: Spec, file: PipelineFile | None = None) -> Pass:
        """What a spec stands for, in a file if it stands in one."""
        found = self.find(spec.name, file)
        if isinstance(found, Found):
            return configured(self._use(found).item, spec.options)
        if spec.options:
            raise BadUsage(f"{spec}: a pipeline has no options; those of its passes are set with --enable NAME{{n=3}}")
        with self._inside(found[1] if isinstance(found, tuple) else spec.name):
            return self._written(*found) if isinstance(found, tuple) else self._composed(found)

    def from_anywhere(self, spec: Spec) -> Spec:
        """A spec that was looked up, as it means the same in any working folder."""
        return Spec(self._full.get(spec.name, spec.name), spec.options).from_anywhere(Path())

    def rank(self, found: Found) -> tuple[str, int]:
        """Where a pass stands among those of its source, whatever was loaded first."""
        return found.source, [*self.known.passes, *self._installed.shelf.passes].index(found.name)

    def everything(self, broken: Broken) -> Shelf:
        """All there is but other optimizers and what files hold; what is broken or clashes goes to `broken`."""
        return everything(self.known, self._installed, broken)

    def warn(self) -> None:
        """Tell of the installed packages that could not be loaded, and were not asked for."""
        for message in dict.fromkeys(map(str, self._installed.broken.values())):
            LOG.warning("warning: %s", message)

    def find(self, name: str, file: PipelineFile | None = None) -> Found | FoundPipeline | InFile:
        """What a name stands for, in a file if it stands in one. Raises UnknownName and PluginError."""
        if (there := split(name)) is not None:
            return self._in_file(self._read(there[0]), there[1])
        if (found := self.known.get(name)) is not None:
            self.named.add(name)
            return found
        if (other := adapters.adapter(name)) is not None:
            tool = name.partition(":")[0]
            return Found(other, f"{tool} {adapters.available().get(tool, '')}".rstrip())
        if file is not None and name in file.pipelines:
            return file, name
        if (found := self._installed_as(name)) is not None:
            return found
        if DEFAULT.is_file():
            default = self._read(DEFAULT)
            if name in default.pipelines:
                self._full[name] = default.called(name)
                return default, name
        self.warn()
        raise self._installed.entries.get(name) or UnknownName(f"no pass or pipeline is named {name}{self._hint(name)}")

    def _hint(self, name: str) -> str:
        """What to ask for instead of a name that stands for nothing."""
        if name.endswith(".toml"):
            return f"; one that is in a file is named as in {name}:NAME"
        if name.endswith(".py"):
            return "; a file with passes is given with --plugin"
        return meant(name, [found.name for found in (*self.known, *self._installed.shelf)]) or " (see `passes list`)"

    def _installed_as(self, name: str) -> Found | FoundPipeline | None:
        """What installed packages have under that name, beside what is known. Raises PluginError if it clashes."""
        found = self._installed.find(name)
        if found is not None:
            self.known.require_fit(found)
        return found

    def _read(self, path: Path) -> PipelineFile:
        if path not in self._files:
            self._files[path] = read(path, {found.name: found.source for found in self.known})
        return self._files[path]

    def _in_file(self, file: PipelineFile, name: str) -> InFile:
        if name not in file.pipelines:
            raise UnknownName(f"no pipeline in {file.path} is named {name} (there are {', '.join(file.pipelines)})")
        return file, name

    def _use(self, found: Found) -> Found:
        self.used[found.name] = found
        return found

    @contextmanager
    def _inside(self, name: str) -> Generator[None]:
        if len(self._open) == DEEPEST:
            raise BadUsage(f"{name}: pipelines hold each other more than {DEEPEST} deep")
        if name in self._open:
            circle = " -> ".join([*self._open[self._open.index(name) :], name])
            raise BadUsage(f"pipelines that hold each other: {circle}")
        self._open.append(name)
        try:
            yield
        finally:
            self._open.pop()

    def _composed(self, found: FoundPipeline) -> Pass:
        """A pipeline of a plugin, or a built-in one."""
        content = found.content
        if isinstance(content, str):
            try:
                return Pipeline(found.name, tuple(self.resolved(s) for s in parse(content)))
            except BadUsage as e:
                raise PluginError(f"pipeline {found.name} of {found.source}: {e}") from e
        for p in leaves(content):
            if p.name not in self.known.passes:
                self._use(Found(p, found.source, opsets=found.opsets))
        if isinstance(content, Pipeline | Fixpoint):
            return replace(content, name=found.name)
        return Pipeline(found.name, (content,))

    def _written(self, file: PipelineFile, name: str) -> Pass:
        written = file.pipelines[name]
        try:
            passes = tuple(self.resolved(s, file) for s in written.specs)
            return selected((Fixpoint if written.repeat else Pipeline)(name, passes), skip=written.skip)
        except BadUsage as e:
            if str(e).startswith(f"{file.path}:"):
                raise
            raise type(e)(f"{written.where}: {e}") from e
