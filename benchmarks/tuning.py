"""Results of `passes tune` against the original under ORT ALL and against `--pipeline ort`, and against a second run.

Each model is tuned `--runs` times, with a search of `--time` seconds each. Then the original and the result of
`--pipeline ort`, both in sessions with onnxruntime's defaults, and all tuned ones in theirs run side by side in one
race. Those with the same model and session are one in it. The original runs twice, and where it differs from itself,
intervals are longer by that factor, as in the races of the search. `--json` holds the results, and a folder beside it
the files, settings and journals; a second call continues with what is missing. The models: five golden ones, and three
larger ones that `generated.py` makes.

    python benchmarks/tuning.py --json tuning.json --time 300

With `--engine`, each model is tuned once for each of `--threads`, and the table has what was found: the engine and
its precision, the model, by its pipeline or its scheme of quantization, and its loss, on the labelled rows that
`golden_models/trained/make.py` writes beside a model; the time of a call, the ratio to the original under ORT ALL in
the last race of the search, its seconds, and the load average of the machine:

    python benchmarks/tuning.py FOLDER --json engines.json --time 100 --threads 1 2 --budget 1% \\
        --engine onnxruntime --engine openvino --engine openvino:bf16
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

from measured_runs import run_script
from msgspec.structs import replace
from nodes_left import BLOCKS, GENERATED, GOLDEN
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget, run_benchmark
from passwright.app.measure.feeds import make_feeds
from passwright.app.measure.metrics import ModelMetrics, combined_ratio
from passwright.app.measure.tuned_settings import DEFAULT_SESSION, read_tuned_settings
from passwright.app.optimize.content_digests import model_digest
from passwright.app.registry.environment import machine_summary, versions
from passwright.app.tune.objective import noise, widened
from passwright.core.errors import PassesError
from passwright.core.io.model_source import model_source
from passwright.core.ort.engines import engine_label
from quantization import Subject
from speedup import write_results
from table import markdown

from passwright import optimize, tune

DEFAULT_GOLDEN = ("bert_dynamo", "gpt2", "resnet_dynamo", "mobilenet_dynamo", "crnn")
ORIGINAL, ORT = "original", "pipeline ort"
SETS = 7  # of processes in the last race
ENGINE_HEADER = ("model", "MB", "engine", "made by", "loss", "ms", "time / original", "search", "load")
UNVERIFIED = "measured instead of verified: "  # in a note, before the loss
HEADER = ("model", "original", "tuned / original", "tuned / pipeline ort", "second / first", "found", "search")


def selected_models(options: argparse.Namespace, folder: Path) -> list[Path]:
    """The models of the command line, or golden and larger ones."""
    given = [file for path in options.paths for file in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    found = given or [*(GOLDEN / f"{name}.onnx" for name in DEFAULT_GOLDEN), *larger_models(folder)]
    return [path.resolve() for path in found if not options.models or path.stem in options.models]


def larger_models(folder: Path) -> Iterator[Path]:
    """Models written as exporters write them, made once."""
    for kind in GENERATED:
        path = folder / f"{kind}_{BLOCKS}.onnx"
        if not path.exists() and (failure := run_script("generated.py", kind, str(BLOCKS), path)):
            sys.exit(f"generated.py {kind} {failure}")
        yield path


def tuned_file(model: Path, folder: Path, run: int) -> Path:
    return folder / f"{model.stem}-tuned-{run}.onnx"


def tune_model(model: Path, folder: Path, run: int, options: argparse.Namespace) -> dict[str, Any]:
    """Search once; the settings found in words, what each decision brought, and the seconds that it took."""
    start = perf_counter()
    file = tuned_file(model, folder, run)
    report = tune(
        model,
        output=file,
        json=file.with_suffix(".json"),
        html=file.with_suffix(".html"),
        journal=file.with_suffix(".jsonl"),
        time=options.time,
        trials=options.trials,
        min_time=options.min_time,
        threads=options.threads[0],
        progress=options.verbose,
    ).report
    return {
        "words": report.words,
        "decisions": {d.decision: d.label for d in report.decisions if d.is_kept},
        "noise": report.noise.factor,
        "busy": report.noise.busy,
        "notes": report.notes,
        "raced": sum(t.raced is not None for t in report.trials),
        "seconds": perf_counter() - start,
    }


def tune_in_engines(model: Path, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """Search once, in all engines; what was found, and its ratio to the original in the last race of the search."""
    start = perf_counter()
    found: dict[str, Any] = {"model": model.stem, "threads": threads, "bytes": model_source(model, inline=False).size}
    labelled: dict[str, Any] = {}
    if options.budget and model.with_name(f"{model.stem}_labelled.npz").exists():
        subject = Subject.read(model.with_suffix(".json"))
        labelled = {"data": subject.data("calibration"), "labelled": subject.data("labelled")}
        labelled |= {"metric": subject.metric} if subject.metric else {}
    try:
        report = tune(
            model,
            engine=options.engine,
            budget=options.budget,
            threads=threads,
            time=options.time,
            trials=options.trials,
            min_time=options.min_time,
            progress=options.verbose,
            **labelled,
        ).report
    except PassesError as e:
        return {**found, "failure": str(e), "seconds": perf_counter() - start}
    session, recipe = report.configuration.session, report.configuration.recipe
    ratio = report.ratio
    return {
        **found,
        "engine": engine_label(session.engine, session.precision),
        "made_by": f"quantize --scheme '{report.scheme}'" if recipe.scheme else f"--pipeline {recipe.pipeline}",
        "loss": next(
            (n.partition(UNVERIFIED)[2].partition(", on inputs")[0] for n in report.notes if UNVERIFIED in n), ""
        ),
        "latency": geometric_mean((report.result if ratio else report.original).seconds.values()),
        "load": os.getloadavg()[2],
        "words": report.words,
        "ratio": [1.0, 1.0, 1.0] if ratio is None else [ratio.ratio, ratio.low, ratio.high],
        "sizes": report.sizes,
        "notes": [*report.notes, *filter(None, [str(report.noise)])],
        "trials": [(t.stage, t.choice, t.outcome, t.to_original) for t in report.trials],
        "seconds": perf_counter() - start,
        "phases": report.seconds,
        "machine": report.machine,
        "versions": report.versions,
    }


def engine_table(results: dict[str, Any]) -> Iterator[str]:
    """A table for each number of threads, and the geometric mean and the extremes of its ratios."""
    for threads in sorted({facts["threads"] for facts in results.values()}):
        of_threads = [facts for facts in results.values() if facts["threads"] == threads]
        done = [facts for facts in of_threads if "failure" not in facts]
        yield from (f"{threads} thread{'s' * (threads != 1)}:", "")
        yield from markdown(ENGINE_HEADER, map(engine_row, done))
        yield ""
        yield from (f"- {facts['model']} failed: {facts['failure']}" for facts in of_threads if "failure" in facts)
        if not done:
            continue
        ratios, seconds = [facts["ratio"] for facts in done], [facts["seconds"] for facts in done]
        faster, slower = sum(high < 1 for *_, high in ratios), sum(low > 1 for _, low, _ in ratios)
        middles = [middle for middle, *_ in ratios]
        yield f"- {len(done)} models: faster {faster}, slower {slower}, the others as fast or the original"
        yield f"- geometric mean {geometric_mean(middles):.3f}, from {min(middles):.2f} to {max(middles):.2f}"
        yield f"- a search took {max(seconds):.0f} s at most, {geometric_mean(seconds):.0f} s in the geometric mean"
        yield ""


def engine_row(facts: dict[str, Any]) -> list[str]:
    made = [facts["engine"], facts["made_by"], facts["loss"], f"{facts['latency'] * 1e3:.3g}", cell(facts["ratio"])]
    return [facts["model"], f"{facts['bytes'] / 1e6:.0f}", *made, f"{facts['seconds']:.0f} s", f"{facts['load']:.0f}"]


def race(model: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The last race: ratios of the time of a call, with their intervals, by pair of names."""
    usual = replace(DEFAULT_SESSION, intra_op_threads=options.threads[0])
    ort = folder / f"{model.stem}-ort.onnx"
    optimize(model, "ort", output=ort)
    named = {ORIGINAL: BenchmarkTarget(model, usual), ORT: BenchmarkTarget(ort, usual)}
    for run in range(1, options.runs + 1):
        file = tuned_file(model, folder, run)
        settings = read_tuned_settings(settings_file(file))
        callers = settings.callers
        named[f"run {run}"] = BenchmarkTarget(file, settings.session.config(), callers=callers)
    identities = {name: (model_digest(t.model), t.config, t.callers) for name, t in named.items()}
    targets = {identities[name]: t for name, t in reversed(named.items())}
    effort = BenchmarkConfig(options.min_time * 2, SETS, finds_providers=False)
    *measured, control = run_benchmark([*targets.values(), named[ORIGINAL]], make_feeds(model).by_batch, effort)
    by_identity = dict(zip(targets, measured, strict=True))
    figures = {name: by_identity[identity] for name, identity in identities.items()}
    factor = noise(combined_ratio(control, figures[ORIGINAL]), SETS)
    return {
        "machine": machine_summary(),
        "versions": versions(),
        "median": next((x.median for x in figures[ORIGINAL].latencies.values()), None),
        "noise": factor,
        "ratios": {
            f"{a} / {b}": found
            for a, b in pairs([*named])
            if (found := interval(figures[a], figures[b], factor)) is not None
        },
        "failures": {name: m.failure for name, m in figures.items() if m.failure},
    }


