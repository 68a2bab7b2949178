"""Samples of a quantization: for calibration, for the search, and for the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from ...core.errors import ModelError, UsageError
from ...core.io.model import Model
from ...core.io.model_source import ModelSource
from ...core.io.split_models import Loadable
from ...core.verify.input_specs import InputSpec, input_specs
from ..measure.accuracy import LabelledSet, load_metric
from ..measure.feeds import batch_symbol, fixed_batch
from .calibration_data import (
    MAX_CALIBRATION_SAMPLES,
    MAX_SAMPLES,
    draw_calibration_data,
    read_calibration_data,
    split_samples,
)
from .criterion import AgreementCriterion, Budget, Criterion, Feeds, MetricCriterion

ROWS_AT_ONCE = 8  # of labelled inputs, to calibrate with


class LabelledPart(Struct, frozen=True):
    """Rows of a labelled set, and its metric."""

    examples: LabelledSet
    inputs: Sequence[InputSpec]
    metric: str

    def __len__(self) -> int:
        return len(self.examples.labels(self.inputs))

    def criterion(self, model: Model, budget: Budget, original: Loadable, *, is_classifier: bool) -> Criterion:  # noqa: ARG002 - the metric says it
        """The metric."""
        name, function = load_metric(self.metric)
        outputs = [v.name for v in model.graph.outputs]
        found = MetricCriterion(name, function, self.examples, self.inputs, outputs, budget)
        found.measure_original(original)
        return found

    def feeds(self) -> Iterator[Feeds]:
        """The inputs, some rows at a time."""
        rows = len(self)
        arrays, batched = self.examples.feeds(self.inputs, rows)
        size = ROWS_AT_ONCE if batch_symbol(self.inputs) is not None else fixed_batch(self.inputs)
        for start in range(0, rows - rows % size or size, size):
            part = np.minimum(np.arange(start, start + size), rows - 1)
            yield {**arrays, **{name: arrays[name][part] for name in batched}}


@dataclass(frozen=True)
class UnlabelledPart:
    """Inputs on which models have to agree with the original."""

    inputs: Sequence[Feeds] = field(repr=False)

    def __len__(self) -> int:
        return len(self.inputs)

    def criterion(self, model: Model, budget: Budget, original: Loadable, *, is_classifier: bool) -> Criterion:
        """The agreement with the original."""
        found = AgreementCriterion(self.inputs, [v.name for v in model.graph.outputs], budget, is_classifier)
        found.measure_original(original)
        return found


class Samples(Struct, frozen=True):
    """The parts of the data, which are disjoint unless a note says otherwise.

    `calibration` is empty if there are no data; `drawn` has random inputs in its place, for schemes that are requested
    nevertheless. `first` is one sample to run a model with, None without data. `notes` say where the samples come from.
    `labelled`: all rows of a labelled set, None without one; a metric of all need not lie between those of its parts.
    """

    calibration: Sequence[Feeds]
    search: LabelledPart | UnlabelledPart
    report: LabelledPart | UnlabelledPart
    first: Feeds | None
    notes: list[str]
    drawn: Sequence[Feeds] = ()
    labelled: LabelledPart | None = None

    def digest(self) -> str:
        """A digest of the samples that candidates are scored on."""
        found = sha256()
        part = self.search
        inputs = [part.examples.arrays] if isinstance(part, LabelledPart) else part.inputs
        for name, value in (pair for feeds in inputs for pair in sorted(feeds.items())):
            for array in value if isinstance(value, list) else [value]:
                elements = np.asarray(array)
                found.update(f"{name} {elements.shape} {elements.dtype}".encode())
                found.update(elements.tobytes() if elements.dtype != np.object_ else repr(elements.tolist()).encode())
        return found.hexdigest()

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of samples by part."""
        return {"calibration": len(self.calibration), "search": len(self.search), "report": len(self.report)}


def labelled_halves(examples: LabelledSet, inputs: Sequence[InputSpec]) -> tuple[LabelledSet, LabelledSet]:
    """The rows of even and of odd index. Raises ModelError for a set that does not fit the inputs."""
    labels = examples.labels(inputs)
    if len(labels) < 2:
        raise ModelError(f"{examples.name}: one row; the search and the report need one each, at least")
    _, batched = examples.feeds(inputs, len(labels))

    def rows(start: int) -> LabelledSet:
        by_row = {n: a[start::2] if n in batched or a is labels else a for n, a in examples.arrays.items()}
        return LabelledSet(examples.name, by_row)

    return rows(0), rows(1)


def read_samples(source: ModelSource, data: Any, labelled: str | Path | None, metric: str, seed: int) -> Samples:
    """The samples in `data` and in a labelled set; drawn ones without either.

    Without data, labelled rows of the search calibrate as well; then, and without labels, the parts of one set are
    disjoint where there are enough samples. Raises ModelError for data or labels that do not fit the model,
    UnverifiableError if it runs on no drawn inputs.
    """
    inputs = input_specs(source.load())
    limit = MAX_SAMPLES if labelled is None else MAX_CALIBRATION_SAMPLES  # labels are there for the comparisons
    given = None if data is None else read_calibration_data(data, inputs, limit=limit, seed=seed)
    if labelled is not None:
        examples = LabelledSet.read(Path(labelled))
        halves = labelled_halves(examples, inputs)
        search, report, whole = (LabelledPart(part, inputs, metric) for part in (*halves, examples))
        notes = [] if given is not None else ["calibrated with the labelled rows of the search: --data gives others"]
        calibration = given if given is not None else list(search.feeds())
        return Samples(calibration, search, report, calibration[0], notes, labelled=whole)
    if metric:
        raise UsageError("--metric is for a labelled set: give --labelled")
    parts = split_samples(given if given is not None else draw_calibration_data(source, seed=seed), seed)
    search, report = UnlabelledPart(parts.search), UnlabelledPart(parts.report)
    if given is not None:
        return Samples(parts.calibration, search, report, parts.calibration[0], [parts.note])
    note = "no data were given: accuracy is that on random inputs, and only schemes without calibration are tried"
    return Samples([], search, report, None, [note, parts.note], drawn=parts.calibration)
