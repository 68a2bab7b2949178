"""`tune`: search for the fastest settings that give correct results on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import onnx
from msgspec.structs import replace

from ...core.errors import PassesError
from ...core.io.convert import to_onnx
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputFile, OutputPaths
from ...core.io.publishing import Publication
from ...core.ort.engines import ONNXRUNTIME, SPLIT, EngineChoice, parse_engine
from ...core.ort.kernels import highest_opset_of_onnxruntime
from ...core.ort.value_files import write_value
from ...core.run.phase_timer import CHOOSING_INPUTS, LOADING, PhaseTimer
from ...core.support.printable_text import printable
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verification_spec import VerificationSpec
from ...passes.targets import QUANTIZATION_TARGETS
from ..bisect.ort_optimizers import MODIFIED, logged_optimizers
from ..measure import benchmark
from ..measure.criterion import Budget
from ..measure.execution_provider import ExecutionProvider, engine_versions, parse_provider
from ..measure.tuned_settings import ORIGINAL, Configuration, TunedSettings
from ..optimize.content_digests import content_digest, model_digest
from ..optimize.run_setup import frozen_source
from ..options import with_process_options
from ..quantize.candidates import Candidate
from ..quantize.document import kept_reason, loss_text, scheme_text
from ..quantize.journal import Journal
from ..quantize.quantize import QuantizationOptions, fastest_quantized, quantize_model
from ..quantize.samples import Criteria, read_samples
from ..quantize.search import Limits
from ..registry.environment import machine_summary, versions
from ..registry.python_data import read_given
from ..report.notebook import report_card, report_page
from ..report.progress import in_python, phase_callback, with_keywords
from .decisions import (
    engine_choices,
    engine_pipeline,
    engine_session_choices,
    engines_to_try,
    installed_providers,
    needs_quantized_weights,
    opset_choices,
    optimizer_choices,
    pipeline_choices,
    rule_choices,
    session_choices,
)
from .document import summary_lines
from .loss_limit import LossLimit
from .objective import LOUD
from .outcome import Checks, first_right
from .racing import RUNGS, Racing, Workload, make_workloads
from .report import TimingNoise, TuneReport
from .search import TuningSearch
from .session_script import session_script
from .tune_options import TuneOptions
from .tuned_models import TunedModels

SEARCHING = "tuning"
ROUNDS = 2  # of models and sessions; another model may be better in the new session
QUANTIZATION_SHARE = 0.3  # of the remaining time, for all schemes


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The model, the report, and the settings of its session.

    Examples:
        >>> result = tune("model.onnx", trials=1, min_time=0.01, threads=1, dim={"N": [1]})
        >>> result.settings.to_json().startswith("{"), [o.name for o in result.model.graph.output]
        (True, ['y'])
    """

    report: TuneReport
    settings: TunedSettings
    candidate: Candidate

    @property
    def model(self) -> onnx.ModelProto:
        """The model as a protobuf message."""
        return to_onnx(self.candidate.model)

    def save(self, path: str | Path) -> None:
        """Write the model to `path` atomically, with external data if the original has external data."""
        self.candidate.save(path)

    def __repr__(self) -> str:
        """The result in one line."""
        return printable(f"<TuneResult {in_python(summary_lines(self.report)[0])}>")

    def _repr_html_(self) -> str:
        """The card shown in a notebook."""
        return report_card(self.report)


