"""`advise`: what common techniques gain for a model on this machine, and the commands for them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_report
from ...core.ort.engines import engine_names, find_engine, parse_engine
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ...core.verify.input_specs import input_specs
from ...core.verify.sample_rows import batch_symbol
from ..options import with_process_options
from ..report.document import Document, Lines, Section, TableRow, table
from ..report.notebook import report_card, report_line, report_page
from ..report.number_text import change, ratio, ratio_with_bounds
from ..report.progress import with_keywords
from .decisions import BROWSERS, ENGINE, PIPELINE, installed_providers, pipeline_choices
from .racing import LIMITED
from .report import TuneReport
from .search import RaceTrial
from .tune import tune_model
from .tune_options import DEFAULT_PIPELINES, AdviseOptions, TuneOptions

SCHEMES, SCHEMES_WITH_DATA = "dynamic,weights8", "static,dynamic,weights8"
GAIN, NO_GAIN, SLOWER, INCONCLUSIVE = "gain", "no gain", "slower", "inconclusive"
NOT_TRIED, IMPOSSIBLE = "not tried", "not possible"
PIPELINE_TECHNIQUES = {"basic": "graph optimization", "ort": "graph optimization for onnxruntime"}


class Advice(Struct, frozen=True):
    """A technique: its time divided by the original's, the size of its file, the outcome, and the command.

    `bytes` is 0 if the file stays the same. `reason` says why it was not tried or does not work.
    """

    technique: str
    outcome: str
    time: RatioInterval | None = None
    bytes: int = 0
    reason: str = ""
    command: str = ""


@dataclass(slots=True)
class AdviceReport:
    """The techniques that were tried, those that were not, and the search, whose result combines all that pay off.

    Examples:
        >>> report = advise("model.onnx", time=5, threads=1, dim={"N": [1]})
        >>> {a.outcome for a in report.advice} <= {"gain", "no gain", "slower", "not tried"}
        True
    """

    source: str
    advice: list[Advice]
    tuned: TuneReport
    command: str
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> str:
        """The report as JSON text; times in seconds, sizes in bytes."""
        names = ("source", "advice", "command", "seconds", "notes")
        return json_text({n: to_builtins(getattr(self, n)) for n in names} | {"machine": self.tuned.machine})

    __repr__, _repr_html_ = report_line, report_card


@with_process_options
def advise_on(model: ModelLike, options: AdviseOptions) -> AdviceReport:
    """Measure how much the usual techniques speed up a model on this machine.

    For `time` seconds, `tune` measures graph optimization, engines and precisions, schemes of `quantize` within the
    `budget` (with `data` or `labelled` rows also the static scheme), and session settings. Other techniques are listed
    with their requirements, and each with the command that applies it. Only `json` and `html` are written.

    Raises ModelError for an unusable model or input, UsageError for unusable options, and UnverifiableError if the
    original fails on all inputs.

    Examples:
        >>> report = advise("model.onnx", time=5, threads=1, dim={"N": [1]})
        >>> report.source
        'model.onnx'
    """
    began = monotonic()
    source = model_source(model, inline=True)
    paths = OutputPaths.of(report=options.json, page=options.html)
    paths.require_distinct(source.files)
    has_data = options.data is not None or options.labelled is not None
    taken = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in {"json", "html"}}
    scheme = SCHEMES_WITH_DATA if has_data else SCHEMES
    chosen = TuneOptions(**taken, scheme=scheme, verify="quick", min_time=0.3)
    tuned = tune_model(model, chosen).report
    arguments = f"{shlex.quote(source.label)} -o out.onnx"
    given: Any = options.data
    typed: list[tuple[str, Any]] = [
        ("data", d) for d in (cast("Any", given) if isinstance(given, list | tuple) else [given])
    ]
    typed.append(("labelled", options.labelled))
    data = "".join(f" --{name} {shlex.quote(str(d))}" for name, d in typed if isinstance(d, str | Path))
    found = {a.technique: a for a in _raced(tuned, arguments, scheme, data, options.budget)}
    advice = sorted(found.values(), key=lambda a: a.time.ratio if a.time is not None else inf)
    advice += _not_tried(source, has_data=has_data)
    whole = f"passes tune {arguments} --budget {options.budget}{data}"
    report = AdviceReport(source.label, advice, tuned, whole, monotonic() - began, tuned.notes)
    publish_report(paths, report.to_json, lambda: report_page(report))
    return report


advise = with_keywords(AdviseOptions, "advise")(advise_on)


def _raced(tuned: TuneReport, arguments: str, scheme: str, data: str, budget: str) -> Iterator[Advice]:
    """Yield the techniques of a search, each with its last race, including models that it did not reach."""
    known = {t.choice for t in tuned.trials}
    models = pipeline_choices(DEFAULT_PIPELINES, scheme.split(","))
    for trial in (*tuned.trials, *(RaceTrial("", str(c), LIMITED) for c in models if str(c) not in known)):
        decision, _, label = trial.choice.partition(": ")
        own = label.removeprefix("quantize ") if label.startswith("quantize ") else ""
        technique, command = f"session: {decision} {label}", f"passes tune {arguments}"
        if decision == ENGINE:
            is_lossy = parse_engine(label).is_lossy
            technique = f"engine {label}"
            command += f" --engine {shlex.quote(label)}" + f" --budget {budget}{data}" * is_lossy
        elif own:
            technique, command = f"quantization: {own}", f"passes quantize {arguments} --scheme {own}{data}"
        elif decision == PIPELINE:
            technique = PIPELINE_TECHNIQUES.get(label, f"pipeline {label}")
            command = f"passes run {arguments}" + f" --pipeline {label}" * (label != "basic")
        found = measured_advice(trial, technique, command)
        if found.time is not None or decision in {ENGINE, PIPELINE}:
            yield found


def measured_advice(trial: RaceTrial, technique: str, command: str) -> Advice:
    """The advice that follows from the last race of a choice, or the reason why there was none."""
    raced = trial.raced
    if raced is None or raced.time is None or not trial.to_original:
        is_late = trial.outcome == LIMITED
        reason = "the time limit was reached" if is_late else trial.outcome.removeprefix("invalid: ")
        return Advice(technique, NOT_TRIED if is_late else IMPOSSIBLE, reason=reason, command=command)
    time, factor = raced.time, trial.to_original / raced.time.ratio  # the original is the first in a chain of races
    time = replace(time, ratio=time.ratio * factor, low=time.low * factor, high=time.high * factor)
    outcome = GAIN if time.high < 1 else SLOWER if time.low > 1 else INCONCLUSIVE if time.inconclusive else NO_GAIN
    return Advice(technique, outcome, time, raced.bytes, command=command)


def _not_tried(source: ModelSource, *, has_data: bool) -> Iterator[Advice]:
    """Yield the techniques whose requirements are missing."""
    name = shlex.quote(source.label)
    if not has_data:
        reason = "int8 activations need about a hundred typical inputs"
        yield Advice(
            "quantization: static", NOT_TRIED, reason=reason, command=f"passes advise {name} --data inputs.npz"
        )
    for engine in (name for name in engine_names() if name not in BROWSERS):
        try:
            find_engine(engine).installed_version()
        except UsageError as e:
            yield Advice(f"engine {engine}", NOT_TRIED, reason=str(e))
    if not installed_providers():
        reason = "the installed onnxruntime has kernels only for the CPU"
        yield Advice("accelerators", NOT_TRIED, reason=reason, command="pip install onnxruntime-gpu")
    if batch_symbol(input_specs(source.load())) is None:
        reason = "the batch size is fixed; batching makes each request faster"
        command = f"passes run {name} -o any.onnx --batch batch"
        yield Advice("batches", NOT_TRIED, reason=reason, command=command)
    reason = "pays off on targets with float16 arithmetic; halves the file"
    yield Advice("float16", NOT_TRIED, reason=reason, command=f"passes quantize {name} -o half.onnx --scheme half")
    reason = "the smallest file, even if it is slower"
    yield Advice("size", NOT_TRIED, reason=reason, command=f"passes quantize {name} -o small.onnx --goal size")


def describe(report: AdviceReport) -> Document:
    """Describe the techniques that pay off, the table of all, and the commands."""
    tuned, size = report.tuned, report.tuned.original.bytes
    verdict = "no technique was significantly faster than onnxruntime's defaults"
    if not any(a.time is not None for a in report.advice):
        verdict = "no technique was measured within the time limit: raise --time"
    elif tuned.unfinished:
        verdict = f"{tuned.unfinished}: raise --time"
    if tuned.ratio is not None:
        verdict = f"{ratio_with_bounds(tuned.ratio)} of the time with all of them (verified): {', '.join(tuned.words)}"
    rows = [
        TableRow(
            (
                a.technique,
                "" if a.time is None else ratio(a.time) if a.time.inconclusive else ratio_with_bounds(a.time),
                change(size, a.bytes) if a.bytes and a.bytes != size else "",
                a.outcome,
            ),
            "ours" if a.outcome == GAIN else "",
        )
        for a in report.advice
        if a.outcome != NOT_TRIED
    ]
    pays = [f"{a.technique}: {a.command}" for a in report.advice if a.outcome == GAIN]
    later: list[str] = []
    for a in (a for a in report.advice if a.reason):
        hint = f"; {a.command}" if a.outcome == NOT_TRIED and a.command else ""
        later.append(f"{a.technique}: {a.outcome}, {a.reason}{hint}")
    return Document(
        "passes advise",
        report.source,
        verdict,
        "good" if tuned.ratio is not None else "open",
        summary=f"on {tuned.machine}, time of a call relative to the original in onnxruntime with its defaults",
        evidence=[
            Section("techniques", "Techniques", [table("Techniques", ("technique", "time", "file", "outcome"), rows)])
        ],
        blocks=[
            Lines([*pays, f"all together: {report.command}"], "type"),
            Lines([*later, *filter(None, [str(tuned.noise)]), *report.notes], "note"),
        ],
        footer=[f"{name} {version}" for name, version in tuned.versions.items()],
    )
