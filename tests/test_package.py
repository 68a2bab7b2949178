"""The package `passwright` as users import it: names, version, types, and `python -m passwright`."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from environment import ROOT

import passwright

FACE = Path(passwright.__file__)


def test_public_names_exist() -> None:
    assert dir(passwright) == sorted(passwright.__all__)
    assert all(hasattr(passwright, name) for name in passwright.__all__)
    assert passwright.__version__ == version("passwright")


def test_names_for_type_checkers_match_run_time() -> None:
    """The imports under TYPE_CHECKING name each public object and the module that defines it."""
    statements = ast.parse(FACE.read_text(encoding="utf-8")).body
    (block,) = (n for n in statements if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    stated = {
        alias.name: f"passwright.{node.module}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*stated, "__version__"} == set(passwright.__all__)
    for name, module in stated.items():
        assert getattr(sys.modules.get(module) or __import__(module, fromlist=["_"]), name) is getattr(passwright, name)


@pytest.mark.slow  # `make test` checks the types of all sources
def test_type_checker_finds_no_error(tmp_path: Path) -> None:
    """Its modules lie in other folders of the repository, where a type checker does not look for them."""
    checked = tmp_path / "passwright"
    shutil.copytree(FACE.parent, checked, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("app", "core", "passes", "testing"):
        (checked / folder).symlink_to(ROOT / folder)
    settings = {"include": ["passwright/*.py"], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [Path(sys.executable).with_name("basedpyright"), "--warnings", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "0 errors, 0 warnings, 0 notes")


def test_package_is_typed() -> None:
    assert FACE.with_name("py.typed").is_file()


def test_import_is_lightweight() -> None:
    code = (
        "import sys, passwright; print(*(m for m in ('numpy', 'onnx', 'onnxruntime', 'networkx') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == []


def test_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "passwright", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.startswith(f"passwright {version('passwright')}, ")


def test_the_conda_recipe_has_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yaml: Any = import_module("yaml")
    recipe = yaml.safe_load((ROOT / "examples" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["package"] == {"name": project["name"], "version": project["version"]}
    needs = [f"python{project['requires-python']}", *project["dependencies"]]
    assert recipe["requirements"]["run"] == [need.replace(">=", " >=") for need in needs]
    assert recipe["tests"] == [{"script": [f"{name} --version" for name in project["scripts"] if "-" not in name]}]
