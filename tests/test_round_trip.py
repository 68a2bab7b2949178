"""Loading and exporting with no pass gives back the same model."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.backend.test
import pytest
from backend import cases, round_trips

PACKAGED = Path(onnx.backend.test.__file__).parent / "data"
GOLDEN = Path(__file__).parent.parent / "golden_models"


@pytest.mark.parametrize("kind", ["light", "simple", "pytorch-converted", "pytorch-operator"])
def test_packaged_models(kind: str) -> None:
    files = sorted((PACKAGED / kind).rglob("*.onnx"))
    assert files
    assert [f.parent.name for f in files if not round_trips(onnx.load(f))] == []


def test_node_cases() -> None:
    assert [c.name for c in cases().values() if not round_trips(c.model)] == []


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.onnx")), ids=lambda p: p.stem)
def test_golden_models(path: Path) -> None:
    assert round_trips(onnx.load(path))
    assert round_trips(onnx.load(path, load_external_data=False))
