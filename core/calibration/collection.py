"""Collection of statistics: runs of a model in a worker process, in groups of values that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import onnx
from onnx import TensorProto

from ..errors import MORE_MEMORY, EvaluationError, ModelError, UnverifiableError
from ..io.files import ModelFile
from ..io.model import Model
from ..io.model_source import ModelSource, model_source
from ..io.writer import write_for_sessions
from ..ir.dtypes import FLOATS
from ..ir.graph import Graph, defined_values
from ..ort import value_files
from ..ort.backends import is_lack_of_memory, session_memory
from ..ort.sessions import ENABLE_ALL, SessionConfig
from ..processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command, worker_pool
from ..support.scratch_folder import ScratchFolder
from ..support.suggestions import did_you_mean
from .collection_worker import CollectionWorker
from .statistics import MAX_WINDOWS, Rows, StatisticsCollector, ValueStatistics

MEMORY_BYTES = 512 << 20  # for the values that are kept at a time
KEPT_SHARE = 4  # 1/n of the process's memory, for these values; the process copies them
OPTIMIZED = SessionConfig(ENABLE_ALL, prepack_weights=True)
WORKER = module_command(f"{__package__}.collection_worker")
RUN_TIMEOUT = 600.0  # seconds to load the model and run one sample
Feeds = Mapping[str, Any]


def collect_statistics(
    model: Model | ModelSource | onnx.ModelProto | str | Path,
    names: Iterable[str],
    feeds: Iterable[Feeds],
    *,
    channels: Mapping[str, int] | None = None,
    grams: Mapping[str, Collection[Rows]] | None = None,
    histograms: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    config: SessionConfig = OPTIMIZED,
    until: float = inf,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, ValueStatistics]:
    """Run `model` on each of `feeds` and collect the statistics of the named values, in the order of `names`.

    The feeds, inputs by name and perhaps of another shape each, are read once and kept in files. If the values need
    more than `memory_bytes` on the largest sample, the model is run on all samples several times, for some of the
    values each. `channels`: axes along which to collect maxima and means, by name. `grams`: the rows of values whose
    Gram matrices to collect, by name; of windows MAX_WINDOWS at most, as many of each sample. Names may be of values in
    the bodies of If, Loop and Scan, where each run of the body counts. Those of values that are not floats, and of
    other bodies, are left out. After `until`, a time of `monotonic`, only the first sample is run for further values.

    Raises ModelError for unknown names, if there are no samples, if the model does not run on a sample, and for a value
    that is NaN unless an IsNaN in the model reads it, as in a softmax whose rows may be completely masked.
    """
    channels, grams = channels or {}, grams or {}
    with ExitStack() as stack:
        folder = stack.enter_context(ScratchFolder())
        loaded, path = _model_file(model, folder)
        dtypes = _float_types(loaded.graph, dict.fromkeys((*names, *channels, *grams)))
        tests = (op for g in loaded.graph.with_subgraphs() for op in g.ops("IsNaN"))
        tested_for_nan = frozenset(v.name for op in tests for v in op.inputs if v is not None)
        samples = _write_samples(feeds, folder)
        memory = session_memory(path, config)
        process: WorkerProcess[CollectionWorker] = worker_pool().take(WORKER)
        process.limit_memory(memory)
        worker = process.call(RUN_TIMEOUT)
        stack.callback(worker_pool().give_back, process, worker.unload)
        with _collection_errors():
            worker.load(path, config)
        largest = max(range(len(samples)), key=lambda i: samples[i].stat().st_size)
        with _collection_errors(largest):
            sizes = worker.sizes(list(dtypes), samples[largest])
        widths = {name: 8 if dtype == TensorProto.DOUBLE else 4 for name, dtype in dtypes.items()}
        needed = {n: size * widths[n] + sum(r.gram_bytes for r in grams.get(n, ())) for n, size in sizes.items()}
        windows = -(-MAX_WINDOWS // len(samples))
        groups = _groups(needed, min(memory_bytes, memory // KEPT_SHARE))
        collected: dict[str, ValueStatistics] = {}
        for number, group in enumerate(groups):
            progress("calibrating" + (f": part {number + 1} of {len(groups)}" if len(groups) > 1 else ""))
            with _collection_errors():
                worker.collect(
                    [
                        StatisticsCollector(
                            name,
                            histograms,
                            channels.get(name),
                            name in tested_for_nan,
                            tuple(grams.get(name, ())),
                            windows,
                        )
                        for name in group
                    ]
                )
            for sample, file in enumerate(samples):
                if sample and monotonic() > until:
                    break
                with _collection_errors(sample):
                    worker.add(sample, file)
            with _collection_errors():
                collected |= {s.name: s for s in worker.statistics()}
    return {name: collected[name] for name in dtypes if name in collected}


def _write_samples(feeds: Iterable[Feeds], folder: Path) -> list[Path]:
    """Write each of `feeds` to a file, because the runs of several groups read them."""
    paths = list[Path]()
    for number, arrays in enumerate(feeds):
        paths.append(folder / f"sample{number}")
        value_files.write_value(value_files.with_arrays(arrays), paths[-1])
    if not paths:
        raise ModelError("there are no samples to calibrate with")
    return paths


def _model_file(model: Model | ModelSource | onnx.ModelProto | str | Path, folder: Path) -> tuple[Model, Path]:
    """The model and its file, next to its external weights; written to `folder` if it has no file."""
    source = model if isinstance(model, Model | ModelSource) else model_source(model, inline=True)
    loaded = source if isinstance(source, Model) else source.load()
    if isinstance(source, ModelSource) and source.is_external and not source.transforms:
        assert isinstance(source.origin, ModelFile)
        path = source.origin.path
        functions = onnx.ModelProto.FromString(path.read_bytes()).functions
        if len(functions) == len(loaded.header.functions):  # no function was inlined
            return loaded, path.resolve()
    path = folder / "model.onnx"
    write_for_sessions(loaded, path)
    return loaded, path


def _float_types(graph: Graph, names: Iterable[str]) -> dict[str, int]:
    """The element types of the named values that are, or may be, floats. Raises ModelError."""
    dtypes: dict[str, int] = {}
    for g in graph.with_subgraphs():
        for value in defined_values(g):
            if value.name and dtypes.get(value.name, 0) not in FLOATS:
                dtypes[value.name] = -1 if value.type is not None else value.known_dtype
    for name in names:
        if name not in dtypes:
            raise ModelError(f"the model has no value named '{name}'{did_you_mean(name, dtypes)}")
    return {name: dtypes[name] for name in names if dtypes[name] in FLOATS or not dtypes[name]}


def _groups(needed: Mapping[str, int], memory_bytes: int) -> list[list[str]]:
    """Split values, in order, into groups of up to `memory_bytes`; `needed` has the bytes of each value."""
    groups, room = list[list[str]](), 0
    for name, size in needed.items():
        if not groups or size > room:
            groups.append([])
            room = memory_bytes
        groups[-1].append(name)
        room -= size
    return groups


@contextmanager
def _collection_errors(sample: int | None = None) -> Generator[None]:
    """Raise ModelError, naming the sample if given, if the worker fails."""
    subject = "the model cannot be calibrated" if sample is None else f"the model does not run on sample {sample}"
    try:
        yield
    except (EvaluationError, UnverifiableError, RequestFailed) as e:
        raise ModelError(f"{subject}: {e}" + (f"; {MORE_MEMORY}" if is_lack_of_memory(e) else "")) from e
    except WorkerExit as e:
        raise ModelError(f"{subject}: {e.describe('onnxruntime')}") from e
