"""Package layout: declared packages exist on disk, and imports go one way: app -> passes, testing -> core."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "core", "passes", "testing")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CORE_FLOORS = (
    {"errors", "support"},
    {"processes"},
    {"ir"},
    {"operators"},
    {"serialization"},
    {"analyses", "inference", "rewriting"},
    {"io"},
    {"ort"},
    {"transform"},
    {"calibration", "verify"},
    {"proof"},
    {"run"},
    {"plugins"},
)
"""The parts of core; each imports only from earlier layers, or from its own without a cycle."""

APP_FLOORS = (
    {"options"},
    {"registry", "report"},
    {"check", "diff", "listing", "measure"},
    {"info", "optimize"},
    {"bisect", "cli", "explain", "profile", "quantize", "verify"},
    {"compare", "models", "tune"},
    {"commands", "mcp_server"},
)
"""The parts of the application; each imports only from earlier floors."""


class Source(NamedTuple):
    """The docstring and the classes of a module, and its imports, each with whether it is for type checkers alone."""

    docstring: str
    classes: list[str]
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]]


@cache
def source(path: Path) -> Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    left: list[tuple[ast.AST, bool]] = [(tree, False)]
    while left:
        node, for_checkers = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append((node, for_checkers))
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            left += [(part, True) for part in node.body] + [(part, for_checkers) for part in node.orelse]
        else:
            left += ((part, for_checkers) for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return Source(ast.get_docstring(tree) or "", classes, imports)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def imports(module: str, *, for_checkers: bool = False) -> set[str]:
    """The modules of this repository imported anywhere in `module`; `for_checkers`: also in blocks for those."""
    path = MODULES[module]
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found: set[str] = set()
    for node, is_for_checkers in source(path).imports:
        if isinstance(node, ast.ImportFrom) and node.level and (for_checkers or not is_for_checkers):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            target = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{target}.{alias.name}"
                found.add(inner if inner in MODULES else target)
    return found - {module}


@cache
def imports_by_module() -> dict[str, set[str]]:
    return {m: imports(m) for m in MODULES}


def absolute_imports(module: str) -> set[str]:
    found: set[str] = set()
    for node, _ in source(MODULES[module]).imports:
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_packages_are_found() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert declared["package-dir"] == {"passwright": "passwright", **{f"passwright.{name}": name for name in PACKAGES}}
    assert "packages" not in declared  # else setuptools does not look for them


def test_every_folder_with_code_is_a_package() -> None:
    without = {path.parent for path in SOURCES if not (path.parent / "__init__.py").is_file()}
    assert without == set()


def test_imports_are_relative_inside_the_repository() -> None:
    inner = {*PACKAGES, "passwright", "tests"}
    assert {m: found for m in MODULES if (found := absolute_imports(m) & inner)} == {}


def test_docstrings_of_packages_name_modules_that_exist() -> None:
    named = {
        f"{m}: {name}"
        for m, path in MODULES.items()
        if path.stem == "__init__"
        for name in re.findall(r"`([a-z_]+|core\.[a-z_.]+)`", source(path).docstring)
        if name not in {*MODULES, *PACKAGES} and f"{m}.{name}" not in MODULES
    }
    assert named == set()


def test_packages_import_one_way() -> None:
    allowed = {"core": set[str](), "passes": {"core"}, "testing": {"core"}, "app": {"core", "passes", "testing"}}
    upward = {
        f"{m} imports {i}"
        for m, found in imports_by_module().items()
        for i in found
        if (package := m.partition(".")[0]) != (other := i.partition(".")[0]) and other not in allowed[package]
    }
    assert upward == set()


def test_core_layers_import_only_lower_ones() -> None:
    floor = {part: n for n, parts in enumerate(CORE_FLOORS) for part in parts}
    assert set(floor) == {m.split(".")[1] for m in MODULES if m.startswith("core.")}
    inner = [(m, i) for m in imports_by_module() if m.startswith("core.") for i in imports_by_module()[m]]
    parts = {(m, i): (m.split(".")[1], i.split(".")[1]) for m, i in inner}
    upward = {f"{m} imports {i}" for (m, i), (a, b) in parts.items() if a != b and floor[a] < floor[b]}
    assert upward == set()
    assert circles(parts.values()) == []


def test_passes_do_not_import_verification() -> None:
    found = {f"{m} imports {i}" for m, found in imports_by_module().items() for i in found if m.startswith("passes.")}
    lower = ("core.proof", "core.verify")
    assert {edge for edge in found if edge.partition(" imports ")[2].startswith(lower)} == set()


def test_no_import_cycles() -> None:
    edges = [(m, i) for m in MODULES for i in imports_by_module()[m] if i != m.rpartition(".")[0]]
    assert len(edges) > len(MODULES)
    assert circles(edges) == []


def test_no_cycles_in_types_but_of_graphs_with_their_ops_and_values() -> None:
    edges = [(m, i) for m in MODULES for i in imports(m, for_checkers=True) if i != m.rpartition(".")[0]]
    assert circles(edges) == [["core.ir.graph", "core.ir.op", "core.ir.values"]]


def test_packages_of_the_application_import_only_lower_ones() -> None:
    floor = {part: n for n, parts in enumerate(APP_FLOORS) for part in parts}
    assert set(floor) == {m.split(".")[1] for m in MODULES if m.startswith("app.")}
    own = [
        (m, i) for m in MODULES for i in imports(m, for_checkers=True) if m.startswith("app.") and i.startswith("app.")
    ]
    parts = {(m, i): (m.split(".")[1], i.split(".")[1]) for m, i in own}
    assert {f"{m} imports {i}" for (m, i), (a, b) in parts.items() if a != b and floor[a] <= floor[b]} == set()


def circles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    graph = nx.DiGraph((a, b) for a, b in edges if a != b)
    return [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]


TEXT_BOUNDARIES = {
    "json.dumps": {"support/printable_text.py", "io/publishing.py", "quantize/journal.py"},
    "Console(": {"app/report/terminal.py"},
    "RichHandler(": {"app/report/terminal.py"},
    "typer.echo(": {
        "app/cli/exit_codes.py",
        "app/cli/report_output.py",
        "app/cli/outputs.py",
        "app/cli/entry.py",
        "commands/show.py",
        "commands/view.py",
    },
    "np.load(": {"measure/benchmark_worker.py"},
}
"""Functions by which text or files of strangers pass, and the modules that may call them, beside those of workers."""
WORKERS = {"ort", "bisect", "measure"}
"""Packages with files and messages that only processes of this project exchange."""


def test_text_passes_the_functions_that_escape_it() -> None:
    found = {
        f"{call} in {path.relative_to(ROOT)}"
        for path in SOURCES
        for call, allowed in TEXT_BOUNDARIES.items()
        if call in path.read_text(encoding="utf-8")
        and not any(str(path).endswith(name) for name in allowed)
        and not (call == "json.dumps" and path.parent.name in WORKERS)
    }
    assert found == set()


def test_the_name_of_a_public_class_stands_for_one_thing() -> None:
    classes = Counter(name for path in SOURCES for name in source(path).classes if not name.startswith("_"))
    assert [name for name, count in classes.items() if count > 1] == []
