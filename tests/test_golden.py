"""Golden models: verified, and as small as they were when last recorded.

`python tests/test_golden.py` records the histograms anew; look at the difference before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from passwright import optimize

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = sorted(GOLDEN.glob("*.onnx"))


def described(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_basic(path: Path) -> None:
    report = optimize(path).report
    assert report.verification is not None
    assert report.after.ops == described(path)["after"]
    assert report.after.nodes <= report.before.nodes
    assert report.quarantined == []


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_no_peer_leaves_less(path: Path) -> None:
    """`python benchmarks/nodes_left.py --record` notes what the best of the other optimizers leaves, if it is right."""
    told = described(path)
    assert sum(told["after"].values()) <= told["best_peer"]


def test_there_are_enough() -> None:
    assert len(MODELS) >= 24
    sizes = [f.stat().st_size for f in GOLDEN.glob("*.onnx*")]
    assert max(sizes) < 1 << 20
    assert sum(sizes) < 12 << 20


def record() -> None:
    for path in MODELS:
        text = described(path) | {"after": optimize(path).report.after.ops}
        path.with_suffix(".json").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
