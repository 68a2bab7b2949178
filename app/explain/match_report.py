"""What a rule has to say to one op: it fires there, or why not.

What a rule has to say to a whole model: where it would fire, and where it nearly does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from ...core.errors import Declined, PassFailed, RuleError, Why
from ...core.ir import op_schemas
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.pass_manager.pass_manager import PATIENCE
from ...core.rewriting.driver import attempt, is_seen
from ...core.rewriting.pattern import Found, OpPattern, match_op
from ...core.rewriting.rules import Match, Rule, given_by
from ...core.support.watchdog import Stuck, watched
from ..descriptions import absent, any_of, described, inside, readers_elsewhere
from .closest_match import Kind, Miss, closest, size_of

MOST = 4  # reasons of one kind at one op


@dataclass(frozen=True, slots=True)
class Finding:
    """How far a rule gets at an op, its root: `matched` of the `size` operators of its pattern fit.

    It fires there if there are no `misses`.
    """

    rule: str
    root: str
    value: str
    inside: str
    matched: int
    size: int
    misses: tuple[Miss, ...]

    @property
    def fires(self) -> bool:
        """Whether the rule would rewrite the op."""
        return not self.misses

    @property
    def rank(self) -> tuple[int, int, int]:
        """The lower, the nearer: what fits as a whole, what lacks the least of the pattern, what has fewer misses."""
        whole = all(m.kind in LATE for m in self.misses)
        return (0 if whole else 1, self.size - self.matched, len(self.misses))


LATE = frozenset({Kind.SHARED, Kind.DECLINED, Kind.RAISED, Kind.FORBIDDEN, Kind.DEAD})
"""What keeps a rule off although its pattern fits."""


def examined(r: Rule, op: Op, *, exact_only: bool = False) -> Finding:
    """Match and try `r` at `op` as a run would, and say what keeps it off. The graph stays as it is.

    Raises ModelError for weights that cannot be read.
    """
    try:
        fitting, misses = _looked_at(r, op)
    except Declined as why:  # while it was matched
        fitting, misses = 1, (Miss(Kind.DECLINED, op.label, str(why)),)
    if not misses and exact_only and not r.is_exact:
        misses = (Miss(Kind.FORBIDDEN, op.label, f"--exact does not allow it: its contract is {r.contract.kind}"),)
    value = op.outputs[0].name if op.outputs else ""
    return Finding(r.name, op.label, value, inside(op.graph), fitting, size_of(r.pattern), misses)


def _looked_at(r: Rule, op: Op) -> tuple[int, tuple[Miss, ...]]:
    """How many operators of the pattern fit, and what keeps the rule off."""
    whole = next(match_op(r.pattern, op, op.graph, {}, ()), None)
    if whole is None:
        way = closest(r.pattern, op)
        return len(way.fitting), way.misses
    fitting, said = len(whole[1]), dict[str, Miss]()
    for match in r.matches(op.graph, op):
        if not is_seen(op):
            return fitting, (Miss(Kind.DEAD, op.label, f"nothing reads what {op.label} makes"),)
        miss = _tried(r, match)
        if miss is None:
            return fitting, ()
        said.setdefault(miss.why, miss)
        if miss.kind == Kind.RAISED:  # that ends a run of the pass
            break
    return fitting, tuple(said.values())[:MOST] or tuple(_seen_from_outside(op.graph, whole))


def _tried(r: Rule, match: Match) -> Miss | None:
    """Why the rule does not take a match; None if it does."""
    try:
        attempt(r, match)
    except Declined as why:
        kind, text = Kind.DECLINED, str(why)
    except RuleError as e:
        kind, text = Kind.RAISED, str(e)
    else:
        return None
    return Miss(kind, match.ops[0].label, text, _values(match, text))


def _values(match: Match, reason: str) -> dict[str, str]:
    """What the variables of a match stand for: those that the reason names by their names or the model's, or all.

    Of what it names by the model's, that is told, too.
    """
    theirs = {name: b.name for name, b in match.bound.items() if isinstance(b, Value) and _names(b.name, reason)}
    named = {name for name in match.bound if name in theirs or _names(name, reason)}
    said = {name: f"{theirs[name]}, " if theirs.get(name, name) != name else "" for name in match.bound}
    return {name: said[name] + described(b) for name, b in match.bound.items() if not named or name in named}


def _names(name: str, reason: str) -> bool:
    """Whether a reason names something, and not only something whose name is longer."""
    return bool(name) and re.search(rf"(?<![\w/.:]){re.escape(name)}(?![\w/:])", reason) is not None


def _seen_from_outside(graph: Graph, whole: Found) -> Iterator[Miss]:
    """What a match has inside that something else sees, see `Rule.matches`."""
    bound, ops = whole
    given = given_by(bound)
    for op in ops[1:]:
        for v in op.outputs:
            said = readers_elsewhere(v, graph, ops)
            if graph.is_output(v):
                said.append(f"{v.name} is an output of the {'graph' if graph.owner is None else 'body'}")
            if v in graph.pinned:
                said.append(f"{v.name} is referred to by name, by a quantization annotation")
            if any(v is x for x in given):
                names = [name for name, b in bound.items() if b is v] or ["an input"]
                said.append(f"{v.name} is inside the match, and {any_of(names)} too")
            yield from (Miss(Kind.SHARED, op.label, why) for why in said[:MOST])


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
    return bool(domain) or op_schemas.schema(op_type, domain, version) is not None


def _operators(pattern: OpPattern) -> Iterator[OpPattern]:
    yield pattern
    for p in pattern.inputs:
        if isinstance(p, OpPattern):
            yield from _operators(p)
