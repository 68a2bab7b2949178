"""Runs of a model under the profiler of an engine, in a worker process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx
from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import MORE_MEMORY, EvaluationError, ModelLoadError
from ...core.io.files import ModelFile, load, load_without_weights
from ...core.io.model import serialize
from ...core.io.writer import write_model
from ...core.ir.tensor import Tensor
from ...core.ort.backends import LoadedModel, is_lack_of_memory, session_memory
from ...core.ort.engines import SINGLE, OpTime
from ...core.ort.sessions import DISABLE_ALL, SessionConfig
from ...core.ort.value_files import with_arrays
from ...core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command, serve
from ...core.serialization.proto_queries import all_nodes
from ...core.support.scratch_folder import ScratchFolder
from ..measure.profile_trace import (
    KernelExecution,
    ProfiledRun,
    loading_seconds,
    make_node_names_unique,
    parse_runs,
    read_events,
    read_trace,
)
from .node_attribution import NodeAttribution
from .profile_report import LoadTimes

PROFILE_TIMEOUT = 600.0  # per model, in addition to the requested time
WORKER = module_command(__name__)
WARMUP_RUNS = 3  # runs of a new session that are not recorded
MAX_LOADS = 10  # sessions of each kind, to time their creation
MIN_RUNS, MAX_RUNS = 3, 2000  # recorded runs
TOO_MANY_EVENTS = "one run has more events than onnxruntime's profiler can record"
MAX_EVENTS = 50_000  # in a profile; onnxruntime drops events over a million, and writes up to 2 kB for each


class Recording(Struct, frozen=True):
    """The runs after the warm-up, the graph of the file with unique node names, and onnxruntime's graph.

    `optimized_graph` is None if the provider cannot save it. Both graphs lack the bytes of weights. `first_run` is that
    of a new session. For other engines, `attributions` are the nodes that they report, and `precision` the one that
    they use.
    """

    runs: tuple[ProfiledRun, ...]
    file_graph: onnx.GraphProto
    optimized_graph: onnx.GraphProto | None = None
    attributions: tuple[NodeAttribution, ...] | None = None
    precision: str = SINGLE
    first_run: ProfiledRun | None = None
    loading: LoadTimes | None = None


def record_profile(
    path: Path,
    config: SessionConfig,
    feeds: Mapping[str, Any],
    min_time: float,
    command: tuple[str, ...] = WORKER,
    timeout: float = PROFILE_TIMEOUT,
) -> Recording:
    """Run the model in `path` for `min_time` seconds after a warm-up, at least three times.

    Raises ModelError for a file without a model, and EvaluationError if the engine does not load or run it, crashes, or
    does not report the time of each op.
    """
    file = ModelFile(path)
    model = load(file, inline=False)
    make_node_names_unique(model.graph)
    with ScratchFolder() as folder:
        copy, saves = folder / "model.onnx", folder / "ran.onnx"
        write_model(model, copy, external=bool(file.external_files))
        graphs = [serialize(model, _without_elements).to_proto().graph]
        setting = replace(config, optimized_model_path=str(saves), profile_prefix=str(folder / "profile"))
        outputs = [v.name for v in model.graph.outputs]
        try:
            memory = session_memory(path, config)
            with WorkerProcess[ProfileWorker](command, timeout + min_time, memory=memory) as process:
                if not config.is_onnxruntime:
                    times = process.call().op_times(copy, setting, with_arrays(feeds), outputs, min_time)
                    return _engine_recording(times, graphs[0])
                profile = process.call().profile(copy, setting, with_arrays(feeds), outputs, min_time)
        except (EvaluationError, RequestFailed) as e:
            raise EvaluationError(f"{e}; {MORE_MEMORY}" if is_lack_of_memory(e) else str(e)) from e
        except WorkerExit as e:
            raise EvaluationError(f"the profiler of {config.engine_name} returned nothing: {e}") from e
        recorded = read_trace(profile.trace)
        runs = tuple(recorded[profile.warm_runs :])
        if not runs:
            raise EvaluationError(TOO_MANY_EVENTS)
        if profile.is_saved and saves.exists():
            graphs.append(load_without_weights(saves).graph)
    optimized = graphs[1] if len(graphs) > 1 else None
    return Recording(runs, graphs[0], optimized, first_run=recorded[0], loading=profile.loading)


def _engine_recording(times: EngineTimes, file_graph: onnx.GraphProto) -> Recording:
    """The recording of an engine that reports the time of each op, in sequence."""
    names = {name: node.name for node in all_nodes(file_graph.node) for name in (node.name, *node.output) if name}
    ops = {op.name: op for run in times.runs for op in run}
    attributions = (
        NodeAttribution(op.name, op.op_type, tuple(dict.fromkeys(names[n] for n in op.originals if n in names)))
        for op in ops.values()
    )
    runs = list[ProfiledRun]()
    for run, seconds in zip(times.runs, times.seconds, strict=True):
        starts = accumulate((op.seconds for op in run), initial=0.0)
        kernels = (
            KernelExecution(op.name, op.op_type, op.kernel, -1, start, op.seconds, op.seconds)
            for op, start in zip(run, starts, strict=False)
        )
        runs.append(ProfiledRun(0.0, seconds, tuple(kernels)))
    return Recording(tuple(runs), file_graph, None, tuple(attributions), times.precision)


def _without_elements(tensor: Tensor, name: str) -> Iterator[bytes]:
    yield tensor.proto_without_elements(name).SerializeToString()


class ProfileFile(Struct, frozen=True):
    """The file of a profile, the number of its warm-up runs, and whether the optimized model was saved.

    `loading` is None if the profiler does not report it.
    """

    trace: Path
    warm_runs: int
    is_saved: bool
    loading: LoadTimes | None


class EngineTimes(Struct, frozen=True):
    """The times of ops in each recorded run of an engine, the seconds of the runs, and the precision."""

    runs: list[list[OpTime]]
    seconds: list[float]
    precision: str


class ProfileWorker:
    """Profiles in this process."""

    def op_times(
        self, model: Path, config: SessionConfig, feeds: dict[str, Any], outputs: Sequence[str], min_time: float
    ) -> EngineTimes:
        """The times of ops in an engine. Raises EvaluationError."""
        loaded = LoadedModel(model, config)
        found = EngineTimes([], [], loaded.session.precision)

        def record() -> None:
            start = perf_counter()
            loaded.run(outputs, feeds)
            found.seconds.append(perf_counter() - start)
            found.runs.append(loaded.session.op_times())

        for _ in range(WARMUP_RUNS):
            record()
        if not found.runs[-1]:
            raise EvaluationError(f"{config.engine_name} does not report the time of each op")
        count = max_runs(len(found.runs[-1]))
        found.runs.clear()
        found.seconds.clear()
        repeat(record, min_time, count)
        return found

    def profile(
        self, model: Path, config: SessionConfig, feeds: dict[str, Any], outputs: Sequence[str], min_time: float
    ) -> ProfileFile:
        """Profile a model. Raises EvaluationError."""
        unsaved = replace(config, optimized_model_path="")
        try:
            pilot, saved = LoadedModel(model, config), True
        except ModelLoadError:  # providers that compile nodes cannot save the model
            pilot, saved = LoadedModel(model, unsaved), False
        pilot.run(outputs, feeds)
        first = read_trace(pilot.end_profile())
        del pilot
        if not first:
            raise EvaluationError(TOO_MANY_EVENTS)
        loading = self._load_times(model, unsaved, feeds, outputs, min_time)
        session = LoadedModel(model, unsaved)
        for _ in range(WARMUP_RUNS):
            session.run(outputs, feeds)
        repeat(lambda: session.run(outputs, feeds), min_time, max_runs(len(first[0].kernels)))
        return ProfileFile(session.end_profile(), WARMUP_RUNS, saved, loading)

    def _load_times(
        self, model: Path, config: SessionConfig, feeds: dict[str, Any], outputs: Sequence[str], seconds: float
    ) -> LoadTimes | None:
        """The times of the parts of a session's start, measured in alternation; None if they are not reported.

        The times of optimization and of packing are the differences of sessions with and without them. The shortest
        time of each kind is used, because the others include waits.
        """
        unpacked = replace(config, prepack_weights=False)
        kinds = (config, unpacked, replace(unpacked, optimization_level=DISABLE_ALL))
        found: list[list[tuple[float, float]]] = [[] for _ in kinds]
        first_runs: list[float] = []

        def load_each() -> None:
            for kind, own in zip(kinds, found, strict=True):
                session = LoadedModel(model, kind)
                if kind is config:
                    session.run(outputs, feeds)
                trace = session.end_profile()
                del session
                events = read_events(trace)
                trace.unlink()
                own.extend(filter(None, [loading_seconds(events)]))
                first_runs.extend(run.seconds for run in parse_runs(events))

        repeat(load_each, seconds, MAX_LOADS)
        if not all(found) or not first_runs:
            return None
        whole, without_packing, bare = (min(initialized for _, initialized in times) for times in found)
        bare, without_packing = min(bare, whole), min(without_packing, whole)
        return LoadTimes(
            min(read for times in found for read, _ in times),
            max(without_packing - bare, 0.0),
            whole - max(without_packing, bare),
            bare,
            min(first_runs),
        )


def max_runs(kernels: int) -> int:
    """The number of recorded runs that fit into a profile, for this number of kernels."""
    return max(MIN_RUNS, min(MAX_RUNS, MAX_EVENTS // max(kernels, 1) - WARMUP_RUNS))


def repeat(
    run: Callable[[], object], seconds: float, max_calls: int, clock: Callable[[], float] = perf_counter
) -> None:
    """Call `run` for this many seconds, at least MIN_RUNS and at most `max_calls` times."""
    end = clock() + seconds
    for n in range(max_calls):
        if n >= MIN_RUNS and clock() >= end:
            return
        run()


def main() -> None:
    """Serve the parent until it ends."""
    serve(ProfileWorker())
