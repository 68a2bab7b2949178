"""Batches over the models of the long tests: each planted mistake is in the table, and node cases are verified."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_backend, write_planted
from node_cases import backend_cases
from planted import MISTAKES

pytestmark = pytest.mark.slow


def batch(folder: Path, *arguments: str | Path) -> list[dict[str, str]]:
    """The rows of a batch, which ends well."""
    command = [sys.executable, "-m", "passwright", "batch", *arguments, "--output-dir", folder, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_planted_mistakes(tmp_path: Path) -> None:
    names = list(MISTAKES)[::24]
    rows = batch(tmp_path / "out", write_planted(tmp_path / "planted", names), "--trust-settings")
    found = {Path(row["model"]).stem: {tuple(pair) for pair in json.loads(row["rejected"])} for row in rows}
    assert found == {name: set(MISTAKES[name].wrong) for name in names}


def test_node_cases(tmp_path: Path) -> None:
    names = [name for name in backend_cases() if name.startswith(("test_relu", "test_split_equal"))]
    write_backend(tmp_path / "backend", names)
    rows = batch(tmp_path / "out", tmp_path / "backend", "--verify", "quick")
    assert {row["outcome"] for row in rows} == {"unchanged", "verified"}
    assert len(rows) == 3 * len(names)
