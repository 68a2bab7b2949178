"""Accuracy criteria: a metric on labelled rows, or agreement with the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from math import inf, isfinite
from operator import attrgetter
from typing import Any, Protocol, cast

import numpy as np
from msgspec import Struct, structs

from ...core.errors import EvaluationError, ModelError, UsageError, format_error
from ...core.io.split_models import Loadable, message_of
from ...core.ort import value_files
from ...core.ort.remote_backend import RemoteBackend, RemoteSession
from ...core.ort.sessions import AS_USERS_RUN, SessionConfig
from ...core.serialization.proto_queries import all_nodes
from ...core.support.confidence_intervals import share_interval
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import KEPT_BYTES
from ...core.verify.input_specs import InputSpec
from ...core.verify.kept_values import value_bytes
from ...core.verify.sample_rows import batch_symbol, fixed_batch
from .accuracy import (
    BATCH_SIZE,
    LabelledSet,
    even_batch,
    figures_of_parts,
    jackknife_interval,
    labelled_outputs,
    load_metric,
    notes_about,
    rows_of,
)
from .agreement import Agreement, OutputUses, Score, figure_name
from .ready_metrics import Metric

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
LEAST_SNR = 10.0  # dB, for each output of a classifier; for other models, the budget limits the noise
BATCHED_SAMPLES = 32  # in batches, if a model mixes rows
RANGES_OF_RUNS = "DynamicQuantize"  # begins the names of operators that round by the range of all rows of a run


class Budget(Struct, frozen=True):
    """The allowed loss: a share of the original's figure, or an absolute difference if `is_absolute`."""

    amount: float
    is_absolute: bool = False

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Parse a budget such as `1%` (relative) or `0.5pt` (absolute, in hundredths). Raises UsageError."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(%|pt)", text.strip())
        if found is None:
            raise UsageError(f"--budget {text}: not of the form 1% (relative) or 0.5pt (absolute)")
        if found[2] == "%" and float(found[1]) >= 100:
            raise UsageError(f"--budget {text}: it allows any loss; give less than 100%")
        return cls(float(found[1]) / 100, found[2] == "pt")

    def allows(self, loss: float) -> bool:
        """Whether a loss is within the budget, after rounding."""
        return loss <= self.amount + 1e-9

    def __str__(self) -> str:
        return f"{self.amount * 100:g}{'pt' if self.is_absolute else '%'}"


class Criterion(Protocol):
    """An accuracy measure of models on one set of inputs; `reference` is the value of the original's figure.

    `name` is the name of the figure. `notes` say which outputs count in a way that a user may not expect.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above
    @property
    def reference(self) -> float: ...  # noqa: D102 - described above
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102 - described above

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The score of a model, in a session with this config."""
        ...

    def allows(self, score: Score) -> bool:
        """Whether a score is within the budget."""
        ...


def mixes_rows(model: Loadable) -> bool:
    """Whether ops round by ranges of a run, so that the result of a row depends on the others of its batch."""
    message = message_of(model)
    nodes = chain(message.graph.node, *(f.node for f in message.functions))
    return any(node.op_type.startswith(RANGES_OF_RUNS) for node in all_nodes(nodes))


class _Original(Struct, frozen=True):
    """The outputs of the original on labelled rows, none if they are large; the figures of all rows and of parts."""

    outputs: Mapping[str, Any]
    figure: float
    parts: Sequence[float]


