"""The page about onnxruntime, and the measurements of its fusions in `benchmarks/ort_fusions.py`."""

from pathlib import Path
from typing import Any

import pytest
from passwright.app.bisect.ort_optimizers import BASIC, LEVEL_OPTIMIZERS

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def ort_fusions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import ort_fusions

    return ort_fusions


def test_page_has_every_optimizer_above_the_basic_level() -> None:
    page = (ROOT / "docs" / "onnxruntime.md").read_text(encoding="utf-8")
    assert [name for level in LEVEL_OPTIMIZERS if level is not BASIC for name in level if name not in page] == []


@pytest.mark.slow
def test_fused_models_compute_the_same(ort_fusions: Any) -> None:
    for race in ort_fusions.RACES:
        found = ort_fusions.run_race(race, threads=1, pairs=1, seconds=0.0)
        limit = 2e-3 if race.name.startswith("FastGelu for Gelu of erf") else 1e-5
        assert found.difference < limit, race.name
        assert found.made or race.name.startswith("product of grouped heads"), race.name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SkipLayerNormFusion, 128x768", "EmbedLayerNormalization, 128"])
def test_ratio_of_slower_fusion_is_above_1(ort_fusions: Any, name: str) -> None:
    race = next(r for r in ort_fusions.RACES if r.name == name)
    assert min(ort_fusions.run_race(race, threads=1, pairs=2, seconds=0.5).ratios) > 1