@with_process_options
def tune_model(model: ModelLike, options: TuneOptions) -> TuneResult:
    """Find the fastest model and session settings that still give correct results on this machine.

    The baseline is the original in a session with the defaults of onnxruntime, with at most `threads` (0: one per
    core). `goal`: "latency" (`quantile` p50 or p99), "throughput" of several callers, "memory" or "size"; with the last
    two, the result is not slower. It is measured at all combinations of `dim`, lists of sizes by symbol, at the `shape`
    of inputs, or on `inputs` as for `optimize`. Each `pipeline` is tried with groups of rules switched off and on, and
    at several opsets; so are each execution provider `ep` and each `engine` (None: all that are installed but
    browsers). The schemes of `quantize` and other precisions of engines are tried only with a `budget`, with `scheme`,
    `data`, `labelled` and `metric` as documented there.

    The baseline is the original in a session with the defaults of onnxruntime. Finally, all pipelines are raced against
    the original: with the defaults, with one thread, and in the best session. The best one that is significantly better
    is the result, otherwise the original.

    Raises ModelError for an unusable model or input, UsageError for unusable options, and UnverifiableError if the
    original fails on all inputs.

    Examples:
        >>> result = tune("model.onnx", trials=1, min_time=0.01, threads=1, dim={"N": [1]})
        >>> result.report.objective.goal
        'latency'
    """
    began = monotonic()
    start_oracle_worker()
    timer = PhaseTimer(phase_callback(options.progress))
    objective = options.objective
    engines = engines_to_try(options.engine, is_lossy=options.budget is not None)
    source = model_source(model, inline=True)
    paths = _paths(options, source)
    journal = Journal(None if paths.journal is None else paths.journal.path, command="tune")
    with ScratchFolder() as folder:
        with timer.phase(LOADING):
            source, frozen = frozen_source(source, options)
            loaded = source.load()
            paths.require_distinct((*source.files, *options.input_files))
            given = read_given(options.inputs, loaded)
            spec = VerificationSpec.of(loaded, given, options.shape or {}, effort=options.verify)
            original = source.loadable_file(folder)
        with timer.phase(CHOOSING_INPUTS):
            workloads, notes = make_workloads(
                source, given, dict(options.dim or {}), dict(options.shape or {}), options.seed
            )
        journal.conditions = _conditions(original, options, workloads)
        with_weights = {e.precision: f"{e.name}:{e.precision}" for e in engines if needs_quantized_weights(e)}
        quantize = partial(_quantize, original, options, began, with_weights)
        models = TunedModels(source, original, folder, quantize, options.seed, options.freeze_initializers)
        limit = LossLimit(partial(_criteria, source, original, options), options.budget or "")
        racing = Racing(models, workloads, objective, options.min_time, options.seed, journal, limit=limit)
        start = Configuration(session=ExecutionProvider().session_config("ENABLE_ALL", options.threads))
        limits = Limits(options.trials, options.time)
        search = TuningSearch(racing, objective, limits, start, progress=timer.progress, began=began)
        racing.progress = lambda text: timer.report(lambda: f"{text.rpartition(': ')[2]}; {search.learnt}")
        with timer.phase(SEARCHING):
            if any(e.name == SPLIT for e in engines) and not _is_divided(original, folder):
                engines = [e for e in engines if e.name != SPLIT]
                notes += [f"{SPLIT} is not tried: the model is for one of them"] if options.engine else []
            search_in_stages(search, options, folder, loaded.graph.opsets.get("", 0), engines)
            decisions = search.ablate()
        checks = Checks(source, spec, given, options, timer, limit)
        outcome = first_right(search, checks, decisions)
        report = TuneReport(
            source.label,
            objective,
            start,
            outcome.configuration,
            outcome.original,
            outcome.result,
            outcome.decisions,
            search.trials,
            [w.name for w in workloads],
            outcome.verdict,
            _noise(racing),
            [*frozen, *notes, *checks.notes],
            machine_summary(),
            timer.seconds,
            engine_versions([start.session, outcome.configuration.session]),
            options=options.chosen,
            scheme=models.get(outcome.configuration.recipe).scheme,
            unfinished=outcome.unfinished,
        )
        made = models.get(outcome.configuration.recipe).path
        settings = TunedSettings.of(
            outcome.configuration, paths.model.name if paths.model is not None else "", report.measured()
        )
        is_original = outcome.configuration.recipe.is_original and not source.transforms
        loaded_result = model_source(model if is_original else made, inline=False)
        result = TuneResult(report, settings, Candidate(loaded_result.load(), (), source.is_external))
        _publish(result, paths)
        return result


tune = with_keywords(TuneOptions, "tune")(tune_model)


