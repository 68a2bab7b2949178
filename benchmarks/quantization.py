"""Size, accuracy and latency of models that `passes quantize`, `passes run` and other tools made.

`python golden_models/trained/make.py --out DIR` makes the models and their data. Each recipe is a process of its own
with a time limit; all results are then timed in one race with the original, under ORT ALL. `--json` holds the results,
and a folder beside it the files; a second call continues with the missing ones. No model has options of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from measured_runs import run_script
from passwright.app.measure.bench import BenchReport, bench
from passwright.app.measure.benchmark import BenchmarkConfig
from passwright.app.registry.environment import machine_summary, quantization_target
from passwright.core.errors import PassesError, format_error
from quantization_recipes import OPTIMIZERS, RECIPES
from speedup import write_results
from speedup_table import Ratio
from table import MEGABYTE, markdown
from verdicts import checker_objection

FLOAT, OURS = "float32", "passes quantize"
RUNS = {"passes run": ["run"], "passes run, ort": ["run", "--pipeline", "ort"]}
OTHERS = (*OPTIMIZERS, *RECIPES)
RECIPE_LABELS = (*OTHERS, *RUNS, OURS)
SEARCH_SHARE = 0.8  # of the time limit, for `--time`; what is begun then has the rest
SMALL = 0.3  # of the size of the original
ALIKE = 0.02  # of the bytes of another result: as large
BUDGET = 0.01  # of the float model's accuracy


@dataclass(frozen=True)
class Subject:
    """A trained model with its files."""

    path: Path
    metric: str

    @classmethod
    def read(cls, facts: Path) -> Subject:
        name = json.loads(facts.read_text())["metric"]
        return cls(facts.with_suffix(".onnx"), f"{facts.with_name('metrics.py')}:{name}" if name else "")

    def data(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.stem}_{kind}.npz")

    @property
    def options(self) -> list[str]:
        """The data and the criterion, for `passes quantize`."""
        found = ["--data", str(self.data("calibration")), "--labelled", str(self.data("labelled"))]
        return [*found, *(["--metric", self.metric] if self.metric else [])]


def make(label: str, subject: Subject, folder: Path, threads: int, timeout: float) -> dict[str, Any]:
    """Quantize a model in a process of its own: its `seconds`, and a `failure` if there is one."""
    result, start = folder / f"{label.lower().replace(' ', '-')}.onnx", perf_counter()
    result.unlink(missing_ok=True)
    if label == OURS:
        failure = quantize(subject, result, threads, timeout)
    elif label in RUNS:
        failure = passes([*RUNS[label], str(subject.path), "-o", str(result)], timeout)
    else:
        arguments = [label, subject.path, subject.data("calibration"), result]
        failure = run_script("quantization_recipes.py", *arguments, timeout=timeout)
    if failure is None and not result.exists():
        failure = "fails: it wrote no model"
    return {"file": str(result), "seconds": perf_counter() - start, "failure": failure or ""}


def quantize(subject: Subject, result: Path, threads: int, timeout: float) -> str | None:
    """Quantize within the budget, the report beside the result."""
    arguments = ["quantize", str(subject.path), "-o", str(result), *subject.options, "--budget", f"{BUDGET:.0%}"]
    arguments += ["--time", f"{timeout * SEARCH_SHARE:g}", "--threads", str(threads)]
    return passes([*arguments, "--json", str(result.with_suffix(".json"))], timeout)


def passes(arguments: list[str], timeout: float) -> str | None:
    """Run a command. None if all went well, else why it failed, in a line."""
    command = [sys.executable, "-m", "passwright", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"> {timeout:g} s"
    lines = [line.strip() for line in done.stderr.splitlines() if any(map(str.isalnum, line))]  # none of a frame
    return f"fails: {lines[-1] if lines else done.returncode}" if done.returncode else None


def compare(subject: Subject, path: Path, threads: int, timeout: float) -> str:
    """Compare other optimizers without labels, the report in a file; why it failed, empty if it did not."""
    arguments = ["compare", str(subject.path), "--batch", "1", "--threads", str(threads), "--json", str(path)]
    return passes([*arguments, "--min-time", "0.2"], timeout) or ""


def race(subject: Subject, made: dict[str, Any], threads: int, batch: int, min_time: float) -> dict[str, Any]:
    """Bytes, accuracy, and latency against the original, of all that was made; `invalid` is why a file is no model."""
    labels = [FLOAT, *(label for label in RECIPE_LABELS if label in made and not made[label]["failure"])]
    files = [subject.path, *(Path(made[label]["file"]) for label in labels[1:])]
    with TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        first_rows(subject, inputs, batch)
        report = bench(
            files, inputs=inputs, batch=(batch,), threads=threads, labelled=subject.data("labelled"),
            metric=subject.metric, min_time=min_time,
        )  # fmt: skip
    machine = f"{machine_summary()}, {quantization_target().name}"
    return {
        "machine": machine, "threads": threads, "batch": batch, "min_time": min_time,
        "sets": BenchmarkConfig().process_sets, "versions": report.versions, "rows": dict(rows(labels, files, report)),
    }  # fmt: skip


def first_rows(subject: Subject, path: Path, batch: int) -> None:
    """Write the first samples of the labelled set."""
    with np.load(subject.data("labelled")) as arrays:
        count = len(arrays["labels"])
        feeds = {k: a[:batch] if a.ndim and len(a) == count else a for k, a in arrays.items() if k != "labels"}
    np.savez(path, **feeds)


def rows(labels: list[str], files: list[Path], report: BenchReport) -> Iterator[tuple[str, dict[str, Any]]]:
    original = onnx.load(files[0])
    for label, file, found in zip(labels, files, report.models, strict=True):
        measured = found.measured
        ratio = next(iter(found.ratios.values()), None)
        yield (
            label,
            {
                "bytes": found.bytes,
                "invalid": measured.failure or checker_fault(file),
                "accuracy": found.accuracy,
                "accuracy_failure": found.accuracy_failure,
                "seconds": next((x.median for x in measured.latencies.values()), None),
                "ratio": [ratio.ratio, ratio.low, ratio.high] if ratio else None,
                "is_original": label != FLOAT and onnx.load(file) == original,
            },
        )


def checker_fault(model: Path) -> str:
    """The objection of the ONNX checker, which knows no operator of onnxruntime's own; empty if there is none."""
    domains = {entry.domain for entry in onnx.load(model, load_external_data=False).opset_import}
    return checker_objection(model) if domains <= {"", "ai.onnx", "ai.onnx.ml"} else ""


