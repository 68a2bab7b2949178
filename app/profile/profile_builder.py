"""A recording made into a profile: each node with its time, what it stands for, and where that comes from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import onnx

from ...core.serialization.proto_queries import all_nodes
from ...core.serialization.provenance import read_provenance
from ..measure.profile_recording import Recording
from ..measure.profile_trace import KernelExecution, ProfiledRun
from .node_attribution import NodeAttribution, attribute_nodes, eliminated_nodes
from .profile_report import NodeTime, Profile, TypeTime

KernelKey = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class RecordedProfile:
    """A profile, the runs it is of, the one that the timeline shows, and the nodes by what `kernel_key` says."""

    profile: Profile
    runs: Sequence[ProfiledRun]
    timeline_run: int
    nodes: Mapping[KernelKey, NodeTime]


def kernel_key(kernel: KernelExecution) -> KernelKey:
    """What tells nodes apart; onnxruntime counts the nodes of each body anew."""
    return kernel.name, kernel.op, kernel.provider, kernel.index


def build_profile(label: str, recording: Recording) -> RecordedProfile:
    """The profile of a recording."""
    runs = recording.runs
    shown = _median_run(runs)
    found = (
        attribute_nodes(recording.file_graph, recording.optimized_graph)
        if recording.optimized_graph is not None
        else _identity_attribution(recording.file_graph)
    )
    nodes = _node_times(runs, shown, _attributed_nodes(runs, found), _origins(recording.file_graph))
    node_seconds = sum(n.seconds for n in nodes.values())
    slowest = sorted(nodes.values(), key=lambda n: (-n.seconds, n.start))
    profile = Profile(
        label,
        len(runs),
        node_seconds + median(max(r.seconds - r.node_seconds, 0.0) for r in runs),
        node_seconds,
        slowest,
        _type_times(slowest),
        eliminated_nodes=tuple(eliminated_nodes(recording.file_graph, found)),
    )
    return RecordedProfile(profile, runs, shown, nodes)


def _median_run(runs: Sequence[ProfiledRun]) -> int:
    middle = median(r.seconds for r in runs)
    return min(range(len(runs)), key=lambda i: abs(runs[i].seconds - middle))


def _identity_attribution(file: onnx.GraphProto) -> list[NodeAttribution]:
    """For a provider that does not tell what it made of the file: nodes that kept their names."""
    return [NodeAttribution(n.name, n.op_type, (n.name,)) for n in all_nodes(file.node)]


def _attributed_nodes(
    runs: Iterable[ProfiledRun], found: Iterable[NodeAttribution]
) -> dict[KernelKey, tuple[str, ...]]:
    """What each node that ran stands for. Of namesakes, the order in the graph tells which is which."""
    named: dict[tuple[str, str], list[NodeAttribution]] = defaultdict(list)
    for s in found:
        named[s.name, s.op].append(s)
    keys: dict[tuple[str, str], list[KernelKey]] = defaultdict(list)
    for key in sorted({kernel_key(k) for run in runs for k in run.kernels}, key=lambda k: k[3]):
        name, op, _, index = key
        is_nameless = (name, op) not in named and name == f"{op}_{index}"
        keys["" if is_nameless else name, op].append(key)
    return {
        key: standing.file_nodes
        for name, namesakes in keys.items()
        for key, standing in zip(namesakes, named.get(name, []), strict=False)
    }


def _origins(file: onnx.GraphProto) -> dict[str, tuple[str, list[str]]]:
    """The rule that made a node of the file, and the nodes of the original behind it: itself, if none did."""
    told = ((node.name, read_provenance(node)) for node in all_nodes(file.node))
    return {name: (rule, names or [name]) for name, (rule, names) in told}


def _node_times(
    runs: Sequence[ProfiledRun],
    shown: int,
    stood_for: Mapping[KernelKey, tuple[str, ...]],
    sources: Mapping[str, tuple[str, list[str]]],
) -> dict[KernelKey, NodeTime]:
    seconds: dict[KernelKey, list[float]] = defaultdict(list)  # of each run that it was in
    calls: Counter[KernelKey] = Counter()
    starts: dict[KernelKey, float] = {}
    for run in (runs[shown], *runs):
        first = run.kernels[0].start if run.kernels else 0.0
        for k in run.kernels:
            starts.setdefault(kernel_key(k), k.start - first)
    for run in runs:
        own: dict[KernelKey, float] = defaultdict(float)
        for k in run.kernels:
            own[kernel_key(k)] += k.self_seconds
            calls[kernel_key(k)] += 1
        for key, spent in own.items():
            seconds[key].append(spent)
    return {
        key: _node_time(
            key,
            _seconds_per_run(seconds[key], len(runs)),
            start,
            calls[key] / len(runs),
            stood_for.get(key, ()),
            sources,
        )
        for key, start in starts.items()
    }


def _seconds_per_run(seconds: Sequence[float], runs: int) -> float:
    """What a node takes of a run, in only some of which it is. A mean would hold what the machine did meanwhile."""
    return median(seconds) * len(seconds) / runs


def _node_time(
    key: KernelKey,
    seconds: float,
    start: float,
    calls: float,
    names: tuple[str, ...],
    sources: Mapping[str, tuple[str, list[str]]],
) -> NodeTime:
    name, op, provider, _ = key
    told = [sources[n] for n in names]
    rules = dict.fromkeys(rule for rule, _ in told if rule)
    origin = dict.fromkeys(o for _, names in told for o in names)
    return NodeTime(name, op, provider, seconds, start, names, tuple(origin), ", ".join(rules), calls)


def _type_times(nodes: Iterable[NodeTime]) -> list[TypeTime]:
    by_op: dict[str, list[NodeTime]] = defaultdict(list)
    for node in nodes:
        by_op[node.op].append(node)
    types = (TypeTime(op, len(n), sum(x.calls for x in n), sum(x.seconds for x in n)) for op, n in by_op.items())
    return sorted(types, key=lambda t: (-t.seconds, t.op))
