"""Registries of passes and pipelines with unique names, from installed entry points and local .py files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points, version
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from msgspec import Struct

from ..errors import PluginError, UsageError
from ..ir.graph import Graph
from ..processes.custom_operators import add_custom_operators
from ..rewriting.rules import Rule
from ..run.pipeline import Pass, RulePass, leaves
from ..run.target import Target
from ..run.transforms import ModelTransform, definition
from ..support.python_files import FILE_MODULE_PREFIX, import_file, plugin_errors
from .plugin import PassPlacement, Plugin, PluginLike, as_pass

Opsets = tuple[int, int]
"""The first and last supported opset."""


class PassEntry(Struct, frozen=True):
    """A pass, its source, its position in pipelines, and the opsets that it supports (None: any)."""

    item: Pass
    source: str
    placed: PassPlacement | None = None
    opsets: Opsets | None = None

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.item.name

    @property
    def passes(self) -> list[Pass]:
        """The pass and its inner passes."""
        return [self.item, *leaves(self.item)]


class PipelineEntry(Struct, frozen=True):
    """A pipeline of a plugin, as text or pass, and its source."""

    name: str
    content: str | Pass
    source: str
    opsets: Opsets | None = None

    @property
    def passes(self) -> list[Pass]:
        """Its inner passes; unknown if it is a text."""
        return [] if isinstance(self.content, str) else leaves(self.content)


Entry = PassEntry | PipelineEntry


@dataclass(slots=True)
class PassRegistry:
    """Passes, pipelines, targets and analyses by name, and kernels of custom operators."""

    passes: dict[str, PassEntry] = field(default_factory=dict[str, PassEntry])
    pipelines: dict[str, PipelineEntry] = field(default_factory=dict[str, PipelineEntry])
    targets: dict[str, Target] = field(default_factory=dict[str, Target])
    target_sources: dict[str, str] = field(default_factory=dict[str, str])
    analyses: dict[str, Callable[[Graph], object]] = field(default_factory=dict[str, Any])
    kernels: list[Any] = field(default_factory=list[Any])
    _entries_by_pass: dict[str, list[tuple[Pass, Entry]]] = field(default_factory=dict[str, Any], init=False)
    _entries_by_rule: dict[str, tuple[Rule, Entry]] = field(default_factory=dict[str, Any], init=False)

    def __post_init__(self) -> None:
        """Index all passes, including inner ones, and all rules."""
        for found in self:
            self._index(found)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, passes first."""
        yield from (*self.passes.values(), *self.pipelines.values())

    def __contains__(self, name: str) -> bool:
        return name in self.passes or name in self.pipelines

    def get(self, name: str) -> Entry | None:
        """The entry with that name."""
        return self.passes.get(name) or self.pipelines.get(name)

    def require_no_clash(self, new: Entry) -> None:
        """Raise PluginError with both sources if `new`, or an inner pass or rule, has the name of another."""
        old = self.get(new.name)
        if isinstance(new, PipelineEntry) and isinstance(old, PipelineEntry):
            if (new.content, new.source) != (old.content, old.source):
                raise PluginError(f"two pipelines are named {new.name}: one from {old.source}, one from {new.source}")
        elif old is not None and type(new) is not type(old):
            first, second = ("pass", "pipeline") if isinstance(old, PassEntry) else ("pipeline", "pass")
            raise PluginError(f"{new.name} is a {first} from {old.source}, and a {second} from {new.source}")
        self._require_same_contents(new)

    def _require_same_contents(self, new: Entry) -> None:
        for p in new.passes:
            for q, old in self._entries_by_pass.get(p.name, ()):
                may_differ = isinstance(new, PipelineEntry) or isinstance(old, PipelineEntry)
                if p != q and not (may_differ and _is_variant(p, q)):
                    raise PluginError(f"two passes are named {p.name}: one from {old.source}, one from {new.source}")
            for r in _own_rules(p):
                other, old = self._entries_by_rule.get(r.name, (r, new))
                if other != r:
                    raise PluginError(f"two rules are named {r.name}: one from {old.source}, one from {new.source}")

    def add(self, new: Entry) -> None:
        """Add an entry, unless it is already present. Raises PluginError if a name clashes."""
        self.require_no_clash(new)
        if new.name in self:
            return
        if isinstance(new, PassEntry):
            self.passes[new.name] = new
        else:
            self.pipelines[new.name] = new
        self._index(new)

    def update(self, others: PassRegistry) -> None:
        """Add all entries of another registry. Raises PluginError like `add`, and if two things have the same name."""
        for other in others:
            self.add(other)
        for name, target in others.targets.items():
            self.add_target(target, others.target_sources[name])
        for name, analysis in others.analyses.items():
            self.add_analysis(name, analysis)

    def add_analysis(self, name: str, analysis: Callable[[Graph], object]) -> None:
        """Add an analysis. Raises PluginError if another has the same name."""
        if self.analyses.setdefault(name, analysis) != analysis:
            raise PluginError(f"two analyses are named {name}")

    def add_target(self, target: Target, source: str) -> None:
        """Add a target. Raises PluginError if another has the same name."""
        first = self.target_sources.setdefault(target.name, source)
        if self.targets.setdefault(target.name, target) != target:
            raise PluginError(f"two targets are named {target.name}: one from {first}, one from {source}")

    def _index(self, entry: Entry) -> None:
        for p in entry.passes:
            self._entries_by_pass.setdefault(p.name, []).append((p, entry))
            self._entries_by_rule |= {r.name: (r, entry) for r in _own_rules(p)}


