"""The page of promises: tests that exist, limits as in the code, and the promises that no other file tests."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import onnx
import pytest
from executable_documents import DOCS, ROOT
from rewriting import load

PAGE = DOCS / "promises.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "---" not in line]
TEST = re.compile(r"`(test_\w+)::(test_\w+)`")
LIMIT = re.compile(r"\*\*([^*]+)\*\*[^*|]*?\(`(\w+)\.([A-Z_]+)`\)")
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "MB": 10**6, "s": 1, "": 1}


@cache
def functions_of(stem: str) -> set[str]:
    """The functions of a module of tests."""
    (path,) = ROOT.glob(f"tests/**/{stem}.py")
    return {n.name for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)}


@cache
def constants_of(stem: str) -> dict[str, str]:
    """The constants of a module, as they are written."""
    folders = ("core", "app", "passes", "tests/fuzzing")
    (path,) = [p for folder in folders for p in (ROOT / folder).rglob(f"{stem}.py")]
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            names, value = node.targets[0], node.value
            pairs = zip(names.elts, value.elts, strict=True) if isinstance(names, ast.Tuple) else [(names, value)]
            found.update((ast.unparse(name), ast.unparse(v)) for name, v in pairs)
    return found


def test_every_promise_has_tests() -> None:
    promises = [row for row in ROWS if not row.endswith("| test |")]
    assert len(promises) > 20
    assert [row for row in promises if not TEST.search(row.rsplit("|", 2)[1])] == []


def test_tests_of_promises_exist() -> None:
    named = set(TEST.findall(PAGE.read_text(encoding="utf-8")))
    assert [f"{stem}::{name}" for stem, name in sorted(named) if name not in functions_of(stem)] == []


def test_limits_are_those_of_the_code() -> None:
    limits = LIMIT.findall(PAGE.read_text(encoding="utf-8"))
    assert len(limits) > 5
    for text, stem, name in limits:
        number, _, unit = text.partition(" ")
        value = ast.literal_eval(number.replace(",", "_")) * UNITS[unit if unit in UNITS else ""]
        assert value == eval(constants_of(stem)[name]), f"{stem}.{name} is not {text}"


TRAPPED = (
    "onnx", "numpy", "onnxruntime", "json", "rich", "typer", "basic", "sitecustomize", "typing", "pathlib", "gc",
)  # fmt: skip
TRAP = "from pathlib import Path; Path(__file__).with_suffix('.imported').touch(); raise SystemExit('imported')"


@pytest.mark.skipif(sys.platform == "win32", reason="the command is a script")
def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    for name in TRAPPED:
        (tmp_path / f"{name}.py").write_text(TRAP)
    onnx.save(load("g (float[4] x) => (float[4] y) { a = Relu(x) y = Relu(a) }"), tmp_path / "m.onnx")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [Path(sys.executable).with_name("passes"), "run", "m.onnx", "-o", "out.onnx"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert "verified" in done.stdout, done.stderr
    for line in ("-m passwright --version", "-mpasswright list --help", "-Bm passwright info m.onnx"):
        command = [sys.executable, *line.split()]
        subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True, timeout=300)
    assert list(tmp_path.glob("*.imported")) == []
