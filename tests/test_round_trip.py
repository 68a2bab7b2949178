"""Loading and exporting with no pass gives back the same model."""

from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from node_cases import is_round_trip_equal
from passwright.core import Tensor
from passwright.core.ir.tensor import join_chunks
from rewriting import each
from tiers import slow_unless

PACKAGED = Path(onnx.backend.test.__file__).parent / "data"
MODELS = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))


@pytest.mark.parametrize("kind", ["light", "simple", "pytorch-converted", "pytorch-operator"])
def test_packaged_models(kind: str) -> None:
    files = sorted((PACKAGED / kind).rglob("*.onnx"))
    assert files
    assert [f.parent.name for f in files if not is_round_trip_equal(onnx.load(f))] == []


@pytest.mark.parametrize("path", slow_unless(MODELS[::2], MODELS), ids=[p.stem for p in MODELS])
def test_golden_models(path: Path) -> None:
    assert is_round_trip_equal(onnx.load(path))
    assert is_round_trip_equal(onnx.load(path, load_external_data=False))


@each("dtype", [np.float32, np.float16, np.int64, np.bool_, np.complex64])
def test_large_array_is_written_without_a_copy(dtype: type[np.generic]) -> None:
    tensor = Tensor.from_array(np.arange(6000).reshape(60, 100).astype(dtype))
    assert join_chunks(tensor.chunks("w")) == tensor.to_proto("w").SerializeToString(deterministic=True)
    assert np.shares_memory(np.frombuffer(tensor.raw_data(), np.uint8), tensor.array)
