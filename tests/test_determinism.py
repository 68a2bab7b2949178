"""Deterministic output: the same bytes for the same model, with any hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tiers import slow_unless

from passwright import optimize

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = (
    "bert_dynamo", "swin", "resnet_kept_bn", "keras_cnn", "loop_if", "functions", "cnn_qdq", "sklearn_strings",
    "mixer_external", "gpt2",
)  # fmt: skip
SEEDS = ("0", "1", "4242")

CODE = """
import hashlib, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from passwright import optimize
for name in sys.argv[2:]:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.onnx"
        optimize(Path(sys.argv[1]) / f"{name}.onnx", verify=False, output=out)
        files = sorted(Path(folder).iterdir())
        print(name, hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest())
"""


@cache
def digests(seed: str) -> dict[str, str]:
    """The digest of each optimized model, from a process with that hash seed."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, GOLDEN, *MODELS],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return dict(line.split() for line in done.stdout.splitlines())


# The process of the tests has a third hash seed, a random one.
@pytest.mark.parametrize("seeds", slow_unless({}, (SEEDS[:2], SEEDS)), ids=len)
@pytest.mark.parametrize("name", MODELS)
def test_same_bytes_under_any_hash_seed(name: str, seeds: tuple[str, ...]) -> None:
    assert len({digests(seed)[name] for seed in seeds}) == 1


@pytest.mark.parametrize("name", slow_unless({*MODELS} - {"swin"}, MODELS))
def test_same_bytes_on_repeated_runs(tmp_path: Path, name: str) -> None:
    found: set[str] = set()
    for n in range(2):
        (tmp_path / str(n)).mkdir()
        optimize(GOLDEN / f"{name}.onnx", verify=False, output=tmp_path / str(n) / "out.onnx")
        files = sorted((tmp_path / str(n)).iterdir())
        found.add(hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest())
    assert found == {digests("0")[name]}


def test_digests_of_models_differ() -> None:
    assert len(set(digests("0").values())) == len(MODELS)
