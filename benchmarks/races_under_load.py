"""Races of a known ratio beside other work: `python benchmarks/races_under_load.py [--races 100] [--threads 1]`.

A model of n layers races against one of 2n such layers, which has twice the work: layers are MatMul and Relu of the
same small matrix, so that caches hold either. The models run on inputs of several sizes, so that a call is shorter or
longer than a time slice of the scheduler. A race is covered if its 95 % interval contains 2 or what is within 1 % of
it, as a call also works outside of its layers: races take that long on a quiet machine. It is inconclusive if it
says so. `before` has the intervals of the medians of the same calls with their waits for a core, as they were timed.
The kinds of load take turns, so that other work on the machine disturbs each of them alike.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest import mock

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper
from passwright.app.measure import benchmark
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget, CallTimes, WorkerProxy
from passwright.app.measure.execution_provider import ExecutionProvider
from passwright.app.measure.metrics import RatioInterval, latency_ratio
from passwright.core.ort.sessions import ENABLE_ALL
from passwright.core.support.scratch_folder import ScratchFolder

LAYERS = 32
WIDTH = 64
ROWS = (256, 512, 1024, 2048, 4096)  # calls of about 1 to 13 ms, and twice that
TRUTH = (
    1.98,
    2.02,
)  # 2, but for the work of a call outside of its layers, and caches: medians by size, on a quiet machine
LOADS = {
    "none": [],
    "one core": [("busy", 0)],
    "both cores": [("busy", 0), ("busy", 1)],
    "bursts": [("bursts", 0), ("bursts", 1)],
    "memory": [("memory", 0), ("memory", 1)],
}
"""Processes by kind, each with the number of its core."""


@dataclass(frozen=True)
class Race:
    """The share of the time that was waited, and the ratio of the calls as they were timed, and as it is now."""

    waited: float
    before: RatioInterval
    now: RatioInterval


def save_layers(count: int, path: Path) -> Path:
    """Write a model of so many layers."""
    nodes = list[onnx.NodeProto]()
    for i in range(count):
        nodes.append(helper.make_node("MatMul", [f"y{i - 1}" if i else "x", "w"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"y{i}"]))
    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, WIDTH])
        for name, rows in (("x", "N"), ("w", WIDTH), (f"y{count - 1}", "N"))
    )
    graph = helper.make_graph(nodes, "layers", [x, w], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def run_load(kind: str, core: int) -> None:
    """Load a core without an end, or in bursts of 10 to 500 ms, or with copies of memory that no cache holds."""
    with suppress(AttributeError):  # macOS has none
        psutil.Process().cpu_affinity([core])
    draw = random.Random(core)
    copied = np.ones(1 << 23 if kind == "memory" else 1)
    while True:
        end = time.monotonic() + draw.uniform(0.01, 0.5)
        while time.monotonic() < end:
            copied[:] = copied[::-1] if kind == "memory" else copied
        if kind == "bursts":
            time.sleep(draw.uniform(0.01, 0.5))


@contextmanager
def under(kind: str) -> Generator[None]:
    """Run the processes of a kind of load."""
    started = [subprocess.Popen([sys.executable, __file__, "--load", *map(str, load)]) for load in LOADS[kind]]
    try:
        if started:
            time.sleep(2)  # until they have imported numpy
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


class Recorded(CallTimes):
    """Times whose rounds are kept as they were timed."""

    as_timed: Sequence[float] = ()

    def leave_out_waits(self, share: float) -> None:
        self.as_timed = self.rounds
        super().leave_out_waits(share)


def race(models: Sequence[Path], threads: int, min_time: float, seed: int) -> Iterator[Race]:
    """Race two models at all sizes."""
    session = ExecutionProvider().session_config(ENABLE_ALL, threads)
    draw = np.random.default_rng(0)
    w = (draw.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
    feeds = {rows: {"x": draw.standard_normal((rows, WIDTH)).astype(np.float32), "w": w} for rows in ROWS}
    sets = defaultdict[int, list[Mapping[int, CallTimes]]](list)
    interleave_calls = benchmark.interleave_calls

    def recorded(workers: Mapping[int, WorkerProxy], batch: int, *others: Any) -> dict[int, CallTimes]:
        sets[batch].append(found := interleave_calls(workers, batch, *others))
        return found

    with mock.patch.multiple(benchmark, CallTimes=Recorded, interleave_calls=recorded):
        effort = BenchmarkConfig(min_time, seed=seed, finds_providers=False)
        found = benchmark.run_benchmark([BenchmarkTarget(m, session) for m in models], feeds, effort)
    for rows in ROWS:
        short, long = (m.latencies[rows] for m in found)
        rounds = (tuple(tuple(getattr(s[i], "as_timed", ()) or s[i].rounds) for s in sets[rows]) for i in (0, 1))
        a, b = (replace(short, rounds=r, waited=0.0, is_disturbed=False) for r in rounds)
        yield Race(max(short.waited, long.waited), latency_ratio(b, a), latency_ratio(long, short))


def outcome(interval: RatioInterval) -> str:
    """Whether a race told the truth."""
    if interval.inconclusive:
        return "inconclusive"
    least, most = TRUTH
    return "covered" if interval.low <= most and interval.high >= least else "missed"


def print_table(races: Mapping[str, Sequence[Race]]) -> None:
    """Print the outcomes by kind of load."""
    print(
        "| load | races | time waited | | covered | missed | inconclusive | median ratio |", "|---" * 8 + "|", sep="\n"
    )
    for kind, found in races.items():
        for when in ("before", "now"):
            ratios = [r.before if when == "before" else r.now for r in found]
            counts = Counter(map(outcome, ratios))
            cells = (
                kind, len(found), f"{fmean(r.waited for r in found):.0%}", when,
                *(counts[word] for word in ("covered", "missed", "inconclusive")),
                f"{median(r.ratio for r in ratios):.2f}",
            )  # fmt: skip
            print("|", " | ".join(map(str, cells)), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=100, help="for each kind of load")
    parser.add_argument("--seconds", type=float, default=inf, help="after which no more races start")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=0.5)
    parser.add_argument("--kinds", nargs="+", default=list(LOADS), choices=LOADS)
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        run_load(options.load[0], int(options.load[1]))
    races = defaultdict[str, list[Race]](list)
    start = time.monotonic()
    with ScratchFolder() as folder:
        models = [save_layers(n, folder / f"{n}.onnx") for n in (LAYERS, 2 * LAYERS)]
        for number, kind in product(range(-(-options.races // len(ROWS))), options.kinds):
            if time.monotonic() - start < options.seconds:
                with under(kind):
                    races[kind] += race(models, options.threads, options.min_time, number)
                for r in races[kind][-len(ROWS) :]:
                    texts = (f"{x.ratio:.2f} ({x.low:.2f}-{x.high:.2f}) {outcome(x)}" for x in (r.before, r.now))
                    print(kind, f"waited {r.waited:.0%}", *texts, sep="; ", flush=True)
    print_table(races)


if __name__ == "__main__":
    main()
