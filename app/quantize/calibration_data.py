"""Samples of the inputs of a model, to calibrate with and to compare models on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, overload

import numpy as np
from msgspec import Struct

from ...core.errors import ModelError
from ...core.io.model_source import ModelSource
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import GivenSample, fitting_inputs, kind_of_sample, read_samples
from ...core.verify.input_sets import InputSet
from ...core.verify.input_specs import TENSOR, InputSpec
from ..measure.accuracy import LABELS
from ..measure.feeds import batch_symbol, drawn_feeds, fixed_batch
from ..registry.python_data import with_python_data

MAX_SAMPLES = 512
DRAWN_SAMPLES = 32
DISJOINT_SAMPLES = 3  # from which each part of the data has samples of its own
MAX_CALIBRATION_SAMPLES = 128  # more change the ranges little, and cost time for each scheme
Feeds = Mapping[str, Any]
Loader = Callable[[], Feeds]


@dataclass(frozen=True, slots=True)
class CalibrationData(Sequence[Feeds]):
    """Samples, loaded when they are read; each has the inputs of a model by name. Of several files, one is in memory.

    `source` says where they come from; samples that are `drawn` are random numbers, not data. `folders` hold those that
    can be read only once.
    """

    source: str
    loaders: tuple[Loader, ...] = field(repr=False)
    drawn: bool = False
    folders: tuple[ScratchFolder, ...] = field(default=(), repr=False)

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
        """The samples of these indices, in their order."""
        return replace(self, loaders=tuple(self.loaders[i] for i in sorted(places)))


def read_calibration_data(
    data: Any, inputs: Sequence[InputSpec], *, limit: int = MAX_SAMPLES, seed: int = 0
) -> CalibrationData:
    """Up to `limit` samples, chosen by `seed` where there are more and their number is known, else the first.

    `data` is one of, or a list of files of, these:

    - an .npz, or arrays by name: a sample for each row along the batch, or for each group of rows of a fixed batch;
      without a batch, one sample. Names such as `s0/x` are those of a sample and an input. Arrays called labels are
      left out.
    - a folder of ONNX test data, with a sample in each `test_data_set_*`, or of .npz.
    - `file.py:function` or `file.py` with a function `reader`, which takes no arguments and returns one of the next.
    - an iterable of samples, arrays by name; one that can be read only once is kept in files.
    - a CalibrationDataReader of onnxruntime: its `get_next` returns samples, and None at the end.

    Raises ModelError for data that are not the model's inputs, PluginError for a file that cannot be run.
    """
    ignored = () if any(i.name == LABELS for i in inputs) else (LABELS,)
    given = with_python_data(data, "--data")
    samples = read_samples(given, inputs, name="the data", limit=limit, ignored=ignored, may_have_rows=True)
    read = lru_cache(maxsize=1)(_loaded)  # so that one file is in memory
    loaders = (_rows(s, inputs, read) if s.is_table else (s.load,) for s in samples.samples)
    found = CalibrationData(samples.source, tuple(chain.from_iterable(loaders)), folders=samples.folders)
    if len(found) > limit:
        found = found.chosen(np.random.default_rng(seed).permutation(len(found))[:limit].tolist())
    _ = found[0]  # raises ModelError here, not in the middle of a run
    return found


def draw_calibration_data(source: ModelSource, count: int = DRAWN_SAMPLES, seed: int = 0) -> CalibrationData:
    """Samples of random numbers on which the model runs. Raises UnverifiableError if there are none."""
    return CalibrationData("", tuple(partial(dict[str, Any], f) for f in drawn_feeds(source, count, seed)), drawn=True)


class DataParts(Struct, frozen=True):
    """The parts of the samples; a `note` says how many each has, or that they share them."""

    calibration: CalibrationData
    search: CalibrationData
    report: CalibrationData
    note: str


def split_samples(data: CalibrationData, seed: int = 0) -> DataParts:
    """Half of the samples for calibration, up to 128; the others for search and report. Below 3, all share them."""
    count = len(data)
    if count < DISJOINT_SAMPLES:
        note = f"calibration, search and report share {data}; give {DISJOINT_SAMPLES} or more to keep them apart"
        return DataParts(data, data, data, note)
    order = np.random.default_rng(seed).permutation(count).tolist()
    calibrated = min(count // 2, MAX_CALIBRATION_SAMPLES)
    calibration, search, report = order[:calibrated], order[calibrated::2], order[calibrated + 1 :: 2]
    note = f"{data}: {calibrated} for calibration, {len(search)} for the search, {len(report)} for the report"
    return DataParts(data.chosen(calibration), data.chosen(search), data.chosen(report), note)


def _loaded(sample: GivenSample) -> Feeds:
    return sample.load()


def _rows(sample: GivenSample, inputs: Sequence[InputSpec], read: Callable[[GivenSample], Feeds]) -> Iterator[Loader]:
    """The samples in arrays with a batch; without one, the arrays are a sample."""
    feeds = read(sample)
    symbol = batch_symbol(inputs)
    size = 1 if symbol is not None else fixed_batch(inputs)
    axes: dict[str, int] = {}
    for i in inputs:
        leading = i.shape if symbol is not None else i.shape[:1]
        if i.name in feeds and i.type_kind == TENSOR and i.default is None and (symbol or size) in leading:
            axes[i.name] = leading.index(symbol or size)
    if not axes:
        yield lambda: fitting_inputs(InputSet(kind_of_sample(sample.label), {}, read(sample)), inputs).feeds
        return
    rows = {name: [0, *np.shape(feeds[name])[axis:]][np.ndim(feeds[name]) > axis] for name, axis in axes.items()}
    if len(set(rows.values())) > 1:
        counts = " and ".join(f"{n} rows of {name}" for name, n in rows.items())
        raise ModelError(f"{sample.label}: {counts} do not agree")
    first, count = next(iter(rows.items()))
    if count < size:
        lack = f"fewer rows than the batch of the model, {size}" if count else "no rows"
        raise ModelError(f"{sample.label}: {first} has {lack}")

    def load(number: int) -> Feeds:
        found, indices = read(sample), range(number * size, (number + 1) * size)
        taken = {name: np.take(found[name], indices, axis) for name, axis in axes.items()}
        kind = f"given ({sample.label}: row {number})"
        return fitting_inputs(InputSet(kind, {}, {**found, **taken}), inputs).feeds

    yield from (partial(load, number) for number in range(count // size))
