"""`passes new`: files, names and errors. Tests of the installed package are in `test_installed.py`."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from environment import ROOT, files_below, ruff_path
from pass_loading import make_pipeline
from passwright.app.cli.entry import app
from passwright.app.registry.plugin_writer import TEMPLATE_TARGETS, names_for
from passwright.core import leaves
from rewriting import cases, each
from tiers import slow_unless
from typer.testing import CliRunner, Result

FILES = {
    "pyproject.toml",
    "src/my_plugin/__init__.py",
    "src/my_plugin/rules.py",
    "src/my_plugin/passes.py",
    "src/my_plugin/py.typed",
    "tests/test_rules.py",
    "tests/test_passes.py",
    "LICENSE",
    "example/model.py",
    "README.md",
    ".github/workflows/test.yml",
    ".gitignore",
}


def new(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["new", *map(str, arguments)])


def test_files_are_written(tmp_path: Path) -> None:
    result = new("my-plugin", "--into", tmp_path)
    assert result.exit_code == 0
    assert files_below(tmp_path / "my-plugin") == FILES
    assert all(place in result.stdout for place in FILES)
    assert f"cd {tmp_path / 'my-plugin'} && pip install -e '.[test]'" in result.stdout
    assert "passes run example/model.onnx --enable my-plugin" in result.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["my-plugin"]
    texts = "".join((tmp_path / "my-plugin" / place).read_text(encoding="utf-8") for place in FILES)
    assert "$" not in texts.replace("${{ matrix.", "")  # of the workflow


def test_every_template_has_a_target() -> None:
    assert {p.name for p in (ROOT / "app" / "registry" / "template").iterdir()} == set(TEMPLATE_TARGETS)


def test_the_longest_name_keeps_lines_short(tmp_path: Path) -> None:
    name = "x" * 60
    assert new(name, "--into", tmp_path).exit_code == 0
    plugin = tmp_path / name
    for command in (["check"], ["format", "--check"]):
        subprocess.run([ruff_path(), *command, "--no-cache"], cwd=plugin, check=True, timeout=300, capture_output=True)


def test_path_with_spaces_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "my work").mkdir()
    result = new("my-plugin", "--into", tmp_path / "my work")
    assert f"cd '{tmp_path / 'my work' / 'my-plugin'}' && pip install" in result.stdout


def test_two_plugins_run_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    for name in ("pooling-one", "pooling-two"):
        assert new(name, "--into", tmp_path).exit_code == 0
        monkeypatch.syspath_prepend(tmp_path / name / "src")
        made.append(import_module(name.replace("-", "_")).PLUGIN)
    names = [p.name for p in leaves(make_pipeline("basic", made))]
    assert names[-4:] == ["pooling-one", "pooling-two", "pooling-one-limit", "pooling-two-limit"]


@pytest.mark.parametrize("name", slow_unless({"model"}, ["example", "model"]))
def test_plugin_may_have_the_name_of_its_file(name: str, tmp_path: Path) -> None:
    assert new(name, "--into", tmp_path).exit_code == 0
    env = {**os.environ, "PYTHONPATH": str(tmp_path / name / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "becomes"]
    done = subprocess.run(
        command, cwd=tmp_path / name, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_of_a_new_plugin_are_right(tmp_path: Path) -> None:
    """In strict mode, as its own configuration asks for."""
    assert new("my-plugin", "--into", tmp_path).exit_code == 0
    package = tmp_path / "types" / "passwright"
    package.mkdir(parents=True)
    for part in (*(ROOT / "passwright").iterdir(), *(ROOT / name for name in ("app", "core", "passes", "testing"))):
        (package / part.name).symlink_to(part)
    plugin = tmp_path / "my-plugin"
    with (plugin / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(f'extraPaths = ["{tmp_path / "types"}", "src"]\n')
    command = [Path(sys.executable).with_name("basedpyright"), "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=plugin, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


@each(
    ("text", "name", "module"),
    {
        "kebab": ("my-plugin", "my-plugin", "my_plugin"),
        "snake": ("my_plugin", "my-plugin", "my_plugin"),
        "capitals and dots": ("My.Plugin", "my-plugin", "my_plugin"),
        "two dashes": ("my--plugin", "my-plugin", "my_plugin"),
        "one letter": ("x", "x", "x"),
        "digit at the end": ("net2", "net2", "net2"),
        "a word that Python lets one use": ("match", "match", "match"),
    },
)
def test_names(text: str, name: str, module: str) -> None:
    made = names_for(text)
    assert (made.name, made.module) == (name, module)


@cases(
    ("name", "why"),
    {
        "empty": ("", "'' is not a name for a package"),
        "space": ("my plugin", "not a name for a package"),
        "dash at the end": ("my-plugin-", "not a name for a package"),
        "path": ("../plugin", "not a name for a package"),
        "slash": ("a/b", "not a name for a package"),
        "letters beyond ascii": ("größe", "not a name for a package"),
        "line break": ("a\nb", "not a name for a package"),
        "line break at the end": ("a\n", "not a name for a package"),
        "placeholder": ("$name", "not a name for a package"),
        "too long": ("x" * 61, "too long"),
        "digit at the start": ("3d-plugin", "3d_plugin is not a valid module name"),
        "keyword": ("import", "import is not a valid module name"),
        "keyword in capitals": ("Class", "class is not a valid module name"),
        "module of Python": ("json", "Python has a module json"),
        "installed package": ("numpy", "numpy [0-9.]+ is installed"),
        "installed module of another package": ("google", "a module google is installed"),
        "passwright": ("passwright", "installed"),
        "a pass": ("fuse-gemm", "passwright has a pass, rule or pipeline"),
        "a rule": ("cancel_negations", "passwright has a pass, rule or pipeline"),
        "a pipeline": ("basic", "passwright has a pass, rule or pipeline"),
    },
)
def test_bad_names_are_rejected(name: str, why: str, tmp_path: Path) -> None:
    result = new("--into", tmp_path, "--", name)
    assert result.exit_code == 2
    assert_one_line(result, why)
    assert list(tmp_path.iterdir()) == []


def assert_one_line(result: Result, why: str) -> None:
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert re.search(why, result.stderr)


@pytest.mark.parametrize(
    "kind", [pytest.param(k, id=k) for k in ("an empty folder", "a full folder", "a file", "a link to nothing")]
)
def test_existing_target_is_kept(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "my-plugin"
    if kind == "a file":
        target.write_text("mine")
    elif kind == "a link to nothing":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
    if kind == "a full folder":
        (target / "pyproject.toml").write_text("mine")
    before = {p: p.is_file() and p.read_text() for p in tmp_path.rglob("*")}
    result = new("my-plugin", "--into", tmp_path)
    assert result.exit_code == 2
    assert_one_line(result, "my-plugin exists already")
    assert {p: p.is_file() and p.read_text() for p in tmp_path.rglob("*")} == before


def test_parent_folder_must_exist(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for into in (tmp_path / "missing", tmp_path / "file", tmp_path / "file" / "below"):
        result = new("my-plugin", "--into", into)
        assert result.exit_code == 2
        assert_one_line(result, "is not a folder")


@pytest.mark.parametrize("method", ["write_bytes", "rename"])
def test_failed_write_leaves_nothing(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, method, full)
    result = new("my-plugin", "--into", tmp_path)
    assert result.exit_code == 1
    assert_one_line(result, "cannot write .*my-plugin: No space left on device")
    assert list(tmp_path.iterdir()) == []
