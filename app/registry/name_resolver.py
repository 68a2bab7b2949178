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

from ...core.errors import PluginError, format_error
from ...core.pass_manager.pass_selection import UnknownNameError, UsageError, select
from ...core.pass_manager.pipeline import Fixpoint, Pass, Pipeline, leaves
from ...core.plugins.discovery import InstalledPlugins, LoadErrors
from ...core.plugins.pass_registry import PassEntry, PassRegistry, PipelineEntry
from ...core.plugins.pass_spec import PassSpec, parse_specs, with_options
from ...core.support.suggestions import did_you_mean
from .. import adapters
from .pass_sources import PluginLike, caller_registry, full_registry, plugin_registries

DEFAULT_FILE = Path("pipelines.toml")
KEYS = {"passes": list, "skip": list, "repeat": bool}
EXPECTED_FORM = 'passes = ["basic", "my-pass{threshold=0.7}"], and if wanted repeat = true and skip = ["fuse-gemm"]'


@dataclass(frozen=True, slots=True)
class PipelineDefinition:
    """A pipeline as a file has it: what runs, once or again and again, less what is to be skipped."""

    location: str
    specs: tuple[PassSpec, ...]
    repeat: bool = False
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """The pipelines of one file, by name."""

    path: Path
    pipelines: dict[str, PipelineDefinition]

    def qualified_name(self, name: str) -> str:
        """A name of it as it is written anywhere else."""
        return f"{self.path.resolve()}:{name}"


def split_reference(name: str) -> tuple[Path, str] | None:
    """The file and the name in `path/to/file.toml:mine`; None for a name of another form."""
    path, colon, inner = name.rpartition(":")
    return (Path(path), inner) if colon and path.endswith(".toml") else None


def read_pipeline_file(path: Path, reserved_names: Mapping[str, str]) -> PipelineFile:
    """Read a file. Raises UsageError with file and line for what is wrong in it.

    `reserved_names` are the names that have a meaning already, with where that comes from.
    """
    import tomllib  # noqa: PLC0415 - seldom needed

    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, place = str(e).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        raise UsageError(f"{path}:{line[1] if line is not None else text.count(chr(10)) + 1}: {message}") from e
    except (ValueError, RecursionError) as e:  # numbers too long, lists too deep
        raise UsageError(f"{path}: cannot be read: {format_error(e)}") from e
    for name in tables:
        if name in reserved_names:
            raise UsageError(
                f"{path}:{_line_number(text, name)}: {name} is taken: that name comes from {reserved_names[name]}"
            )
    return PipelineFile(path, {name: _definition(name, table, text, path) for name, table in tables.items()})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}:1: not a text in UTF-8") from e
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read {path}: {e.strerror if isinstance(e, OSError) else e}") from e


def _line_number(text: str, table: str, key: str = "") -> int:
    """The line of a table, or of a key in it; 1 where it is written in a way that is not looked for."""
    lines = text.splitlines()
    heads = (rf"\s*\[\s*[\"']?{re.escape(table)}[\"']?\s*\]", rf"\s*[\"']?{re.escape(table)}[\"']?\s*[.=]")
    start = next((i for i, line in enumerate(lines) if any(re.match(h, line) for h in heads)), 0)
    wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=") if key else re.compile("")
    return next((i for i in range(start, len(lines)) if wanted.match(lines[i])), start) + 1


def _definition(name: str, table: Any, text: str, path: Path) -> PipelineDefinition:
    where = f"{path}:{_line_number(text, name)}"
    given = cast("dict[str, Any]", table if isinstance(table, dict) else {})
    if "passes" not in given:
        raise UsageError(f"{where}: {name} is no pipeline, which has {EXPECTED_FORM}")
    for key, value in given.items():
        _require_key(f"{path}:{_line_number(text, name, key)}", key, value)
    try:
        specs = (
            [s.with_absolute_paths(path.parent) for s in parse_specs(",".join(given["passes"]))]
            if given["passes"]
            else []
        )
    except UsageError as e:
        raise UsageError(f"{path}:{_line_number(text, name, 'passes')}: {e}") from e
    return PipelineDefinition(where, tuple(specs), given.get("repeat", False), tuple(given.get("skip", ())))