def settings_file(model: Path) -> Path:
    return model.with_name(f"{model.stem}_settings.json")


def pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each name with all before it."""
    return ((a, b) for i, a in enumerate(names) for b in names[:i])


def interval(a: ModelMetrics, b: ModelMetrics, factor: float) -> list[float] | None:
    """The ratio of the times and its interval, longer by a factor; exactly 1 for the same measurement."""
    found = combined_ratio(a, b)
    if found is None:
        return None
    longer = widened(found, factor)
    return [longer.ratio, longer.low, longer.high]


def cell(bounds: list[float] | None) -> str:
    """A ratio with its interval, in bold where it is not 1."""
    if bounds is None:
        return ""
    if bounds == [1, 1, 1]:
        return "the same"
    ratio, low, high = bounds
    text = f"{ratio:.2f} ({low:.2f}-{high:.2f})"
    return text if low <= 1 <= high else f"**{text}**"


def table(results: dict[str, Any]) -> Iterator[str]:
    """The table, and in how many cases the result is faster, equal or slower."""
    done = {name: facts for name, facts in results.items() if "race" in facts}
    yield from markdown(HEADER, (row(name, facts) for name, facts in done.items()))
    yield ""
    for title, key in (("the original under ORT ALL", f"run 1 / {ORIGINAL}"), ("--pipeline ort", f"run 1 / {ORT}")):
        bounds = [b for facts in done.values() if (b := facts["race"]["ratios"].get(key))]
        faster, slower = sum(high < 1 for _, _, high in bounds), sum(low > 1 for _, low, _ in bounds)
        yield f"- against {title}: faster {faster}, no difference {len(bounds) - faster - slower}, slower {slower}"
    agreeing = [b for facts in done.values() if (b := facts["race"]["ratios"].get("run 2 / run 1"))]
    agreed = sum(low <= 1 <= high for _, low, high in agreeing)
    yield f"- two runs agree within the interval: {agreed} of {len(agreeing)}"


def row(name: str, facts: dict[str, Any]) -> list[str]:
    ratios, median = facts["race"]["ratios"], facts["race"]["median"]
    keys = (f"run 1 / {ORIGINAL}", f"run 1 / {ORT}", "run 2 / run 1")
    first = facts["runs"]["1"]
    time = "" if median is None else f"{median * 1e3:.3g} ms"
    return [name, time, *(cell(ratios.get(k)) for k in keys), ", ".join(first["words"]), f"{first['seconds']:.0f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="models, or folders (default: golden and larger ones)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="of the default ones only these")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the results")
    parser.add_argument("--time", type=float, default=300, metavar="SECONDS", help="of each search")
    parser.add_argument("--trials", type=int, default=200, metavar="N", help="choices that a search races")
    parser.add_argument("--min-time", type=float, default=1.0, metavar="SECONDS", help="of calls in a race")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[0], metavar="N", help="that a session may have; 0: all cores"
    )
    parser.add_argument("--engine", action="append", metavar="NAME", help="engines to search; may be repeated")
    parser.add_argument("--budget", metavar="LOSS", help="of other precisions and quantized models, with --engine")
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="searches of each model")
    parser.add_argument("--table", action="store_true", help="only write the table of the results")
    parser.add_argument("--verbose", action="store_true", help="show the progress of each search")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    folder = options.json.resolve().with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    if options.engine:
        wanted = [(n, model) for n in options.threads for model in selected_models(options, folder)]
        for threads, model in [] if options.table else wanted:
            key = f"{model.stem}, {threads}"
            if "ratio" not in results.get(key, {}):
                results[key] = tune_in_engines(model, threads, options)
                write_results(results, options.json)
                print(f"{key}: {results[key].get('words', results[key].get('failure'))}", file=sys.stderr, flush=True)
        print(*engine_table(results), sep="\n")
        return
    for model in [] if options.table else selected_models(options, folder):
        facts = results.setdefault(model.stem, {"runs": {}})
        for run in range(1, options.runs + 1):
            if str(run) not in facts["runs"]:
                facts["runs"][str(run)] = tune_model(model, folder, run, options)
                facts.pop("race", None)
                write_results(results, options.json)
                print(f"{model.stem}, run {run}: {facts['runs'][str(run)]['words']}", file=sys.stderr, flush=True)
        if "race" not in facts:
            facts["race"] = race(model, folder, options)
            write_results(results, options.json)
    print(*table(results), sep="\n")


if __name__ == "__main__":
    main()