def verdict(label: str, facts: dict[str, Any]) -> str:
    """The outcome of a recipe for a model."""
    if failure := facts["made"][label]["failure"]:
        return "timeout" if failure.startswith(">") else "error"
    row = facts["race"]["rows"][label]
    if row["invalid"] or row["accuracy"] is None:
        return "invalid"
    if row["is_original"]:
        return "original"
    if row["accuracy"] < (1 - BUDGET) * facts["race"]["rows"][FLOAT]["accuracy"]:
        return "outside the budget"
    return {-1: "faster", 0: "as fast", 1: "slower"}[Ratio(*row["ratio"]).direction]


GOOD = ("faster", "as fast", "original")


def format_results(results: dict[str, Any]) -> Iterator[str]:
    """A line for each model, a table of all models and recipes, then the conclusions."""
    raced = {name: facts for name, facts in results.items() if facts.get("race")}
    header = ["model", "MB", "figure", "unseen rows", "size", "latency", "taken", "outcome", "best of others",
              "its size", "its latency"]  # fmt: skip
    yield from markdown(header, (summary(name, facts) for name, facts in raced.items() if OURS in facts["made"]))
    yield ""
    header = ["model", "recipe", "MB", "size", "accuracy", "latency", "outcome", "seconds to make"]
    yield from markdown(header, (cells for name, facts in raced.items() for cells in model_cells(name, facts)))
    yield ""
    for label in RECIPE_LABELS:
        if made := [facts for facts in raced.values() if label in facts["made"]]:
            yield conclusion(label, made)
    yield from size_line(raced)
    yield from against_best_recipe(raced)
    yield from against_smallest_recipe(raced)
    yield from (f"- {name}, {line}" for name, facts in raced.items() for line in fault_lines(facts))
    yield from (f"- {name}: not measured: {facts['failure']}" for name, facts in results.items() if "failure" in facts)
    yield from sorted({conditions(facts["race"]) for facts in raced.values()})


