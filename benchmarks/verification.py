"""The cost of verification: `python benchmarks/verification.py [MODEL...]`, by default golden models and a CNN.

For each model, whole commands: `passes run` with and without `--no-verify`, and a process that makes two onnxruntime
sessions, of the original and the result, and runs each once. Least seconds of several runs, in turn, and the peak
memory of all processes of one more run. Then, for wrong changes among many, how many replays it takes to find them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import numpy as np
import onnx
import psutil
from onnx import parser as text
from passwright.core import EXACT, RewriteBuilder, Value, rule
from passwright.core.io.model_source import model_source
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from residual import residual_network

from passwright import optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
CHANGE_COUNTS = (50, 500, 2000)
SAMPLE_SECONDS = 0.02
PASSES = Path(sys.executable).with_name("passes")
TWO_SESSIONS = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
sessions = [onnxruntime.InferenceSession(path, options) for path in sys.argv[1:3]]
for session in sessions:
    session.run(None, dict(numpy.load(sys.argv[3])))
"""


@dataclass(frozen=True)
class Cost:
    """Seconds and peak bytes of a process and those that it starts."""

    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Costs:
    """Runs without and with verification, and a process with two sessions."""

    unverified: Cost
    verified: Cost
    sessions: Cost

    @property
    def time_ratio(self) -> float:
        """Of the unverified run and the two sessions."""
        return self.verified.seconds / (self.unverified.seconds + self.sessions.seconds)

    @property
    def memory_ratio(self) -> float:
        """Of the unverified run and the two sessions."""
        return self.verified.peak_bytes / (self.unverified.peak_bytes + self.sessions.peak_bytes)


def measure(command: list[str | Path], repeats: int) -> Cost:
    seconds: list[float] = []
    for _ in range(repeats):
        start = perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds.append(perf_counter() - start)
    process, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL), 0
    while process.poll() is None:
        peak = max(peak, memory(process.pid))
        sleep(SAMPLE_SECONDS)
    return Cost(min(seconds), peak)


def memory(pid: int) -> int:
    """The bytes of a process and those that it started, of which shared ones count in part; on Linux."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for p in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += p.memory_full_info().pss
    return total


def measure_costs(path: Path, folder: Path, repeats: int) -> Costs:
    out, feeds = folder / "out.onnx", folder / "feeds.npz"
    source = model_source(path, inline=True)
    first = Oracle(source.loadable(), VerificationSpec.of(source.load())).runs[0]
    np.savez(feeds, **first.input_set.feeds)
    run: list[str | Path] = [PASSES, "run", path, "-o", out]
    costs = measure([*run, "--no-verify"], repeats), measure(run, repeats)
    return Costs(*costs, measure([sys.executable, "-c", TWO_SESSIONS, path, out, feeds], repeats))


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => x, right behind Abs only"""
    return x


def chain(steps: int, wrong: int) -> onnx.ModelProto:
    lines, last, aside = [], "x", "x"
    for i in range(steps):
        if i == wrong:
            lines.append(f"n = Neg({last}) aside = Relu(n)")
            aside = "aside"
        else:
            lines.append(f"p{i} = Abs({last}) r{i} = Relu(p{i})")
            last = f"r{i}"
    head = '<ir_version: 10, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] y)'
    return text.parse_model(f"{head} {{ {' '.join(lines)} y = Add({last}, {aside}) }}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("models", nargs="*", type=Path)
    options.add_argument("--repeats", type=int, default=3)
    arguments = options.parse_args()
    costs: dict[str, Costs] = {}
    print(f"{'model':28} {'unverified':>18} {'verified':>18} {'sessions':>18}  verified / (unverified + sessions)")
    with TemporaryDirectory() as folder:
        cnn = Path(folder) / "residual.onnx"
        onnx.save(residual_network(), cnn)
        for path in arguments.models or (*GOLDEN, cnn):
            try:
                costs[path.stem] = c = measure_costs(path, Path(folder), arguments.repeats)
            except (TypeError, subprocess.CalledProcessError) as e:  # sequences, absent inputs
                print(f"{path.stem:28} not measured: {e}")
                continue
            cells = (f"{k.seconds:6.2f} s {k.peak_bytes / 1e6:6.0f} MB" for k in (c.unverified, c.verified, c.sessions))
            print(f"{path.stem:28}", *cells, f" time {c.time_ratio:.2f}, memory {c.memory_ratio:.2f}", flush=True)
    ratios = zip(*((c.time_ratio, c.memory_ratio) for c in costs.values()), strict=True)
    print("medians: time {:.2f}, memory {:.2f}".format(*map(median, ratios)))
    if arguments.models:
        return
    for steps in CHANGE_COUNTS:
        places = (0, steps // 3, steps - 1)
        replays = [optimize(chain(steps, at), plugin=[drop_relu]).report.replays for at in places]
        print(f"one wrong among {steps} changes: {max(replays)} replays at most")


if __name__ == "__main__":
    main()
