"""Golden models: verification, and operator histograms as last recorded.

`python tests/test_golden.py` records the histograms; review the difference before you commit it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tiers import GOLDEN_SAMPLE, part_of, slow_unless

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = sorted(GOLDEN.glob("*.onnx"))


def recorded(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


FIRST = [p for p in MODELS if p.stem in GOLDEN_SAMPLE or part_of(p.stem, 4) == 0]


@pytest.mark.parametrize("path", slow_unless(FIRST, MODELS), ids=lambda p: p.stem)
def test_basic(path: Path) -> None:
    report = optimize(path).report
    assert report.verification is not None
    assert report.after.ops == recorded(path)["after"]
    assert report.after.nodes <= report.before.nodes
    assert report.rejected == []


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_no_other_optimizer_leaves_fewer_nodes(path: Path) -> None:
    """`python benchmarks/nodes_left.py --record` records the best correct result of the other optimizers."""
    counts = recorded(path)
    assert sum(counts["after"].values()) <= counts["best_peer"]


def test_number_and_size_of_golden_models() -> None:
    assert len(MODELS) >= 24
    sizes = [f.stat().st_size for f in GOLDEN.glob("*.onnx*")]
    assert max(sizes) < 1 << 20
    assert sum(sizes) < 12 << 20


def record() -> None:
    for path in MODELS:
        text = recorded(path) | {"after": optimize(path).report.after.ops}
        path.with_suffix(".json").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
