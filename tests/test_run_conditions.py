"""Conditions of runs: what counts for the results that `--resume` keeps, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from passwright.app.models import run_conditions
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


def conditions(**options: Any) -> str:
    return run_conditions.options_digest(RunOptions(**options))


@pytest.mark.parametrize(
    "options",
    [
        {"pipeline": "ort"}, {"exact": True}, {"seed": 1}, {"only": ["fold-constants"]}, {"skip": ["fold-constants"]},
        {"verify": "quick"}, {"dims": {"N": 2}}, {"shapes": {"x": (2, 4)}}, {"opset": 20}, {"enable": ["debloat"]},
        {"outputs": ["b"]}, {"cut_inputs": ["b"]}, {"drop_unused_inputs": True}, {"freeze_initializers": True},
        {"keep_functions": True}, {"strict": True}, {"plan": True}, {"value_info": "keep"}, {"external_data": 100},
        {"memory": 1 << 30}, {"time_limit": 9.0}, {"inputs": "x.npz"}, {"inputs": [{"x": np.ones(2)}]},
        {"plugins": ["p.py"]},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_options_count(options: dict[str, Any]) -> None:
    assert conditions(**options) != conditions()


def test_places_do_not_count() -> None:
    others = {
        "output": "o.onnx",
        "report_to": "r.json",
        "map_to": "m",
        "progress": False,
    }
    assert conditions(**others, in_place=True) == conditions()


def test_files_and_versions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"inputs": ["x.npz"], "plugins": ["p.py"]}
    seen = [conditions(**options)]
    for name in ("x.npz", "p.py", "pipelines.toml"):
        for content in ("a", "b"):
            Path(name).write_text(content)
            seen.append(conditions(**options))
    assert conditions(**options) == seen[-1]
    for name, value in (("versions", dict), ("_machine", lambda: ["another processor"])):
        with monkeypatch.context() as patch:
            patch.setattr(run_conditions, name, value)
            seen.append(conditions(**options))
    assert len(set(seen)) == len(seen)


def test_modules_of_plugins_count(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A file beside a plugin that it imports."""
    monkeypatch.syspath_prepend(str(folder))
    Path("p.py").write_text(PLUGIN)
    seen: list[Any] = []
    for amount in (1, 2):
        Path("helper.py").write_text(f"AMOUNT = {amount}\n")
        files, _ = run_conditions.pipeline_sources(resolve_pipeline("basic", ["p.py"], (), (), ()))
        assert {"helper.py", "p.py"} <= files.keys()
        seen.append(files)
    assert seen[0]["p.py"] == seen[1]["p.py"]
    assert seen[0]["helper.py"] != seen[1]["helper.py"]
