"""A step of speedup.py for one model: `python benchmarks/speedup_of_model.py verify|time MODEL KEPT RESULT.json`.

`verify` has everybody make a model and keeps those files in the folder KEPT: that may take its time, on a busy machine
too. `time` measures the ones that are right, `--judged` by the first step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from passwright.app.compare.comparison_report import Row
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget, run_benchmark
from passwright.app.measure.execution_provider import ExecutionProvider
from passwright.app.measure.feeds import make_feeds
from passwright.app.measure.metrics import ModelMetrics, RatioInterval, latency_ratio
from passwright.app.registry.environment import machine_summary

from passwright import compare

ORIGINAL, OURS, ORT_SUFFIX = "original", "passwright", " + ORT ALL"
LEVELS = ("ORT basic", "ORT extended", "ORT all")
PEERS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript")
BASELINE, OURS_ONLINE = ORIGINAL + ORT_SUFFIX, OURS + ORT_SUFFIX
TIMED_LABELS = (BASELINE, OURS_ONLINE, *LEVELS, *(peer + ORT_SUFFIX for peer in PEERS))


def verify_candidates(model: Path, kept: Path) -> dict[str, Any]:
    """The result of every optimizer for the model, with its verdict, by label."""
    found = compare(model, min_time=0.01, keep=kept)
    rows = {row.label: row_facts(row) for row in found.rows}
    return {"verification": found.verification, "notes": found.notes, "versions": found.versions, "rows": rows}


def row_facts(row: Row) -> dict[str, Any]:
    shape, left = row.stats, row.online_stats
    return {
        **verdict_parts(row),
        "nodes": shape.nodes if shape else None,
        "bytes": shape.bytes if shape else None,
        "nodes_run": left.nodes if left else None,
        "seconds": row.seconds,
    }


def verdict_parts(row: Row) -> dict[str, str]:
    """The verdict, in parts that are each empty or a line: `failure`, `wrong` and `invalid`.

    The objection of the ONNX checker counts only for portable files: it knows no operator of onnxruntime's own.
    """
    stats = row.stats
    return {
        "failure": row.failure,
        "wrong": row.verdict.wrong if row.verdict is not None else "",
        "invalid": stats.checker_error if stats is not None and stats.is_portable else "",
    }


def time_candidates(
    model: Path, kept: Path, rows: dict[str, Any], batch: int, threads: int, effort: BenchmarkConfig
) -> dict[str, Any]:
    """Figures of all that is right as it is written and loads, each with its share of the time of the original.

    `ours`: passwright's time as a share of its, both with ORT ALL.
    """
    labels = [label for label in TIMED_LABELS if is_correct(label, rows)]
    entries = [
        BenchmarkTarget(
            model_path(label, model, kept),
            ExecutionProvider().session_config("ENABLE_ALL" if ORT_SUFFIX in label else "DISABLE_ALL", threads),
        )
        for label in labels
    ]
    feeds = make_feeds(model, batches=(batch,))
    figures = dict(zip(labels, run_benchmark(entries, feeds.by_batch, effort), strict=True))
    own = next(iter(feeds.by_batch))
    measured = {label: row_metrics(m, figures, own) for label, m in figures.items()}
    return {
        "batch": own, "sizes": feeds.sizes, "min_time": effort.min_time, "sets": effort.process_sets,
        "machine": machine_summary(),
        "threads": max((m.threads for m in figures.values()), default=threads), "rows": measured,
    }  # fmt: skip


def is_correct(label: str, rows: dict[str, Any]) -> bool:
    written = rows.get(label.removesuffix(ORT_SUFFIX))
    if written is None or rows[label]["failure"]:
        return False
    return not (written["failure"] or written["wrong"] or written["invalid"])


def model_path(label: str, model: Path, kept: Path) -> Path:
    if label == BASELINE:
        return model
    return kept / f"{label.removesuffix(ORT_SUFFIX).lower().replace(' ', '-')}.onnx"


def row_metrics(row: ModelMetrics, all_rows: dict[str, ModelMetrics], batch: int) -> dict[str, Any]:
    if row.failure:
        return {"failure": row.failure}
    latency = row.latencies[batch]
    found = {
        "median": latency.median, "low": latency.median_low, "high": latency.median_high, "calls": latency.calls,
        "creation": row.creation_seconds, "resident": row.resident_bytes, "peak": row.peak_bytes,
    }  # fmt: skip
    for name, a, b in (("ratio", row, all_rows[BASELINE]), ("ours", all_rows.get(OURS_ONLINE), row)):
        if a is not None and not a.failure and not b.failure:
            found[name] = interval_bounds(latency_ratio(a.latencies[batch], b.latencies[batch]))
    return found


def interval_bounds(interval: RatioInterval) -> list[float]:
    return [interval.ratio, interval.low, interval.high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("verify", "time"))
    parser.add_argument("model", type=Path)
    parser.add_argument("kept", type=Path, help="the folder for the optimized models")
    parser.add_argument("result", type=Path, help="where to write the result, as JSON")
    parser.add_argument("--judged", type=Path, help="the result of the first step, for the second")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=0.3)
    parser.add_argument("--sets", type=int, default=5)
    options = parser.parse_args()
    if options.step == "verify":
        found = verify_candidates(options.model, options.kept)
    else:
        rows = json.loads(options.judged.read_text())["rows"]
        effort = BenchmarkConfig(options.min_time, options.sets)
        found = time_candidates(options.model, options.kept, rows, options.batch, options.threads, effort)
    options.result.write_text(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main()
