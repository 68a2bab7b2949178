"""Where further passes go in a pipeline: by stage, and before or behind others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import pairwise

from ..errors import PluginError
from ..pass_manager.pipeline import Fixpoint, Pass, Pipeline, leaves
from .plugin import FINAL, STAGES, Placed, Stage, as_pass

Predecessors = dict[int, set[int]]
"""The passes that come before each, by number: those that stand there first, then the further ones."""


def insert_passes(p: Pass, added: Sequence[Placed], stages: Mapping[str, str]) -> Pass:
    """The pipeline with further passes, where they want to stand in its first loop, and those for the end behind it.

    `stages` are those of the passes that stand there. Raises PluginError for wishes that contradict each other.
    """
    last = [q for q in added if q.stage == FINAL]
    others = [q for q in added if q.stage != FINAL]
    looped = _insert_in_loop(p, others, stages)
    _require_none_after_final(last, others, looped)
    if not last:
        return looped
    end = order_passes((), last, stages)
    if isinstance(looped, Pipeline):
        return replace(looped, passes=(*looped.passes, *end))
    return Pipeline(p.name, (looped, *end)) if isinstance(looped, Fixpoint) else _anonymous_pipeline((looped, *end))


def _anonymous_pipeline(passes: Sequence[Pass]) -> Pipeline:
    """Passes under a name of their own: no pass has it."""
    return Pipeline(",".join(q.name for q in passes), passes)


def _insert_in_loop(p: Pass, added: Sequence[Placed], stages: Mapping[str, str]) -> Pass:
    """The pipeline with `added` in its first loop, or beside it where they name what stands there."""
    if not added:
        return p
    if isinstance(p, Pipeline):
        at = next((i for i, q in enumerate(p.passes) if _has_loop(q)), None)
        if at is not None:
            outside = [q for q in added if _is_outside(q, p.passes, at)]
            loop = _insert_in_loop(p.passes[at], [q for q in added if q not in outside], stages)
            return replace(p, passes=order_passes((*p.passes[:at], loop, *p.passes[at + 1 :]), outside, stages))
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=order_passes(p.passes, added, stages))
    return _anonymous_pipeline(order_passes((p,), added, stages))


def _is_outside(q: Placed, passes: Sequence[Pass], at: int) -> bool:
    """Whether a pass names some that stand beside the loop at `at`, and none inside it."""
    inside = {p.name for p in leaves(passes[at])}
    beside = {p.name for other in (*passes[:at], *passes[at + 1 :]) for p in leaves(other)}
    named = {*q.before, *q.after}
    return not named.isdisjoint(beside) and named.isdisjoint(inside)


def _has_loop(p: Pass) -> bool:
    return isinstance(p, Fixpoint) or (isinstance(p, Pipeline) and any(map(_has_loop, p.passes)))


def _require_none_after_final(final: Sequence[Placed], others: Sequence[Placed], looped: Pass) -> None:
    """Raise PluginError if something wants to stand behind what runs at the end."""
    inside, end = {leaf.name for leaf in leaves(looped)}, {q.item.name for q in final}
    pairs = [(q.item.name, name) for q in final for name in q.before if name in inside]
    pairs += [(name, q.item.name) for q in others for name in q.after if name in end]
    for name, other in pairs:
        raise PluginError(f"{name} cannot stand before {other}: it is for stage {FINAL}, which is behind all others")


def order_passes(existing: Sequence[Pass], added: Sequence[Placed], stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes in an order that respects all wishes; those that stand there keep theirs.

    Of two that want the same place, the first in `added` comes first.
    """
    items = [*existing, *(as_pass(q.item) for q in added)]
    behind = _constraints(existing, added)
    _require_acyclic(behind, [p.name for p in items], len(existing))
    ahead = _reversed_edges(behind)
    keys = {i: (i, -1) for i in range(len(existing))}
    for k, q in enumerate(added):
        node = len(existing) + k
        keys[node] = _anchor_index(q, existing, stages, _reachable(node, ahead), _reachable(node, behind)), k
    order = {node: {*before, *_anchor_predecessors(keys[node])} for node, before in behind.items()}
    return tuple(items[i] for i in _topological_order(order, keys))


