"""`quantize`: compression of a model within an accuracy budget, never slower than the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

import onnx
from msgspec import Struct, structs
from onnx import TensorProto

from ...core.calibration.collection import collect_statistics
from ...core.errors import PassesError, UnverifiableError, UsageError
from ...core.io.convert import to_onnx
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.io.writer import write_model
from ...core.ir.graph import Graph, defined_values
from ...core.ort.engines import SINGLE, find_engine
from ...core.ort.sessions import AS_USERS_RUN, SessionConfig
from ...core.plugins.pass_registry import python_file
from ...core.rewriting.change_log import ChangeLog
from ...core.run.phase_timer import CHOOSING_INPUTS, LOADING, MEASURING, RUNNING_ORIGINAL, PhaseTimer
from ...core.run.pipeline import RulePass
from ...core.support.confidence_intervals import AS_FAST, RatioInterval
from ...core.support.printable_text import printable
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.input_specs import input_specs
from ...core.verify.sample_rows import batch_symbol
from ...passes.quantization.cache import caching_ops, expose_integer_caches
from ...passes.quantization.widening import WidenHalves
from ...passes.targets import QuantizationTarget
from ..measure import benchmark
from ..measure.agreement import Score
from ..measure.criterion import Budget, LabelledPart, mixes_rows
from ..measure.execution_provider import engine_versions, session_configs
from ..measure.feeds import Feeds, make_feeds
from ..measure.metrics import ModelMetrics, latency_ratios, peak_ratio
from ..optimize.optimize import optimize_model
from ..optimize.run_options import RunOptions
from ..optimize.run_setup import frozen_source
from ..options import SessionOptions, with_process_options
from ..registry.environment import quantization_target
from ..report.notebook import report_card
from ..report.number_text import plural
from ..report.page import page_html
from ..report.progress import phase_callback, with_keywords
from .candidates import Candidate, Reduction
from .document import describe, loss_text, scheme_text, summary_line
from .excluded_names import excluded_names
from .fused_groups import fusion_check
from .inventory import compressed_before, float_ops, kept_high_precision, quantized_ops
from .journal import Journal
from .quantize_options import QuantizationOptions
from .report import Measured, QuantizationReport
from .samples import Criteria, Samples, read_samples
from .schemes import (
    AUTO,
    QUANTIZE_CACHE,
    STORE_WEIGHTS,
    Calibration,
    chosen_schemes,
    combined_schemes,
    lossy_passes,
    reduced_schemes,
    requested_schemes,
    spec_of_caches,
    weight_settings,
)
from .search import TAKEN, BuiltCandidate, Deadline, Limits, RaceRatios, Search, Variants, candidate_time
from .sensitivity import orders_to_leave, value_errors

SENSITIVITY_SAMPLES = 8  # on which the errors of single ops are measured
LARGER = "the result is larger than the original: scales and conversions take more than its weights save"
SHORT_NAMES = "inner values and nodes have short names: long ones take more than a tenth of the bytes of the weights"
MIXED_ROWS = "the result of a row depends on the others of its batch, as each run computes ranges"
INTEGER_CACHE = "--int8-cache changed the interface: {} and {} are int8, such as {} and {}"
SEARCH_SETS, FINAL_SETS = 3, 5  # of processes in a race
LAST_SHARE = 0.25  # of the time, for the scores and the race of the result
SCORE_SHARE = 0.05  # of the time, for a run of the original on all samples of a score
RACE_SHARE = 0.3  # of the time that is left of a search, for the calls of a race
RACE_END = 0.5  # of the time that is left of a search, after which no further processes of a race begin
FAR = 2.0  # times the budget; if the loss is more, the next best scheme is tried, not others of the same one
LEAST_RACE_TIME = 0.1  # seconds of calls of a model, however little time is left
SMALL_CONSTANTS = "fold-constants{max_growth=4kB,max_share=0.01}"  # engines fold the others as they load the model
SEARCHING, OPTIMIZING, DESCRIBING = "searching", "optimizing the float model", "describing the result"


@dataclass(frozen=True, slots=True)
class QuantizationResult:
    """The model within the budget, or the original, and the report.

    Examples:
        >>> result = quantize("model.onnx", trials=1, min_time=0.01, threads=1)
        >>> result.model.graph.name
        'g'
    """

    report: QuantizationReport
    candidate: Candidate = field(repr=False)

    @property
    def model(self) -> onnx.ModelProto:
        """The model as a protobuf message."""
        self.candidate.shorten_texts()
        return to_onnx(self.candidate.model)

    def save(self, path: str | Path) -> None:
        """Write the model to `path` atomically, with external data if the original has external data."""
        self.candidate.save(path)

    def __repr__(self) -> str:
        """The result in one line."""
        return printable(f"<QuantizationResult {summary_line(self.report)}>")

    def _repr_html_(self) -> str:
        """The card shown in a notebook."""
        return report_card(self.report)


@with_process_options
def quantize_model(model: ModelLike, options: QuantizationOptions) -> QuantizationResult:
    """Quantize a model within an accuracy `budget`; return the original if nothing is faster or smaller.

    Options:
        data: inputs to calibrate with: .npz files, a folder of ONNX test data, `file.py:reader`, an iterable of feeds,
            or a CalibrationDataReader of onnxruntime. Without it, inputs are generated from `seed`, and by default,
            only schemes that need no calibration are tried. Calibration, search and report use separate parts of it.
        labelled, metric: measure accuracy as for `bench`. Without labels, candidates are compared with the original.
        scheme: "auto", or names of schemes.
        goal: what to minimize: latency, size or memory.
        engine: the engine that runs the candidates, and the original in f32; its other precisions are also schemes.
        block_size, asymmetric: in weights4 and weights8, the number of weights that share a scale, and whether they
            also have a zero point.
        int8_cache: make past and present keys and values int8.
        target: the processor or engine that the result is for; this machine by default.
        leave: values or operators that stay in float.
        plugin: plugins whose rules with contract LOSSY run before the rules of each scheme.
        trials, time: limits: the number of scored trials of the search, and the seconds of the call.
        journal: a file that makes an interrupted search resumable.
        json, html: files for the report as JSON and as a page. Either of them, or `op_errors`, measures the errors of
            single ops on a few calibration samples.

    Raises ModelError for an unusable model or data, UsageError for unusable options, UnverifiableError if the original
    fails on all inputs, and VerificationError if its optimized float model is wrong.

    Examples:
        >>> result = quantize("model.onnx", trials=1, min_time=0.01, threads=1)
        >>> result.report.scheme
        ''
    """
    timer = PhaseTimer(phase_callback(options.progress))
    source = model_source(model, inline=True)
    paths = checked_paths(options, source)
    journal = Journal(None if paths.journal is None else paths.journal.path)
    has_errors = options.op_errors or paths.report is not None or paths.page is not None
    with ScratchFolder() as folder:
        setup = prepare(model, source, paths, options, timer, folder, journal)
        result, taken = quantize_prepared(setup, replace(options, op_errors=has_errors), timer, folder, journal)
        with Publication(paths.model) as publication:
            if paths.model is not None:
                result.candidate.stage(publication)
            publication.add_text(paths.report, result.report.to_json)
            publication.add_text(paths.page, partial(page_text, result.report, taken, setup.calibration))
            publication.publish()
        return result


def quantize_prepared(
    setup: QuantizationContext, options: QuantizationOptions, timer: PhaseTimer, folder: Path, journal: Journal
) -> tuple[QuantizationResult, BuiltCandidate | None]:
    """Search for the best candidate, or None for the original; writes only to `folder` and `journal`."""
    samples, target, session = setup.samples, setup.target, setup.racing.session
    found_versions = engine_versions([session])
    metric = options.metric, None if (file := python_file(options.metric)) is None else file.read_bytes()
    measured_with = (metric, setup.budget, options.threads, options.min_time, sorted(found_versions.items()))
    measured_with += () if session.is_onnxruntime else (session,)
    journal.conditions = sha256(f"{samples.digest()} {measured_with}".encode()).hexdigest()
    schemes = setup.schemes(options)
    search = setup.search(options, folder, timer, journal=journal, stores=combined_schemes(schemes))
    with timer.phase(SEARCHING):
        finalists = search.run(schemes, partial(reduced_schemes, setup.calibration))
    with timer.phase(MEASURING):
        taken, before, after = measured_result(finalists, setup, search)
    with timer.phase(DESCRIBING):
        has_errors = taken is not None and taken.candidate.changes and options.op_errors
        until = setup.racing.end
        errors = value_errors(taken, setup.sensitivity_feeds, until) if taken is not None and has_errors else None
        quantized = [] if taken is None else quantized_ops(taken, errors)
        wide = [] if taken is None or not taken.trial.changed else kept_high_precision(taken, search.trials)
        in_float = [] if taken is None or taken.builder.scheme.is_base or taken.precision else float_ops(taken)
        notes = [*samples.notes, *setup.notes, *([LARGER] if after.bytes > before.bytes else [])]
        if taken is not None and taken.trial.changed and taken.candidate.shortened:
            notes.append(SHORT_NAMES)
        if taken is not None and batch_symbol(input_specs(setup.source.load())) is not None and mixes_rows(taken.path):
            notes.append(MIXED_ROWS)
        pasts, presents = expose_integer_caches(taken.candidate.model.graph) if taken is not None else ([], [])
        if taken is not None and pasts:
            after = structs.replace(after, bytes=taken.candidate.write(folder / "integer caches.onnx"))
            counts = plural(len(pasts), "input"), plural(len(presents), "output")
            notes.append(INTEGER_CACHE.format(*counts, pasts[0], presents[0]))
        if options.int8_cache and taken is not None and (left := caching_ops(taken.candidate.model.graph)):
            notes.append(f"--int8-cache: {plural(len(left), 'cache')} stay in float, such as {left[0].outputs[1].name}")
    reduction = Reduction() if taken is None else taken.builder.reduction
    report = QuantizationReport(
        setup.source.label,
        "" if taken is None else taken.trial.scheme,
        "" if taken is None else taken.trial.variant,
        target.name,
        str(setup.budget),
        setup.criteria.searched.name,
        setup.criteria.searched.reference,
        samples.counts,
        before,
        after,
        search.trials,
        quantized,
        in_float,
        wide,
        notes,
        before.metrics.threads,
        timer.seconds,
        found_versions,
        session.engine,
        session.precision if taken is None else taken.session(session).precision,
        options.goal,
        search.ended_by,
        reduction.share,
        reduction.removed,
        reduction.ranks,
        options=options.chosen,
    )
    if taken is not None and taken.trial.changed:
        return QuantizationResult(report, taken.candidate), taken
    original = model_source(setup.model, inline=False).load()  # including its functions
    return QuantizationResult(report, Candidate(original, (), setup.source.is_external)), taken


quantize = with_keywords(QuantizationOptions, "quantize")(quantize_model)


def checked_paths(options: QuantizationOptions, source: ModelSource) -> OutputPaths:
    """The paths to write. Raises ModelError for unwritable ones, and UsageError for invalid choices."""
    session, precisions = engine_to_measure(options)
    requested_schemes(options.scheme, options.calibrate, options.format, precisions)
    weight_settings(options)
    if options.int8_cache and not session.is_onnxruntime:
        raise UsageError(f"--int8-cache: GroupQueryAttention is an operator of onnxruntime, not of {session.engine}")
    paths = OutputPaths.of(model=options.output, report=options.json, page=options.html, journal=options.journal)
    paths.require_distinct((*source.files, *options.input_files))
    return paths


class QuantizationContext(Struct, frozen=True):
    """The models, samples and measures of a quantization; `floats` is the optimized model before compression.

    `leave` names values and operators that stay in float.
    """

    model: ModelLike
    source: ModelSource
    floats: ModelSource
    budget: Budget
    target: QuantizationTarget
    plugins: Sequence[RulePass]
    samples: Samples
    criteria: Criteria
    racing: OriginalRace
    calibration: Calibration | None
    deadline: Deadline
    leave: frozenset[str]
    notes: list[str]

    @property
    def sensitivity_feeds(self) -> Sequence[Mapping[str, Any]]:
        """Samples on which the errors of single ops are measured."""
        return (self.samples.calibration or self.samples.drawn)[:SENSITIVITY_SAMPLES]

    def scored_outputs(self, metric: str) -> list[str]:
        """The outputs that decide the figure: of a ready metric on labelled rows the first, else all."""
        is_ready = isinstance(self.samples.search, LabelledPart) and python_file(metric) is None
        names = [v.name for v in self.source.load().graph.outputs]
        return names[:1] if is_ready else names

    def schemes(self, options: QuantizationOptions) -> dict[str, Variants]:
        """The schemes to try, with their variants."""
        spec, plugins = self.target.spec({}), self.plugins
        if options.int8_cache:
            spec, plugins = spec_of_caches(spec, self.calibration), (QUANTIZE_CACHE, *plugins)
        return chosen_schemes(
            options.scheme, self.floats, self.calibration, spec, options.calibrate, options.format, plugins,
            self.source, self.racing.precisions,
            weight_settings(options, runs_steps=self.target.engine == self.racing.session.engine == "onnxruntime"),
        )  # fmt: skip

    def search(self, options: QuantizationOptions, folder: Path, timer: PhaseTimer, **settings: Any) -> Search:
        """A search that has not started, with further `settings`, for the time that earlier phases have left."""
        seconds = max((1 - LAST_SHARE) * options.time - sum(timer.seconds.values()), 0.0)
        return Search(
            self.criteria.searched,
            structs.replace(self.racing, end=monotonic() + seconds).ratios,
            lambda built: orders_to_leave(
                built, self.sensitivity_feeds, self.scored_outputs(options.metric), self.deadline.midway
            ),
            folder,
            self.source.size,
            Limits(options.trials, seconds),
            self.leave,
            fusion_check(self.target) if self.racing.session.is_onnxruntime else lambda _, __: {},
            session=self.racing.scoring,
            goal=options.goal,
            progress=timer.progress,
            deadline=self.deadline,
            seconds=timer.seconds.get(RUNNING_ORIGINAL, 0.0) / 2,  # of the samples of search and report
            **settings,
        )


def fastest_quantized(model: Path, options: QuantizationOptions, path: Path) -> tuple[str, str]:
    """Write the fastest candidate that is within the budget, also on unseen samples; return its scheme and loss.

    The caller must race it against the original. With `auto`, schemes that only store weights in fewer bits are
    skipped. Raises PassesError if no candidate is faster.
    """
    timer, source = PhaseTimer(phase_callback(options.progress)), model_source(model, inline=True)
    with ScratchFolder() as folder:
        setup = prepare(model, source, checked_paths(options, source), options, timer, folder)
        schemes = setup.schemes(options)
        if options.scheme == AUTO:
            schemes = {name: variants for name, variants in schemes.items() if name not in STORE_WEIGHTS}
        with timer.phase(SEARCHING):
            finalists = setup.search(options, folder, timer, is_raced_after=True).run(
                schemes, partial(reduced_schemes, setup.calibration)
            )
        for built in sorted(finalists, key=candidate_time):
            score, excess = setup.criteria.excess(built.path, built.session(setup.racing.scoring))
            if not excess:
                built.candidate.save(path)
                criterion = setup.criteria.reported
                loss = loss_text(criterion.name, options.budget, Score(criterion.reference, 0.0), score)
                return scheme_text(built.trial), loss
    raise PassesError("no candidate is faster and within the budget")


def prepare(
    model: ModelLike,
    source: ModelSource,
    paths: OutputPaths,
    options: QuantizationOptions,
    timer: PhaseTimer,
    folder: Path,
    journal: Journal | None = None,
) -> QuantizationContext:
    """Read the samples, optimize the float model, and run the original on them.

    Raises UsageError for an invalid budget or target, PluginError, and the errors of unusable samples.
    """
    budget, target = Budget.parse(options.budget), quantization_target(options.target)
    engine = engine_to_measure(options)
    plugins = lossy_passes(options.plugin)
    with timer.phase(LOADING):
        source, frozen = frozen_source(source, options)
        loaded = source.load()
        paths.require_distinct(source.files)  # the files of weights are known only now
        samples = read_samples(source, options.data, options.labelled, options.metric, options.seed)
    with timer.phase(OPTIMIZING):
        names = folder / "names.json" if options.leave else None
        model, widened = with_wide_halves(model, source, folder)
        run_options = RunOptions(
            target.pipeline,
            enable=[SMALL_CONSTANTS],
            inputs=samples.first,
            freeze_initializers=options.freeze_initializers,
            map=names,
            progress=options.progress,
        )
        optimized = optimize_model(model, run_options)
        optimized.save(folder / "float.onnx")
        floats = model_source(folder / "float.onnx", inline=True)
        graph = floats.load().graph
        leave, notes = excluded_names(options.leave, loaded.graph, graph, names)
    with timer.phase(RUNNING_ORIGINAL):
        file = source.loadable_file(folder)
        names, seconds = list(dict.fromkeys(v.name for v in loaded.graph.outputs)), SCORE_SHARE * options.time
        known = f"{len(samples.search)} samples in {seconds:g} s"  # an interrupted search goes on with as many
        affordable = partial(samples.affordable, file, names, seconds)
        samples = samples.limited((journal or Journal()).result(known, int, affordable))
        criteria = samples.criteria(loaded, budget, file)
    with timer.phase(CHOOSING_INPUTS):
        feeds = make_feeds(source, samples.first, options.batch, seed=options.seed)
        racing = OriginalRace(
            file, feeds, options, *engine, end=monotonic() + options.time - sum(timer.seconds.values())
        )
    sampled = samples.calibration if options.scheme == AUTO else samples.calibration or samples.drawn
    deadline = Deadline(racing.end)
    calibration = Calibration(floats, sampled, phase_callback(options.progress), deadline) if sampled else None
    notes += [*frozen, *widened, *criteria.searched.notes, *model_notes(graph)]
    return QuantizationContext(
        model, source, floats, budget, target, plugins, samples, criteria, racing, calibration, deadline, leave, notes
    )


def with_wide_halves(model: ModelLike, source: ModelSource, folder: Path) -> tuple[ModelLike, list[str]]:
    """The model with half-precision ops converted to single precision, and a note; unchanged if there are none."""
    wide = source.load()
    changes = WidenHalves().run(wide.graph, ChangeLog())
    if not changes:
        return model, []
    write_model(wide, folder / "wide.onnx", external=source.is_external)
    return folder / "wide.onnx", [f"{plural(changes, 'op')} of float16 computed in float32, which schemes compress"]


def measured_result(
    finalists: Sequence[BuiltCandidate], setup: QuantizationContext, search: Search
) -> tuple[BuiltCandidate | None, Measured, Measured]:
    """Find the first candidate that is within the budget on unseen samples, and not slower when raced again.

    If a candidate is over the budget there, a more accurate one is tried next, unless it is FAR over the budget and
    there are others; if it takes longer than in the search, those that are then better; and finally those that were not
    scored because another was better. A candidate may be slower if the goal is not latency. Returns it, or None for the
    original, with the measurements of the original and the result.
    """
    reference, waiting = Score(setup.criteria.reported.reference, 0.0), list(finalists)
    measured: dict[Path, tuple[Measured, Measured]] = {}
    known = {b.key for b in waiting}
    while waiting := waiting or search.outrun():
        built, *waiting = search.ordered(waiting)
        if built.path in measured:
            built.trial.outcome = TAKEN
            return built, *measured[built.path]
        score, excess = setup.criteria.excess(built.path, built.session(setup.racing.scoring))
        if excess:
            built.trial.outcome = f"over the budget {excess}"
            is_far = score.loss > FAR * setup.budget.amount
            found = [] if is_far and waiting else [b for b in search.more_accurate(built) if b.key not in known]
            waiting += found
            known |= {b.key for b in found}
            continue
        original, made = setup.racing.measure([built.path], [built.precision])
        ratios = latency_ratios(made, original)
        if made.failure or (search.goal == "latency" and any(r.is_slower for r in ratios.values())):
            built.trial.outcome = made.failure or "slower in the final race"
            continue
        before = Measured(setup.source.size, original, reference)
        measured[built.path] = before, Measured(built.trial.bytes, made, score, ratios)
        if search.goal == "latency":
            built.trial.ratio = longer_ratio(built.trial.ratio, ratios[min(ratios)])
        waiting.append(built)
    (original,) = setup.racing.measure([])
    before = Measured(setup.source.size, original, reference)
    return None, before, before


def longer_ratio(searched: RatioInterval | None, final: RatioInterval) -> RatioInterval:
    """The ratio to rank a candidate by: the final race's if it is surely longer than the search's, or by AS_FAST.

    In the search, a candidate with more ops in float counts as fast as the candidate from which it was made.
    """
    return final if searched is None or final.low > min(searched.high, AS_FAST * searched.ratio) else searched


def page_text(report: QuantizationReport, taken: BuiltCandidate | None, calibration: Calibration | None) -> str:
    """The page, with the calibrated ranges of the candidate if there are any."""
    if taken is None or calibration is None or not taken.builder.spec.ranges:
        return page_html(describe(report))
    source, found = taken.builder.source, calibration.statistics
    if source is not calibration.source:  # of a variant with other scales, or of a reduced model
        known = {v.name for g in source.load().graph.with_subgraphs() for v in defined_values(g)}
        # Others are values that an earlier change made.
        names = [op.value for op in report.quantized if op.value in known]
        found = collect_statistics(source, names, calibration.feeds)
    return page_html(describe(report, statistics=found, ranges=taken.builder.spec.ranges))


def model_notes(graph: Graph) -> list[str]:
    """Notes for the user about parts of a model that were already compressed."""
    notes: list[str] = []
    if count := compressed_before(graph):
        notes.append(f"{plural(count, 'op')} of the model are quantized already: only the others are changed")
    results = (op.outputs[0] for g in graph.with_subgraphs() for op in g.ops() if op.outputs and op.type != "Cast")
    if halves := sum(v.known_dtype == TensorProto.FLOAT16 for v in results):
        notes.append(f"{plural(halves, 'op')} compute in float16: schemes change only ops of float32")
    return notes


def engine_to_measure(options: QuantizationOptions) -> tuple[SessionConfig, Mapping[str, str]]:
    """The session of candidates, and the precisions that are schemes, mapped to the schemes of their weights.

    If no precision is named, these are all precisions of the engine. Raises UsageError.
    """
    (session,) = session_configs(SessionOptions(threads=options.threads), [options.engine])
    engine = find_engine(session.engine)
    lossy = [session.precision] if session.is_lossy else [p for p in engine.precisions if p != SINGLE]
    return session, {p: engine.weight_schemes.get(p, "") for p in lossy}


class OriginalRace(Struct, frozen=True):
    """Races against the original in f32, under ORT ALL or in another engine, on common inputs by batch size.

    Candidates run in the `session`, or in one of the `precisions`. If little time remains until `end`, in seconds of a
    monotonic clock, races have fewer calls and sets.
    """

    original: Path
    feeds: Feeds
    options: QuantizationOptions
    session: SessionConfig
    precisions: Mapping[str, str] = MappingProxyType({})
    end: float = inf

    @property
    def scoring(self) -> SessionConfig:
        """The session in which models are scored."""
        return AS_USERS_RUN if self.session.is_onnxruntime else self.session

    def ratios(self, models: Sequence[Path], precisions: Sequence[str]) -> list[RaceRatios | str]:
        """The time and peak memory of each model relative to the original, at the smallest batch; or the failure."""
        batch = min(self.feeds.by_batch)
        share = RACE_SHARE * (self.end - monotonic()) / (1 + len(models))
        is_short = share < self.options.min_time
        options = replace(self.options, min_time=max(share, LEAST_RACE_TIME)) if is_short else self.options
        sets = benchmark.MIN_SETS if is_short else SEARCH_SETS
        end = monotonic() + RACE_END * (self.end - monotonic())
        racing = structs.replace(self, options=options, end=end)
        original, *others = racing.measure(models, precisions, [batch], sets)
        if original.failure:
            where = "under ORT ALL" if self.session.is_onnxruntime else f"in {self.session.engine}"
            raise UnverifiableError(f"the original does not run {where}: {original.failure}")
        return [m.failure or RaceRatios(latency_ratios(m, original)[batch], peak_ratio(m, original)) for m in others]

    def measure(
        self,
        models: Sequence[Path],
        precisions: Sequence[str] = (),
        batches: Sequence[int] = (),
        sets: int | None = None,
    ) -> list[ModelMetrics]:
        """Measure the original and models in one race; all batch sizes by default.

        `precisions` of the models differ from the session's if given. `sets` of processes are FINAL_SETS by default.
        """
        feeds = {b: arrays for b, arrays in self.feeds.by_batch.items() if b in (batches or self.feeds.by_batch)}
        effort = benchmark.BenchmarkConfig(
            self.options.min_time,
            process_sets=sets or FINAL_SETS,
            seed=self.options.seed,
            finds_providers=sets is None,  # the report has those of the last race
            until=self.end,
        )
        progress = phase_callback(self.options.progress)
        named = [SINGLE, *(p or self.session.precision for p in precisions or [""] * len(models))]
        pairs = zip((self.original, *models), named, strict=True)
        targets = [benchmark.BenchmarkTarget(model, structs.replace(self.session, precision=p)) for model, p in pairs]
        measured = benchmark.run_benchmark(targets, feeds, effort, progress)
        return [m.in_precision(t.config) for m, t in zip(measured, targets, strict=True)]
