"""`profile`: the time of each node of a model, before and after optimization."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import EvaluationError
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.operators.table import MOVING
from ...core.run.phase_timer import CHOOSING_INPUTS, PhaseTimer
from ...core.serialization.proto_queries import all_nodes
from ...core.serialization.provenance import read_provenance
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import sizes_from_shapes
from ...core.verify.input_specs import input_specs
from ..measure.execution_provider import engine_versions, session_configs
from ..measure.feeds import make_feeds
from ..measure.profile_trace import KernelExecution, KernelKey, ProfiledRun
from ..optimize.optimize import optimize_model
from ..optimize.run_options import RunOptions, plugin_files
from ..options import with_process_options
from ..registry.python_data import data_files, read_given
from ..report.page import page_html
from ..report.progress import phase_callback, with_keywords
from .document import MAX_NODES, describe
from .node_attribution import INSERTED_OPS, NodeAttribution, attribute_nodes, eliminated_nodes
from .profile_options import ProfileOptions
from .profile_recording import Recording, record_profile
from .profile_report import NodeTime, Profile, ProfileReport, TypeTime

MAX_RUNS = 10  # runs of each model in the timeline, starting at the median one
MICROSECONDS_PER_SECOND = 1e6
COPYING_OPS = MOVING | INSERTED_OPS


class RecordedProfile(Struct, frozen=True):
    """A profile, its runs, the index of the run that the timeline shows, and the nodes by kernel key.

    `first_run` is the first run of a new session.
    """

    profile: Profile
    runs: Sequence[ProfiledRun]
    timeline_run: int
    nodes: Mapping[KernelKey, NodeTime]
    first_run: ProfiledRun | None = None


def build_profile(label: str, recording: Recording) -> RecordedProfile:
    """The profile of a recording."""
    runs = recording.runs
    middle = median(r.seconds for r in runs)
    shown = min(range(len(runs)), key=lambda i: abs(runs[i].seconds - middle))
    file_nodes = [*all_nodes(recording.file_graph.node)]
    if recording.attributions is not None:
        attributions = list(recording.attributions)
    elif recording.optimized_graph is not None:
        attributions = attribute_nodes(recording.file_graph, recording.optimized_graph)
    else:  # the provider cannot save the optimized model, so only nodes that kept their names are known
        attributions = [NodeAttribution(n.name, n.op_type, (n.name,)) for n in file_nodes]
    provenance = {n.name: read_provenance(n) for n in file_nodes}
    first = recording.first_run
    every_run = runs if first is None else (first, *runs)
    nodes = _node_times(runs, shown, first, _attributed_nodes(every_run, attributions), provenance)
    node_seconds = sum(n.seconds for n in nodes.values())
    slowest = sorted(nodes.values(), key=lambda n: (-n.seconds, n.start))
    profile = Profile(
        label,
        len(runs),
        node_seconds + median(max(r.seconds - r.node_seconds, 0.0) for r in runs),
        node_seconds,
        slowest,
        _type_times(slowest),
        eliminated_nodes=tuple(eliminated_nodes(recording.file_graph, attributions)),
        precision=recording.precision,
        loading=recording.loading,
        peak=max((k.held for k in first.kernels), default=0) - _held_before(first) if first is not None else 0,
    )
    return RecordedProfile(profile, runs, shown, nodes, first)


def _held_before(run: ProfiledRun) -> int:
    """The bytes in use before a run: weights."""
    first = min(run.kernels, key=lambda k: k.start + k.seconds, default=None)
    return first.held - first.allocated if first is not None else 0


def _attributed_nodes(
    runs: Iterable[ProfiledRun], attributions: Iterable[NodeAttribution]
) -> dict[KernelKey, tuple[str, ...]]:
    """The file's nodes for each node that ran. Nodes with the same name are matched in graph order."""
    named: dict[tuple[str, str], list[NodeAttribution]] = defaultdict(list)
    for a in attributions:
        named[a.name, a.op].append(a)
    keys: dict[tuple[str, str], list[KernelKey]] = defaultdict(list)
    for key in sorted({k.key for run in runs for k in run.kernels}, key=lambda k: k[3]):
        name, op, _, index = key
        is_nameless = (name, op) not in named and name == f"{op}_{index}"
        keys["" if is_nameless else name, op].append(key)
    return {
        key: attribution.file_nodes
        for name, same_named in keys.items()
        for key, attribution in zip(same_named, named.get(name, []), strict=False)
    }


