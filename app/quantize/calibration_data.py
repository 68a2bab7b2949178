"""Samples of the inputs of a model, to calibrate with and to compare models on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast, overload

import numpy as np

from ...core.errors import ModelError
from ...core.io.array_files import read_arrays
from ...core.io.model_source import ModelSource
from ...core.ort import value_files
from ...core.plugins.discovery import function_in_file, plugin_errors, python_file
from ...core.support.regular_files import is_folder
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import checked_inputs, read_inputs
from ...core.verify.input_generation import InputSet
from ...core.verify.input_specs import TENSOR, InputSpec
from ..bench.accuracy import LABELS
from ..measure.feeds import batch_symbol, drawn_feeds, fixed_batch

MAX_SAMPLES = 512
DRAWN_SAMPLES = 32
DEFAULT_FUNCTION = "reader"  # the name of the function in a file
DISJOINT_SAMPLES = 3  # from which each part of the data has samples of its own
MAX_CALIBRATION_SAMPLES = 128  # more change the ranges little, and cost time for each scheme
Feeds = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CalibrationData(Sequence[Feeds]):
    """Samples, loaded when they are read; each has the inputs of a model by name. Of several files, one is in memory.

    `source` says where they come from; samples that are `drawn` are random numbers, not data. `folders` hold those that
    can be read only once.
    """

    source: str
    loaders: tuple[Callable[[], Feeds], ...] = field(repr=False)
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
      without a batch, one sample. Arrays called labels are left out.
    - a folder of ONNX test data, with a sample in each `test_data_set_*`.
    - `file.py:function` or `file.py` with a function `reader`, which takes no arguments and returns one of the next.
    - an iterable of samples, arrays by name; one that can be read only once is kept in files.
    - a CalibrationDataReader of onnxruntime: its `get_next` returns samples, and None at the end.

    Raises ModelError for data that are not the model's inputs, PluginError for a file that cannot be run.
    """
    found = _Reader(inputs, limit).read(data)
    if not found.loaders:
        raise ModelError(f"{found.source}: there are no samples")
    if len(found) > limit:
        found = found.chosen(np.random.default_rng(seed).permutation(len(found))[:limit].tolist())
    _ = found[0]  # raises ModelError here, not in the middle of a run
    return found


def draw_calibration_data(source: ModelSource, count: int = DRAWN_SAMPLES, seed: int = 0) -> CalibrationData:
    """Samples of random numbers on which the model runs. Raises UnverifiableError if there are none."""
    return CalibrationData("", tuple(partial(dict[str, Any], f) for f in drawn_feeds(source, count, seed)), drawn=True)


def data_files(data: Any) -> list[Path]:
    """The files that data consists of, as far as they are named."""
    if isinstance(data, list | tuple):
        return [path for entry in cast("Sequence[Any]", data) for path in data_files(entry)]
    if not isinstance(data, str | Path):
        return []
    path = python_file(str(data)) or Path(data)
    return [*path.rglob("*.pb")] if is_folder(path) else [path]