def _is_variant(p: Pass, q: Pass) -> bool:
    """Whether two passes differ only in their options, or in skipped rules."""
    if isinstance(p, RulePass) and isinstance(q, RulePass):
        return set(p.rules) <= set(q.rules) or set(q.rules) <= set(p.rules)
    return type(definition(p)) is type(definition(q))


def _own_rules(p: Pass) -> tuple[Rule, ...]:
    return p.rules if isinstance(p, RulePass) else ()


def all_rules(p: Pass) -> list[Rule]:
    """The rules of a pass and its inner passes."""
    return [r for leaf in leaves(p) for r in _own_rules(leaf)]


ENTRY_POINT_GROUP = "passwright.passes"
WITHOUT_PATTERN = "rule.<locals>.wrap"
"""The name of a function decorated with @rule without a pattern in brackets."""
MAX_LISTED_NAMES = 5  # in a message
LoadErrors = dict[str, PluginError]
"""Errors of installed packages, by name of the entry point, pass or pipeline."""


@dataclass(slots=True)
class InstalledPlugins:
    """The passes and pipelines of installed packages; an entry point is loaded if it may contain a requested name.

    Its errors are in `load_errors`, and raised only for its own names. `entry_point_errors` has an error for the name
    of each loaded entry point, in case it is requested although no pass or pipeline has it.
    """

    registry: PassRegistry = field(default_factory=PassRegistry)
    load_errors: LoadErrors = field(default_factory=LoadErrors)
    entry_point_errors: dict[str, PluginError] = field(default_factory=dict[str, PluginError])
    _unloaded: list[EntryPoint] | None = None  # None until first used
    _kernels: dict[str, list[Any]] = field(default_factory=dict[str, "list[Any]"])  # by source

    def lookup(self, name: str) -> PassEntry | PipelineEntry | None:
        """The entry with that name; its package's kernels are used from now on. Raises PluginError if it clashes.

        Entry points with that name are loaded first, and all others only if these do not contain it.
        """
        self._load([e for e in self._entries() if e.name == name])
        if name not in self.registry and name not in self.load_errors:
            self.load_all()
        if name in self.load_errors:
            raise self.load_errors[name]
        if (found := self.registry.get(name)) is not None:
            self.use_kernels({found.source})
        return found

    def target(self, name: str) -> Target | None:
        """The target with that name; its package's kernels are used from now on."""
        self.load_all()
        if (found := self.registry.targets.get(name)) is not None:
            self.use_kernels({self.registry.target_sources[name]})
        return found

    def analysis(self, name: str) -> Callable[[Graph], object] | None:
        """The analysis with that name. Raises PluginError if its package cannot be loaded or its name is not unique."""
        self.load_all()
        if name in self.load_errors:
            raise self.load_errors[name]
        return self.registry.analyses.get(name)

    def sources_of(self, passes: Iterable[str]) -> set[str]:
        """The packages that provide passes with these names, including inner passes and decompositions of targets."""
        names = set(passes)
        found = {entry.source for entry in self.registry if not names.isdisjoint(p.name for p in entry.passes)}
        return found | {source for name, source in self.registry.target_sources.items() if name in names}

    def use_kernels(self, sources: set[str]) -> None:
        """Use the kernels of these packages until the block of `with_custom_operators` ends."""
        for source in sorted(self._kernels.keys() & sources):
            from ..ort.custom_operator_files import read_custom_operators  # noqa: PLC0415 - imports onnx

            with plugin_errors(source, source):
                add_custom_operators(read_custom_operators((), self._kernels[source]))

    def use_kernels_of(self, name: str) -> bool:
        """Use the kernels of the package that has this name, or provides it; return whether there is one."""
        found = self.lookup(name) or self.target(name)
        packages = {source for source in self._kernels if source.partition(" ")[0] == name}
        self.use_kernels(packages)
        return found is not None or bool(packages)

    def load_all(self) -> None:
        """Load all entry points."""
        self._load(list(self._entries()))

    def _entries(self) -> list[EntryPoint]:
        if self._unloaded is None:
            self._unloaded = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (e.name, e.value))
        return self._unloaded

    def _load(self, entries: list[EntryPoint]) -> None:
        for entry in entries:
            self._entries().remove(entry)
            try:
                registry = _load_entry_point(entry)
            except PluginError as e:
                self.load_errors |= dict.fromkeys(e.names or (entry.name,), e)
                self.entry_point_errors[entry.name] = e
                continue
            self.entry_point_errors[entry.name] = _entry_point_error(entry, [found.name for found in registry])
            if registry.kernels:
                self._kernels.setdefault(_distribution_label(entry), []).extend(registry.kernels)
            for found in registry:
                try:
                    self.registry.add(found)
                except PluginError as e:
                    self.load_errors[found.name] = e
            for name, target in registry.targets.items():
                try:
                    self.registry.add_target(target, registry.target_sources[name])
                except PluginError as e:
                    self.load_errors[name] = e
            for name, analysis in registry.analyses.items():
                try:
                    self.registry.add_analysis(name, analysis)
                except PluginError as e:
                    self.load_errors[name] = e