def summary(name: str, facts: dict[str, Any]) -> list[str]:
    """Ours on rows that the search had not seen, and the fastest result of other tools that is within the budget."""
    rows = facts["race"]["rows"]
    base, ours = rows[FLOAT], rows.get(OURS)
    best, latency = best_of_others(facts)
    cells = ["", "", "", "", ""]
    if ours is not None:
        report = json.loads(Path(facts["made"][OURS]["file"]).with_suffix(".json").read_text())
        figures = [report[side]["score"]["figure"] for side in ("original", "result")]
        taken = ", ".join(filter(None, (report["scheme"], report["variant"])))
        cells = [" to ".join(f"{figure:.4f}" for figure in figures), f"{ours['bytes'] / base['bytes']:.2f}",
                 str(Ratio(*ours["ratio"])), taken]  # fmt: skip
        cells = [f"{base['accuracy']:.4f} to {ours['accuracy']:.4f}", *cells]
    size = f"{rows.get(best, base)['bytes'] / base['bytes']:.2f}"
    return [name, f"{base['bytes'] / MEGABYTE:.2f}", *cells, verdict(OURS, facts), best, size, str(latency)]


def best_of_others(facts: dict[str, Any]) -> tuple[str, Ratio]:
    """The fastest result of other tools that is valid and within the budget, or the original."""
    rows = facts["race"]["rows"]
    right = [label for label in OTHERS if label in facts["made"] and verdict(label, facts) in GOOD]
    found = {"original": Ratio(1, 1, 1), **{label: Ratio(*rows[label]["ratio"]) for label in right}}
    return min(found.items(), key=lambda item: item[1].value)


def model_cells(name: str, facts: dict[str, Any]) -> Iterator[list[str]]:
    base = facts["race"]["rows"][FLOAT]
    yield [name, FLOAT, f"{base['bytes'] / MEGABYTE:.2f}", "", f"{base['accuracy']:.4f}",
           f"{1e3 * base['seconds']:.3g} ms", "", ""]  # fmt: skip
    for label in (label for label in RECIPE_LABELS if label in facts["made"]):
        row, made = facts["race"]["rows"].get(label), facts["made"][label]
        cells = ["", "", "", ""]
        if row is not None:
            size = [f"{row['bytes'] / MEGABYTE:.2f}", f"{row['bytes'] / base['bytes']:.2f}"]
            accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.4f}"
            cells = [*size, accuracy, str(Ratio(*row["ratio"])) if row["ratio"] else ""]
        yield ["", label, *cells, verdict(label, facts), f"{made['seconds']:.0f}"]


def conclusion(label: str, models: list[dict[str, Any]]) -> str:
    """How often each outcome occurred, and the means of latency and size where the accuracy is within the budget."""
    outcomes = [verdict(label, facts) for facts in models]
    counts = ", ".join(f"{outcomes.count(word)} {word}" for word in dict.fromkeys(sorted(outcomes)))
    told = [facts["race"]["rows"] for facts, word in zip(models, outcomes, strict=True) if word in {*GOOD, "slower"}]
    if not told:
        return f"- {label}: {counts}"
    latency = geometric_mean(r[label]["ratio"][0] for r in told)
    size = geometric_mean(r[label]["bytes"] / r[FLOAT]["bytes"] for r in told)
    return f"- {label}: {counts}; within the budget in the geometric mean latency {latency:.2f}, size {size:.2f}"


def size_line(raced: dict[str, Any]) -> Iterator[str]:
    """How many results of ours are within the budget and small, and which are not."""
    ours = {name: facts for name, facts in raced.items() if OURS in facts["made"]}
    large = [
        name
        for name, facts in ours.items()
        if verdict(OURS, facts) not in {*GOOD, "slower"}
        or facts["race"]["rows"][OURS]["bytes"] > SMALL * facts["race"]["rows"][FLOAT]["bytes"]
    ]
    if ours:
        others = f"; not: {', '.join(large)}" if large else ""
        count = f"{len(ours) - len(large)} of {len(ours)}"
        yield f"- {OURS}: within the budget at {SMALL:g} of the size or less: {count}{others}"


def against_best_recipe(raced: dict[str, Any]) -> Iterator[str]:
    """The models on which ours is faster and slower than the best right result of other tools, or than the original."""
    found: dict[str, list[str]] = {"faster": [], "as fast": [], "slower": [], "not usable": []}
    for name, facts in raced.items():
        if OURS not in facts["made"]:
            continue
        rows, (_, best) = facts["race"]["rows"], best_of_others(facts)
        if verdict(OURS, facts) not in {*GOOD, "slower"}:
            found["not usable"].append(name)
            continue
        ours = Ratio(*rows[OURS]["ratio"])
        found["faster" if ours.high < best.low else "slower" if ours.low > best.high else "as fast"].append(name)
    if any(found.values()):
        counts = "; ".join(
            f"{word} on {len(names)}{': ' * bool(names)}{', '.join(names)}" for word, names in found.items()
        )
        yield f"- {OURS}, against the best right result of another tool or the original: {counts}"