@dataclass(frozen=True, slots=True)
class DataParts:
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads samples of a model's inputs, up to `limit` where their number is not known."""

    inputs: Sequence[InputSpec]
    limit: int

    def read(self, data: Any) -> CalibrationData:
        read_file = lru_cache(maxsize=1)(self._read_file)  # so that one file is in memory
        if isinstance(data, str | Path):
            return self._read_path(str(data), read_file)
        if not isinstance(data, list | tuple):
            return self._samples("the data", data)
        entries = cast("Sequence[Any]", data)
        if not entries or not all(isinstance(d, str | Path) for d in entries):
            return self._samples("the data", entries)
        parts = [self._read_path(str(d), read_file) for d in entries]
        loaders = tuple(load for part in parts for load in part.loaders)
        return CalibrationData(", ".join(p.source for p in parts), loaders, folders=sum((p.folders for p in parts), ()))

    def _read_path(self, text: str, read_file: Callable[[Path], CalibrationData]) -> CalibrationData:
        path = Path(text)
        if path.suffix == ".py" or ".py:" in text:
            name, function = function_in_file("--data", text, DEFAULT_FUNCTION)
            with plugin_errors(text, f"--data {text}"):
                made = function()
            file = text.removesuffix(f":{name}")
            return self._samples(f"{Path(file).name}:{name}", made, file)
        if is_folder(path):
            folders = sorted(path.glob("test_data_set_*")) or [path]
            return CalibrationData(path.name, tuple(partial(self._test_data, folder) for folder in folders))
        count = len(read_file(path))
        return CalibrationData(path.name, tuple(partial(lambda n: read_file(path)[n], n) for n in range(count)))

    def _read_file(self, path: Path) -> CalibrationData:
        """The samples of an .npz."""
        return self._rows(path.name, dict(read_arrays(path)))

    def _test_data(self, folder: Path) -> Feeds:
        return self._with_shapes(folder.name, read_inputs(folder, self.inputs)[0].feeds)

    def _samples(self, source: str, data: Any, file: str = "") -> CalibrationData:
        """The samples that Python code provides, perhaps that of a `file`."""
        if isinstance(data, Mapping):
            return self._rows(source, dict(cast("Feeds", data)))
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            given = cast("Sequence[Any]", data)
            return CalibrationData(source, tuple(partial(self._checked, source, sample) for sample in given))
        get_next = getattr(data, "get_next", None)
        if not callable(get_next) and not isinstance(data, Iterable):
            raise ModelError(f"{source}: {type(data).__name__} is no source of samples; give files, or an iterable")
        end = object()
        read: Iterator[Any] = iter(get_next, None) if callable(get_next) else iter(cast("Iterable[Any]", data))
        folder = ScratchFolder()
        paths = [folder.path / str(number) for number in range(self.limit)]
        for number, path in enumerate(paths):
            with plugin_errors(file, source) if file else nullcontext():
                sample = next(read, end)
            if sample is end:
                del paths[number:]
                break
            value_files.write_value(dict(self._checked(source, sample)), path)
        return CalibrationData(source, tuple(partial(value_files.read_value, p) for p in paths), folders=(folder,))

    def _rows(self, source: str, arrays: dict[str, Any]) -> CalibrationData:
        """The samples in arrays with a batch; without one, the arrays are a sample."""
        if all(i.name != LABELS for i in self.inputs):
            arrays.pop(LABELS, None)
        feeds = self._typed(source, arrays)
        symbol = batch_symbol(self.inputs)
        size = 1 if symbol is not None else fixed_batch(self.inputs)
        axes: dict[str, int] = {}
        for i in self.inputs:
            leading = i.shape if symbol is not None else i.shape[:1]
            if i.name in feeds and i.type_kind == TENSOR and i.default is None and (symbol or size) in leading:
                axes[i.name] = leading.index(symbol or size)
        if not axes:
            return CalibrationData(source, (partial(self._with_shapes, source, feeds),))
        rows = {name: [0, *np.shape(feeds[name])[axis:]][np.ndim(feeds[name]) > axis] for name, axis in axes.items()}
        if len(set(rows.values())) > 1:
            raise ModelError(
                f"{source}: {' and '.join(f'{n} rows of {name}' for name, n in rows.items())} do not agree"
            )
        first, count = next(iter(rows.items()))
        if count < size:
            lack = f"fewer rows than the batch of the model, {size}" if count else "no rows"
            raise ModelError(f"{source}: {first} has {lack}")
        count //= size

        def load(number: int) -> Feeds:
            indices = range(number * size, (number + 1) * size)
            taken = {name: np.take(feeds[name], indices, axis) for name, axis in axes.items()}
            return self._with_shapes(source, {**feeds, **taken})

        return CalibrationData(source, tuple(partial(load, number) for number in range(count)))

    def _checked(self, source: str, sample: Any) -> Feeds:
        """A sample as arrays of the types and shapes of the inputs. Raises ModelError."""
        if not isinstance(sample, Mapping):
            raise ModelError(f"{source}: a sample is of type {type(sample).__name__}, not arrays by name")
        return self._with_shapes(source, self._typed(source, dict(cast("Feeds", sample))))

    def _typed(self, source: str, arrays: dict[str, Any]) -> Feeds:
        return checked_inputs(InputSet(f"given ({source})", {}, arrays), self.inputs).feeds

    def _with_shapes(self, source: str, feeds: Feeds) -> Feeds:
        """The arrays of a sample, whose shapes fit the inputs. Raises ModelError."""
        for i in self.inputs:
            if i.type_kind != TENSOR or not i.is_ranked or i.name not in feeds:
                continue
            found = np.shape(feeds[i.name])
            pairs = zip(i.shape, found, strict=False)
            if len(found) != len(i.shape) or any(isinstance(d, int) and d != n for d, n in pairs):
                wanted = ", ".join(map(str, i.shape))
                raise ModelError(f"{source}: a sample of {i.name} has shape {list(found)}; the model needs [{wanted}]")
        return feeds
