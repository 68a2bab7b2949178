"""Source files of passes and rules, with those that they import, and the packages that they need."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import packages_distributions
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from ...core.run.pipeline import Pass, RulePass, leaves
from .adapter_names import ONNXSCRIPT, PACKAGES
from .environment import SOURCE_FOLDERS
from .resolved_pipeline import ResolvedPipeline

INSTALLED = frozenset({"site-packages", "dist-packages"})
VERSIONED = frozenset({"numpy", "onnx", "onnxruntime", "passwright"})
"""Packages whose versions are among the conditions of every run."""


@dataclass(slots=True)
class PluginSources:
    """Python `files`, and the `packages` of others by the names of their distributions."""

    files: set[Path] = field(default_factory=set[Path])
    packages: set[str] = field(default_factory=set[str])


def plugin_sources(choice: ResolvedPipeline) -> PluginSources:
    """The sources of all passes and transforms of a run that are not built in, as far as imports lead to them."""
    found, search = PluginSources(), _Search()
    passes = [p for pipeline in (choice.pipeline, *choice.fallbacks) for p in leaves(pipeline)]
    for maker in (
        *(maker for p in passes for maker in _makers(p)),
        *(type(transform.item) for transform in choice.transforms),
    ):
        with suppress(TypeError, OSError):  # defined in no file
            search.add(Path(inspect.getfile(maker)), found)
    for tool, _, reference in (p.name.partition(":") for p in passes):
        if tool in PACKAGES:
            found.packages.add(PACKAGES[tool])
            where = reference.rpartition(":")[0] if tool == ONNXSCRIPT else ""
            module = sys.modules.get(where)
            file = where if where.endswith(".py") else getattr(module, "__file__", None)
            if file is not None and where:
                search.add(Path(file), found)
    return found


def _makers(p: Pass) -> Iterator[Callable[..., object]]:
    """The type of a pass, and the functions of its rules."""
    yield type(p)
    yield from (rule.build for rule in p.rules) if isinstance(p, RulePass) else ()


class _Search:
    """The search for the sources that a file imports, among the modules of this process."""

    @cached_property
    def _modules(self) -> dict[str, ModuleType]:
        """The modules by their files."""
        return {file: m for m in list(sys.modules.values()) if isinstance(file := getattr(m, "__file__", None), str)}

    @cached_property
    def _distributions(self) -> dict[str, list[str]]:
        """The distributions by the names of their modules."""
        return dict(packages_distributions())

    def add(self, file: Path, found: PluginSources) -> None:
        """Add a file of a plugin, and all that it imports; of an installed plugin, all its files."""
        todo = _package_files(file) if _is_installed(file) else [file]
        while todo:
            path = todo.pop()
            if path in found.files or any(path.is_relative_to(folder) for folder in SOURCE_FOLDERS):
                continue
            found.files.add(path)
            for module in self._imported(path):
                origin, top = getattr(module, "__file__", None), module.__name__.partition(".")[0]
                if origin is None or top in sys.stdlib_module_names or top in VERSIONED:
                    continue
                if _is_installed(Path(origin)):
                    found.packages.update(self._distributions.get(top, ()) if Path(origin) not in found.files else ())
                else:
                    todo.append(Path(origin))

    def _imported(self, file: Path) -> Iterable[ModuleType]:
        """The modules of this process that the import statements of a file name."""
        try:
            tree = ast.parse(file.read_bytes()) if file.suffix == ".py" else None
        except (OSError, SyntaxError, ValueError, RecursionError):
            tree = None
        package = getattr(self._modules.get(str(file)), "__package__", None) or ""
        names = set[str]()
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                with suppress(ImportError):  # beyond the top of the package
                    base = resolve_name("." * node.level + (node.module or ""), package)
                    names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
        every = {part for name in names for part in _with_parents(name)}
        return [sys.modules[name] for name in sorted(every & sys.modules.keys())]


def _with_parents(name: str) -> Collection[str]:
    """The name of a module, and those of the packages around it."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _is_installed(file: Path) -> bool:
    return not INSTALLED.isdisjoint(file.parts)


def _package_files(file: Path) -> list[Path]:
    """The Python files of the outermost package around a file; the file itself outside of packages."""
    folder = file.parent
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return list(folder.rglob("*.py")) if (folder / "__init__.py").exists() else [file]