def search_in_stages(
    search: TuningSearch, options: TuneOptions, folder: Path, opset: int, engines: Sequence[EngineChoice] = ()
) -> None:
    """Decide about engines and models, then about sessions, in rounds; each builds on the previous choices.

    What gains most comes first. A quantized model in onnxruntime may be faster than another precision; an engine with a
    pipeline of its own has no other. The search ends at a limit, or after a round without changes. `opset` is the opset
    of the original.
    """
    models, goal = search.race.models, search.objective.goal
    pipelines = [name for name in options.pipeline if name != ORIGINAL]
    named = options.ep
    providers = installed_providers() if named is None else [parse_provider(text) for text in named]
    for _ in range(ROUNDS):
        before = dict(search.chosen)
        of_engines = engine_choices(engines, search.incumbent.session) if goal != "size" else []
        with_models = [choice for choice in of_engines if choice.is_of_model]
        of_engines = [choice for choice in of_engines if not choice.is_of_model]
        own = engine_pipeline(search.incumbent.session)
        made, quantized = pipeline_choices([own] if own else pipelines, []), pipeline_choices([], options.schemes)
        search.decide(
            "engines and pipelines" if of_engines else "pipelines", [*of_engines, *made], [*with_models, *quantized]
        )
        if (found := engine_pipeline(search.incumbent.session)) and found != own:
            search.decide("pipelines", pipeline_choices([found], []))
        is_concurrent, is_onnxruntime = goal == "throughput", search.incumbent.session.is_onnxruntime
        if goal != "size":
            choices = engine_session_choices(options.cores, is_concurrent=is_concurrent)
            if is_onnxruntime:
                choices = session_choices(options.cores, providers, is_concurrent=is_concurrent)
            search.decide("sessions", choices)
        if not search.incumbent.recipe.scheme and not engine_pipeline(search.incumbent.session):
            report = models.get(search.incumbent.recipe).report
            made = report.after.opset if report is not None else opset
            search.decide("opsets", opset_choices(opset, made, highest_opset_of_onnxruntime()))
            report = models.get(search.incumbent.recipe).report
            if report is not None and search.incumbent.recipe.pipeline != ORIGINAL:
                search.decide("rules", rule_choices(report))
        models.keep({search.incumbent.recipe, *(search.configuration(c).recipe for c in search.history)})
        if goal != "size" and is_onnxruntime and not search.is_exhausted:
            search.decide("optimizers", optimizer_choices(_modifying_optimizers(search, folder)))
        if search.chosen == before or search.is_exhausted:
            return


def _is_divided(model: Path, folder: Path) -> bool:
    """Whether OpenVINO runs only parts of a model."""
    worker = benchmark.WorkerProxy(folder / "engines", engine=SPLIT)
    try:
        return worker.is_divided(model)
    except benchmark.MeasurementFailed:
        return False
    finally:
        worker.terminate()


def _modifying_optimizers(search: TuningSearch, folder: Path) -> list[str]:
    """The optimizers of onnxruntime that change the current best model on loading; empty if it does not load."""
    feeds, worker = folder / "optimizers-feeds", benchmark.WorkerProxy(folder / "optimizers")
    if not feeds.exists():
        write_value(dict(search.race.workloads[0].feeds), feeds)
    model, session = search.race.models.get(search.incumbent.recipe).path, search.incumbent.session
    try:
        worker.load(model, replace(session, verbose=True), {0: feeds})
    except benchmark.MeasurementFailed:
        return []
    finally:
        worker.terminate()
    with (folder / "optimizers" / "log").open(encoding="utf-8", errors="replace") as lines:
        return logged_optimizers(lines, MODIFIED)


def _noise(racing: Racing) -> TimingNoise:
    """The noise of the races on a busy machine."""
    controlled = [r for r in racing.results if r.control is not None]
    factors = [r.noise for r in controlled]
    waited = max((r.waited for r in racing.results), default=0.0)
    return TimingNoise(len(controlled), sum(f > LOUD for f in factors), max(factors, default=1.0), waited)


