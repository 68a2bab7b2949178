"""Collection of statistics: runs of a model in a worker process, in groups of values that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from ..errors import EvaluationError, ModelError, UnverifiableError
from ..io.files import ModelFile
from ..io.model import Model
from ..io.model_source import ModelSource, model_source
from ..io.split_models import Loadable
from ..io.writer import as_loadable
from ..ir.dtypes import FLOATS
from ..ir.graph import defined_values
from ..ort import value_files
from ..ort.sessions import ENABLE_ALL, SessionConfig
from ..processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from ..support.scratch_folder import ScratchFolder
from ..support.suggestions import did_you_mean
from .collection_worker import CollectionWorker
from .statistics import StatisticsCollector, ValueStatistics

MEMORY_BYTES = 512 << 20  # of the values that are kept at a time
OPTIMIZED = SessionConfig(ENABLE_ALL, prepack_weights=True)
RUN_TIMEOUT = 600.0  # seconds to load the model and run one sample
Feeds = Mapping[str, Any]


def collect_statistics(
    model: Model | ModelSource | onnx.ModelProto | str | Path,
    names: Iterable[str],
    feeds: Iterable[Feeds],
    *,
    channels: Mapping[str, int] | None = None,
    grams: Mapping[str, int] | None = None,
    histograms: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    config: SessionConfig = OPTIMIZED,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, ValueStatistics]:
    """Run `model` on each of `feeds` and collect the statistics of the named values, in the order of `names`.

    The feeds, inputs by name and perhaps of another shape each, are read once and kept in files. If the values need
    more than `memory_bytes` on the largest sample, the model is run on all samples several times, for some of the
    values each. `channels`: axes along which to collect maxima and means, by name. `grams`: the numbers of columns of
    values whose Gram matrix to collect, by name. Names may be of values in the bodies of If, Loop and Scan, where each
    run of the body counts. Those of values that are not floats, and of other bodies, are left out.

    Raises ModelError for names that the model lacks, without samples, if the model does not run on a sample, and for a
    value that is NaN unless an IsNaN of the model reads it, as in a softmax whose rows may be masked throughout.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(ScratchFolder())
        found = _Calibrated.open(model, folder, stack)
        wanted = found.floats_named(dict.fromkeys((*names, *(channels or {}), *(grams or {}))))
        samples = _write_samples(feeds, folder)
        run = _Collection(
            found, samples, folder, dict(channels or {}), dict(grams or {}), histograms, config, found.tested_for_nan
        )
        stack.callback(run.worker.terminate)
        run.open()
        groups = list(run.groups(wanted, memory_bytes))
        collected: dict[str, ValueStatistics] = {}
        for number, group in enumerate(groups):
            progress("calibrating" + (f": part {number + 1} of {len(groups)}" if len(groups) > 1 else ""))
            collected |= run.collect(group)
    return {name: collected[name] for name in wanted if name in collected}


@dataclass(frozen=True, slots=True)
class _Samples:
    paths: list[Path]
    largest: int  # the number of the one with the largest arrays


