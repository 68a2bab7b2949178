"""Names of the passes, rules and pipelines of installed plugins, read from their sources without running them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.parse import urlsplit

from ..support.regular_files import read_text

ENTRY_POINT_GROUP = "passwright.passes"
MAX_BYTES = 1 << 20  # of a source
NAME_ARGUMENTS = {"RulePass": 0, "Pipeline": 0, "Fixpoint": 0, "rule_pass": 1}
"""The position of the name of a pass among the arguments of a call."""


@dataclass(frozen=True, slots=True)
class SourceNames:
    """The names that a source is seen to define."""

    passes: set[str] = field(default_factory=set[str])
    rules: set[str] = field(default_factory=set[str])
    pipelines: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The source of an entry point: the pass that its loose rules, or its only rule, form, and the file."""

    rule_pass: str
    file: Path


def installed_sources() -> list[PluginSource]:
    """The sources of the installed entry points, as far as they are files, in order."""
    entries = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (e.name, e.value))
    found = ((entry, _source(entry)) for entry in entries)
    return [PluginSource(_rule_pass(entry), file) for entry, file in found if file is not None]


def _rule_pass(entry: EntryPoint) -> str:
    return entry.name if entry.attr else entry.module.rpartition(".")[2].replace("_", "-")


def _source(entry: EntryPoint) -> Path | None:
    """The file of a module below the folders of its distribution, as to find it by import would run its package."""
    if entry.dist is None:
        return None
    folders = [Path(str(entry.dist.locate_file("")))]
    with suppress(ValueError, AttributeError):  # no object of JSON
        url = str(json.loads(entry.dist.read_text("direct_url.json") or "{}").get("url", ""))
        if url.startswith("file://"):  # installed editable
            from urllib.request import url2pathname  # noqa: PLC0415 - imports ssl

            project = Path(url2pathname(urlsplit(url).path))
            folders += [project, project / "src"]
    inner = Path(*entry.module.split("."))
    candidates = (file for folder in folders for file in (folder / f"{inner}.py", folder / inner / "__init__.py"))
    return next((file for file in candidates if _is_file(file)), None)


def _is_file(path: Path) -> bool:
    """Whether there is a file of that name, if it can be one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def names_in_source(source: PluginSource) -> SourceNames:
    """The names that a source defines: of rules, passes, and pipelines of a Plugin; none if it cannot be read."""
    found = SourceNames()
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(read_text(source.file, MAX_BYTES))):
            if isinstance(node, ast.FunctionDef) and (made := [d for d in node.decorator_list if _called(d) == "rule"]):
                found.rules.add(node.name)
                keywords = [k for d in made if isinstance(d, ast.Call) for k in d.keywords]
                found.passes.update(_texts([k.value for k in keywords if k.arg == "group"]))
            elif isinstance(node, ast.ClassDef):
                found.passes.update(_class_names(node))
            elif isinstance(node, ast.Call) and (at := NAME_ARGUMENTS.get(_called(node))) is not None:
                found.passes.update(_texts(node.args[at : at + 1]))
            elif isinstance(node, ast.Call) and _called(node) == "Plugin":
                tables = [k.value for k in node.keywords if k.arg == "pipelines" and isinstance(k.value, ast.Dict)]
                found.pipelines.update(name for table in tables for name in _texts(table.keys))
    if found.rules and not found.passes:
        found.passes.add(source.rule_pass)
    return found


def _called(node: ast.expr) -> str:
    """The name of the function that a call, or a decorator, calls."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _class_names(node: ast.ClassDef) -> Iterator[str]:
    """The name of a class with a method `run` or `transform`: the constant in its body."""
    if any(isinstance(part, ast.FunctionDef) and part.name in {"run", "transform"} for part in node.body):
        for part in node.body:
            targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
            if isinstance(part, ast.Assign | ast.AnnAssign) and any(getattr(t, "id", "") == "name" for t in targets):
                yield from _texts([part.value])


def _texts(nodes: list[ast.expr] | list[ast.expr | None]) -> Iterator[str]:
    yield from (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
