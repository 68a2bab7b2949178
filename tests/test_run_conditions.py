"""Conditions of runs: what counts for the results that `--resume` keeps, and what does not."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from passwright.app.models import conditions
from passwright.app.optimize.run_options import RunOptions
from passwright.app.registry.resolved_pipeline import resolve_pipeline

PLUGIN = '''
from helper import AMOUNT
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def keep_abs(g, x):
    """Abs(x) => nothing"""
    return None
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHANGES: dict[str, Any] = {
    "pipeline": "ort", "plugin": [], "only": ["fold-constants"], "skip": ["fold-constants"], "enable": ["debloat"],
    "debloat": True, "exact": True, "opset": 20, "dim": {"N": 2}, "shape": {"x": (2, 4)}, "outputs": ["b"],
    "batch": 2, "cut_inputs": ["b"], "drop_unused_inputs": True, "freeze_initializers": True, "keep_functions": True,
    "value_info": "keep", "external_data": 100, "inputs": ["y.npz"], "seed": 1, "verify": "quick", "strict": True,
    "prove": True, "dry_run": True, "stop_after": 3,
    "check_speed": True, "threads": 1, "min_time": 9.0, "memory": 1 << 30,
    "time_limit": 9.0, "custom_ops": ["lib.so"], "kernels": ["k.py"], "target": "ort",
}  # fmt: skip
"""Another value of each option that counts."""


def test_all_options_count_but_places() -> None:
    Path("p.py").write_text(PLUGIN.replace("from helper", "#"))
    assert set(CHANGES) == {f.name for f in fields(RunOptions)} - conditions.WITHOUT_INFLUENCE
    usual = digest()
    assert [name for name, value in CHANGES.items() if digest(**{name: value}) == usual] == []
    assert digest(output="o.onnx", map="m", json=Path("r.json"), in_place=True, progress=False) == usual


def test_files_and_versions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.py").write_text(PLUGIN.replace("from helper", "#"))
    seen = [digest()]
    for name in ("x.npz", "pipelines.toml"):
        for content in ("", "# a comment"):
            Path(name).write_text(content)
            seen.append(digest())
    Path("p.py").write_text(f"{Path('p.py').read_text()}\n")
    seen.append(digest())
    for name, value in (("versions", dict), ("_machine", lambda: ["another processor"])):
        with monkeypatch.context() as patch:
            patch.setattr(conditions, name, value)
            seen.append(digest())
    assert len(set(seen)) == len(seen)


def test_installed_packages_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any library, as a plugin may import it: each upgrade makes all results old."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "site")])
    Path("p.py").write_text(PLUGIN.replace("from helper", "#"))
    seen = list[str]()
    for name in ("library-1.0.dist-info", "library-1.1.dist-info", "old-1.0.egg-info"):
        conditions._packages.cache_clear()  # as in a new worker
        seen.append(digest())
        (folder / "site" / name).mkdir(parents=True)
    conditions._packages.cache_clear()
    seen.append(digest())
    conditions._packages.cache_clear()
    assert len(set(seen)) == len(seen)


def digest(**changed: Any) -> str:
    options = {"inputs": ["x.npz"], "plugin": [Path("p.py")], **changed}
    return conditions.options_digest("run", RunOptions(**options))


def test_modules_of_plugins_count(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A file beside a plugin that it imports."""
    monkeypatch.syspath_prepend(str(folder))
    Path("p.py").write_text(PLUGIN)
    seen: list[Any] = []
    for amount in (1, 2):
        Path("helper.py").write_text(f"AMOUNT = {amount}\n")
        files = conditions.source_digests(resolve_pipeline("basic", ["p.py"], (), (), ()))
        assert {"helper.py", "p.py"} <= files.keys()
        seen.append(files)
    assert seen[0]["p.py"] == seen[1]["p.py"]
    assert seen[0]["helper.py"] != seen[1]["helper.py"]
