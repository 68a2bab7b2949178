"""The packages on disk are those declared, imports point one way, and files stay small."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGES = ("core", "passes", "testing")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MOST_LINES = 300


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker looks at."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from (other, *executed(other))
            continue
        yield child
        yield from executed(child)


def imports(module: str) -> set[str]:
    """The modules of this repository that `module` imports, wherever in the file it does."""
    path = MODULES[module]
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in executed(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            target = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{target}.{alias.name}"
                found.add(inner if inner in MODULES else target)
    return found - {module}


def absolute_imports(module: str) -> set[str]:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_declared_packages_are_those_on_disk() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    on_disk = {path.parent.relative_to(ROOT).as_posix() for path in SOURCES}
    assert sorted(declared["packages"]) == sorted(f"passwright.{folder.replace('/', '.')}" for folder in on_disk)
    folders = {
        name: declared["package-dir"].get(name, "")
        for name in ("passwright.core", "passwright.passes", "passwright.testing")
    }
    assert folders == {"passwright.core": "core", "passwright.passes": "passes", "passwright.testing": "testing"}


def test_every_folder_with_code_is_a_package() -> None:
    without = {path.parent for path in SOURCES if not (path.parent / "__init__.py").is_file()}
    assert without == set()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_are_relative_inside_the_repository(module: str) -> None:
    assert absolute_imports(module).isdisjoint({"core", "passes", "passwright", "testing", "tests"})


@pytest.mark.parametrize("module", sorted(m for m in MODULES if m.startswith("core")))
def test_core_never_imports_passes(module: str) -> None:
    assert {m for m in imports(module) if m.partition(".")[0] != "core"} == set()


@pytest.mark.parametrize("module", sorted(m for m in MODULES if m.startswith("testing")))
def test_the_kit_stands_on_core_alone(module: str) -> None:
    assert {m.partition(".")[0] for m in imports(module)} <= {"core", "testing"}


def test_passes_stand_on_core() -> None:
    users = [m for m in MODULES if any(i.startswith("core") for i in imports(m)) and m.startswith("passes.")]
    assert {"passes.app.api", "passes.movement.transpose", "passes.linear.gemm"} <= set(users)


def test_no_import_cycles() -> None:
    graph = nx.DiGraph((m, i) for m in MODULES for i in imports(m) if i != m.rpartition(".")[0])
    assert graph.number_of_edges() > len(MODULES)
    assert [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1] == []


@pytest.mark.parametrize("path", SOURCES, ids=[p.relative_to(ROOT).as_posix() for p in SOURCES])
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
