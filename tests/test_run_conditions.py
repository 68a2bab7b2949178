"""Conditions of runs: what counts for the results that `--resume` keeps, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from passwright.app.models import conditions
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


OPTIONS: dict[str, Any] = {
    "pipeline": "basic",
    "inputs": ["x.npz"],
    "plugin": [Path("p.py")],
    "seed": 0,
    "check": False,
}


def test_options_count_and_their_files_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.py").write_text(PLUGIN.replace("from helper", "#"))
    seen = [digest()]
    seen += [
        digest(**c) for c in ({"pipeline": "ort"}, {"seed": 1}, {"inputs": ["y.npz"]}, {"skip": ["fold-constants"]})
    ]
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
    assert digest(check=True, verbose=True, json=Path("r.json")) == digest()


def digest(**changed: Any) -> str:
    return conditions.options_digest("run", OPTIONS | changed)


def test_modules_of_plugins_count(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A file beside a plugin that it imports."""
    monkeypatch.syspath_prepend(str(folder))
    Path("p.py").write_text(PLUGIN)
    seen: list[Any] = []
    for amount in (1, 2):
        Path("helper.py").write_text(f"AMOUNT = {amount}\n")
        files, _ = conditions.pipeline_sources(resolve_pipeline("basic", ["p.py"], (), (), ()))
        assert {"helper.py", "p.py"} <= files.keys()
        seen.append(files)
    assert seen[0]["p.py"] == seen[1]["p.py"]
    assert seen[0]["helper.py"] != seen[1]["helper.py"]