def _require_key(where: str, key: str, value: Any) -> None:
    if key not in KEYS:
        raise UsageError(f"{where}: {key} is not known; a pipeline has {EXPECTED_FORM}")
    is_list = KEYS[key] is list
    items = cast("list[Any]", value if isinstance(value, list) else [])
    if not isinstance(value, KEYS[key]) or not all(isinstance(v, str) for v in items):
        raise UsageError(f"{where}: {key} is to be {'a list of names' if is_list else 'true or false'}")


MAX_NESTING = 30  # pipelines inside each other
LOG = logging.getLogger(__name__)
FilePipeline = tuple[PipelineFile, str]
"""A pipeline that is written in a file, by its name there."""


class NameResolver:
    """Looks names up, and loads nothing before it has to be.

    A name means, in this order: what a file named with it holds, what is built in or given by the caller, another
    optimizer, what an installed package brings, what `pipelines.toml` in the working folder holds. `plugin_registries`
    is what the caller gave, each file by itself; `looked_up` is what was looked up of that and of what is built in;
    `used_passes` are all passes that may be in the pipeline, by name.
    """

    def __init__(self, plugins: Sequence[PluginLike] = ()) -> None:
        self.plugin_registries: list[PassRegistry] = plugin_registries(plugins)
        self.registry: PassRegistry = caller_registry(self.plugin_registries)
        self.used_passes: dict[str, PassEntry] = {
            name: found for shelf in self.plugin_registries for name, found in shelf.passes.items()
        }
        self.looked_up: set[str] = set()
        self._installed = InstalledPlugins()
        self._files: dict[Path, PipelineFile] = {}
        self._qualified_names: dict[str, str] = {}  # names out of pipelines.toml as they are written in any folder
        self._resolving: list[str] = []

    @property
    def read_files(self) -> list[Path]:
        """The files that were read for pipelines."""
        return list(self._files)

    def pipeline_from_text(self, text: str) -> Pass:
        """The pipeline of that name, or of these. Raises UsageError, UnknownNameError, PluginError."""
        specs = parse_specs(text)
        if len(specs) == 1:
            return self.resolve(specs[0])
        return Pipeline(",".join(map(str, specs)), tuple(self.resolve(s) for s in specs))

    def pass_named(self, name: str) -> PassEntry:
        """A pass to be enabled, as `pipeline_from_text`; a pipeline is none."""
        found = self.lookup(name)
        if not isinstance(found, PassEntry):
            raise UsageError(f"{name} is a pipeline: it is for --pipeline, with others as in a,b")
        return self._mark_used(found)

    def resolve(self, spec: PassSpec, file: PipelineFile | None = None) -> Pass:
        """What a spec stands for, in a file if it stands in one."""
        found = self.lookup(spec.name, file)
        if isinstance(found, PassEntry):
            return with_options(self._mark_used(found).item, spec.options)
        if spec.options:
            raise UsageError(
                f"{spec}: a pipeline has no options; those of its passes are set with --enable NAME{{n=3}}"
            )
        with self._entered(found[1] if isinstance(found, tuple) else spec.name):
            return self._file_pipeline(*found) if isinstance(found, tuple) else self._registered_pipeline(found)

    def absolute_spec(self, spec: PassSpec) -> PassSpec:
        """A spec that was looked up, as it means the same in any working folder."""
        return PassSpec(self._qualified_names.get(spec.name, spec.name), spec.options).with_absolute_paths(Path())

    def placement_order(self, found: PassEntry) -> tuple[str, int]:
        """Where a pass stands among those of its source, whatever was loaded first."""
        return found.source, [*self.registry.passes, *self._installed.registry.passes].index(found.name)

    def full_registry(self, broken: LoadErrors) -> PassRegistry:
        """All there is but other optimizers and what files hold; what is broken or clashes goes to `broken`."""
        return full_registry(self.registry, self._installed, broken)

    def warn_about_broken(self) -> None:
        """Tell of the installed packages that could not be loaded, and were not asked for."""
        for message in dict.fromkeys(map(str, self._installed.load_errors.values())):
            LOG.warning("warning: %s", message)

    def lookup(self, name: str, file: PipelineFile | None = None) -> PassEntry | PipelineEntry | FilePipeline:
        """What a name stands for, in a file if it stands in one. Raises UnknownNameError and PluginError."""
        if (there := split_reference(name)) is not None:
            return self._lookup_in_file(self._read_file(there[0]), there[1])
        if (found := self.registry.get(name)) is not None:
            self.looked_up.add(name)
            return found
        if (other := adapters.adapter(name)) is not None:
            tool = name.partition(":")[0]
            return PassEntry(other, f"{tool} {adapters.available().get(tool, '')}".rstrip())
        if file is not None and name in file.pipelines:
            return file, name
        if (found := self._lookup_installed(name)) is not None:
            return found
        if DEFAULT_FILE.is_file():
            default = self._read_file(DEFAULT_FILE)
            if name in default.pipelines:
                self._qualified_names[name] = default.qualified_name(name)
                return default, name
        self.warn_about_broken()
        raise self._installed.entry_point_errors.get(name) or UnknownNameError(
            f"no pass or pipeline is named {name}{self._hint(name)}"
        )

    def _hint(self, name: str) -> str:
        """What to ask for instead of a name that stands for nothing."""
        if name.endswith(".toml"):
            return f"; one that is in a file is named as in {name}:NAME"
        if name.endswith(".py"):
            return "; a file with passes is given with --plugin"
        return (
            did_you_mean(name, [found.name for found in (*self.registry, *self._installed.registry)])
            or " (see `passes list`)"
        )

    def _lookup_installed(self, name: str) -> PassEntry | PipelineEntry | None:
        """What installed packages have under that name, beside what is known. Raises PluginError if it clashes."""
        found = self._installed.lookup(name)
        if found is not None:
            self.registry.require_no_clash(found)
        return found

    def _read_file(self, path: Path) -> PipelineFile:
        if path not in self._files:
            self._files[path] = read_pipeline_file(path, {found.name: found.source for found in self.registry})
        return self._files[path]

    def _lookup_in_file(self, file: PipelineFile, name: str) -> FilePipeline:
        if name not in file.pipelines:
            raise UnknownNameError(
                f"no pipeline in {file.path} is named {name} (there are {', '.join(file.pipelines)})"
            )
        return file, name

    def _mark_used(self, found: PassEntry) -> PassEntry:
        self.used_passes[found.name] = found
        return found

    @contextmanager
    def _entered(self, name: str) -> Generator[None]:
        if len(self._resolving) == MAX_NESTING:
            raise UsageError(f"{name}: pipelines hold each other more than {MAX_NESTING} deep")
        if name in self._resolving:
            circle = " -> ".join([*self._resolving[self._resolving.index(name) :], name])
            raise UsageError(f"pipelines that hold each other: {circle}")
        self._resolving.append(name)
        try:
            yield
        finally:
            self._resolving.pop()

    def _registered_pipeline(self, found: PipelineEntry) -> Pass:
        """A pipeline of a plugin, or a built-in one."""
        content = found.content
        if isinstance(content, str):
            try:
                return Pipeline(found.name, tuple(self.resolve(s) for s in parse_specs(content)))
            except UsageError as e:
                raise PluginError(f"pipeline {found.name} of {found.source}: {e}") from e
        for p in leaves(content):
            if p.name not in self.registry.passes:
                self._mark_used(PassEntry(p, found.source, opsets=found.opsets))
        if isinstance(content, Pipeline | Fixpoint):
            return replace(content, name=found.name)
        return Pipeline(found.name, (content,))

    def _file_pipeline(self, file: PipelineFile, name: str) -> Pass:
        written = file.pipelines[name]
        try:
            passes = tuple(self.resolve(s, file) for s in written.specs)
            return select((Fixpoint if written.repeat else Pipeline)(name, passes), skip=written.skip)
        except UsageError as e:
            if str(e).startswith(f"{file.path}:"):
                raise
            raise type(e)(f"{written.location}: {e}") from e
