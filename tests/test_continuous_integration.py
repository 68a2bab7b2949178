"""The hooks for pre-commit and the action for GitHub, as their users configure them."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from executable_documents import DOCS, ROOT, blocks
from passwright.app.cli.entry import app
from rewriting import load, op_types
from typer.testing import CliRunner

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
YAML = [yaml.safe_load(b.text) for b in blocks(DOCS / "continuous-integration.md") if b.language == "yaml"]
CONFIGURATIONS = [c for c in YAML if not isinstance(c, list)]  # without steps alone
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"
STUB = """#!/bin/sh
printf '%s\\n' "$@" >> "$RUNNER_TEMP/arguments"
exit "${STUB_CODE:-0}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model that would change, and one that would not."""
    onnx.save(load(TEXT), tmp_path / "large.onnx")
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"), tmp_path / "small.onnx")
    return tmp_path


def hook(name: str, folder: Path, *arguments: str) -> int:
    """Run a hook as pre-commit does: its entry, then the names of the files that it is for."""
    program, *entry = shlex.split(HOOKS[name]["entry"])
    assert program == "passes"
    files = sorted(p.name for p in folder.iterdir() if re.search(HOOKS[name]["files"], p.name))
    with chdir(folder):
        result = CliRunner().invoke(app, [*entry, *arguments, *files])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code


def test_hooks_check_and_optimize(folder: Path) -> None:
    (folder / "model.onnx.data").write_text("not a model")
    assert set(HOOKS) == {"passes-check", "passes-optimize"}
    assert all((h["language"], h["require_serial"]) == ("python", True) for h in HOOKS.values())
    quickly = ("--no-verify", "--jobs", "1")
    assert hook("passes-check", folder, *quickly) == 3
    assert op_types(onnx.load(folder / "large.onnx")) == ["Identity", "Relu"]
    (folder / "small.onnx").unlink()
    assert hook("passes-optimize", folder, "--no-verify") == 0
    assert op_types(onnx.load(folder / "large.onnx")) == ["Relu"]
    assert hook("passes-check", folder, "--no-verify") == 0


def run_step(name: str, folder: Path, code: int = 0, **variables: str) -> str:
    """Run the shell of a step as GitHub does, with the defaults of the inputs where no variables are given."""
    environment = {
        variable: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: ACTION["inputs"][m[1]].get("default", ""), value)
        for variable, value in STEPS[name]["env"].items()
    }
    given = {"RUNNER_TEMP": str(folder / "temp"), "GITHUB_ACTION_PATH": "/the/action", **environment, **variables}
    given |= {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    assert STEPS[name]["shell"] == "bash"
    (folder / "step.sh").write_text(STEPS[name]["run"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **given}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def place_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def arguments_of(folder: Path) -> list[str]:
    return (folder / "temp" / "arguments").read_text().splitlines()


def test_action_checks_models_and_writes_the_summary(folder: Path) -> None:
    (folder / "summary").write_text("before\n")
    program = folder / "temp" / "passwright" / "bin" / "passes"
    place_program(program, f'#!/bin/sh\nexec "{sys.executable}" -m passwright "$@"\n')
    printed = run_step("Run", folder, 3, FILES="large.onnx\n\n", ARGS="--check --no-verify")
    assert "::error file=large.onnx,title=would change::" in printed
    summary = (folder / "summary").read_text()
    assert summary.startswith("before\n### passes run\n")
    assert "| large.onnx | 2 → **1** (" in summary
    outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
    assert set(outputs) == set(ACTION["outputs"])
    assert outputs["exit-code"] == "3"
    assert json.loads(Path(outputs["report"]).read_text())["after"]["nodes"] == 1


def test_action_passes_its_inputs_on(folder: Path) -> None:
    place_program(folder / "temp" / "passwright" / "bin" / "passes", STUB)
    files = "  a b.onnx\n-x.onnx\n\n  models/**/*.onnx  \n$(touch no)\n"
    run_step("Run", folder, FILES=files, ARGS="--dim 'batch size=1' --exact", FORMAT="github sarif:p.sarif")
    temp = str(folder / "temp")
    assert arguments_of(folder) == [
        "run", "--dim", "batch size=1", "--exact",
        "--format", f"markdown:{temp}/passwright-summary.md", "--json", f"{temp}/passwright-report.json",
        "--format", "github", "--format", "sarif:p.sarif",
        "--", "a b.onnx", "-x.onnx", "models/**/*.onnx", "$(touch no)",
    ]  # fmt: skip
    assert (folder / "output").read_text().startswith("exit-code=0\n")
    assert not (folder / "no").exists()
    assert not (folder / "summary").exists()  # the command wrote none
    run_step("Run", folder, 2, FILES="m.onnx", STUB_CODE="2")
    assert arguments_of(folder)[-2:] == ["--", "m.onnx"]
    assert (folder / "output").read_text().splitlines()[2] == "exit-code=2"


@pytest.mark.parametrize(("version", "package"), [("", "/the/action"), ("0.1.0", "passwright==0.1.0")])
def test_action_installs_itself_or_a_version(folder: Path, version: str, package: str) -> None:
    place_program(folder / "temp" / "passwright" / "bin" / "python", STUB)
    place_program(folder / "programs" / "python3", STUB)
    run_step("Install", folder, VERSION=version, PATH=f"{folder / 'programs'}:{os.environ['PATH']}")
    environment = f"{folder / 'temp'}/passwright"
    assert arguments_of(folder) == ["-m", "venv", environment, "-m", "pip", "install", "--quiet", package]


def test_action_is_complete() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(entry["description"] for kind in ("inputs", "outputs") for entry in ACTION[kind].values())
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    assert [step.get("id") for step in ACTION["runs"]["steps"]] == [None, "run"]


def test_documented_configurations_name_what_there_is() -> None:
    hooks, inputs = list[str](), list[dict[str, Any]]()
    for configuration in CONFIGURATIONS:
        for repository in configuration.get("repos", ()):
            hooks += (h["id"] for h in repository["hooks"])
        for job in configuration.get("jobs", {}).values():
            inputs += (step["with"] for step in job["steps"] if "passwright" in step["uses"])
    assert set(hooks) == set(HOOKS)
    assert len(inputs) == 1
    assert {name for given in inputs for name in given} <= set(ACTION["inputs"])
    assert any("script" in job for configuration in CONFIGURATIONS for job in configuration.values() if "script" in job)
