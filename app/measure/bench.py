"""`bench`: speed, size, memory and accuracy of models, measured side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs, to_builtins

from ...core.errors import EvaluationError, ModelError, UnverifiableError, UsageError, format_error
from ...core.io.model import Model
from ...core.io.model_source import ModelLike, ModelSource, model_source, several_models
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.ort.engines import ONNXRUNTIME
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import SessionConfig
from ...core.run.phase_timer import CHOOSING_INPUTS, MEASURING, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text
from ...core.support.regular_files import open_regular, unreadable
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import GivenSamples, Inputs
from ...core.verify.input_specs import input_specs
from ..options import with_process_options
from ..registry.python_data import data_files, read_given
from ..report.notebook import report_card, report_line
from ..report.progress import phase_callback, with_keywords
from . import benchmark
from .accuracy import LabelledSet, figures_of_parts, jackknife_interval, labelled_outputs, load_metric, notes_about
from .bench_options import BenchOptions
from .execution_provider import engine_versions, session_configs
from .feeds import Feeds, isolated_run_check, make_feeds
from .metrics import ModelMetrics, RatioInterval, latency_ratios
from .ready_metrics import Metric
from .tuned_settings import read_tuned_settings, settings_words


class ModelBenchmark(Struct, frozen=True):
    """One model: its `bytes` on disk, its metrics, and its latency divided by the first one's, by batch size.

    `accuracy` is None without a metric, or if there is an `accuracy_failure`; `further_figures` are the values of
    further metrics by name, and `intervals` the 95 % confidence intervals of all values by name, where known.
    `own_inputs`: the model does not accept the inputs of the first one, and was measured with others. `engine` is the
    requested engine and precision; the metrics have the precision that was used.
    """

    model: str
    bytes: int
    measured: ModelMetrics
    ratios: dict[int, RatioInterval] = msgspec.field(default_factory=dict[int, RatioInterval])
    accuracy: float | None = None
    further_figures: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    intervals: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict[str, tuple[float, float]])
    accuracy_failure: str = ""
    own_inputs: bool = False
    engine: str = ONNXRUNTIME


@dataclass(slots=True)
class BenchReport:
    """All models, in the given order, in each engine, and the conditions of the measurement.

    `threads` is as requested; 0 is one per core. `sizes` are those of symbolic dims except the batch. `metric` is the
    name of the accuracy, or ""; `further_metrics` are names of further figures. `note` says why a requested batch size
    is missing. `session` describes the settings of a file.

    Examples:
        >>> report = bench(["model.onnx"], batch=(1,), min_time=0.01, threads=1)
        >>> report.threads
        1
    """

    models: list[ModelBenchmark]
    level: str
    provider: str
    threads: int
    batches: list[int]
    sizes: dict[str, int]
    metric: str = ""
    samples: int = 0
    note: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: str = ""
    further_metrics: list[str] = field(default_factory=list[str])

    @property
    def failed(self) -> list[ModelBenchmark]:
        """The models that could not be measured."""
        return [m for m in self.models if m.measured.failure]

    def to_json(self) -> str:
        """The report as JSON text; times in seconds."""
        data = to_builtins(replace(self, models=[])) | {"models": [_model_data(m) for m in self.models]}
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card


def _model_data(model: ModelBenchmark) -> dict[str, Any]:
    data: dict[str, Any] = to_builtins(model)
    for batch, latency in model.measured.latencies.items():
        rounds = {"rounds": sum(map(len, latency.rounds)), "sets": sum(map(bool, latency.rounds))}
        data["measured"]["latencies"][batch] |= rounds
    for batch, interval in model.ratios.items():
        data["ratios"][batch]["is_significant"] = interval.is_significant
    return data


@with_process_options
def bench_models(models: ModelLike | Sequence[ModelLike], options: BenchOptions) -> BenchReport:
    """Measure models in interleaved runs: latency, throughput, session creation, memory and size.

    Each model has a result for each `engine`: onnxruntime, openvino, openvino:bf16, or an engine of a plugin. All have
    the same inputs (`inputs`, or generated from `seed` with `shape` and `dim`) at each `batch`; a model that does not
    accept the inputs of the first one has its own. `level` is disable, basic, extended, layout or all. `labelled` is an
    .npz file with inputs and labels, to measure accuracy: top-1, or another `metric`, or several, such as `top1,loss`.

    A model that cannot be measured has a `failure`. Raises ModelError for an unusable model, input or labelled set,
    UsageError for unusable options, and UnverifiableError if no inputs can be generated for any model.

    Examples:
        >>> report = bench(["model.onnx"], batch=(1,), min_time=0.01, threads=1)
        >>> [m.model for m in report.models]
        ['model.onnx']
    """
    with ScratchFolder() as folder:
        sources = [model_source(m, inline=False, takes_ort=True) for m in several_models(models)]
        for n, source in enumerate(sources):
            if not source.files and any(s.label == source.label for s in sources[:n]):
                source.label += f" ({n + 1})"  # distinguishes models with the same name
        return _bench([source.in_file(folder / str(n)) for n, source in enumerate(sources)], options)


def _bench(sources: Sequence[ModelSource], options: BenchOptions) -> BenchReport:
    """Like `bench_models`, for files."""
    if options.metric and options.labelled is None:
        raise UsageError("--metric needs a labelled set: give --labelled")
    timer = PhaseTimer(phase_callback(options.progress))
    tuned = None if options.settings is None else read_tuned_settings(Path(options.settings)).session
    configs = session_configs(options, options.engine, options.level) if tuned is None else [tuned.config()]
    loaded = [_LoadedModel.of(source) for source in sources]
    paths = OutputPaths.of(report=options.json)
    read = [*data_files(options.inputs), *data_files(options.labelled)]
    paths.require_distinct([*(f for m in loaded for f in m.source.files), *read])
    examples = LabelledSet.read(Path(options.labelled)) if options.labelled is not None else None
    samples, metrics = 0, list[Metric]()
    if examples is not None:  # so that an unusable set fails before any measurement
        for m in (m.model for m in reversed(loaded) if m.model is not None):
            labels = examples.labels(input_specs(m))
            samples, texts = len(labels), [t.strip() for t in options.metric.split(",")]
            metrics = [load_metric(text, labels, examples.arrays) for text in texts]
            examples.feeds(input_specs(m), samples)
    with gc_paused(), timer.phase(CHOOSING_INPUTS):
        given: Inputs | GivenSamples | None = options.inputs

        def choose(source: ModelSource) -> Feeds:
            nonlocal given
            given = read_given(given, source.load())
            return make_feeds(source, given, options.batch, dict(options.dim or {}), options.seed, shapes=options.shape)

        feeds = _choose_feeds(loaded, choose)
    pairs = [(m, config) for m in loaded for config in configs]
    targets = [
        benchmark.BenchmarkTarget(m.source.files[0], config, m.own_feeds.by_batch if m.own_feeds is not None else None)
        for m, config in pairs
    ]
    with timer.phase(MEASURING):
        effort = benchmark.BenchmarkConfig(options.min_time, seed=options.seed)
        measured = benchmark.run_benchmark(targets, feeds.by_batch, effort, timer.progress)
    results = [
        ModelBenchmark(
            m.source.label,
            m.source.size,
            m.with_reason(metrics),
            own_inputs=m.own_feeds is not None,
            engine=config.engine_name,
        )
        for (m, config), metrics in zip(pairs, measured, strict=True)
    ]
    notes = dict.fromkeys([feeds.note] if feeds.note else [])
    results[1:] = [structs.replace(r, ratios=latency_ratios(r.measured, measured[0])) for r in results[1:]]
    if examples is not None and metrics:
        with timer.phase("computing the accuracy"):
            results = [
                _with_accuracy(r, m, config, examples, metrics, notes)
                for r, (m, config) in zip(results, pairs, strict=True)
            ]
    level = options.level if tuned is None else tuned.level
    conditions = (level, configs[0].provider, configs[0].intra_op_threads, list(feeds.by_batch), feeds.sizes)
    report = BenchReport(
        results,
        *conditions,
        metrics[0].name if metrics else "",
        samples,
        "; ".join(notes),
        timer.seconds,
        engine_versions(configs),
        options=options.chosen,
        session="" if tuned is None else ", ".join(settings_words(configs[0])),
        further_metrics=[m.name for m in metrics[1:]],
    )
    publish_text(paths.report, report.to_json)
    return report


bench = with_keywords(BenchOptions, "bench")(bench_models)


@dataclass(slots=True)
class _LoadedModel:
    """A model to measure; `model` is None if only onnxruntime may be able to load it.

    `own_feeds` are set if it does not accept the feeds of the first model; `feeds_error` says why there are none.
    """

    source: ModelSource
    model: Model | None
    load_error: str = ""
    own_feeds: Feeds | None = None
    feeds_error: str = ""

    @classmethod
    def of(cls, source: ModelSource) -> _LoadedModel:
        """Load a model. Raises ModelError if the file does not exist."""
        path = source.files[0]
        try:
            open_regular(path).close()
        except OSError as e:
            raise ModelError(unreadable(path, e, "model")) from e
        try:
            return cls(source, source.load())
        except ModelError as e:
            return cls(source, None, format_error(e))

    def accepts(self, feeds: Feeds) -> bool:
        """Whether the model runs with these inputs; True if unknown."""
        if self.model is None:
            return True
        try:
            with isolated_run_check(self.source, [v.name for v in self.model.graph.outputs]) as run_failure:
                return all(not run_failure(arrays) for arrays in feeds.by_batch.values())
        except UnverifiableError:
            return True

    def with_reason(self, metrics: ModelMetrics) -> ModelMetrics:
        """The metrics; adds to a failure on the inputs of the first model why the model has no inputs itself."""
        return ModelMetrics(failure=self.feeds_error) if metrics.failure and self.feeds_error else metrics


def _choose_feeds(models: Sequence[_LoadedModel], make: Callable[[ModelSource], Feeds]) -> Feeds:
    """Choose the feeds of the first model that runs; models that do not accept them get their own."""
    first: Feeds | None = None
    failures: list[UnverifiableError | ModelError] = []
    for m in models:
        if first is not None and m.accepts(first):
            continue
        if m.model is None:
            failures.append(ModelError(m.load_error))
            continue
        try:
            feeds = make(m.source)
        except (UnverifiableError, ModelError) as e:
            failures.append(e)
            m.feeds_error = format_error(e).removeprefix(f"{m.source.label}: ")
            continue
        if first is None:
            first = feeds
        else:
            m.own_feeds = feeds
    if first is None:
        raise failures[0]
    return first


def _with_accuracy(
    result: ModelBenchmark,
    model: _LoadedModel,
    config: SessionConfig,
    examples: LabelledSet,
    metrics: Sequence[Metric],
    notes: dict[str, None],
) -> ModelBenchmark:
    """The benchmark with the accuracy, if the model runs."""
    if result.measured.failure or model.model is None:
        return structs.replace(result, accuracy_failure=result.measured.failure or model.load_error)
    intervals = dict[str, tuple[float, float]]()
    try:
        accuracy, *further = figures_of(model.source, config, examples, metrics, notes, intervals)
    except EvaluationError as e:
        return structs.replace(result, accuracy_failure=format_error(e))
    by_name = {m.name: figure for m, figure in zip(metrics[1:], further, strict=True)}
    return structs.replace(result, accuracy=accuracy, further_figures=by_name, intervals=intervals)


def figures_of(
    source: ModelSource,
    config: SessionConfig,
    examples: LabelledSet,
    metrics: Sequence[Metric],
    notes: dict[str, None] | None = None,
    intervals: dict[str, tuple[float, float]] | None = None,
) -> list[float]:
    """Compute metrics of a model's outputs on a labelled set, in a separate process.

    Notes on outputs are added to `notes`, and the intervals of values that differ among parts of the rows to
    `intervals`. Raises the errors of `labelled_outputs`.
    """
    model = source.load()
    inputs = input_specs(model)
    with RemoteBackend(config) as remote:
        found = labelled_outputs(remote(source.loadable()), inputs, [v.name for v in model.graph.outputs], examples)
    if notes is not None:
        notes |= dict.fromkeys(notes_about(found))
    labels = examples.labels(inputs)
    figures = [metric(found, labels) for metric in metrics]
    for metric, figure in zip(metrics, figures, strict=True) if intervals is not None else ():
        interval = jackknife_interval(figure, figures_of_parts(metric, found, labels))
        if intervals is not None and interval is not None and interval[0] < interval[1]:
            intervals[metric.name] = interval
    return figures
