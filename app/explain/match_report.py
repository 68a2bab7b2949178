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

from ...core.errors import Declined, FailureKind, PassFailed, RuleError
from ...core.ir import op_schemas
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.pass_manager.pass_manager import NO_PROGRESS_TIMEOUT
from ...core.rewriting.driver import is_live, try_build
from ...core.rewriting.pattern import OpPattern, PartialMatch, match_op
from ...core.rewriting.rules import Match, Rule, bound_values
from ...core.support.watchdog import NoProgress, progress_watchdog
from ..descriptions import (
    describe_binding,
    describe_enclosing_body,
    external_uses,
    join_alternatives,
    missing_operator_reason,
)
from .closest_match import MatchFailure, MatchFailureKind, closest_match, pattern_size

MAX_REASONS = 4  # reasons of one kind at one op


@dataclass(frozen=True, slots=True)
class MatchDiagnosis:
    """How far a rule gets at an op, its root: `matched` of the `size` operators of its pattern fit.

    It fires there if there are no `misses`.
    """

    rule: str
    root: str
    value: str
    inside: str
    matched: int
    size: int
    failures: tuple[MatchFailure, ...]

    @property
    def fires(self) -> bool:
        """Whether the rule would rewrite the op."""
        return not self.failures

    @property
    def rank(self) -> tuple[int, int, int]:
        """The lower, the nearer: what fits as a whole, what lacks the least of the pattern, what has fewer misses."""
        whole = all(m.kind in POST_MATCH_KINDS for m in self.failures)
        return (0 if whole else 1, self.size - self.matched, len(self.failures))


POST_MATCH_KINDS = frozenset(
    {
        MatchFailureKind.SHARED,
        MatchFailureKind.DECLINED,
        MatchFailureKind.RAISED,
        MatchFailureKind.FORBIDDEN,
        MatchFailureKind.DEAD,
    }
)
"""What keeps a rule off although its pattern fits."""


def diagnose_match(r: Rule, op: Op, *, exact_only: bool = False) -> MatchDiagnosis:
    """Match and try `rule` at `op` as a run would, and say what keeps it off. The graph stays as it is.

    Raises ModelError for weights that cannot be read.
    """
    try:
        fitting, misses = _match_outcome(r, op)
    except Declined as why:  # while it was matched
        fitting, misses = 1, (MatchFailure(MatchFailureKind.DECLINED, op.label, str(why)),)
    if not misses and exact_only and not r.is_exact_at(op):
        why = f"--exact does not allow it: its contract is {r.contract_at(op).kind}"
        misses = (MatchFailure(MatchFailureKind.FORBIDDEN, op.label, why),)
    value = op.outputs[0].name if op.outputs else ""
    return MatchDiagnosis(
        r.name, op.label, value, describe_enclosing_body(op.graph), fitting, pattern_size(r.pattern), misses
    )


def _match_outcome(r: Rule, op: Op) -> tuple[int, tuple[MatchFailure, ...]]:
    """How many operators of the pattern fit, and what keeps the rule off."""
    whole = next(match_op(r.pattern, op, op.graph), None)
    if whole is None:
        way = closest_match(r.pattern, op)
        return way.matched, way.failures
    fitting, said = len(whole[1]), dict[str, MatchFailure]()
    for match in r.matches(op.graph, op):
        if not is_live(op):
            return fitting, (MatchFailure(MatchFailureKind.DEAD, op.label, f"nothing reads what {op.label} makes"),)
        miss = _rewrite_failure(r, match)
        if miss is None:
            return fitting, ()
        said.setdefault(miss.reason, miss)
        if miss.kind == MatchFailureKind.RAISED:  # that ends a run of the pass
            break
    return fitting, tuple(said.values())[:MAX_REASONS] or tuple(_external_uses(op.graph, whole))


def _rewrite_failure(r: Rule, match: Match) -> MatchFailure | None:
    """Why the rule does not take a match; None if it does."""
    try:
        try_build(r, match)
    except Declined as why:
        kind, text = MatchFailureKind.DECLINED, str(why)
    except RuleError as e:
        kind, text = MatchFailureKind.RAISED, str(e)
    else:
        return None
    return MatchFailure(kind, match.ops[0].label, text, _named_bindings(match, text))


def _named_bindings(match: Match, reason: str) -> dict[str, str]:
    """What the variables of a match stand for: those that the reason names by their names or the model's, or all.

    Of what it names by the model's, that is told, too.
    """
    theirs = {name: b.name for name, b in match.bindings.items() if isinstance(b, Value) and _mentions(b.name, reason)}
    named = {name for name in match.bindings if name in theirs or _mentions(name, reason)}
    said = {name: f"{theirs[name]}, " if theirs.get(name, name) != name else "" for name in match.bindings}
    return {name: said[name] + describe_binding(b) for name, b in match.bindings.items() if not named or name in named}


