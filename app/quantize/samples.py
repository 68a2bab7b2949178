"""Samples of a quantization, for calibration, for scoring candidates, and for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, overload

import numpy as np
from msgspec import Struct, structs

from ...core.errors import EvaluationError, ModelError
from ...core.io.model import Model
from ...core.io.model_source import ModelSource
from ...core.io.split_models import Loadable
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import SessionConfig
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import read_samples as read_given_samples
from ...core.verify.input_specs import InputSpec, input_specs
from ...core.verify.sample_rows import batch_symbol
from ..measure.accuracy import LABELS, LabelledSet, load_metric
from ..measure.agreement import OutputUses, Score
from ..measure.criterion import (
    AS_USERS_RUN,
    AgreementCriterion,
    Budget,
    Criterion,
    Feeds,
    JointCriterion,
    LabelledPart,
    MetricCriterion,
)
from ..measure.feeds import drawn_feeds
from ..measure.ready_metrics import require_labels_for
from ..registry.python_data import with_python_data

MAX_SAMPLES = 512
DRAWN_SAMPLES = 32
DISJOINT_SAMPLES = 3  # from which each part of the data has samples of its own
MAX_CALIBRATION_SAMPLES = 128  # more change the ranges little, and cost time for each scheme
LEAST_SCORED = 32  # samples of the search, and of the report, however long a run takes
Loader = Callable[[], Feeds]


@dataclass(frozen=True, slots=True)
class CalibrationData(Sequence[Feeds]):
    """Samples, loaded when they are read; each maps a model's inputs to arrays. At most one file is in memory.

    `source` describes their origin; `drawn` samples are random numbers instead of data. `folders` hold samples that can
    be read only once. `notes` say which samples were skipped.
    """

    source: str
    loaders: tuple[Loader, ...] = field(repr=False)
    drawn: bool = False
    folders: tuple[ScratchFolder, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.loaders)

    @overload
    def __getitem__(self, index: int) -> Feeds: ...
    @overload
    def __getitem__(self, index: slice) -> CalibrationData: ...
    def __getitem__(self, index: int | slice) -> Feeds | CalibrationData:
        if isinstance(index, slice):
            return replace(self, loaders=self.loaders[index])
        return self.loaders[index]()

    def __iter__(self) -> Iterator[Feeds]:
        return (load() for load in self.loaders)

    def __str__(self) -> str:
        count = f"{len(self)} sample{'s' * (len(self) != 1)}"
        return f"{count} drawn at random" if self.drawn else f"{count} of {self.source}"

    def chosen(self, places: Iterable[int]) -> CalibrationData:
        """The samples with these indices, in this order."""
        return replace(self, loaders=tuple(self.loaders[i] for i in sorted(places)))


def read_calibration_data(
    data: Any, inputs: Sequence[InputSpec], *, limit: int = MAX_SAMPLES, seed: int = 0
) -> CalibrationData:
    """Read up to `limit` samples: chosen by `seed` if their number is known, otherwise the first.

    `data` is one of these, or a list of files:

    - an .npz file or arrays by name: one sample per row of the batch, or per batch if its size is fixed; without a
      batch, one sample. A name such as `s0/x` has a sample and an input. Arrays named labels are ignored.
    - a folder of .npz files, or of ONNX test data with a sample in each `test_data_set_*`.
    - `file.py:function`, or `file.py` with a function `reader`, which takes no arguments and returns one of the
      following.
    - an iterable of samples, each arrays by name; samples that can be read only once are kept in files.
    - a CalibrationDataReader of onnxruntime: its `get_next` returns samples, and None at the end.

    Raises ModelError for data that does not fit the model's inputs, and PluginError for a file that cannot be run.
    """
    ignored = () if any(i.name == LABELS for i in inputs) else (LABELS,)
    given = with_python_data(data, "--data")
    samples = read_given_samples(given, inputs, name="the data", limit=limit, ignored=ignored, each_row=True, seed=seed)
    loaders = tuple(s.load for s in samples.samples)
    found = CalibrationData(samples.source, loaders, folders=samples.folders, notes=samples.notes)
    if len(found) > limit:
        found = found.chosen(np.random.default_rng(seed).permutation(len(found))[:limit].tolist())
    _ = found[0]  # raises ModelError now instead of during a run
    return found


def draw_calibration_data(source: ModelSource, count: int = DRAWN_SAMPLES, seed: int = 0) -> CalibrationData:
    """Generate samples of random numbers on which the model runs. Raises UnverifiableError if there are none."""
    samples = read_given_samples(drawn_feeds(source, count, seed), input_specs(source.load()), limit=count)
    return CalibrationData("", tuple(s.load for s in samples.samples), drawn=True, folders=samples.folders)


def split_samples(data: CalibrationData, seed: int = 0) -> tuple[list[CalibrationData], str]:
    """Split samples: half for calibration, up to 128; the others for search and report. Below 3, all parts share them.

    Returns the three parts, and a note with their sizes.
    """
    count = len(data)
    if count < DISJOINT_SAMPLES:
        note = f"calibration, search and report use the same {data}; give {DISJOINT_SAMPLES} or more to separate them"
        return [data] * 3, note
    order = np.random.default_rng(seed).permutation(count).tolist()
    calibrated = min(count // 2, MAX_CALIBRATION_SAMPLES)
    parts = order[:calibrated], order[calibrated::2], order[calibrated + 1 :: 2]
    note = f"{data}: {calibrated} for calibration, {len(parts[1])} for the search, {len(parts[2])} for the report"
    return [data.chosen(part) for part in parts], note


Part = LabelledPart | Sequence[Feeds]
"""Samples to compare models on, by a metric or by agreement with the original."""


def criterion(part: Part, model: Model, budget: Budget, original: Loadable, metric: str = "") -> Criterion:
    """The criterion on a part of the samples. Raises ModelError if the original does not run on it."""
    outputs = list(dict.fromkeys(v.name for v in model.graph.outputs))
    if isinstance(part, LabelledPart):
        return part.criterion(outputs, budget, original)
    inputs = input_specs(model)
    symbol = batch_symbol(inputs)
    axes = {i.name: i.shape.index(symbol) for i in inputs if symbol is not None and symbol in i.shape}
    found = AgreementCriterion(part, outputs, budget, OutputUses.of(model.graph, metric), axes)
    found.measure_original(original)
    return found


class Criteria(Struct, frozen=True):
    """Criteria on the samples of a search, on others for its report, and with labels on all rows.

    A metric of all rows need not lie between the metrics of their parts.
    """

    searched: Criterion
    reported: Criterion
    all_rows: Criterion | None = None

    def excess(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> tuple[Score, str]:
        """The score of a model on the report samples, and where it is over the budget, or ""."""
        reported = score = self.reported.score(model, config)
        criterion, rows = self.reported, "the report set"
        if self.all_rows is not None and not score.failure and criterion.allows(score):
            criterion, rows = self.all_rows, "all labelled rows together"
            score = criterion.score(model, config)
        if not score.failure and criterion.allows(score):
            return reported, ""
        return reported, f"on {rows}: {score.failure or f'{criterion.name} {score.figure:.4g}'}"


class Samples(Struct, frozen=True):
    """The parts of the data, which are disjoint unless a note says otherwise.

    `calibration` is empty if there are no data; `drawn` has random inputs in its place, for schemes that are requested
    nevertheless. `first` is one sample to run a model with, None without data. `notes` say where the samples come from.
    `metric`: the figure to compare with the original, "" for that which fits the outputs.
    """

    calibration: Sequence[Feeds]
    search: Part
    report: Part
    first: Feeds | None
    notes: list[str]
    drawn: Sequence[Feeds] = ()
    metric: str = ""

    def digest(self) -> str:
        """A digest of the samples on which candidates are scored."""
        found = sha256()
        part = self.search
        inputs = [part.examples.arrays] if isinstance(part, LabelledPart) else part
        for name, value in (pair for feeds in inputs for pair in sorted(feeds.items())):
            for array in value if isinstance(value, list) else [value]:
                elements = np.asarray(array)
                found.update(f"{name} {elements.shape} {elements.dtype}".encode())
                found.update(elements.tobytes() if elements.dtype != np.object_ else repr(elements.tolist()).encode())
        return found.hexdigest()

    def criteria(self, model: Model, budget: Budget, original: Loadable) -> Criteria:
        """The criteria on these samples. Raises ModelError if the original does not run on them."""
        searched, reported = (criterion(p, model, budget, original, self.metric) for p in (self.search, self.report))
        if not (isinstance(searched, MetricCriterion) and isinstance(reported, MetricCriterion)):
            return Criteria(searched, reported)
        joint = JointCriterion((searched, reported))
        joint.measure_original(original)
        return Criteria(searched, reported, joint)

    def affordable(self, original: Loadable, outputs: Sequence[str], seconds: float) -> int:
        """The number of samples on which the original runs in so many seconds; LEAST_SCORED at least.

        0 if it does not run on the first ones.
        """
        part = self.search
        part = part.chosen(np.arange(1)) if isinstance(part, LabelledPart) else part
        given, rows = (next(part.feeds()), part.batch) if isinstance(part, LabelledPart) else (part[0], 1)
        with RemoteBackend(AS_USERS_RUN) as remote, suppress(EvaluationError):
            session = remote(original)
            session.run(outputs, given)
            began = monotonic()
            session.run(outputs, given)
            return max(LEAST_SCORED, int(seconds * rows / max(monotonic() - began, 1e-6)))
        return 0

    def limited(self, most: int) -> Samples:
        """At most so many samples for the search and for the report, spread evenly, with a note if these are fewer."""
        longest = max(len(self.search), len(self.report))
        if not 0 < most < longest:
            return self
        search, report = (_spread(part, most) for part in (self.search, self.report))
        note = f"candidates are scored on {most} of {longest} samples, as more would take too much of --time"
        return structs.replace(self, search=search, report=report, notes=[*self.notes, note])

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of samples by part, including those drawn for calibration."""
        calibration = self.calibration or self.drawn
        return {"calibration": len(calibration), "search": len(self.search), "report": len(self.report)}


