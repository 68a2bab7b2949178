"""Speed of `passes batch --on` with the workers of a Dask cluster on this machine, beside that with its own processes.

    python benchmarks/cluster.py                                  # 200 models, 1, 2 and 4 workers
    python benchmarks/cluster.py --count 1000 --requests 10000

First the time for each request that no model takes: of workers that reply at once. Then batches of small models: the
overhead is the time of a worker, for each model, in which none is run. The time to start everything is that of a batch
of one model for each worker, and is listed apart: each worker starts two processes, which takes 1.7 s of a core.
Workers beyond the cores share these.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from batch import Timing, write_models
from distributed import LocalCluster
from passwright.app.models.dask_pool import DaskPool
from passwright.app.models.pool import Pool, ProcessPool

SERVER = "from types import SimpleNamespace as Server; from passwright.core.processes.worker_process import serve"
ECHO = (sys.executable, "-P", "-c", f"{SERVER}; serve(Server(reply_to=lambda request: {{'failure': None}}))")
OPTIONS = ("--verify", "quick", "--quiet")


def seconds_for_requests(pool: Pool, count: int) -> float:
    start = perf_counter()
    assert len(list(pool.replies([{} for _ in range(count)]))) == count
    return perf_counter() - start


def run_batch(models: Path, output: Path, *workers: str) -> Timing:
    """Run a batch, which has to succeed for each model, by those `workers`."""
    start = perf_counter()
    command = [sys.executable, "-m", "passwright", "batch", str(models), "--output-dir", str(output)]
    subprocess.run([*command, *OPTIONS, *workers], check=True, stdout=subprocess.DEVNULL)
    wall = perf_counter() - start
    with (output / "results.csv").open(newline="", encoding="utf-8") as file:
        return Timing(wall, sum(float(row["seconds"]) for row in csv.DictReader(file)))


def measure(workers: int, requests: int, folder: Path, count: int) -> None:
    """Print lines for the pool of this machine and for a cluster."""
    few = folder / f"few{workers}"
    few.mkdir()
    write_models(few, workers)
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with LocalCluster(**options) as cluster:
        places: Sequence[tuple[str, Pool, tuple[str, str]]] = (
            ("processes", ProcessPool(ECHO, workers), ("--jobs", str(workers))),
            ("Dask", DaskPool(ECHO, cluster.scheduler_address), ("--on", cluster.scheduler_address)),
        )
        for name, pool, place in places:
            alone = seconds_for_requests(pool, 1)
            each = (seconds_for_requests(pool, requests) - alone) / requests
            first = run_batch(few, folder / f"few-{name}{workers}", *place)
            start = first.wall - first.models / workers
            timing = run_batch(folder / "all", folder / f"{name}{workers}", *place)
            busy = min(workers, len(os.sched_getaffinity(0)))
            overhead = (timing.wall - start - timing.models / workers) * busy / count
            print(
                f"{workers} {name}: {1e3 * each:.2f} ms a request; {timing.wall:.1f} s with {start:.1f} s to start, "
                f"then {count / (timing.wall - start):.1f} models/s, {1e3 * timing.models / count:.0f} ms a model and "
                f"{1e3 * overhead:.1f} ms overhead",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="models of a batch")
    parser.add_argument("--requests", type=int, default=1000, help="requests without a model")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "all").mkdir()
        write_models(folder / "all", given.count)
        for workers in given.workers:
            measure(workers, given.requests, folder, given.count)


if __name__ == "__main__":
    main()
