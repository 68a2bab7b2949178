"""`bench`: how fast, how large and how right models are, measured side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.errors import EvaluationError, ModelError, UnverifiableError, format_error
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import ALL_LEVELS, SessionConfig
from ...core.pass_manager.pass_selection import UsageError
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ...core.verify.input_specs import input_specs
from ...core.verify.verification_spec import Inputs
from ..environment import versions
from ..measure.benchmark import BenchmarkConfig, BenchmarkTarget, compare_latencies, run_benchmark
from ..measure.execution_provider import parse_provider
from ..measure.feeds import Feeds, isolated_run_check, make_feeds
from ..measure.metrics import ModelMetrics, RatioInterval
from .accuracy import LabelledSet, Metric, load_metric, run_in_batches
from .bench_report import BenchReport, ModelBenchmark

DEFAULT_EFFORT = BenchmarkConfig()


def bench(
    models: Sequence[str | Path],
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    batches: Sequence[int] = (1, 32),
    level: str = "all",
    threads: int = 0,
    provider: str = "cpu",
    labelled_set: str | Path | None = None,
    metric: str = "",
    effort: BenchmarkConfig = DEFAULT_EFFORT,
    seed: int = 0,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """Measure models in onnxruntime, in turns: latency, throughput, creation of a session, memory and size.

    All are given the same inputs (`inputs`, or made up from `seed` at `shapes` and `dims`) at each of the `batches`;
    one that does not take those of the first gets its own. `level`: disable, basic, extended or all. `labelled_set`: an
    .npz with inputs and labels, for an accuracy: top-1, or what the `metric`, `file.py:function`, gives for outputs and
    labels.

    A model that cannot be measured says so in `Measured.failure`. Raises ModelError for an unusable model, input or
    labelled set, UsageError for options that are, UnverifiableError if no inputs can be made up for any model.
    """
    if level not in ALL_LEVELS:
        raise UsageError(f"--level {level}: there are {', '.join(ALL_LEVELS)}")
    if metric and labelled_set is None:
        raise UsageError("--metric is for a labelled set: give --labelled")
    if not models:
        raise UsageError("no model is given")
    watch = PhaseTimer(progress)
    setting = parse_provider(provider).session_config(ALL_LEVELS[level], threads)
    judge = load_metric(metric) if labelled_set is not None else None
    subjects = [_LoadedModel.of(Path(m)) for m in models]
    places = OutputPaths(report=Path(report_to) if report_to is not None else None)
    read = [f for s in subjects for f in s.source.files]
    places.require_writable([*read, *(Path(p) for p in (inputs, labelled_set) if isinstance(p, str | Path))])
    examples = LabelledSet.read(Path(labelled_set)) if labelled_set is not None else None
    for subject in subjects:
        subject.require_labelled_set(examples)
    with gc_paused(), watch.phase("looking for inputs"):
        feeds, own = _feeds_for_all(subjects, inputs, batches, dict(dims or {}), seed, shapes)
    entries = [
        BenchmarkTarget(s.source.files[0], setting, f.by_batch if f else None)
        for s, f in zip(subjects, own, strict=True)
    ]
    with watch.phase("measuring"):
        measured = run_benchmark(entries, feeds.by_batch, replace(effort, seed=seed), progress)
    found = [
        ModelBenchmark(
            s.source.label, s.source.size, m, _latency_ratios(m, measured[0]) if i else {}, own_inputs=f is not None
        )
        for i, (s, m, f) in enumerate(zip(subjects, measured, own, strict=True))
    ]
    if examples is not None and judge is not None:
        with watch.phase("asking for accuracy"):
            found = [_with_accuracy(b, s, setting, examples, judge[1]) for b, s in zip(found, subjects, strict=True)]
    benched = BenchReport(found, level, setting.provider, threads, list(feeds.by_batch), feeds.sizes, note=feeds.note)
    benched.metric, benched.samples = (judge[0], _sample_count(subjects, examples)) if judge and examples else ("", 0)
    benched.seconds, benched.versions = watch.seconds, versions()
    if places.report is not None:
        write_json(benched.to_json(), places.report)
    return benched


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A model to measure; None where only onnxruntime can tell what it is."""

    source: ModelSource
    model: Model | None
    load_error: str = ""

    @classmethod
    def of(cls, path: Path) -> _LoadedModel:
        """Raises ModelError for what is no file."""
        source = model_source(path, inline=False)
        if not path.is_file():
            raise ModelError(f"{path} is a folder, not a model" if path.is_dir() else f"{path} does not exist")
        try:
            return cls(source, source.load())
        except ModelError as e:
            return cls(source, None, format_error(e))

    def require_labelled_set(self, examples: LabelledSet | None) -> None:
        """Raise ModelError for a labelled set that does not go with the model, before anything is measured."""
        if self.model is not None and examples is not None:
            inputs = input_specs(self.model)
            examples.feeds(inputs, len(examples.labels(inputs)))

    def accepts(self, feeds: Feeds) -> bool:
        """Whether it runs with the inputs of another; one that cannot be asked is taken to."""
        if self.model is None:
            return True
        try:
            with isolated_run_check(self.source, [v.name for v in self.model.graph.outputs]) as runs:
                return all(not runs(arrays) for arrays in feeds.by_batch.values())
        except UnverifiableError:
            return True