def _node_times(
    runs: Sequence[ProfiledRun],
    shown: int,
    first_run: ProfiledRun | None,
    file_nodes: Mapping[KernelKey, tuple[str, ...]],
    provenance: Mapping[str, tuple[str, Sequence[str]]],
) -> dict[KernelKey, NodeTime]:
    """The times of all nodes, and memory in the first run of a session.

    `provenance` has the rule and the original nodes of each node of the file.
    """
    seconds: dict[KernelKey, list[float]] = defaultdict(list)  # of each run that contains the node
    calls: Counter[KernelKey] = Counter()
    starts: dict[KernelKey, float] = {}
    for run in (runs[shown], *runs):
        first = run.kernels[0].start if run.kernels else 0.0
        for k in run.kernels:
            starts.setdefault(k.key, k.start - first)
    for run in runs:
        own: dict[KernelKey, float] = defaultdict(float)
        for k in run.kernels:
            own[k.key] += k.self_seconds
            calls[k.key] += 1
        for key, spent in own.items():
            seconds[key].append(spent)
    written, allocated = Counter[KernelKey](), Counter[KernelKey]()
    for k in first_run.kernels if first_run is not None else ():
        written[k.key] += k.written
        allocated[k.key] += k.allocated
    times: dict[KernelKey, NodeTime] = {}
    for key, start in starts.items():
        names = file_nodes.get(key, ())
        rules = dict.fromkeys(provenance[n][0] for n in names if provenance[n][0])
        origin = dict.fromkeys(o for n in names for o in provenance[n][1] or [n])
        # A node may be in some runs only. A mean of its times would include other load on the machine.
        spent = median(seconds[key]) * len(seconds[key]) / len(runs)
        per_run = calls[key] / len(runs)
        is_copy = key[1] in COPYING_OPS and allocated[key] > 0
        memory = (written[key], allocated[key], is_copy)
        times[key] = NodeTime(*key[:3], spent, start, names, tuple(origin), ", ".join(rules), per_run, *memory)
    return times


def _type_times(nodes: Iterable[NodeTime]) -> list[TypeTime]:
    by_op: dict[str, list[NodeTime]] = defaultdict(list)
    for node in nodes:
        by_op[node.op].append(node)
    types = (TypeTime(op, len(n), sum(x.calls for x in n), sum(x.seconds for x in n)) for op, n in by_op.items())
    return sorted(types, key=lambda t: (-t.seconds, t.op))


def timeline(profiles: Sequence[RecordedProfile], metadata: dict[str, str]) -> str:
    """The start of a session and some runs of each profile, in the Trace Event Format of chrome://tracing.

    The runs of all profiles begin at the same time.
    """
    begin = max(map(_start_seconds, profiles), default=0.0)
    events = [event for i, recorded in enumerate(profiles, 1) for event in _events(recorded, i, begin)]
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": metadata}
    return json_text(trace, indent=None)


def _load_phases(recorded: RecordedProfile) -> list[tuple[str, float]]:
    """The parts of a session's start before the first run, in the order of onnxruntime."""
    found = recorded.profile.loading
    if found is None:
        return []
    return [("read", found.read), ("optimize", found.optimize), ("initialize", found.initialize), ("pack", found.pack)]


def _start_seconds(recorded: RecordedProfile) -> float:
    phases = sum(seconds for _, seconds in _load_phases(recorded))
    return phases + (recorded.first_run.seconds if recorded.first_run is not None else 0.0)


def _events(recorded: RecordedProfile, process: int, origin: float) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": process}
    names = {"process_name": {"name": recorded.profile.label}, "thread_name": {"name": "nodes"}}
    for name, args in (names | {"process_sort_index": {"sort_index": process}}).items():
        yield {"ph": "M", "name": name, "ts": 0, **place, "args": args}
    at = origin - _start_seconds(recorded)
    for name, seconds in _load_phases(recorded):
        yield _span(name, "load", at, at + seconds) | place | {"args": {}}
        at += seconds
    if recorded.first_run is not None:
        yield from _run_events(recorded, recorded.first_run, "first run", at, place)
        held = _held_before(recorded.first_run)
        for kernel, end in _kernel_ends(recorded.first_run):
            counted = {"ph": "C", "name": "memory", "ts": round((at + end) * MICROSECONDS_PER_SECOND, 3), **place}
            yield counted | {"args": {"bytes": max(kernel.held - held, 0)}}
    first = min(recorded.timeline_run, max(len(recorded.runs) - MAX_RUNS, 0))
    chosen = recorded.runs[first : first + MAX_RUNS]
    for number, run in enumerate(chosen, first):
        yield from _run_events(recorded, run, f"run {number}", origin + run.start - chosen[0].start, place)


def _run_events(
    recorded: RecordedProfile, run: ProfiledRun, name: str, begin: float, place: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """A run with its nodes."""
    yield _span(name, "run", begin, begin + run.seconds) | place | {"args": {"nodes": len(run.kernels)}}
    for kernel, end in _kernel_ends(run):
        span = _span(kernel.name, "node", begin + kernel.start, begin + end)
        yield span | place | {"args": _kernel_args(recorded, run, kernel)}


def _kernel_ends(run: ProfiledRun) -> Iterator[tuple[KernelExecution, float]]:
    """Yield each kernel with its end, limited to the end of its outer op because times are rounded to microseconds."""
    ends = [run.seconds]
    for kernel in run.kernels:
        while len(ends) > 1 and ends[-1] <= kernel.start:
            ends.pop()
        ends.append(min(kernel.start + kernel.seconds, ends[-1]))
        yield kernel, ends[-1]


def _span(name: str, category: str, begin: float, end: float) -> dict[str, Any]:
    start = round(begin * MICROSECONDS_PER_SECOND, 3)
    duration = max(round(end * MICROSECONDS_PER_SECOND - start, 3), 0.0)
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration}


