"""The ops of a graph at which a rule fires, and the reasons why it does not fire at others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter

from msgspec import Struct, field

from ...core.errors import MatchFailure, RuleError
from ...core.ir import op_schemas
from ...core.ir.graph import Graph, enclosing_op
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.processes.watchdog import required_progress
from ...core.rewriting.driver import is_live, try_build
from ...core.rewriting.pattern import ROOTS, OpPattern, PartialMatch, match_op
from ...core.rewriting.rules import Match, Rule, bound_values
from ...core.run.pipeline_run import NO_PROGRESS_TIMEOUT
from ..report.descriptions import describe_binding
from .closest_match import MismatchKind, PatternMismatch, closest_match, pattern_size

MAX_REASONS = 4  # of one kind, at one op
POST_MATCH_KINDS = frozenset(map(MismatchKind, ("shared", "declined", "raised", "forbidden", "dead")))
"""Failures of a rule whose pattern matches."""


class MatchDiagnosis(Struct, frozen=True):
    """A rule at `root`: `matched` of its pattern's `size` operators match, and it fires if there are no `failures`."""

    rule: str
    root: str
    value: str
    inside: str
    matched: int
    size: int
    failures: tuple[PatternMismatch, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        """Orders reports: complete matches first, then by missing operators, then by number of failures."""
        whole = all(m.kind in POST_MATCH_KINDS for m in self.failures)
        return (0 if whole else 1, self.size - self.matched, len(self.failures))


def diagnose_match(r: Rule, op: Op, *, exact_only: bool = False) -> MatchDiagnosis:
    """Try a rule at `op` as a run would, and report why it does not fire; the graph is unchanged.

    Raises ModelError for weights that cannot be read.
    """
    matched, size = 1, pattern_size(r.patterns[0])
    try:
        matched, size, failures = _match_outcome(r, op)
    except MatchFailure as why:  # raised while matching
        failures = (PatternMismatch(MismatchKind.DECLINED, op.label, str(why)),)
    if not failures and exact_only and not r.is_exact_at(op):
        why = f"--exact does not allow it: its contract is {r.contract_at(op).kind}"
        failures = (PatternMismatch(MismatchKind.FORBIDDEN, op.label, why),)
    value = op.outputs[0].name if op.outputs else ""
    inside = "" if op.graph.owner is None else f", inside {op.graph.owner.label}"
    return MatchDiagnosis(r.name, op.label, value, inside, matched, size, failures)


def _match_outcome(r: Rule, op: Op) -> tuple[int, int, tuple[PatternMismatch, ...]]:
    """The number of operators of the closest pattern that match, the pattern's size, and the failures of the rule."""
    matches = ((p, found) for p in r.patterns for found in match_op(p, op))
    pattern, whole = next(matches, (None, None))
    if pattern is None or whole is None:
        pattern, way = min(((p, closest_match(p, op)) for p in r.patterns), key=lambda found: found[1].cost)
        return way.matched, pattern_size(pattern), way.failures
    matched, size, failures = len(whole[1]), pattern_size(pattern), dict[str, PatternMismatch]()
    for match in r.matches(op):
        if not is_live(op):
            dead = PatternMismatch(MismatchKind.DEAD, op.label, f"no result of {op.label} is used")
            return matched, size, (dead,)
        failure = _rewrite_failure(r, match)
        if failure is None:
            return matched, size, ()
        failures.setdefault(failure.reason, failure)
        if failure.kind == MismatchKind.RAISED:  # this ends a run of the pass
            break
    return matched, size, tuple(failures.values())[:MAX_REASONS] or tuple(_external_uses(op.graph, whole))


def _rewrite_failure(r: Rule, match: Match) -> PatternMismatch | None:
    """The failure of the rule at a match; None if it rewrites the match."""
    try:
        try_build(r, match)
    except MatchFailure as why:
        kind, text = MismatchKind.DECLINED, str(why)
    except RuleError as e:
        kind, text = MismatchKind.RAISED, str(e)
    else:
        return None
    return PatternMismatch(kind, match.ops[0].label, text, _named_bindings(match, text))


def _named_bindings(match: Match, reason: str) -> dict[str, str]:
    """Describe the variables that a reason names, by their names in the pattern or the model; if none, all except ops.

    A value named as in the model is described with that name.
    """
    theirs = {name: b.name for name, b in match.bindings.items() if isinstance(b, Value) and _mentions(b.name, reason)}
    named = {name for name in match.bindings if name in theirs or _mentions(name, reason)}
    shown = named or {name for name, b in match.bindings.items() if not isinstance(b, Op)}
    said = {name: f"{theirs[name]}, " if theirs.get(name, name) != name else "" for name in match.bindings}
    return {name: said[name] + describe_binding(b) for name, b in match.bindings.items() if name in shown}


def _mentions(name: str, reason: str) -> bool:
    """Whether a reason contains a name as a whole word."""
    return bool(name) and re.search(rf"(?<![\w/.:]){re.escape(name)}(?![\w/:])", reason) is not None


def _external_uses(graph: Graph, whole: PartialMatch) -> Iterator[PatternMismatch]:
    """Yield the uses of inner values outside the match; see `Rule.matches`."""
    bound, ops, _ = whole
    given = bound_values(bound)
    roots = bound.get(ROOTS, ops[:1])
    for op in (op for op in ops if op not in roots):
        for v in op.outputs:
            said = [_use_text(v, user, graph) for user in v.consumers if user not in ops]
            if graph.is_output(v):
                said.append(f"{v.name} is an output of the {'graph' if graph.owner is None else 'body'}")
            if v in graph.pinned:
                said.append(f"{v.name} is referred to by name, by a quantization annotation")
            if any(v is x for x in given):
                names = [name for name, b in bound.items() if b is v] or ["an input"]
                said.append(f"{v.name} is inside the match, and {' or '.join(names)} too")
            yield from (PatternMismatch(MismatchKind.SHARED, op.label, why) for why in said[:MAX_REASONS])


def _use_text(value: Value, user: Op, graph: Graph) -> str:
    outer = enclosing_op(graph, user)
    if outer is not None and (outer is not user or value not in user.inputs):
        return f"{value.name} is read inside the body of {outer.label}"
    return f"{value.name} is also used by {user.label}"


RootFilter = Callable[[Op], bool]


class MatchReport(Struct, frozen=True):
    """The ops at which a rule could start: their number `roots`, the `matches`, and the nearest misses.

    `miss_counts` counts the misses by their first failure. `remark` says why there are no roots.
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
    """Diagnose a rule at each op at which it could start, including bodies, if `is_selected`.

    O(ops with the root's types). Ends the command if the rule does not return at one op for `no_progress_timeout`
    seconds.
    """
    found: list[MatchDiagnosis] = []
    ops = (op for g in graph.with_subgraphs() for op in sorted(g.ops(*r.root_types), key=attrgetter("order_key")))
    roots = [op for op in ops if is_selected is None or is_selected(op)]
    visited = list[Op]()

    def failure() -> str:
        return f"{r.name} does not return at {' '.join(op.label for op in visited[-1:])}"

    with required_progress(lambda: len(visited), no_progress_timeout, failure):
        for op in roots:
            visited.append(op)
            found.append(diagnose_match(r, op, exact_only=exact_only))
    misses = [d for d in found if d.failures]
    counts = Counter(d.failures[0].kind.value for d in misses)
    return MatchReport(
        len(roots),
        [d for d in found if not d.failures],
        sorted(misses, key=attrgetter("rank"))[:limit],
        dict(counts.most_common()),
        "" if roots else _no_roots_reason(r, graph, is_selected),
    )


def _no_roots_reason(r: Rule, graph: Graph, is_selected: RootFilter | None) -> str:
    """Name an operator of the pattern that does not exist at this opset, or the root types that no op has."""
    missing = [_missing_operator(pattern, graph) for pattern in r.patterns]
    if all(missing):
        return missing[0]
    return f"no op {'there ' if is_selected is not None else ''}is {' or '.join(r.root_types)}"


def _missing_operator(pattern: OpPattern, graph: Graph) -> str:
    """Why a pattern cannot match at the opset of a graph; "" if it can."""
    for p in pattern.walk():
        version = graph.opsets.get(p.domain, 0)
        if p.domain or any(op_schemas.schema(t, p.domain, version) is not None for t in p.types):
            continue
        since = min(op_schemas.since_versions(p.domain)[t] for t in p.types)
        later = f"; it was added in opset {since}" if since > version else ""
        return f"{' or '.join(p.types)} does not exist at opset {version}{later}"
    return ""
