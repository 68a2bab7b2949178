"""A step of latency.py for one model: `python benchmarks/latency_of_model.py optimize|time REQUEST.json RESULT.json`.

`optimize` writes what a pipeline makes of a model. `time` measures the original and such files, interleaved, at each
workload and batch, and counts the matrix products.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gemm_floor import products_run
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget, run_benchmark
from passwright.app.measure.execution_provider import ExecutionProvider
from passwright.app.measure.feeds import make_feeds
from passwright.app.measure.metrics import ModelMetrics, latency_ratio
from passwright.app.registry.environment import machine_summary

from passwright import optimize

ORIGINAL = "original"
Request = Mapping[str, Any]


def optimize_model(request: Request) -> dict[str, Any]:
    """Run `pipeline` on `model` into `output`: nodes, and the number of changes that verification left out."""
    report = optimize(
        request["model"], pipeline=request["pipeline"], output=request["output"], verify=request["verify"]
    ).report
    return {"nodes": report.after.nodes, "nodes_before": report.before.nodes, "left_out": len(report.rejected)}


def time_model(request: Request) -> dict[str, Any]:
    """Times of the original and the `candidates`, and the matrix products, by workload and batch."""
    feeds = workload_feeds(Path(request["model"]), request["workloads"], request["batches"])
    numbered = dict(enumerate(feeds.values()))  # the benchmark takes its inputs by number
    files = {ORIGINAL: request["model"], **request["candidates"]}
    config = ExecutionProvider().session_config("ENABLE_ALL", request["threads"])
    effort = BenchmarkConfig(request["min_time"], request["sets"])
    measured = run_benchmark([BenchmarkTarget(Path(f), config) for f in files.values()], numbered, effort)
    metrics = dict(zip(files, measured, strict=True))
    cells: list[dict[str, Any]] = []
    for number, ((workload, batch), arrays) in enumerate(feeds.items()):
        products = products_run(Path(request["model"]), arrays, request["threads"])
        cells.append({
            "workload": workload, "batch": batch,
            "products": None if products is None else [[p.flops, p.bytes, count] for p, count in products.items()],
            "rows": {name: cell_row(number, m, metrics[ORIGINAL]) for name, m in metrics.items() if not m.failure},
        })  # fmt: skip
    return {
        "machine": machine_summary(), "min_time": effort.min_time, "sets": effort.process_sets,
        "pipelines": list(request["candidates"]), "batches": list(request["batches"]),
        "failures": {name: m.failure for name, m in metrics.items() if m.failure}, "cells": cells,
    }  # fmt: skip


def workload_feeds(
    model: Path, workloads: Mapping[str, Mapping[str, int]], batches: list[int]
) -> dict[tuple[str, int], dict[str, Any]]:
    """Inputs by workload and batch; masks keep everything."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for workload, sizes in workloads.items():
        for batch, arrays in make_feeds(model, batches=batches, dims=dict(sizes)).by_batch.items():
            kept = {name for name, a in arrays.items() if "mask" in name and a.dtype.kind in "bi"}
            found[workload, batch] = arrays | {name: np.ones_like(arrays[name]) for name in kept}
    return found


def cell_row(number: int, row: ModelMetrics, original: ModelMetrics) -> dict[str, Any]:
    latency = row.latencies[number]
    found: dict[str, Any] = {"median": latency.median, "calls": latency.calls}
    if not original.failure:
        ratio = latency_ratio(latency, original.latencies[number])
        found["ratio"] = [ratio.ratio, ratio.low, ratio.high]
    return found


STEPS: dict[str, Callable[[Request], dict[str, Any]]] = {"optimize": optimize_model, "time": time_model}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("request", type=Path)
    parser.add_argument("result", type=Path, help="where to write the result, as JSON")
    options = parser.parse_args()
    found = STEPS[options.step](json.loads(options.request.read_text()))
    options.result.write_text(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main()
