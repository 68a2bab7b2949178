"""A recording made into a profile: each node with its time, what it stands for, and where that comes from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import onnx

from ...core.serialization.provenance import told_by
from ..measure.profile_recording import Recording
from ..measure.profile_trace import Kernel, Run
from ..measure.skeleton import all_nodes
from .node_attribution import Standing, idle, standings
from .profile_report import NodeTime, Profile, TypeTime

Key = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Joined:
    """A profile, the runs it is of, the one that the timeline shows, and the nodes by what `key_of` says."""

    profile: Profile
    runs: Sequence[Run]
    shown: int
    nodes: Mapping[Key, NodeTime]


def key_of(kernel: Kernel) -> Key:
    """What tells nodes apart; onnxruntime counts the nodes of each body anew."""
    return kernel.name, kernel.op, kernel.provider, kernel.index


def joined(label: str, recording: Recording) -> Joined:
    """The profile of a recording."""
    runs = recording.runs
    shown = _typical(runs)
    found = standings(recording.file, recording.ran) if recording.ran is not None else _as_they_are(recording.file)
    nodes = _node_times(runs, shown, _stood_for(runs, found), _sources(recording.file))
    in_nodes = sum(n.seconds for n in nodes.values())
    slowest = sorted(nodes.values(), key=lambda n: (-n.seconds, n.start))
    profile = Profile(
        label,
        len(runs),
        in_nodes + median(max(r.seconds - r.in_nodes, 0.0) for r in runs),
        in_nodes,
        slowest,
        _types(slowest),
        idle=tuple(idle(recording.file, found)),
    )
    return Joined(profile, runs, shown, nodes)


def _typical(runs: Sequence[Run]) -> int:
    middle = median(r.seconds for r in runs)
    return min(range(len(runs)), key=lambda i: abs(runs[i].seconds - middle))


def _as_they_are(file: onnx.GraphProto) -> list[Standing]:
    """For a provider that does not tell what it made of the file: nodes that kept their names."""
    return [Standing(n.name, n.op_type, (n.name,)) for n in all_nodes(file)]


def _stood_for(runs: Iterable[Run], found: Iterable[Standing]) -> dict[Key, tuple[str, ...]]:
    """What each node that ran stands for. Of namesakes, the order in the graph tells which is which."""
    named: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for s in found:
        named[s.name, s.op].append(s)
    keys: dict[tuple[str, str], list[Key]] = defaultdict(list)
    for key in sorted({key_of(k) for run in runs for k in run.kernels}, key=lambda k: k[3]):
        name, op, _, index = key
        is_nameless = (name, op) not in named and name == f"{op}_{index}"
        keys["" if is_nameless else name, op].append(key)
    return {
        key: standing.stands_for
        for name, namesakes in keys.items()
        for key, standing in zip(namesakes, named.get(name, []), strict=False)
    }


def _sources(file: onnx.GraphProto) -> dict[str, tuple[str, list[str]]]:
    """The rule that made a node of the file, and the nodes of the original behind it: itself, if none did."""
    told = ((node.name, told_by(node)) for node in all_nodes(file))
    return {name: (rule, names or [name]) for name, (rule, names) in told}


def _node_times(
    runs: Sequence[Run],
    shown: int,
    stood_for: Mapping[Key, tuple[str, ...]],
    sources: Mapping[str, tuple[str, list[str]]],
) -> dict[Key, NodeTime]:
    seconds: dict[Key, list[float]] = defaultdict(list)  # of each run that it was in
    calls: Counter[Key] = Counter()
    starts: dict[Key, float] = {}
    for run in (runs[shown], *runs):
        first = run.kernels[0].start if run.kernels else 0.0
        for k in run.kernels:
            starts.setdefault(key_of(k), k.start - first)
    for run in runs:
        own: dict[Key, float] = defaultdict(float)
        for k in run.kernels:
            own[key_of(k)] += k.own
            calls[key_of(k)] += 1
        for key, spent in own.items():
            seconds[key].append(spent)
    return {
        key: _node_time(
            key, _usual(seconds[key], len(runs)), start, calls[key] / len(runs), stood_for.get(key, ()), sources
        )
        for key, start in starts.items()
    }


def _usual(seconds: Sequence[float], runs: int) -> float:
    """What a node takes of a run, in only some of which it is. A mean would hold what the machine did meanwhile."""
    return median(seconds) * len(seconds) / runs


def _node_time(
    key: Key,
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


def _types(nodes: Iterable[NodeTime]) -> list[TypeTime]:
    by_op: dict[str, list[NodeTime]] = defaultdict(list)
    for node in nodes:
        by_op[node.op].append(node)
    types = (TypeTime(op, len(n), sum(x.calls for x in n), sum(x.seconds for x in n)) for op, n in by_op.items())
    return sorted(types, key=lambda t: (-t.seconds, t.op))
