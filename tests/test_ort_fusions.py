"""The races of `benchmarks/ort_fusions.py`: both models of each compute the same, and one of them is fused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def ort_fusions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import ort_fusions

    return ort_fusions


def test_fused_models_compute_the_same(ort_fusions: Any) -> None:
    for race in ort_fusions.RACES:
        found = ort_fusions.run_race(race, threads=1, pairs=1, seconds=0.0)
        limit = 2e-3 if race.name.startswith("FastGelu for Gelu of erf") else 1e-5
        assert found.difference < limit, race.name
        assert found.made or race.name.startswith("product of grouped heads"), race.name


@pytest.mark.parametrize("name", ["SkipLayerNormFusion, 128x768", "EmbedLayerNormalization, 128"])
def test_ratio_of_slower_fusion_is_above_1(ort_fusions: Any, name: str) -> None:
    race = next(r for r in ort_fusions.RACES if r.name == name)
    assert min(ort_fusions.run_race(race, threads=1, pairs=2, seconds=0.5).ratios) > 1
