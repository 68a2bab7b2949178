"""A step of paid.py for one model: `python benchmarks/paid_model.py judge|race MODEL KEPT RESULT.json`.

`judge` has everybody make a model and keeps those files in the folder KEPT: that may take its time, on a busy machine
too. `race` measures the ones that are right, `--judged` by the first step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from passwright.app.compare.comparison_report import Row
from passwright.app.environment import machine
from passwright.app.measure.benchmark import Effort, Entry, compared, race
from passwright.app.measure.feeds import feeds_for
from passwright.app.measure.metrics import Interval, Measured

from passwright import Conditions, compare

ORIGINAL, OURS, ONLINE = "original", "passwright", " + ORT ALL"
LEVELS = ("ORT basic", "ORT extended", "ORT all")
PEERS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript")
BASELINE, PAID = ORIGINAL + ONLINE, OURS + ONLINE
RACED = (BASELINE, PAID, *LEVELS, *(peer + ONLINE for peer in PEERS))


def judged(model: Path, kept: Path) -> dict[str, Any]:
    """What everybody made of the model, and what is wrong with that, by label."""
    found = compare(model, conditions=Conditions(is_timed=lambda _: False), keep_to=kept)
    rows = {row.label: told(row) for row in found.rows}
    return {"verification": found.verification, "notes": found.notes, "versions": found.versions, "rows": rows}


def told(row: Row) -> dict[str, Any]:
    shape, left = row.anatomy, row.left
    return {
        "wrong": complaint(row),
        "nodes": shape.nodes if shape else None,
        "bytes": shape.bytes if shape else None,
        "nodes_run": left.nodes if left else None,
        "seconds": row.seconds,
    }


def complaint(row: Row) -> str:
    """What onnx.checker says of operators that only onnxruntime has does not count."""
    if row.failure:
        return f"fails: {row.failure}"
    if row.judged is not None and row.judged.wrong:
        return row.judged.wrong
    return row.anatomy.invalid if row.anatomy is not None and row.anatomy.is_portable else ""


def raced(model: Path, kept: Path, rows: dict[str, Any], batch: int, threads: int, effort: Effort) -> dict[str, Any]:
    """Figures of all that is right as it is written and loads, each with its share of the time of the original.

    `ours`: passwright's time as a share of its, both with ORT ALL.
    """
    labels = [label for label in RACED if is_right(label, rows)]
    conditions = Conditions(threads)
    entries = [
        Entry(file_of(label, model, kept), conditions.setting("ENABLE_ALL" if ONLINE in label else "DISABLE_ALL"))
        for label in labels
    ]
    feeds = feeds_for(model, batches=(batch,))
    figures = dict(zip(labels, race(entries, feeds.by_batch, effort), strict=True))
    own = next(iter(feeds.by_batch))
    measured = {label: figures_of(m, figures, own) for label, m in figures.items()}
    return {
        "batch": own, "sizes": feeds.sizes, "min_time": effort.min_time, "sets": effort.sets, "machine": machine(),
        "threads": max((m.threads for m in figures.values()), default=threads), "rows": measured,
    }  # fmt: skip


def is_right(label: str, rows: dict[str, Any]) -> bool:
    written = rows.get(label.removesuffix(ONLINE))
    return written is not None and not written["wrong"] and not rows[label]["wrong"].startswith("fails")


def file_of(label: str, model: Path, kept: Path) -> Path:
    if label == BASELINE:
        return model
    return kept / f"{label.removesuffix(ONLINE).lower().replace(' ', '-')}.onnx"


def figures_of(row: Measured, all_rows: dict[str, Measured], batch: int) -> dict[str, Any]:
    if row.failure:
        return {"failure": row.failure}
    latency = row.latencies[batch]
    found = {
        "median": latency.median, "low": latency.median_low, "high": latency.median_high, "calls": latency.calls,
        "creation": row.creation, "resident": row.resident, "peak": row.peak,
    }  # fmt: skip
    for name, a, b in (("ratio", row, all_rows[BASELINE]), ("ours", all_rows.get(PAID), row)):
        if a is not None and not a.failure and not b.failure:
            found[name] = ends(compared(a.latencies[batch], b.latencies[batch]))
    return found


def ends(interval: Interval) -> list[float]:
    return [interval.ratio, interval.low, interval.high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("judge", "race"))
    parser.add_argument("model", type=Path)
    parser.add_argument("kept", type=Path, help="the folder for the optimized models")
    parser.add_argument("result", type=Path, help="where to write what was found, as JSON")
    parser.add_argument("--judged", type=Path, help="what the first step found, for the second")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=0.3)
    parser.add_argument("--sets", type=int, default=5)
    options = parser.parse_args()
    if options.step == "judge":
        found = judged(options.model, options.kept)
    else:
        rows = json.loads(options.judged.read_text())["rows"]
        effort = Effort(options.min_time, options.sets)
        found = raced(options.model, options.kept, rows, options.batch, options.threads, effort)
    options.result.write_text(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main()