def _write_samples(feeds: Iterable[Feeds], folder: Path) -> _Samples:
    """Write each of `feeds` to a file, as the runs for several groups need them again."""
    paths, sizes = list[Path](), list[int]()
    for number, arrays in enumerate(feeds):
        path = folder / f"sample{number}"
        value_files.write_value(value_files.with_arrays(arrays), path)
        paths.append(path)
        sizes.append(path.stat().st_size)
    if not paths:
        raise ModelError("there are no samples to calibrate with")
    return _Samples(paths, int(np.argmax(sizes)))


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """A model to calibrate, and its file; external weights are in `weight_folder`."""

    model: Model
    path: Path
    weight_folder: Path | None

    @classmethod
    def open(
        cls, model: Model | ModelSource | onnx.ModelProto | str | Path, folder: Path, stack: ExitStack
    ) -> _Calibrated:
        """Write the model to `folder`, a large one with its weights apart, unless it has such a file already."""
        source = model if isinstance(model, Model | ModelSource) else model_source(model, inline=True)
        loaded = source if isinstance(source, Model) else source.load()
        if isinstance(source, ModelSource) and source.is_external and not source.transforms:
            assert isinstance(source.origin, ModelFile)
            path = source.origin.path
            functions = onnx.ModelProto.FromString(path.read_bytes()).functions
            if len(functions) == len(loaded.header.functions):  # none was inlined
                return cls(loaded, path, path.resolve().parent)
        written: Loadable = stack.enter_context(as_loadable(loaded))
        if isinstance(written, Path):
            return cls(loaded, written, written.parent)
        path = folder / "model.onnx"
        path.write_bytes(written)
        return cls(loaded, path, None)

    @property
    def tested_for_nan(self) -> frozenset[str]:
        """The names of the values that an IsNaN reads."""
        tests = (op for graph in self.model.graph.with_subgraphs() for op in graph.ops("IsNaN"))
        return frozenset(v.name for op in tests for v in op.inputs if v is not None)

    def floats_named(self, names: Iterable[str]) -> dict[str, int]:
        """The element types of the values of these names that are floats, or may be. Raises ModelError."""
        dtypes: dict[str, int] = {}
        for graph in self.model.graph.with_subgraphs():
            for value in defined_values(graph):
                if value.name and dtypes.get(value.name, 0) not in FLOATS:
                    dtypes[value.name] = -1 if value.type is not None else value.known_dtype
        for name in names:
            if name not in dtypes:
                raise ModelError(f"the model has no value named '{name}'{did_you_mean(name, dtypes)}")
        return {name: dtypes[name] for name in names if dtypes[name] in FLOATS or not dtypes[name]}


@dataclass(slots=True)
class _Collection:
    """Runs of a model on samples, in one worker process."""

    calibrated: _Calibrated
    samples: _Samples
    folder: Path
    channels: Mapping[str, int]
    grams: Mapping[str, int]
    histograms: bool
    config: SessionConfig
    tested_for_nan: frozenset[str]
    worker: WorkerProcess[CollectionWorker] = field(
        default_factory=lambda: WorkerProcess(module_command(f"{__package__}.collection_worker"), RUN_TIMEOUT)
    )

    def open(self) -> None:
        """Give the model to the worker process."""
        with self._errors():
            self.worker.call().load(self.calibrated.path, self.calibrated.weight_folder, self.config)

    def groups(self, wanted: Mapping[str, int], memory_bytes: int) -> Iterator[list[str]]:
        """Groups of values, in the order of the graph, that need up to `memory_bytes` each on the largest sample.

        The number of elements of each value is found by a run that outputs nothing else.
        """
        largest = self.samples.largest
        sizes = dict[str, int]()
        if wanted:
            with self._errors(largest):
                sizes = self.worker.call().sizes(list(wanted), self.samples.paths[largest])
        group: list[str] = []
        total = 0
        for name, size in sizes.items():
            needed = size * (8 if wanted[name] == TensorProto.DOUBLE else 4) + 8 * self.grams.get(name, 0) ** 2
            if group and total + needed > memory_bytes:
                yield group
                group, total = [], 0
            group.append(name)
            total += needed
        if group:
            yield group

    def collect(self, group: Iterable[str]) -> dict[str, ValueStatistics]:
        """The statistics of a group of values over all samples."""
        collectors = [
            StatisticsCollector(
                name, self.histograms, self.channels.get(name), name in self.tested_for_nan, name in self.grams
            )
            for name in group
        ]
        remote = self.worker.call()
        with self._errors():
            remote.collect(collectors)
        for number, path in enumerate(self.samples.paths):
            with self._errors(number):
                remote.add(number, path)
        with self._errors():
            return {s.name: s for s in remote.statistics()}

    @contextmanager
    def _errors(self, sample: int | None = None) -> Generator[None]:
        """Raise ModelError, about a sample if given, where the worker does not do what it is asked for."""
        subject = "the model cannot be calibrated" if sample is None else f"the model does not run on sample {sample}"
        try:
            yield
        except (EvaluationError, UnverifiableError, RequestFailed) as e:
            raise ModelError(f"{subject}: {e}") from e
        except WorkerExit as e:
            raise ModelError(f"{subject}: {e.describe('onnxruntime')}") from e
