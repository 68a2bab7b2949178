"""`bench`: how fast, how large and how right models are, measured side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.errors import EvaluationError, ModelError, Unverifiable, told
from ...core.io.model import Model
from ...core.io.model_source import Source, source_of
from ...core.io.output_paths import Places
from ...core.ort.remote_backend import Remote
from ...core.ort.sessions import Setting
from ...core.pass_manager.pass_selection import BadUsage
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ...core.verify.input_specs import signature
from ...core.verify.verification_spec import Inputs
from ..environment import versions
from ..measure.benchmark import Effort, Entry, compared, race
from ..measure.execution_provider import parsed
from ..measure.feeds import Feeds, feeds_for, trial
from ..measure.metrics import Interval, Measured
from .accuracy import Labelled, Metric, answers, metric_of
from .bench_report import Benched, BenchedModel

LEVELS = {"disable": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
EFFORT = Effort()


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
    labelled: str | Path | None = None,
    metric: str = "",
    effort: Effort = EFFORT,
    seed: int = 0,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Benched:
    """Measure models in onnxruntime, in turns: latency, throughput, creation of a session, memory and size.

    All are given the same inputs (`inputs`, or made up from `seed` at `shapes` and `dims`) at each of the `batches`;
    one that does not take those of the first gets its own. `level`: disable, basic, extended or all. `labelled`: an
    .npz with inputs and labels, for an accuracy: top-1, or what the `metric`, `file.py:function`, gives for outputs and
    labels.

    A model that cannot be measured says so in `Measured.failure`. Raises ModelError for an unusable model, input or
    labelled set, BadUsage for options that are, Unverifiable if no inputs can be made up for any model.
    """
    if level not in LEVELS:
        raise BadUsage(f"--level {level}: there are {', '.join(LEVELS)}")
    if metric and labelled is None:
        raise BadUsage("--metric is for a labelled set: give --labelled")
    if not models:
        raise BadUsage("no model is given")
    watch = Stopwatch(progress)
    setting = parsed(provider).setting(LEVELS[level], threads)
    judge = metric_of(metric) if labelled is not None else None
    subjects = [_Subject.of(Path(m)) for m in models]
    places = Places(report=Path(report_to) if report_to is not None else None)
    read = [f for s in subjects for f in s.source.files]
    places.require([*read, *(Path(p) for p in (inputs, labelled) if isinstance(p, str | Path))])
    examples = Labelled.read(Path(labelled)) if labelled is not None else None
    for subject in subjects:
        subject.require(examples)
    with no_collection(), watch.phase("looking for inputs"):
        feeds, own = _all_feeds(subjects, inputs, batches, dict(dims or {}), seed, shapes)
    entries = [Entry(s.source.files[0], setting, f.by_batch if f else None) for s, f in zip(subjects, own, strict=True)]
    with watch.phase("measuring"):
        measured = race(entries, feeds.by_batch, replace(effort, seed=seed), progress)
    found = [
        BenchedModel(s.source.label, s.source.size, m, _ratios(m, measured[0]) if i else {}, own_inputs=f is not None)
        for i, (s, m, f) in enumerate(zip(subjects, measured, own, strict=True))
    ]
    if examples is not None and judge is not None:
        with watch.phase("asking for accuracy"):
            found = [_scored(b, s, setting, examples, judge[1]) for b, s in zip(found, subjects, strict=True)]
    benched = Benched(found, level, setting.provider, threads, list(feeds.by_batch), feeds.sizes, note=feeds.note)
    benched.metric, benched.samples = (judge[0], _samples(subjects, examples)) if judge and examples else ("", 0)
    benched.seconds, benched.versions = watch.seconds, versions()
    if places.report is not None:
        write_json(benched.to_json(), places.report)
    return benched


@dataclass(frozen=True, slots=True)
class _Subject:
    """A model to measure; None where only onnxruntime can tell what it is."""

    source: Source
    model: Model | None
    refusal: str = ""

    @classmethod
    def of(cls, path: Path) -> _Subject:
        """Raises ModelError for what is no file."""
        source = source_of(path, inline=False)
        if not path.is_file():
            raise ModelError(f"{path} is a folder, not a model" if path.is_dir() else f"{path} does not exist")
        try:
            return cls(source, source.load())
        except ModelError as e:
            return cls(source, None, told(e))

    def require(self, examples: Labelled | None) -> None:
        """Raise ModelError for a labelled set that does not go with the model, before anything is measured."""
        if self.model is not None and examples is not None:
            inputs = signature(self.model)
            examples.feeds(inputs, len(examples.labels(inputs)))

    def takes(self, feeds: Feeds) -> bool:
        """Whether it runs with the inputs of another; one that cannot be asked is taken to."""
        if self.model is None:
            return True
        try:
            with trial(self.source, [v.name for v in self.model.graph.outputs]) as runs:
                return all(not runs(arrays) for arrays in feeds.by_batch.values())
        except Unverifiable:
            return True


def _all_feeds(
    subjects: Sequence[_Subject],
    given: Inputs | None,
    batches: Sequence[int],
    dims: dict[str, int],
    seed: int,
    shapes: Mapping[str, Sequence[int]] | None,
) -> tuple[Feeds, list[Feeds | None]]:
    """What the first model that runs is fed, and for each model what it is fed instead, if anything."""
    first: Feeds | None = None
    refused: list[Unverifiable | ModelError] = []
    own: list[Feeds | None] = []
    for subject in subjects:
        own.append(None)
        if first is not None and subject.takes(first):
            continue
        if subject.model is None:
            refused.append(ModelError(subject.refusal))
            continue
        try:
            found = feeds_for(subject.source, given, batches, dims, seed, shapes=shapes)
        except (Unverifiable, ModelError) as e:
            refused.append(e)
            continue
        first, own[-1] = (first, found) if first is not None else (found, None)
    if first is None:
        raise refused[0]
    return first, own


def _ratios(model: Measured, first: Measured) -> dict[int, Interval]:
    shared = model.latencies.keys() & first.latencies.keys()
    return {batch: compared(model.latencies[batch], first.latencies[batch]) for batch in sorted(shared)}


def _samples(subjects: Sequence[_Subject], examples: Labelled) -> int:
    model = next(s.model for s in subjects if s.model is not None)
    return len(examples.labels(signature(model)))


def _scored(
    benched: BenchedModel, subject: _Subject, setting: Setting, examples: Labelled, metric: Metric
) -> BenchedModel:
    """With its accuracy, if it runs."""
    if benched.measured.failure or subject.model is None:
        return replace(benched, unscored=benched.measured.failure or subject.refusal)
    try:
        return replace(benched, accuracy=accuracy_of(subject.source, setting, examples, metric))
    except EvaluationError as e:
        return replace(benched, unscored=told(e))


def accuracy_of(source: Source, setting: Setting, examples: Labelled, metric: Metric) -> float:
    """What a metric makes of a model's outputs for a labelled set.

    Raises ModelError for a set that does not go with the model, EvaluationError if it does not run.
    """
    model = source.load()
    inputs, outputs = signature(model), [v.name for v in model.graph.outputs]
    labels = examples.labels(inputs)
    feeds, cut = examples.feeds(inputs, len(labels))
    with Remote(setting) as remote:
        given = answers(remote(source.loadable()), inputs, outputs, feeds, cut)
    return metric(given, labels)
