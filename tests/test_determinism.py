"""Deterministic output: the same bytes for the same model, with any hash seed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rewriting import cases

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = ("functions", "cnn_qdq", "sklearn_strings", "mixer_external", "loop_if")
MORE = ("bert_dynamo", "swin", "resnet_kept_bn", "keras_cnn", "gpt2")

CODE = """
import hashlib, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from passwright import optimize
for name in sys.argv[2:] * 2:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.onnx"
        optimize(Path(sys.argv[1]) / f"{name}.onnx", verify=False, output=out)
        files = sorted(Path(folder).iterdir())
        print(name, hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest())
"""


def digests(seed: str, models: Sequence[str]) -> set[tuple[str, ...]]:
    """The digests of the optimized models, each made twice, in a process with that hash seed."""
    command = [sys.executable, "-c", CODE, GOLDEN, *models]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return {tuple(line.split()) for line in done.stdout.splitlines()}


@cases(
    ("models", "seeds"),
    {"sample": (MODELS, ("0", "4242")), "all": pytest.param(MODELS + MORE, ("0", "1", "4242"), marks=pytest.mark.slow)},
)
def test_same_bytes_on_repeated_runs_under_any_hash_seed(models: Sequence[str], seeds: Sequence[str]) -> None:
    found = set[tuple[str, ...]]().union(*(digests(seed, models) for seed in seeds))
    assert len({digest for _, digest in found}) == len(found) == len(models)