def _quantize(
    model: Path, options: TuneOptions, began: float, engines: Mapping[str, str], scheme: str, path: Path
) -> tuple[str, str]:
    """Write the model of a scheme; return the full scheme and its loss in words.

    It is for onnxruntime, or for one of the `engines` if the scheme is one of its precisions. Its races are short
    because it is raced again here. It minimizes the figure of the search, or the time. Raises PassesError if no
    candidate is within the budget and better than the original.
    """
    assert options.budget is not None
    goal, is_time = options.objective.goal, options.objective.is_time
    seconds = max(options.time - (monotonic() - began), 0.0) * QUANTIZATION_SHARE
    engine = engines.get(scheme, ONNXRUNTIME)
    chosen = QuantizationOptions(
        data=options.data,
        labelled=options.labelled,
        metric=options.metric,
        scheme=scheme,
        goal="latency" if goal == "throughput" else goal,
        budget=options.budget,
        freeze_initializers=options.freeze_initializers,
        time=seconds / (len(options.schemes) + len(engines)),
        engine=engine,
        target=name if (name := parse_engine(engine).name) in QUANTIZATION_TARGETS else "",
        threads=options.threads,
        min_time=options.min_time * (RUNGS[0].share if is_time else 1.0),
        seed=options.seed,
        progress=options.progress,
    )
    if is_time:
        return fastest_quantized(model, chosen, path)
    made = quantize_model(model, chosen)
    if made.report.is_original:
        raise PassesError(kept_reason(made.report))
    made.save(path)
    found = made.report
    return scheme_text(found), loss_text(found.figure, found.budget, found.original.score, found.result.score)


def _criteria(source: ModelSource, original: Path, options: TuneOptions) -> Criteria:
    """The criteria of `quantize`, on the same samples."""
    loaded = source.load()
    samples = read_samples(source, options.data, options.labelled, options.metric, options.seed)
    budget = Budget.parse(options.budget or "")
    return samples.criteria(loaded, budget, original)


def _conditions(model: Path, options: TuneOptions, workloads: Sequence[Workload]) -> str:
    """A digest of everything besides the configurations that the times of a race depend on."""
    measured = (options.goal, options.quantile, options.threads, options.min_time, options.seed, options.budget)
    inputs = [(w.name, w.digest) for w in workloads]
    return content_digest([model_digest(model), measured, inputs, machine_summary(), versions()])


def _paths(options: TuneOptions, source: ModelSource) -> OutputPaths:
    """The paths to write: next to a model, its settings and session script. Raises ModelError."""
    settings, script = options.settings, options.script
    if options.output is not None:
        place = Path(options.output)
        settings = settings or place.parent / f"{place.stem}_settings.json"
        script = script or place.parent / f"{place.stem}_session.py"
    paths = OutputPaths.of(
        model=options.output,
        report=options.json,
        page=options.html,
        journal=options.journal,
        settings=settings,
        script=script,
    )
    paths.require_distinct((*source.files, *options.input_files))
    return paths


def _publish(result: TuneResult, paths: OutputPaths) -> None:
    """Write all files, starting with the model."""
    report = result.report
    written = (paths.model, paths.settings, paths.script)
    report.written_to = [str(f.path) for f in written if f is not None]
    with Publication(paths.model) as publication:
        if paths.model is not None:
            result.candidate.stage(publication)
        publication.add_text(paths.settings, result.settings.to_json)
        if paths.script is not None:
            publication.add_text(paths.script, partial(_script, result, paths, paths.script))
        publication.add_text(paths.report, report.to_json)
        publication.add_text(paths.page, partial(report_page, report))
        publication.publish()


def _script(result: TuneResult, paths: OutputPaths, script: OutputFile) -> str:
    """The text of the script; if no model was written, it refers to a `model.onnx` next to it."""
    model = "model.onnx" if paths.model is None else os.path.relpath(paths.model.path, script.path.parent)
    comment = f"`passes tune`, on {result.report.machine}: {', '.join(result.report.words)}"
    return session_script(result.report.configuration, model, comment)