def _spread(part: Part, most: int) -> Part:
    """At most so many samples, spread evenly."""
    places = np.linspace(0, len(part) - 1, min(most, len(part))).round().astype(np.intp)
    if isinstance(part, LabelledPart):
        return part.chosen(places)
    return [part[int(i)] for i in places]


def labelled_halves(examples: LabelledSet, inputs: Sequence[InputSpec]) -> tuple[LabelledSet, LabelledSet]:
    """The rows with even and with odd index. Raises ModelError for a set that does not fit the inputs."""
    labels = examples.labels(inputs)
    if len(labels) < 2:
        raise ModelError(f"{examples.name}: only one row; the search and the report need at least one each")
    first, second = (examples.chosen(inputs, np.arange(start, len(labels), 2)) for start in (0, 1))
    return first, second


def read_samples(source: ModelSource, data: Any, labelled: str | Path | None, metric: str, seed: int) -> Samples:
    """The samples in `data` and in a labelled set; drawn ones without either.

    Without data, the labelled rows of the search are also used to calibrate. Then, and without labels, the parts of one
    set are disjoint if there are enough samples. Raises ModelError for data or labels that do not fit the model, and
    UnverifiableError if it runs on no drawn inputs.
    """
    inputs = input_specs(source.load())
    limit = MAX_SAMPLES if labelled is None else MAX_CALIBRATION_SAMPLES  # labels are used for the comparisons
    given = None if data is None else read_calibration_data(data, inputs, limit=limit, seed=seed)
    if labelled is not None:
        examples = LabelledSet.read(Path(labelled))
        load_metric(metric, examples.labels(inputs), examples.arrays)  # raises UsageError early
        halves = labelled_halves(examples, inputs)
        search = LabelledPart(halves[0], inputs, metric, has_interval=False)
        report = LabelledPart(halves[1], inputs, metric)
        calibrated = "calibrated with the labelled rows of the search; --data names other samples"
        notes = [calibrated] if given is None else [*given.notes]
        calibration = given if given is not None else list(search.feeds())
        return Samples(calibration, search, report, calibration[0], notes)
    require_labels_for(metric)
    data = given if given is not None else draw_calibration_data(source, seed=seed)
    (calibration, search, report), note = split_samples(data, seed)
    if given is not None:
        return Samples(calibration, search, report, calibration[0], [*given.notes, note], metric=metric)
    without = "no data was given: accuracy was measured on random inputs; schemes that need calibration were skipped"
    return Samples([], search, report, None, [without, note], drawn=calibration, metric=metric)