def _mentions(name: str, reason: str) -> bool:
    """Whether a reason names something, and not only something whose name is longer."""
    return bool(name) and re.search(rf"(?<![\w/.:]){re.escape(name)}(?![\w/:])", reason) is not None


def _external_uses(graph: Graph, whole: PartialMatch) -> Iterator[MatchFailure]:
    """What a match has inside that something else sees, see `Rule.matches`."""
    bound, ops, _ = whole
    given = bound_values(bound)
    for op in ops[1:]:
        for v in op.outputs:
            said = external_uses(v, graph, ops)
            if graph.is_output(v):
                said.append(f"{v.name} is an output of the {'graph' if graph.owner is None else 'body'}")
            if v in graph.pinned:
                said.append(f"{v.name} is referred to by name, by a quantization annotation")
            if any(v is x for x in given):
                names = [name for name, b in bound.items() if b is v] or ["an input"]
                said.append(f"{v.name} is inside the match, and {join_alternatives(names)} too")
            yield from (MatchFailure(MatchFailureKind.SHARED, op.label, why) for why in said[:MAX_REASONS])


RootFilter = Callable[[Op], bool]


@dataclass(frozen=True, slots=True)
class MatchReport:
    """`roots` ops were looked at; the rule `matches` at some, and of the others the nearest `misses` are listed.

    `miss_counts` counts the others by what comes first in their way. `remark` says why there are no roots.
    """

    roots: int
    matches: list[MatchDiagnosis]
    near_misses: list[MatchDiagnosis]
    miss_counts: dict[str, int] = field(default_factory=dict[str, int])
    remark: str = ""


def report_matches(
    r: Rule,
    graph: Graph,
    limit: int,
    is_selected: RootFilter | None = None,
    *,
    exact_only: bool = False,
    no_progress_timeout: float = NO_PROGRESS_TIMEOUT,
) -> MatchReport:
    """Hold a rule to each op it could start at, bodies included, where `is_selected` says so.

    O(ops of the root's types). Raises PassFailed if it does not return at one for `no_progress_timeout` seconds.
    """
    fires: list[MatchDiagnosis] = []
    kinds: Counter[str] = Counter()
    looked = 0
    roots = [op for op in _roots(r, graph) if is_selected is None or is_selected(op)]

    def misses() -> Iterator[MatchDiagnosis]:
        nonlocal looked
        for looked, op in enumerate(roots):  # noqa: B007 - the watch looks at it
            found = diagnose_match(r, op, exact_only=exact_only)
            if found.fires:
                fires.append(found)
            else:
                kinds[found.failures[0].kind.value] += 1
                yield found

    try:
        with progress_watchdog(lambda: looked, no_progress_timeout):
            nearest = nsmallest(max(limit, 1), misses(), key=attrgetter("rank"))[
                :limit
            ]  # of none, it would look at none
    except NoProgress as e:
        raise PassFailed(r.name, FailureKind.ENDLESS, f"{r.name} does not return at {roots[looked].label}") from e
    return MatchReport(
        len(roots), fires, nearest, dict(kinds.most_common()), "" if roots else _no_roots_reason(r, graph, is_selected)
    )


def _roots(rule: Rule, graph: Graph) -> Iterator[Op]:
    """The ops at which the pattern could start, as a run takes them."""
    for g in graph.with_subgraphs():
        yield from sorted(g.ops(*rule.pattern.types), key=attrgetter("order_key"))


def _no_roots_reason(r: Rule, graph: Graph, is_selected: RootFilter | None) -> str:
    """Why there is nothing to look at."""
    for p in _op_patterns(r.pattern):
        version = graph.opsets.get(p.domain, 0)
        if not any(_is_defined(t, p.domain, version) for t in p.types):
            return missing_operator_reason(p.types, p.domain, version)
    return f"no op {'there' if is_selected is not None else 'at all'} is {join_alternatives(r.pattern.types)}"


def _is_defined(op_type: str, domain: str, version: int) -> bool:
    return bool(domain) or op_schemas.schema(op_type, domain, version) is not None


def _op_patterns(pattern: OpPattern) -> Iterator[OpPattern]:
    yield pattern
    for p in pattern.inputs:
        if isinstance(p, OpPattern):
            yield from _op_patterns(p)