@dataclass
class MetricCriterion:
    """A metric on labelled rows. `notes` name the outputs without an axis of rows.

    With `has_interval`, scores have the interval of the loss, from the figures without each part of the rows. The noise
    of a score is the noise of outputs against the original's, if these take no more than KEPT_BYTES. If rows depend on
    the others of their batch, a score is the worse one of rows in batches and of single rows.
    """

    metric: Metric
    examples: LabelledSet
    inputs: Sequence[InputSpec]
    outputs: Sequence[str]
    budget: Budget
    has_interval: bool = False
    reference: float = field(init=False, default=0.0)
    notes: list[str] = field(init=False, default_factory=list[str])
    _originals: list[_Original] = field(init=False, default_factory=list[_Original], repr=False)
    _axes: dict[str, int | None] = field(init=False, default_factory=dict[str, Any], repr=False)
    _last: tuple[Loadable, SessionConfig, list[dict[str, Any]]] | None = field(init=False, default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the figure."""
        return self.metric.name

    def measure_original(self, model: Loadable) -> None:
        """Set the reference. Raises ModelError if the original does not run on the labelled set or fit the metric."""
        labels = self.examples.labels(self.inputs)
        try:
            runs = self.runs(model)
        except EvaluationError as e:
            raise ModelError(f"{self.examples.name}: the original does not run on it: {format_error(e)}") from e
        self._originals = []
        for found in runs:
            figure = self.metric(found, labels)
            if not isfinite(figure):
                raise ModelError(f"{self.examples.name}: the original does not run on it: its {self.name} is {figure}")
            kept = found if value_bytes(found) <= KEPT_BYTES else {}
            self._originals.append(_Original(kept, figure, self._parts(found)))
        self.reference, self.notes = self._originals[0].figure, notes_about(runs[0])
        if not self.reference and not self.metric.less_is_better:
            self.notes.append(f"{self.name} of the original is 0, so no loss can be measured: check the labels")

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The metric of a model, and its loss compared with the original."""
        labels = self.examples.labels(self.inputs)
        try:
            runs = self.runs(model, config)
            figures = [self.metric(found, labels) for found in runs]
        except (EvaluationError, ModelError) as e:
            return Score(-inf, inf, failure=format_error(e))
        self.notes = notes_about(runs[0])
        unusable = [figure for figure in figures if not isfinite(figure)]
        if unusable:
            return Score(-inf, inf, failure=f"its {self.name} is {unusable[0]}")
        originals = [*self._originals, self._originals[0]]
        return max(map(self._score, runs, figures, originals), key=attrgetter("loss"))

    def _score(self, found: Mapping[str, Any], figure: float, original: _Original) -> Score:
        loss = self.lost(figure, original.figure)
        snr = self._snr(found, original.outputs) if original.outputs else None
        return Score(figure, loss, snr, interval=self._interval(loss, found, original, is_equal=snr == inf))

    def _parts(self, found: Mapping[str, Any]) -> list[float]:
        labels = self.examples.labels(self.inputs)
        return figures_of_parts(self.metric, found, labels) if self.has_interval else []

    def lost(self, figure: float, reference: float) -> float:
        """The loss of a figure against a reference."""
        lost = figure - reference if self.metric.less_is_better else reference - figure
        return lost if self.budget.is_absolute else lost / (abs(reference) or 1.0)

    def _interval(
        self, loss: float, found: Mapping[str, Any], original: _Original, *, is_equal: bool
    ) -> tuple[float, float] | None:
        """The interval of the loss.

        Where outputs differ, but the figure of no part does, it counts rows whose outcomes are the same: of others, as
        many may be as are likely to be missed in so many rows.
        """
        losses = [self.lost(*pair) for pair in zip(self._parts(found), original.parts, strict=False)]
        interval = jackknife_interval(loss, losses)
        if interval is None or is_equal or any(losses):
            return interval
        rows = len(self.examples.labels(self.inputs))
        unseen = share_interval(0, rows)[1] * (abs(original.figure) if self.budget.is_absolute else 1.0)
        return -unseen, unseen

    def runs(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> list[dict[str, Any]]:
        """The outputs of a model on the labelled set in batches, and if rows depend on these, of single rows.

        Those of the last model are kept, up to KEPT_BYTES. Raises EvaluationError.
        """
        if self._last is not None and self._last[0] is model and self._last[1] == config:
            return self._last[2]
        self._last = None
        sizes = [BATCH_SIZE, 1] if batch_symbol(self.inputs) is not None and mixes_rows(model) else [BATCH_SIZE]
        with RemoteBackend(config) as remote:
            session = remote(model)
            given = session, self.inputs, self.outputs, self.examples
            found = [labelled_outputs(*given, most, self._axes) for most in sizes]
        self._last = (model, config, found) if sum(map(value_bytes, found)) <= KEPT_BYTES else None
        return found

    def _snr(self, found: Mapping[str, Any], expected: Mapping[str, Any]) -> float | None:
        """The lowest signal-to-noise ratio of outputs with a row for each sample."""
        wanted = {n: cast("Array", a) for n, a in expected.items() if isinstance(a, np.ndarray)}
        names = [n for n, a in wanted.items() if a.dtype.kind == "f" and isinstance(found.get(n), np.ndarray)]
        agreement = Agreement.of(names, OutputUses())
        agreement.add([wanted[n] for n in names], [found[n] for n in names])
        return agreement.score().snr if names else None

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget."""
        return self.budget.allows(score.loss)


@dataclass
class JointCriterion:
    """The metric of the rows of two criteria together, on the outputs that these have, too."""

    parts: tuple[MetricCriterion, MetricCriterion]
    notes: Sequence[str] = ()
    _references: list[float] = field(init=False, default_factory=list[float])

    @property
    def name(self) -> str:
        """The name of the figure."""
        return self.parts[0].name

    @property
    def reference(self) -> float:
        """The figure of the original."""
        return self._references[0]

    def measure_original(self, model: Loadable) -> None:
        """Set the reference. Raises ModelError for outputs that the metric is not for."""
        self._references = self._figures(model, AS_USERS_RUN)

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The metric of a model, and its loss against the reference."""
        try:
            pairs = zip(self._figures(model, config), [*self._references, self.reference], strict=False)
        except (EvaluationError, ModelError) as e:
            return Score(-inf, inf, failure=format_error(e))
        return max((Score(pair[0], self.parts[0].lost(*pair)) for pair in pairs), key=attrgetter("loss"))

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget."""
        return self.parts[0].allows(score)

    def _figures(self, model: Loadable, config: SessionConfig) -> list[float]:
        labels = np.concatenate([part.examples.labels(part.inputs) for part in self.parts])
        runs = zip(*(part.runs(model, config) for part in self.parts), strict=True)
        return [self.parts[0].metric({n: _joined(a[n], b[n]) for n in a}, labels) for a, b in runs]


def _joined(first: Array | list[Any], second: Array | list[Any]) -> Array | list[Any]:
    """The rows of an output in two sets; a list of what runs give if they are one in either set."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    return [v for a in (first, second) for v in (a if isinstance(a, list) else [a[i : i + 1] for i in range(len(a))])]


@dataclass
class AgreementCriterion:
    """Agreement with the outputs of the original on inputs without labels, as measured by `Agreement`.

    KEPT_BYTES of these outputs are in memory, the others in files. `axes` are the axes of rows, by input, along which
    samples can be joined: if a model mixes rows, its score is the worse one of samples alone and in batches.
    """

    feeds: Sequence[Feeds]
    outputs: Sequence[str]
    budget: Budget
    uses: OutputUses
    axes: Mapping[str, int] = field(default_factory=dict[str, int])
    reference: float = field(init=False, default=0.0)
    is_classifier: bool = field(init=False, default=False)
    notes: list[str] = field(init=False, default_factory=list[str])
    _expected: list[Callable[[], list[Any]]] = field(init=False, default_factory=list[Any], repr=False)
    _folder: ScratchFolder = field(init=False, repr=False)
    _original: Loadable = field(init=False, default=b"", repr=False)

    @property
    def name(self) -> str:
        """The name of the figure."""
        return figure_name(is_classifier=self.is_classifier)

    def measure_original(self, model: Loadable) -> None:
        """Keep the outputs of the original. Raises ModelError if it does not run."""
        self._original, self._expected, budget = model, [], KEPT_BYTES
        seen = Agreement.of(self.outputs, self.uses)
        try:
            for outputs in self._run(model, AS_USERS_RUN):
                seen.observe(outputs)
                budget -= value_bytes(outputs)
                self._expected.append(partial(list[Any], outputs) if budget >= 0 else self._stored(outputs))
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the inputs: {format_error(e)}") from e
        self.is_classifier, self.notes = seen.is_classifier, seen.notes
        self.reference = 1.0 if self.is_classifier else inf

    def _stored(self, outputs: list[Any]) -> Callable[[], list[Any]]:
        """Store outputs in a file; return a function that reads it."""
        if not hasattr(self, "_folder"):
            self._folder = ScratchFolder()
        path = self._folder.path / str(len(self._expected))
        value_files.write_value(outputs, path)
        return partial(value_files.read_value, path)

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The agreement of a model with the original."""
        score = self._score(model, config)
        batches = self._batches if self.axes and mixes_rows(model) else None
        return score if batches is None else max((score, batches.score(model, config)), key=attrgetter("loss"))

    @cached_property
    def _batches(self) -> AgreementCriterion | None:
        """The criterion on batches of the first samples; None if they cannot be joined, or not for the original."""
        starts = range(0, min(len(self.feeds), BATCHED_SAMPLES), BATCH_SIZE)
        parts = (self.feeds[start : start + BATCH_SIZE] for start in starts)
        joined = [feeds for part in parts if (feeds := joined_samples(part, self.axes))]
        found = AgreementCriterion(joined, self.outputs, self.budget, self.uses) if joined else None
        with suppress(ModelError):
            if found is not None:
                found.measure_original(self._original)
            return found
        return None

    def _score(self, model: Loadable, config: SessionConfig) -> Score:
        agreement = Agreement.of(self.outputs, self.uses)
        try:
            for wanted, found in zip(self._expected, self._run(model, config), strict=True):
                agreement.add(wanted(), found)
        except EvaluationError as e:
            return Score(-inf, inf, failure=format_error(e))
        return agreement.score()

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget and, for a classifier, the noise is low enough."""
        return allows_agreement(self.budget, score, is_classifier=self.is_classifier)

    def _run(self, model: Loadable, config: SessionConfig) -> Iterable[list[Any]]:
        with RemoteBackend(config) as remote:
            session: RemoteSession = remote(model)
            for feeds in self.feeds:
                yield session.run(self.outputs, feeds)


def joined_samples(samples: Sequence[Feeds], axes: Mapping[str, int]) -> Feeds:
    """Samples as one batch, with their rows along `axes`; nothing if they differ in other inputs or in shapes."""
    first, *others = samples
    shapes = {name: np.shape(first[name]) for name in axes if name in first}
    for feeds in others:
        is_alike = {name: np.shape(feeds[name]) for name in shapes} == shapes
        if not is_alike or any(not np.array_equal(a, feeds[name]) for name, a in first.items() if name not in axes):
            return {}
    rows = {name: np.concatenate([feeds[name] for feeds in samples], axes[name]) for name in shapes if others}
    return {**first, **rows} if rows else {}


def allows_agreement(budget: Budget, score: Score, *, is_classifier: bool) -> bool:
    """Whether the loss of agreement is within the budget and, for a classifier, the noise is low enough."""
    return budget.allows(score.loss) and not (is_classifier and score.snr is not None and score.snr < LEAST_SNR)


class LabelledPart(Struct, frozen=True):
    """Rows of a labelled set, and its metric, whose scores have an interval if it `has_interval`."""

    examples: LabelledSet
    inputs: Sequence[InputSpec]
    metric: str
    has_interval: bool = True

    def __len__(self) -> int:
        return len(self.examples.labels(self.inputs))

    @property
    def batch(self) -> int:
        """The number of rows of the first of `feeds`."""
        rows = len(self)
        return even_batch(rows) if batch_symbol(self.inputs) is not None else fixed_batch(self.inputs)

    def feeds(self) -> Iterator[Feeds]:
        """Yield the inputs, some rows at a time."""
        rows = len(self)
        arrays, axes = self.examples.feeds(self.inputs, rows)
        if batch_symbol(self.inputs) is not None:
            parts = np.array_split(np.arange(rows), -(-rows // BATCH_SIZE))
        else:  # whole batches, of which the only one may repeat the last row
            size = fixed_batch(self.inputs)
            starts = range(0, rows - rows % size or size, size)
            parts = [np.minimum(np.arange(start, start + size), rows - 1) for start in starts]
        for part in parts:
            yield rows_of(arrays, axes, part)

    def chosen(self, rows: Array) -> LabelledPart:
        """Some of the rows."""
        return structs.replace(self, examples=self.examples.chosen(self.inputs, rows))

    def criterion(self, outputs: Sequence[str], budget: Budget, original: Loadable) -> MetricCriterion:
        """The criterion on these rows. Raises ModelError if the original does not run on them."""
        metric = load_metric(self.metric, self.examples.labels(self.inputs), self.examples.arrays)
        found = MetricCriterion(metric, self.examples, self.inputs, outputs, budget, self.has_interval)
        found.measure_original(original)
        return found