def against_smallest_recipe(raced: dict[str, Any]) -> Iterator[str]:
    """The models on which ours is smaller and larger than the smallest right result of other tools."""
    found: dict[str, list[str]] = {"smaller": [], "as large": [], "larger": []}
    for name, facts in raced.items():
        if OURS not in facts["made"] or verdict(OURS, facts) not in {*GOOD, "slower"}:
            continue
        rows = facts["race"]["rows"]
        right = [label for label in OTHERS if label in facts["made"] and verdict(label, facts) in {*GOOD, "slower"}]
        ratio = rows[OURS]["bytes"] / min(rows[label]["bytes"] for label in (FLOAT, *right))
        found["smaller" if ratio < 1 - ALIKE else "larger" if ratio > 1 + ALIKE else "as large"].append(name)
    if any(found.values()):
        counts = "; ".join(
            f"{word} on {len(names)}{': ' * bool(names)}{', '.join(names)}" for word, names in found.items()
        )
        yield f"- {OURS}, against the smallest right result of another tool or the original: {counts}"


def fault_lines(facts: dict[str, Any]) -> Iterator[str]:
    if failure := facts.get("compare"):
        yield f"passes compare: {failure[:160]}"
    for label, made in facts["made"].items():
        row = facts["race"]["rows"].get(label, {})
        fault = made["failure"] or row.get("invalid") or row.get("accuracy_failure")
        if fault:
            yield f"{label}: {fault[:160]}"


def conditions(race: dict[str, Any]) -> str:
    effort = f"{race['min_time']:g} s of calls a row in {race['sets']} sets of processes"
    version = f"onnxruntime {race['versions']['onnxruntime']}"
    return f"- {race['machine']}; {version}; threads: {race['threads']}; batch {race['batch']}; {effort}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the trained models")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--recipes", nargs="+", choices=RECIPE_LABELS, default=RECIPE_LABELS, help="only these")
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="the results; those present are not made again"
    )
    parser.add_argument("--again", nargs="*", choices=RECIPE_LABELS, default=[], help="make these again")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="samples in a call")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of onnxruntime; 0: all cores")
    parser.add_argument("--min-time", type=float, default=0.5, metavar="SECONDS", help="of calls of a row")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="of a recipe")
    parser.add_argument("--compare", action="store_true", help="run `passes compare`, too")
    parser.add_argument("--table", action="store_true", help="only write the table of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    found = {path.stem: path for path in sorted(options.folder.resolve().glob("*.json"))}
    if unknown := set(options.models or ()) - set(found):
        sys.exit(f"no such model in {options.folder}: {', '.join(sorted(unknown))}")
    for name in () if options.table else options.models or found:
        measure(name, Subject.read(found[name]), results, options)
        write_results(results, options.json)
    print(*format_results(results), sep="\n")


def measure(name: str, subject: Subject, results: dict[str, Any], options: argparse.Namespace) -> None:
    """Make what is missing, and race all of it if anything is new."""
    facts = results.setdefault(name, {"made": {}, "race": None})
    folder = options.json.resolve().with_suffix("") / name
    folder.mkdir(parents=True, exist_ok=True)
    for label in options.recipes:
        if label not in facts["made"] or label in options.again:
            facts["made"][label], facts["race"] = make(label, subject, folder, options.threads, options.timeout), None
            print(f"{name}: {label}: {facts['made'][label]['failure'] or 'done'}", file=sys.stderr, flush=True)
    if options.compare and "compare" not in facts:
        facts["compare"] = compare(subject, folder / "compare.json", options.threads, options.timeout)
        print(f"{name}: passes compare: {facts['compare'] or 'done'}", file=sys.stderr, flush=True)
    if facts["race"] is None:
        facts.pop("failure", None)
        try:
            facts["race"] = race(subject, facts["made"], options.threads, options.batch, options.min_time)
        except PassesError as e:
            facts["failure"] = format_error(e)
        print(f"{name}: {facts.get('failure', 'raced')}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