def _feeds_for_all(
    subjects: Sequence[_LoadedModel],
    inputs: Inputs | None,
    batches: Sequence[int],
    dims: dict[str, int],
    seed: int,
    shapes: Mapping[str, Sequence[int]] | None,
) -> tuple[Feeds, list[Feeds | None]]:
    """The feeds of the first model that runs, and for each model its own feeds, if they differ."""
    first: Feeds | None = None
    refused: list[UnverifiableError | ModelError] = []
    own: list[Feeds | None] = []
    for subject in subjects:
        own.append(None)
        if first is not None and subject.accepts(first):
            continue
        if subject.model is None:
            refused.append(ModelError(subject.load_error))
            continue
        try:
            found = make_feeds(subject.source, inputs, batches, dims, seed, shapes=shapes)
        except (UnverifiableError, ModelError) as e:
            refused.append(e)
            continue
        first, own[-1] = (first, found) if first is not None else (found, None)
    if first is None:
        raise refused[0]
    return first, own


def _latency_ratios(model: ModelMetrics, first: ModelMetrics) -> dict[int, RatioInterval]:
    shared = model.latencies.keys() & first.latencies.keys()
    return {batch: compare_latencies(model.latencies[batch], first.latencies[batch]) for batch in sorted(shared)}


def _sample_count(subjects: Sequence[_LoadedModel], examples: LabelledSet) -> int:
    model = next(s.model for s in subjects if s.model is not None)
    return len(examples.labels(input_specs(model)))


def _with_accuracy(
    report: ModelBenchmark, subject: _LoadedModel, setting: SessionConfig, examples: LabelledSet, metric: Metric
) -> ModelBenchmark:
    """With its accuracy, if it runs."""
    if report.measured.failure or subject.model is None:
        return replace(report, accuracy_failure=report.measured.failure or subject.load_error)
    try:
        return replace(report, accuracy=accuracy_of(subject.source, setting, examples, metric))
    except EvaluationError as e:
        return replace(report, accuracy_failure=format_error(e))


def accuracy_of(source: ModelSource, setting: SessionConfig, examples: LabelledSet, metric: Metric) -> float:
    """The value of a metric for a model's outputs on a labelled set.

    Raises ModelError for a set that does not go with the model, EvaluationError if it does not run.
    """
    model = source.load()
    inputs, outputs = input_specs(model), [v.name for v in model.graph.outputs]
    labels = examples.labels(inputs)
    feeds, cut = examples.feeds(inputs, len(labels))
    with RemoteBackend(setting) as remote:
        given = run_in_batches(remote(source.loadable()), inputs, outputs, feeds, cut)
    return metric(given, labels)
