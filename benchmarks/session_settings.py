"""The gain of settings of sessions that `passes tune` leaves out: spinning, affinity of threads, and I/O binding.

Each kind of session is in a process of its own, which is stopped while others run, as threads poll for work after a
run. Blocks of calls take turns in random order. The time of a kind in a block is its shortest tenth, as longer calls
wait for other work on a busy machine; with one thread it is the mean time on a core. The figures are medians, over the
blocks, of the ratio to `default` in the same round, with the quartiles.

    python benchmarks/session_settings.py model.onnx other.onnx --threads 2
    python benchmarks/session_settings.py decoder.onnx --threads 1 --dim sequence=1 --dim past=127 --dim total=128
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(4)
SPIN = "session.intra_op.spin_duration_us"
KINDS: dict[str, dict[str, str]] = {
    "default": {},
    "default again": {},
    "sleep": {"session.intra_op.allow_spinning": "0"},
    "spin 0.1 ms": {SPIN: "100"},
    "spin 1 ms": {SPIN: "1000"},
    "backoff 8": {"session.intra_op.spin_backoff_max": "8"},
    "backoff 64": {"session.intra_op.spin_backoff_max": "64"},
    "pinned": {"session.intra_op_thread_affinities": "pinned"},
    "bound": {},
}
"""Entries of the configuration of each kind of session; `bound` is called by I/O binding."""
BLOCK_SECONDS = 0.03


def serve(path: str, kind: str, threads: int, gap: float, dims: dict[str, int]) -> None:
    """Answer each line, a number of calls, with their times in nanoseconds."""
    session = session_of(path, KINDS[kind], threads)
    feeds = {i.name: generated(i, dims) for i in session.get_inputs()}
    outputs = session.run(None, feeds)
    values = [ort.OrtValue.ortvalue_from_numpy(a) for a in feeds.values()]
    results = [ort.OrtValue.ortvalue_from_numpy(a) for a in outputs]
    binding = session.io_binding()
    for name, value in zip(feeds, values, strict=True):
        binding.bind_ortvalue_input(name, value)
    for output, value in zip(session.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(output.name, value)

    def bound() -> None:
        for value, array in zip(values, feeds.values(), strict=True):
            value.update_inplace(array)
        session.run_with_iobinding(binding)
        for value in results:
            value.numpy()

    def usual() -> None:
        session.run(None, feeds)

    call = bound if kind == "bound" else usual
    for line in sys.stdin:
        times: list[float] = []
        began = process_time()
        for _ in range(int(line)):
            if gap:
                sleep(gap)
            begin = perf_counter()
            call()
            times.append(perf_counter() - begin)
        on_core = (process_time() - began) / len(times)
        print(json.dumps(times if threads > 1 else [on_core]), flush=True)


def session_of(path: str, entries: dict[str, str], threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    for key, value in entries.items():
        text = ";".join(str(n) for n in range(2, threads + 1)) if value == "pinned" else value
        options.add_session_config_entry(key, text)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def generated(value: Any, dims: dict[str, int]) -> np.ndarray[Any, Any]:
    """Ones, or normal numbers, of the shape of an input: one sample, and 16 of each dim without a size."""
    shape = [n if isinstance(n, int) else dims.get(n, 16 if axis else 1) for axis, n in enumerate(value.shape)]
    if value.type == "tensor(float)":
        return np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return np.ones(shape, {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}[value.type])


def measure(path: Path, threads: int, seconds: float, gap: float, dims: list[str]) -> dict[str, list[float]]:
    """The shortest tenth of calls of each kind of session in each round."""
    sizes = [text for dim in dims for text in ("--dim", dim)]
    run = [sys.executable, __file__, str(path), "--threads", str(threads), "--gap", str(gap), *sizes, "--kind"]
    workers = {
        kind: subprocess.Popen([*run, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for kind in KINDS
        if threads > 1 or kind in {"default", "default again", "bound"}
    }
    random, found, calls = Random(0), {kind: list[float]() for kind in workers}, 5

    def block(kind: str) -> list[float]:
        worker = workers[kind]
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.send_signal(signal.SIGCONT)
        worker.stdin.write(f"{calls}\n")
        worker.stdin.flush()
        times: list[float] = json.loads(worker.stdout.readline())
        worker.send_signal(signal.SIGSTOP)
        return times

    try:
        calls = max(3, min(1000, round(BLOCK_SECONDS / (min(min(block(kind)) for kind in workers) + gap))))
        end = perf_counter() + seconds * len(workers)
        while perf_counter() < end or len(found["default"]) < 5:
            for kind in random.sample(list(workers), len(workers)):
                times = sorted(block(kind))
                found[kind].append(times[len(times) // 10])
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each kind of session")
    parser.add_argument("--gap", type=float, default=0.0, help="seconds between two calls")
    parser.add_argument("--dim", action="append", default=[], help="the size of a symbolic dim, as sequence=1")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        dims = {name: int(size) for name, _, size in (text.partition("=") for text in options.dim)}
        serve(str(options.models[0]), options.kind, options.threads, options.gap, dims)
        return
    for path in options.models:
        found = measure(path, options.threads, options.seconds, options.gap, options.dim)
        print(f"{path.stem}: {median(found['default']) * 1e3:.3f} ms", flush=True)
        for kind, times in list(found.items())[1:]:
            ratios = [a / b for a, b in zip(times, found["default"], strict=True)]
            low, middle, high = quantiles(ratios)
            print(f"  {kind:14} {middle:.3f} ({low:.2f}-{high:.2f})", flush=True)


if __name__ == "__main__":
    main()