def _anchor_predecessors(key: tuple[int, int]) -> list[int]:
    """What comes before a further pass by its place."""
    anchor, k = key
    return [anchor] if k >= 0 and anchor >= 0 else []


def _topological_order(predecessors: Predecessors, keys: Mapping[int, tuple[int, int]]) -> Iterator[int]:
    """The numbers, each after those that come before it, and as their keys are otherwise."""
    sorter = TopologicalSorter(predecessors)
    sorter.prepare()
    ready: list[tuple[tuple[int, int], int]] = []
    while sorter.is_active():
        for node in sorter.get_ready():
            heappush(ready, (keys[node], node))
        _, node = heappop(ready)
        yield node
        sorter.done(node)


def _constraints(existing: Sequence[Pass], added: Sequence[Placed]) -> Predecessors:
    """The wishes that concern passes of this pipeline, and the order that stands."""
    behind: Predecessors = {i: {i - 1} if i else set() for i in range(len(existing))}
    behind |= {len(existing) + k: set() for k in range(len(added))}
    named: dict[str, list[int]] = {}
    for i, p in enumerate(existing):
        for name in {p.name, *(leaf.name for leaf in leaves(p))}:
            named.setdefault(name, []).append(i)
    for node, q in enumerate(added, len(existing)):
        named.setdefault(q.item.name, []).append(node)
    for node, q in enumerate(added, len(existing)):
        for other in (i for name in q.before for i in named.get(name, ())):
            behind[other].add(node)
        behind[node].update(i for name in q.after for i in named.get(name, ()))
    return behind


def _require_acyclic(predecessors: Predecessors, names: Sequence[str], existing_count: int) -> None:
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as e:
        cycle: list[int] = e.args[1]
    else:
        return
    pairs = [(a, b) for a, b in pairwise(cycle) if a >= existing_count or b >= existing_count]
    wished = ", ".join(f"{names[a]} before {names[b]}" for a, b in pairs)
    there = sorted({i for i in cycle if i < existing_count})
    order = f"; in the pipeline {names[there[0]]} comes before {names[there[-1]]}" if len(there) > 1 else ""
    raise PluginError(f"these wishes contradict each other: {wished}{order}")


def _anchor_index(
    q: Placed, existing: Sequence[Pass], stages: Mapping[str, str], successors: set[int], predecessors: set[int]
) -> int:
    """The place of the standing pass that it comes right behind; -1 for the very front.

    `successors` is all that has to come later, `predecessors` all that has to come before.
    """
    first = min((i for i in successors if i < len(existing)), default=len(existing))
    last = max((i for i in predecessors if i < len(existing)), default=-1)
    if q.stage is not None:
        wanted = _last_index_of_stage(q.stage, existing, stages)
    elif q.after and last >= 0:
        wanted = last
    else:
        wanted = len(existing) - 1
    return max(min(wanted, first - 1), last)


def _reversed_edges(edges: Predecessors) -> Predecessors:
    """The same edges, the other way round."""
    turned: Predecessors = {node: set() for node in edges}
    for node, others in edges.items():
        for other in others:
            turned[other].add(node)
    return turned


def _reachable(start: int, edges: Predecessors) -> set[int]:
    """All that can be come to from there."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        fresh = edges[waiting.pop()] - seen
        seen |= fresh
        waiting += fresh
    return seen


def _last_index_of_stage(stage: Stage, existing: Sequence[Pass], stages: Mapping[str, str]) -> int:
    """The place of the last pass of a stage, or of the nearest earlier one that there is."""
    for wanted in STAGES[STAGES.index(stage) :: -1]:
        places = [i for i, p in enumerate(existing) if any(stages.get(q.name) == wanted for q in leaves(p))]
        if places:
            return places[-1]
    return -1
