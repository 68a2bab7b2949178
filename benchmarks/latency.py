"""Latency of models as pipelines leave them, as shares of the original, all loaded under ORT ALL.

Each pipeline writes a file of each model; then the original and the files are timed, interleaved, at each workload of
the model (decoding behind a past, prefill, ...), batch and number of threads. The floor is the least time of the matrix
products (gemm_floor.py). `--json` holds the results, and a folder beside it the files; a second call continues with the
missing ones. The models: golden ones, tiny ones of the families of transformers, and the larger ones that
`python golden_models/make.py --families large` makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from latency_table import format_results
from measured_runs import run_script
from nodes_left import GOLDEN
from speedup import write_results

PIPELINES = ("basic", "ort")
GROUPS = ("golden", "families", "large")
Results = dict[str, Any]
"""`peaks` by threads, and `models`: by name its `family` and `group`, its `pipelines`, and its `races` by threads."""


@dataclass(frozen=True)
class TimedModel:
    """A model file, and the sizes of its dynamic dims, but the batch, by workload."""

    path: Path
    group: str
    family: str
    workloads: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    @classmethod
    def of(cls, path: Path, group: str) -> TimedModel:
        """With the facts in the JSON beside it."""
        described = path.with_suffix(".json")
        facts = json.loads(described.read_text()) if described.exists() else {}
        return cls(path.resolve(), group, facts.get("family", path.stem), facts.get("workloads", {"": {}}))

    @property
    def name(self) -> str:
        return f"{self.group}/{self.path.stem}"


def selected_models(options: argparse.Namespace) -> list[TimedModel]:
    folders = {"golden": GOLDEN, "families": GOLDEN / "families", "large": options.large}
    found = [TimedModel.of(path, "given") for path in options.paths]
    if not options.paths:
        found = [TimedModel.of(p, group) for group in options.groups for p in sorted(folders[group].glob("*.onnx"))]
    wanted = options.models
    models = [m for m in found if not wanted or m.path.stem in wanted or m.family in wanted]
    if not models:
        sys.exit("no such model")
    return models


@dataclass
class Sweep:
    """The results so far, and the options of the call."""

    results: Results
    folder: Path
    options: argparse.Namespace

    def run(self, models: Sequence[TimedModel]) -> None:
        """Everything that is missing. The figures are written after each step."""
        self._measure_peaks()
        for model in models:
            facts = self._facts(model)
            for pipeline in self.options.pipelines:
                self._optimize(model, pipeline, facts)
            for threads in self.options.threads:
                self._time(model, threads, facts)
        self._measure_peaks()

    def _facts(self, model: TimedModel) -> dict[str, Any]:
        fresh = {"family": model.family, "group": model.group, "pipelines": {}, "races": {}}
        return self.results["models"].setdefault(model.name, fresh)

    def _measure_peaks(self) -> None:
        """At both ends of each call: the best ones count, as other load makes each too low."""
        for threads in map(str, self.options.threads):
            with TemporaryDirectory() as scratch:
                result = Path(scratch) / "peak.json"
                if failure := run_script("gemm_floor.py", threads, result):
                    sys.exit(f"gemm_floor.py {failure}")
                self.results["peaks"].setdefault(threads, []).append(json.loads(result.read_text()))
        write_results(self.results, self.options.json)

    def _optimize(self, model: TimedModel, pipeline: str, facts: dict[str, Any]) -> None:
        done = facts["pipelines"]
        path = self._output(model, pipeline)
        if "nodes" in done.get(pipeline, {}) and path.exists() and not self.options.again:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        request = {"pipeline": pipeline, "output": str(path), "verify": not self.options.no_verify}
        done[pipeline] = self._step("optimize", model, request, pipeline)
        write_results(self.results, self.options.json)

    def _time(self, model: TimedModel, threads: int, facts: dict[str, Any]) -> None:
        pipelines = [p for p in self.options.pipelines if "nodes" in facts["pipelines"][p]]
        race = facts["races"].get(str(threads), {})
        is_done = set(pipelines) <= set(race.get("pipelines", ())) and race.get("batches") == self.options.batches
        if is_done and not self.options.again:
            return
        request = {
            "candidates": {p: str(self._output(model, p)) for p in pipelines},
            "workloads": model.workloads, "batches": self.options.batches, "threads": threads,
            "min_time": self.options.min_time, "sets": self.options.sets,
        }  # fmt: skip
        facts["races"][str(threads)] = self._step("time", model, request, f"threads {threads}")
        write_results(self.results, self.options.json)

    def _output(self, model: TimedModel, pipeline: str) -> Path:
        return self.folder / model.name / f"{pipeline.replace(',', '+')}.onnx"

    def _step(self, step: str, model: TimedModel, request: dict[str, Any], what: str) -> dict[str, Any]:
        """Its result, or its `failure`."""
        start = perf_counter()
        with TemporaryDirectory() as scratch:
            asked, result = Path(scratch) / "request.json", Path(scratch) / "result.json"
            asked.write_text(json.dumps({"model": str(model.path), **request}))
            failure = run_script("latency_of_model.py", step, asked, result, timeout=self.options.timeout)
            found = {"failure": failure} if failure else json.loads(result.read_text())
        seconds = perf_counter() - start
        print(f"{step} {model.name}, {what}: {failure or 'done'}, {seconds:.1f} s", file=sys.stderr, flush=True)
        return found


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="models (default: those of the groups)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS, help="of the default models only these")
    parser.add_argument(
        "--large", type=Path, default=GOLDEN / "large", metavar="DIR", help="the folder of the larger ones"
    )
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only models and families of these names")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the results; those present are kept")
    parser.add_argument("--pipelines", nargs="+", default=PIPELINES, metavar="PIPELINE", help="as for `passes run`")
    parser.add_argument("--no-verify", action="store_true", help="do not verify the results of the pipelines")
    parser.add_argument("--again", action="store_true", help="optimize and measure again")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8], metavar="N", help="samples in a call")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="of onnxruntime")
    parser.add_argument("--min-time", type=float, default=0.3, metavar="SECONDS", help="of calls of each cell")
    parser.add_argument("--sets", type=int, default=5, metavar="N", help="of fresh processes")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="of a step of a model")
    parser.add_argument("--table", action="store_true", help="only write the table of the results")
    return parser.parse_args(argv)


def main() -> None:
    options = parse()
    empty: Results = {"peaks": {}, "models": {}}
    results: Results = json.loads(options.json.read_text()) if options.json.exists() else empty
    if not options.table:
        Sweep(results, options.json.resolve().with_suffix(""), options).run(selected_models(options))
    print(*format_results(results), sep="\n")


if __name__ == "__main__":
    main()
