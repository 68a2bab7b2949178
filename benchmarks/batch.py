"""Overhead of `passes batch` for each of many small models, and its speed with several workers.

    python benchmarks/batch.py                          # 1,000 models, 1, 2 and 4 workers
    python benchmarks/batch.py --count 10000 --workers 2

The overhead is the time of the workers in which they do not run a model: the processes wait for requests, digests are
computed, and rows are written. The time to start everything is that of a batch of one model for each worker, and is
listed apart. Workers beyond the cores share these.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

GRAPHS = (
    "g (float[N,16] x) => (float[N,16] y) { a = Identity(x) b = Relu(a) c = Relu(b) d = MatMul(c, w) y = Add(d, v) }",
    "g (float[N,16] x) => (float[N,16] y) { a = Mul(x, v) b = Mul(a, v) c = MatMul(b, w) y = Tanh(c) }",
    "g (float[N,16] x) => (float[16,N] y) { a = Transpose(x) b = Transpose(a) c = MatMul(b, w) y = Transpose(c) }",
)
HEADER = '<ir_version: 10, opset_import: ["": 20]>'


@dataclass(frozen=True, slots=True)
class Timing:
    """A batch: the seconds of the command, and those of all its models in the workers."""

    wall: float
    models: float


def write_models(folder: Path, count: int) -> None:
    """Write small models, no two of which are alike."""
    rng = np.random.default_rng(0)
    for number in range(count):
        model = onnx.parser.parse_model(f"{HEADER} {GRAPHS[number % len(GRAPHS)]}")
        weights = {"w": rng.standard_normal((16, 16), np.float32), "v": rng.standard_normal(16, np.float32)}
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
        onnx.save(model, folder / f"{number:05}.onnx")


def run_batch(models: Path, output: Path, workers: int, options: Sequence[str]) -> Timing:
    """Run a batch, which has to succeed for each model."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "passwright", "batch", models, "--output-dir", output, "--jobs", workers]
    subprocess.run([*map(str, command), "--quiet", *options], check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    with (output / "results.csv").open(newline="", encoding="utf-8") as file:
        return Timing(wall, sum(float(row["seconds"]) for row in csv.DictReader(file)))


def main() -> None:
    """Print a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="models")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--no-verify", action="store_true", help="write results without verification")
    given = parser.parse_args()
    options = ["--no-verify"] if given.no_verify else ["--verify", "quick"]
    cores = len(os.sched_getaffinity(0))
    print(f"{given.count:,} models on {cores} cores, {' '.join(options)}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "all").mkdir()
        write_models(folder / "all", given.count)
        base = None
        for workers in given.workers:
            few = folder / f"few{workers}"
            few.mkdir()
            write_models(few, workers)
            first = run_batch(few, folder / f"first{workers}", workers, options)
            start = first.wall - first.models / workers
            timing = run_batch(folder / "all", folder / f"out{workers}", workers, options)
            base = base or timing.wall
            overhead = (timing.wall - start - timing.models / workers) * min(workers, cores) / given.count
            print(
                f"{workers} workers: {timing.wall:.1f} s, {given.count / timing.wall:.1f} models/s, "
                f"{base / timing.wall:.2f} of the first's speed; {1e3 * timing.models / given.count:.1f} ms a model, "
                f"{1e3 * overhead:.1f} ms overhead; {start:.1f} s to start"
            )


if __name__ == "__main__":
    main()