def _entry_point_error(entry: EntryPoint, names: Sequence[str]) -> PluginError:
    """An error for the name of an entry point, with the names of its passes, rules and pipelines."""
    first = ", ".join(names[:MAX_LISTED_NAMES]) + (", ..." if len(names) > MAX_LISTED_NAMES else "")
    contents = f"provides {first}" if names else "provides no pass, rule or pipeline"
    return PluginError(f"{entry.name} is an entry point of {_distribution_label(entry)}, which {contents}")


def _distribution_label(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _load_entry_point(entry: EntryPoint) -> PassRegistry:
    source = _distribution_label(entry)
    written = f"entry point {entry.name} = {entry.value} of {source}"
    if not entry.pattern.match(entry.value):
        raise PluginError(f"{written}: not of the form package.module:attribute")
    with plugin_errors(source, written):
        thing = entry.load()
        if isinstance(thing, ModuleType):
            return registry_from_module(thing, source)
        if isinstance(thing, Plugin | Target):
            return registry_from_plugin(thing if isinstance(thing, Plugin) else Plugin(targets=(thing,)), source)
        if isinstance(thing, Rule):
            thing = RulePass(entry.name, (thing,))
        if not isinstance(thing, Pass | ModelTransform | PassPlacement) or isinstance(thing, type):
            raise PluginError(f"entry point {entry.name} of {source} is not a pass, rule, plugin or module: {thing!r}")
        return registry_from_plugin(Plugin((thing,)), source)


def registry_from_file(path: Path) -> PassRegistry:
    """The passes of a Python file; rules outside passes become a pass named after the file. Raises PluginError."""
    if path.suffix != ".py":
        by_name = "use other options, such as --enable and --analysis, for names in installed packages"
        raise PluginError(f"{path} is not a Python file; {by_name}")
    module = import_file(path)
    with plugin_errors(str(path), str(path)):
        registry = registry_from_module(module, str(path))
    if not any((*registry, registry.targets, registry.analyses, registry.kernels)):
        own = (t for t in vars(module).values() if isinstance(t, type) and t.__module__ == module.__name__)
        name = next((t.__name__ for t in own if hasattr(t, "run")), "")
        hint = f"; {name} is a class; to define a pass, create an instance: MINE = {name}()" if name else ""
        bare = [name for name, t in vars(module).items() if getattr(t, "__qualname__", "") == WITHOUT_PATTERN]
        hint = f"; {bare[0]} has no pattern, such as @rule(lambda g, x: g.Relu(x))" if bare else hint
        raise PluginError(f"{path} defines neither a pass nor a rule{hint}")
    return registry


def python_file(text: str) -> Path | None:
    """The file in `file.py` or `file.py:name`; None for other texts."""
    file = text if text.endswith(".py") else text.rpartition(":")[0]
    return Path(file) if file.endswith(".py") else None


def function_in_file(option: str, text: str, default_name: str) -> tuple[str, Callable[..., Any]]:
    """Load the function in an option value `file.py` or `file.py:name`; return its description and the function.

    Raises PluginError for a file that cannot be run, and UsageError for an unknown function.
    """
    file, name = python_file(text), default_name if text.endswith(".py") else text.rpartition(":")[2]
    if file is None or not name.isidentifier():
        raise UsageError(f"{option} {text}: not of the form file.py:function")
    found: Any = getattr(import_file(file), name, None)
    if not callable(found):
        raise UsageError(f"{option} {text}: {file} has no function {name}")
    return name, found


def registry_from_module(module: ModuleType, source: str) -> PassRegistry:
    """A module's Plugin or, without one, its passes, rules, targets and kernels. Raises PluginError."""
    plugins = list({id(t): t for t in vars(module).values() if isinstance(t, Plugin)}.values())
    if len(plugins) > 1:
        raise PluginError(f"{source}: {module.__name__.removeprefix(FILE_MODULE_PREFIX)} defines more than one Plugin")
    if plugins:
        return registry_from_plugin(plugins[0], source)
    from ..ort.python_kernels import is_kernel  # noqa: PLC0415 - for plugins alone

    things = list({id(t): t for t in vars(module).values()}.values())
    targets = [t for t in things if isinstance(t, Target)]
    kernels = [t for t in things if is_kernel(t, module.__name__)]
    return registry_from_plugin(Plugin(passes_in_module(module, source), targets=targets, kernels=kernels), source)


def registry_from_plugin(plugin: Plugin, source: str) -> PassRegistry:
    """The passes and pipelines of a plugin. Raises PluginError if it does not support this version of passwright."""
    found: list[Entry] = [PassEntry(as_pass(p.item), source, p, plugin.opsets) for p in plugin.placed_passes()]
    found += [PipelineEntry(name, content, source, plugin.opsets) for name, content in plugin.pipelines.items()]
    if not plugin.supports(here := version("passwright")):
        names = [entry.name for entry in found]
        raise PluginError(f"{source} requires passwright {plugin.passwright}; this is {here}", names)
    registry = PassRegistry()
    for entry in found:
        registry.add(entry)
    for target in plugin.targets:
        registry.add_target(target, source)
    registry.analyses.update(plugin.analyses)
    registry.kernels.extend(plugin.kernels)
    return registry


def kernels_of(plugins: Sequence[PluginLike]) -> list[Any]:
    """The kernels of custom operators that plugins provide. Raises PluginError."""
    files = [registry_from_file(Path(p)).kernels for p in plugins if isinstance(p, str | Path)]
    return [*chain(*files), *(k for p in plugins if isinstance(p, Plugin) for k in p.kernels)]


def passes_in_module(module: ModuleType, source: str) -> list[Pass | Rule | ModelTransform | PassPlacement]:
    """A module's passes and transforms, its rules by group, and its other rules as one pass named after it.

    They are values of variables, or in tuples and lists; decompositions of its targets are not included. Raises
    PluginError if the module's name is already used.
    """
    listed = [cast("Sequence[Any]", t) for t in vars(module).values() if isinstance(t, tuple | list)]
    things = list({id(t): t for t in chain(vars(module).values(), *listed)}.values())
    placed = [t for t in things if isinstance(t, PassPlacement)]
    given = [p.item for p in placed]
    free = [t for t in things if isinstance(t, Pass | ModelTransform) and not isinstance(t, type) and t not in given]
    passes = list(map(as_pass, (*free, *given)))
    taken = {r for p in passes for r in all_rules(p)}
    taken |= {r for t in things if isinstance(t, Target) for r in t.decompositions}
    rules_here = [t for t in things if isinstance(t, Rule) and t.build.__module__ == module.__name__]
    own = list(dict.fromkeys(r for r in rules_here if r not in taken))
    grouped, loose = [r for r in own if r.group], tuple(r for r in own if not r.group)
    name = module.__name__.removeprefix(FILE_MODULE_PREFIX).rpartition(".")[2].replace("_", "-")
    if loose and name in {*(p.name for p in passes), *(r.group for r in grouped)}:
        rules = ", ".join(r.name for r in loose)
        raise PluginError(
            f"{source}: {rules} would form a pass named {name} after the module, which has a pass of that name; "
            "rename the pass or the module, or give the rules a group"
        )
    return [*free, *placed, *grouped, *([RulePass(name, loose)] if loose else [])]
