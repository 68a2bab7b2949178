"""The parts of the start of a session of onnxruntime, and the time that settings and files save.

Sessions of each kind are made in turns, in one process with one thread; the times are medians of CPU time. Memory is
the peak of a process that made a session and nothing else, beyond one that only imported onnxruntime (Linux).

    python benchmarks/session_start.py model.onnx other.onnx
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
DISABLED = {"session.disable_prepacking": "1"}
PACKED = {"session.save_external_prepacked_constant_initializers": "1"}
COLUMNS = (
    "model",
    "MB",
    "made, ms",
    "parse",
    "optimize",
    "prepack",
    "external",
    "saved",
    "packed",
    "off",
    "memory, MB",
    "external",
)


def session(path: Path, level: str = "ALL", entries: dict[str, str] | None = None, save: Path | None = None) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(
        ort.GraphOptimizationLevel, f"ORT_{'ENABLE' if level == 'ALL' else 'DISABLE'}_ALL"
    )
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    if save is not None:
        options.optimized_model_filepath = str(save)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{save.name}.data")
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def peak_memory(path: str) -> float:
    """The peak of a process that makes a session of the file, in MB; without one of a process that makes none."""
    run = [sys.executable, __file__, "--peak-of", path]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def row(path: Path, folder: Path, turns: int) -> list[str]:
    external, saved, packed = (folder / f"{name}.onnx" for name in ("external", "saved", "packed"))
    onnx.save(onnx.load(path), external, save_as_external_data=True, location="external.data", size_threshold=1024)
    session(path, save=saved)
    session(path, save=packed, entries=PACKED)
    kinds = {
        "all": partial(session, path), "off": partial(session, path, "OFF"),
        "unpacked": partial(session, path, entries=DISABLED),
        "bare": partial(session, path, "OFF", entries=DISABLED),
        "external": partial(session, external), "saved": partial(session, saved, "OFF"),
        "packed": partial(session, packed, "OFF"),
    }  # fmt: skip
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind, make in kinds.items():
            begin = process_time()
            make()
            times[kind].append(process_time() - begin)
    made = {kind: median(found) for kind, found in times.items()}
    whole = made["all"]
    phases = [made["bare"], made["unpacked"] - made["bare"], whole - made["unpacked"]]
    empty, joined, apart = (peak_memory(str(p)) for p in ("", path, external))
    ratios = [*(p / whole for p in phases), *(made[kind] / whole for kind in ("external", "saved", "packed", "off"))]
    size = path.stat().st_size / 1e6
    memory = [f"{joined - empty:.0f}", f"{apart - empty:.0f}"]
    return [path.stem, f"{size:.1f}", f"{whole * 1e3:.1f}", *(f"{max(0.0, r):.2f}" for r in ratios), *memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of is not None:
        if options.peak_of:
            session(Path(options.peak_of))
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        print(int(found[1]) / 1e3 if found else 0)
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for path in options.models:
        with TemporaryDirectory() as folder:
            print(f"| {' | '.join(row(path, Path(folder), options.turns))} |", flush=True)


if __name__ == "__main__":
    main()
