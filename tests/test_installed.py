"""passwright, a new plugin and an example, installed and uninstalled by pip in a fresh environment."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import onnx
import pytest
from environment import ROOT, Environment, copy_sources, files_below, ruff_path
from passwright.app.registry.plugin_writer import TEMPLATE_TARGETS
from rewriting import op_types


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def env(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    env = Environment.create(tmp_path_factory.mktemp("env"))
    env.install(sources)
    return env


def test_installed_package_is_imported(env: Environment) -> None:
    assert env.run_python("-c", "import passwright as p; print(p.__file__)").startswith(str(env.site))
    assert (env.site / "passwright" / "py.typed").is_file()
    installed = {Path(name).name for name in files_below(env.site) if "/registry/template/" in name}
    assert installed >= {*TEMPLATE_TARGETS}


def test_a_checkout_can_be_imported(env: Environment, sources: Path) -> None:
    """In its root, its folder `passwright` comes before the installed package."""
    found = env.run_python("-c", "from passwright.core import errors; print(errors.__file__)", cwd=sources)
    assert Path(found.strip()) == sources / "core" / "errors.py"


@pytest.mark.slow  # makes 10 MB
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git lists the files")
def test_source_distribution_is_the_repository(env: Environment, tmp_path: Path) -> None:
    """So it runs the tests, which read models, documents and benchmarks."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    for name in listed.stdout.splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    env.run_python("-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=tmp_path)
    with tarfile.open(next(tmp_path.glob("dist/*.tar.gz"))) as archive:
        held = {m.name.partition("/")[2] for m in archive if m.isfile()}
    generated = {name for name in held if name.startswith("passwright.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert held == {*listed.stdout.splitlines()} | generated


def test_installed_commands_write_pages(env: Environment, tmp_path: Path) -> None:
    shutil.copy(ROOT / "golden_models" / "mlp_dropout.onnx", tmp_path)
    env.run_passes("run", "mlp_dropout.onnx", "--html", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "mlp_dropout" in page


@pytest.mark.slow  # workers that measure start as those that verify
def test_installed_commands_measure(env: Environment, tmp_path: Path) -> None:
    shutil.copy(ROOT / "golden_models" / "mlp_dropout.onnx", tmp_path)
    env.run_passes(
        "bench", "mlp_dropout.onnx", "--batch", "1", "--min-time", "0.02", "--json", "bench.json", cwd=tmp_path
    )
    (model,) = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["models"]
    assert model["measured"]["failure"] == ""
    assert model["measured"]["resident_bytes"] > model["measured"]["baseline_bytes"] > 0


@pytest.mark.slow  # test_new.py runs the tests of a new plugin, and test_plugins.py finds packages of plugins
def test_new_plugin_from_install_to_uninstall(env: Environment, tmp_path: Path) -> None:
    env.run_passes("new", "my-plugin", cwd=tmp_path)
    plugin = tmp_path / "my-plugin"
    before = files_below(env.folder)
    env.install(plugin)
    assert (env.site / "my_plugin" / "rules.py").is_file()

    listed = env.run_passes("list").splitlines()
    assert any("my-plugin" in line and "0.1.0" in line for line in listed)

    env.run_python("example/model.py", cwd=plugin)
    output = env.run_passes(
        "run", "example/model.onnx", "--enable", "my-plugin", "-o", "out.onnx", "--json", "-", cwd=plugin
    )
    report = json.loads(output)
    assert report["verification"] is not None
    assert report["rejected"] == []
    assert {p["name"]: p["changes"] for p in report["passes"]}["my-plugin"] == 1
    assert op_types(onnx.load(plugin / "out.onnx")) == ["Conv", "Relu", "GlobalAveragePool", "Flatten", "MatMul"]

    assert " passed" in env.run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=plugin)
    env.run(ruff_path(), "check", "--no-cache", cwd=plugin)
    env.run(ruff_path(), "format", "--check", "--no-cache", cwd=plugin)

    env.run_python("-m", "pip", "uninstall", "-y", "my-plugin")
    assert files_below(env.folder) == before
    assert not (env.site / "my_plugin").exists()
    assert not any("my-plugin" in line for line in env.run_passes("list").splitlines())


@pytest.mark.slow  # test_examples.py runs it without an installation
def test_example_package_installs_and_runs(env: Environment, tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(ROOT / "examples" / "package", package, ignore=shutil.ignore_patterns("__pycache__"))
    env.install(package)
    env.run_python("model.py", cwd=package)
    env.run_passes("run", "upscaler.onnx", "--pipeline", "edge", "-o", "edge.onnx", cwd=package)
    assert {"HardSwish", "Gelu", "DepthToSpace"}.isdisjoint(op_types(onnx.load(package / "edge.onnx")))
    env.run_python("-m", "pip", "uninstall", "-y", "passwright-edge")
    assert not (env.site / "passwright_edge").exists()


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    env = Environment.create(tmp_path_factory.mktemp("editable"))
    options = ["--no-deps", "--no-index", "--no-compile", "--no-build-isolation", "--config-settings"]
    sources = copy_sources(tmp_path_factory.mktemp("checkout"))
    env.run_python("-m", "pip", "install", "-q", *options, "editable_mode=strict", "-e", sources)
    return env


@pytest.mark.slow  # test_package.py checks the types of the sources
@pytest.mark.parametrize("kind", ["env", "editable"])
def test_type_checker_sees_public_types(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    env: Environment = request.getfixturevalue(kind)
    code = """
from passwright import Result, optimize
from passwright.core import EXACT, RewriteBuilder, Value, rule

right: Result = optimize("m.onnx")
wrong: int = optimize("m.onnx")

@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel(g: RewriteBuilder, x: Value) -> Value:
    return g.Abs(x)
"""
    env.run_passes("--version")
    (tmp_path / "user.py").write_text(code, encoding="utf-8")
    command = [Path(sys.executable).with_name("basedpyright"), "--pythonpath", env.bin / "python", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(errors) == 1, done.stdout
    assert 'Type "Result" is not assignable' in errors[0]