def _kernel_args(recorded: RecordedProfile, run: ProfiledRun, kernel: KernelExecution) -> dict[str, Any]:
    node = recorded.nodes.get(kernel.key, NodeTime(kernel.name, kernel.op, kernel.provider, 0.0, 0.0))
    return {
        "op": kernel.op,
        "provider": kernel.provider,
        "own_us": round(kernel.self_seconds * MICROSECONDS_PER_SECOND, 3),
        "share": round(kernel.self_seconds / run.seconds if run.seconds else 0.0, 6),
        "file_nodes": list(node.file_nodes),
        "origin": list(node.origin),
        "rule": node.rule,
        "written_bytes": node.written,
        "allocated_bytes": node.allocated,
    }


@with_process_options
def profile_model(model: ModelLike, options: ProfileOptions) -> ProfileReport:
    """Profile a model in an `engine` before and, unless `no_optimize`, after optimization.

    Both models have the same inputs: the first sample of `inputs`, as for `optimize`, or `batch` samples generated with
    `shape` and `dim`, which do not change the models. They run with `threads` (0: one per core), an execution provider
    `ep`, and onnxruntime's own optimization at `level` (disable, basic, extended, layout or all), for `min_time`
    seconds each after a warm-up. `trace`, `json` and `html` are paths for the timelines in the format of
    chrome://tracing, the report as JSON, and a page.

    Raises ModelError for an unusable model or input, UsageError for an unusable pipeline or level, EvaluationError if
    the engine cannot run a model, and UnverifiableError if no inputs can be generated or the result cannot be verified.

    Examples:
        >>> report = profile("model.onnx", min_time=0.01, threads=1)
        >>> report.level
        'all'
    """
    with ScratchFolder() as folder:
        return _profile(model_source(model, inline=True).in_file(folder / "given"), options, folder)


def _profile(source: ModelSource, options: ProfileOptions, folder: Path) -> ProfileReport:
    """Like `profile_model`, for a file; the result of the run goes to `folder`."""
    config = session_configs(options, [options.engine], options.level)[0]
    path = source.files[0]
    paths = OutputPaths.of(report=options.json, page=options.html, trace=options.trace)
    read = [path, *data_files(options.inputs), *plugin_files(options.plugin), *options.custom_operator_files]
    paths.require_distinct(read)
    timer = PhaseTimer(phase_callback(options.progress))
    with timer.phase(CHOOSING_INPUTS):
        with gc_paused():
            loaded = source.load()
            sizes = dict(options.dim or {}) | sizes_from_shapes(options.shape or {}, input_specs(loaded))
            given = read_given(options.inputs, loaded)
        paths.require_distinct((*read, *source.files))
        feeds = make_feeds(source, given, [options.batch], sizes, options.seed)
    result, models = None, {"before": path}
    if not options.no_optimize:
        with timer.phase("optimizing"):
            result = optimize_model(
                path,
                RunOptions(
                    options.pipeline,
                    options.plugin,
                    enable=options.enable,
                    inputs=given,
                    seed=options.seed,
                    visualize=paths.page is not None,
                ),
            )
        models["after"] = folder / "after.onnx"
        result.save(models["after"])
    recorded: list[RecordedProfile] = []
    for label, file_path in models.items():
        with timer.phase(f"profiling {label}"):
            try:
                recording = record_profile(file_path, config, next(iter(feeds.by_batch.values())), options.min_time)
            except EvaluationError as e:
                raise EvaluationError(f"the model {label} optimization cannot be profiled: {e}") from e
            recorded.append(build_profile(label, recording))
    trace = None if paths.trace is None else paths.trace.path
    before, *after = (replace(r.profile, trace=trace) for r in recorded)
    report = ProfileReport(
        source.label,
        before,
        after[0] if after else None,
        options.level,
        config.provider,
        config.intra_op_threads,
        feeds.sizes,
        timer.seconds,
        engine_versions([config]),
        [q.description for q in result.report.rejected] if result is not None else [],
        feeds.note,
        next(iter(feeds.by_batch)),
        config.engine_name,
        options=options.chosen,
    )
    with Publication() as publication:
        settings = {"source": report.source, "level": options.level, **report.versions}
        publication.add_text(paths.trace, partial(timeline, recorded, settings))
        publication.add_text(paths.report, report.to_json)
        if paths.page is not None:
            run, drawn = (result.report, result.visualization) if result is not None else (None, None)
            publication.add_text(paths.page, lambda: page_html(describe(report, MAX_NODES, run, drawn)))
        publication.publish()
    return report


profile = with_keywords(ProfileOptions, "profile")(profile_model)
