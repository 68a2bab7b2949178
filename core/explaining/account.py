"""What a rule has to say to a whole model: where it would fire, and where it nearly does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from ..errors import PassFailed, Why
from ..ir import schemas
from ..ir.graph import Graph
from ..ir.op import Op
from ..pattern import OpPattern
from ..rules import Rule
from ..trust.manager import PATIENCE
from ..watchdog import Stuck, watched
from .finding import Finding, examined
from .words import absent, any_of

Here = Callable[[Op], bool]


@dataclass(frozen=True, slots=True)
class Account:
    """`roots` ops were looked at; the rule `fires` at some, and of the others the nearest `misses` are listed.

    `kinds` counts the others by what comes first in their way. `remark` says why there are no roots.
    """

    roots: int
    fires: list[Finding]
    misses: list[Finding]
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    remark: str = ""


def account(
    r: Rule,
    graph: Graph,
    most: int,
    here: Here | None = None,
    *,
    exact_only: bool = False,
    patience: float = PATIENCE,
) -> Account:
    """Hold a rule to each op it could start at, bodies included, where `here` says so. O(ops of the root's types).

    Raises PassFailed if it does not return at one for `patience` seconds.
    """
    fires: list[Finding] = []
    kinds: Counter[str] = Counter()
    looked = 0
    roots = [op for op in _roots(r, graph) if here is None or here(op)]

    def misses() -> Iterator[Finding]:
        nonlocal looked
        for looked, op in enumerate(roots):  # noqa: B007 - the watch looks at it
            found = examined(r, op, exact_only=exact_only)
            if found.fires:
                fires.append(found)
            else:
                kinds[found.misses[0].kind.value] += 1
                yield found

    try:
        with watched(lambda: looked, patience):
            nearest = nsmallest(max(most, 1), misses(), key=attrgetter("rank"))[:most]  # of none, it would look at none
    except Stuck as e:
        raise PassFailed(r.name, Why.ENDLESS, f"{r.name} does not return at {roots[looked].label}") from e
    return Account(len(roots), fires, nearest, dict(kinds.most_common()), "" if roots else _remark(r, graph, here))


def _roots(r: Rule, graph: Graph) -> Iterator[Op]:
    """The ops at which the pattern could start, as a run takes them."""
    for g in graph.with_subgraphs():
        yield from sorted(g.ops(*r.pattern.types), key=attrgetter("key"))


def _remark(r: Rule, graph: Graph, here: Here | None) -> str:
    """Why there is nothing to look at."""
    for p in _operators(r.pattern):
        version = graph.opsets.get(p.domain, 0)
        if not any(_exists(t, p.domain, version) for t in p.types):
            return absent(p.types, p.domain, version)
    return f"no op {'there' if here is not None else 'at all'} is {any_of(r.pattern.types)}"


def _exists(op_type: str, domain: str, version: int) -> bool:
    return bool(domain) or schemas.schema(op_type, domain, version) is not None


def _operators(pattern: OpPattern) -> Iterator[OpPattern]:
    yield pattern
    for p in pattern.inputs:
        if isinstance(p, OpPattern):
            yield from _operators(p)
