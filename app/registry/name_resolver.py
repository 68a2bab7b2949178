"""Resolution of the names in a pipeline: built-in, given and installed passes and pipelines, and TOML files."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ...core.errors import PluginError, UnknownNameError, UsageError
from ...core.ir.graph import Graph
from ...core.plugins.pass_registry import InstalledPlugins, LoadErrors, PassEntry, PassRegistry, PipelineEntry
from ...core.plugins.pass_spec import PassSpec, parse_specs, with_options
from ...core.plugins.plugin import PluginLike
from ...core.run.pipeline import Fixpoint, Pass, Pipeline, fallback_of, leaves, select
from ...core.run.target import Target, read_target
from ...core.support.regular_files import read_text
from ...core.support.suggestions import did_you_mean
from ...core.support.toml_tables import read_tables
from ...passes.pipelines import pipeline_for
from ...passes.targets import TARGET_NAMES, shipped_target
from ..options import PIPELINES_FILE
from .pass_sources import caller_registry, full_registry, plugin_registries

MAX_NESTING = 30  # of pipelines
MAX_RESOLVED = 1000  # passes and pipelines that a pipeline includes
MAX_BYTES = 1 << 20  # of a file of pipelines
LOG = logging.getLogger(__name__)
KEYS = {"passes": list, "skip": list, "repeat": bool, "fallback": str}
VALUES = {list: "a list of names", bool: "true or false", str: "a name"}
EXPECTED_FORM = (
    'passes = ["basic", "my-pass{threshold=0.7}"], '
    'and optionally repeat = true, skip = ["fuse-gemm"] and fallback = "basic"'
)


@dataclass(frozen=True, slots=True)
class FilePipeline:
    """A pipeline in a file: its passes, whether they repeat until nothing changes, and names to skip.

    `fallback` names the pipeline whose result is used if the result of this one is slower. `siblings` are all pipelines
    of the file by name, which it may include.
    """

    name: str
    path: Path
    location: str
    specs: tuple[PassSpec, ...]
    repeat: bool
    skip: tuple[str, ...]
    fallback: str
    siblings: Mapping[str, FilePipeline] = field(compare=False, repr=False)


def read_pipeline_file(path: Path, reserved_names: Mapping[str, str]) -> dict[str, FilePipeline]:
    """Read the pipelines of a file by name. Raises UsageError, with file and line, for errors in it.

    `reserved_names` are names that are already used, with their sources.
    """
    try:
        text = read_text(path, MAX_BYTES)
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}:1: not UTF-8 text") from e
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e
    try:
        tables = read_tables(path, text)
    except ValueError as e:
        raise UsageError(str(e)) from e
    lines = _Lines(path, text)
    for name in tables:
        if name in reserved_names:
            raise UsageError(f"{lines.place(name)}: {name} is taken: the name belongs to {reserved_names[name]}")
    pipelines: dict[str, FilePipeline] = {}
    pipelines.update((name, _file_pipeline(name, table, lines, pipelines)) for name, table in tables.items())
    return pipelines


HEAD = re.compile(r"""\s*(?:\[\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*\]|(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[.=])""")
"""The head of a table, or a key, in a line of TOML; its name is in one of the groups."""


class _Lines:
    """The lines of a pipeline file, and the line numbers of its tables."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.tables: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            if (head := HEAD.match(line)) is not None:
                self.tables.setdefault(head[head.lastindex or 0], i)

    def place(self, table: str, key: str = "") -> str:
        """The file and line of a table, or of a key in it; line 1 for an unrecognized spelling."""
        start = self.tables.get(table, 0)
        wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        lines = range(start, len(self.lines)) if key else ()
        return f"{self.path}:{next((i for i in lines if wanted.match(self.lines[i])), start) + 1}"


def _file_pipeline(name: str, table: Any, lines: _Lines, siblings: Mapping[str, FilePipeline]) -> FilePipeline:
    path, place = lines.path, lines.place(name)
    given = cast("dict[str, Any]", table if isinstance(table, dict) else {})
    if "passes" not in given:
        raise UsageError(f"{place}: {name} is not a pipeline, which has {EXPECTED_FORM}")
    for key, value in given.items():
        if key not in KEYS:
            raise UsageError(f"{lines.place(name, key)}: unknown key {key}; a pipeline has {EXPECTED_FORM}")
        items = cast("list[Any]", value if isinstance(value, list) else [])
        if not isinstance(value, KEYS[key]) or not all(isinstance(v, str) for v in items):
            raise UsageError(f"{lines.place(name, key)}: {key} must be {VALUES[KEYS[key]]}")
    try:
        specs = parse_specs(",".join(given["passes"])) if given["passes"] else []
        absolute = tuple(s.with_absolute_paths(path.parent) for s in specs)
    except UsageError as e:
        raise UsageError(f"{lines.place(name, 'passes')}: {e}") from e
    try:
        others = parse_specs(given["fallback"]) if given.get("fallback") else []
    except UsageError as e:
        raise UsageError(f"{lines.place(name, 'fallback')}: {e}") from e
    fallback = ",".join(str(s.with_absolute_paths(path.parent)) for s in others)
    return FilePipeline(
        name, path, place, absolute, given.get("repeat", False), tuple(given.get("skip", ())), fallback, siblings
    )


class NameResolver:
    """Lookup of names; packages and files are loaded only when needed.

    A name is looked up in this order: in the file that it names, among built-in passes and those of the caller, among
    adapters of other optimizers, in installed packages, and in `pipelines.toml` in the working folder.
    `plugin_registries` are the caller's registries, one for each file; `looked_up` are the names found there and among
    built-in passes; `used_passes` are all passes that may be in the pipeline, by name.
    """

    def __init__(self, plugins: Sequence[PluginLike] = ()) -> None:
        self.plugin_registries: list[PassRegistry] = plugin_registries(plugins)
        self.registry: PassRegistry = caller_registry(self.plugin_registries)
        self.used_passes: dict[str, PassEntry] = {
            name: found for registry in self.plugin_registries for name, found in registry.passes.items()
        }
        self.looked_up: set[str] = set()
        self._installed = InstalledPlugins()
        self._files: dict[Path, dict[str, FilePipeline]] = {}
        self._qualified_names: dict[str, str] = {}  # of pipelines.toml, with its path
        self._resolving: list[str] = []
        self._resolved = 0

    @property
    def read_files(self) -> list[Path]:
        """The pipeline files that were read."""
        return list(self._files)

    def pipeline_from_text(self, text: str) -> Pass:
        """The pipeline for a name or list of names. Raises UsageError, UnknownNameError and PluginError."""
        specs = parse_specs(text)
        if len(specs) == 1:
            return self.resolve(specs[0])
        passes = tuple(self.resolve(s) for s in specs)
        fallbacks = dict.fromkeys(fallback_of(p) or str(s) for p, s in zip(passes, specs, strict=True))
        fallback = ",".join(fallbacks) if any(map(fallback_of, passes)) else ""
        return Pipeline(",".join(map(str, specs)), passes, fallback=fallback)

    def target_named(self, given: str | Target) -> Target:
        """The target by name, in a TOML file, or as given. Raises UsageError, UnknownNameError and PluginError."""
        found = self.find_target(given) if isinstance(given, str) else given
        if found is None:
            assert isinstance(given, str)
            names = [*TARGET_NAMES, *self.registry.targets, *self._installed.registry.targets]
            hint = did_you_mean(given, names) or f" (there are {', '.join(names)}; one in a file is FILE.toml)"
            raise UnknownNameError(f"no target is named {given}{hint}")
        return found

    def find_target(self, name: str) -> Target | None:
        """The named target, or one in a TOML file; None for an unknown name. Raises UsageError for an invalid file."""
        if name.endswith(".toml"):
            return read_target(Path(name))
        if name in self.registry.targets:
            return self.registry.targets[name]
        if name in TARGET_NAMES:
            return shipped_target(name)
        return self._installed.target(name)

    def analysis_named(self, name: str) -> Callable[[Graph], object]:
        """The named analysis of the caller or an installed package. Raises UnknownNameError and PluginError."""
        found = self.registry.analyses.get(name) or self._installed.analysis(name)
        if found is None:
            known = list(dict.fromkeys([*self.registry.analyses, *self._installed.registry.analyses]))
            hint = did_you_mean(name, known) or (f" (there are {', '.join(known)})" if known else "")
            raise UnknownNameError(f"no analysis is named {name}{hint}")
        return found

    def pass_named(self, name: str) -> PassEntry:
        """The named pass. Raises UsageError for a pipeline, and the errors of `pipeline_from_text`."""
        found = self.lookup(name)
        if not isinstance(found, PassEntry):
            raise UsageError(f"{name} is a pipeline: use --pipeline, which takes several, such as a,b")
        return self._mark_used(found)

    def resolve(self, spec: PassSpec, parent: FilePipeline | None = None) -> Pass:
        """The pass or pipeline for a spec; it may be in the file of `parent`, the pipeline that includes it."""
        found = self.lookup(spec.name, parent)
        if isinstance(found, PassEntry):
            return with_options(self._mark_used(found).item, spec.options)
        if spec.options:
            raise UsageError(
                f"{spec}: a pipeline has no options; the options of its passes are set with --enable NAME{{n=3}}"
            )
        self._resolved += 1
        if self._resolved > MAX_RESOLVED:
            raise UsageError(f"{found.name}: pipelines include each other more than {MAX_RESOLVED} times")
        if len(self._resolving) == MAX_NESTING:
            raise UsageError(f"{found.name}: pipelines include each other more than {MAX_NESTING} deep")
        if found.name in self._resolving:
            circle = " -> ".join([*self._resolving[self._resolving.index(found.name) :], found.name])
            raise UsageError(f"pipelines that include each other: {circle}")
        self._resolving.append(found.name)
        try:
            return self._resolve_in_file(found) if isinstance(found, FilePipeline) else self._resolve_registered(found)
        finally:
            self._resolving.pop()

    def absolute_spec(self, spec: PassSpec) -> PassSpec:
        """A resolved spec with absolute paths."""
        return PassSpec(self._qualified_names.get(spec.name, spec.name), spec.options).with_absolute_paths(Path())

    def placement_order(self, found: PassEntry) -> tuple[str, int]:
        """A sort key: the source of a pass, and its index there."""
        return found.source, [*self.registry.passes, *self._installed.registry.passes].index(found.name)

    def full_registry(self, broken: LoadErrors) -> PassRegistry:
        """All passes and pipelines except adapters and those in files; errors and name clashes go to `broken`."""
        return full_registry(self.registry, self._installed, broken)

    def warn_about_broken(self) -> None:
        """Log the installed packages that could not be loaded."""
        for message in dict.fromkeys(map(str, self._installed.load_errors.values())):
            LOG.warning("warning: %s", message)

    def lookup(self, name: str, parent: FilePipeline | None = None) -> PassEntry | PipelineEntry | FilePipeline:
        """Look up a name, which may be in the file of `parent`. Raises UnknownNameError and PluginError."""
        path, _, inner = name.rpartition(":")
        if path.endswith(".toml"):
            pipelines = self._read_file(Path(path))
            if inner not in pipelines:
                raise UnknownNameError(f"{path} has no pipeline named {inner}; it has {', '.join(pipelines)}")
            return pipelines[inner]
        if (found := self.registry.get(name)) is not None:
            self.looked_up.add(name)
            return found
        from . import adapter_names  # noqa: PLC0415 - seldom needed

        if (other := adapter_names.adapter(name)) is not None:
            tool = name.partition(":")[0]
            return PassEntry(other, f"{tool} {adapter_names.available().get(tool, '')}".rstrip())
        if parent is not None and name in parent.siblings:
            return parent.siblings[name]
        if name in TARGET_NAMES or name in self.registry.targets:
            return PipelineEntry(name, pipeline_for(self.target_named(name)), f"target {name}")
        if (found := self._installed.lookup(name)) is not None:
            self.registry.require_no_clash(found)
            return found
        if (target := self._installed.target(name)) is not None:
            return PipelineEntry(name, pipeline_for(target), f"target {name}")
        if PIPELINES_FILE.is_file() and name in (default := self._read_file(PIPELINES_FILE)):
            self._qualified_names[name] = f"{PIPELINES_FILE.resolve()}:{name}"
            return default[name]
        self.warn_about_broken()
        raise self._installed.entry_point_errors.get(name) or self._unknown_name_error(name)

    def _unknown_name_error(self, name: str) -> UnknownNameError:
        names = [found.name for found in (*self.registry, *self._installed.registry)]
        pipelines = ", ".join(dict.fromkeys([*self.registry.pipelines, *self._installed.registry.pipelines]))
        hint = did_you_mean(name, names) or f" (pipelines: {pipelines}; for passes see `passes list --search {name}`)"
        if name.endswith(".toml"):
            hint = f"; one in a file is named {name}:NAME"
        elif name.endswith(".py"):
            hint = "; a file with passes is given with --plugin"
        return UnknownNameError(f"no pass or pipeline is named {name}{hint}")

    def _read_file(self, path: Path) -> dict[str, FilePipeline]:
        if path not in self._files:
            self._files[path] = read_pipeline_file(path, {found.name: found.source for found in self.registry})
        return self._files[path]

    def _mark_used(self, found: PassEntry) -> PassEntry:
        self.used_passes[found.name] = found
        return found

    def _resolve_registered(self, found: PipelineEntry) -> Pass:
        """Resolve a built-in pipeline or one of a plugin."""
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

    def _resolve_in_file(self, found: FilePipeline) -> Pass:
        try:
            passes = tuple(self.resolve(s, found) for s in found.specs)
            fallback = f"{found.path}:{found.fallback}" if found.fallback in found.siblings else found.fallback
            group = Fixpoint if found.repeat else Pipeline
            return select(group(found.name, passes, fallback=fallback), skip=found.skip)
        except UsageError as e:
            if str(e).startswith(f"{found.path}:"):
                raise
            raise type(e)(f"{found.location}: {e}") from e
