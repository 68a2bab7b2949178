"""Applies rules until none fires: an op-type index finds the roots, a worklist keeps it O(nodes)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from ..errors import Declined, GraphError, ModelError, NoFixpoint, RuleError, format_error, require
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.origin import inherit_name, made_from, set_origin
from ..ir.values import Value
from ..support.watchdog import NoProgress
from .builder import Build
from .ledger import Ledger
from .rule_index import RuleIndex
from .rules import Match, Rule
from .worklist import Worklist

log = logging.getLogger(__name__)


def rewrite(graph: Graph, rules: Iterable[Rule], ledger: Ledger, *, budget: int | None = None) -> Counter[str]:
    """Apply `rules` in `graph` and all graphs inside it until none fires; say how often each did.

    Raises NoFixpoint after `budget` rewrites (default: 100 and ten for each op).
    """
    candidates = RuleIndex(rules)
    work = Worklist()
    size = 0
    for g in graph.with_subgraphs():
        size += len(g)
        work.add(sorted(g.ops(*candidates.by_root_type), key=attrgetter("order_key")))
    budget = 100 + 10 * size if budget is None else budget
    fired: Counter[str] = Counter()
    for op in work:
        rules = candidates.candidates_at(op)
        if not rules or op not in op.graph or not is_live(op):
            continue
        if ledger.stopped:
            break
        for r in rules:
            touched = apply_rule(r, op, ledger)
            if touched is not None:
                fired[r.name] += 1
                if fired.total() > budget:
                    busiest = fired.most_common(3)
                    counted = ", ".join(f"{name} {n} times" for name, n in busiest)
                    raise NoFixpoint(f"still changing after {budget} rewrites: {counted}", [n for n, _ in busiest])
                work.add(t for t in touched if t.type in candidates.by_root_type)
                break
    return fired


def is_live(op: Op) -> bool:
    """Whether anything reads one of its outputs. What is dead is not worth rewriting."""
    return any(v.consumers or op.graph.is_output(v) for v in op.outputs)


def apply_rule(r: Rule, root: Op, ledger: Ledger) -> list[Op] | None:
    """Try one rule at one op. Returns the ops worth looking at again, or None if nothing changed."""
    try:
        for match in r.matches(root.graph, root):
            touched = _apply_match(r, match, ledger)
            if touched is not None:
                return touched
    except Declined as why:  # while it was matched
        log.debug("%s declined at %s: %s", r.name, root, why)
    return None


def _apply_match(r: Rule, match: Match, ledger: Ledger) -> list[Op] | None:
    """Make one match what the rule says, unless it declines."""
    root, place = match.ops[0], _match_location(match)
    exact = r.is_exact_at(root)
    if not ledger.may_change(r.name, place, exact=exact):
        log.debug("%s declined at %s: not permitted in this run", r.name, root)
        return None
    g = Build(root.graph, root)
    try:
        new = _build_replacement(r, g, match, place)
        require(ledger.request_change(r.name, place, match.ops, exact=exact), "not permitted in this run")
    except Declined as why:
        root.graph.discard(g.added_ops[::-1])
        touched = None
        log.debug("%s declined at %s: %s", r.name, root, why)
    else:
        touched = _insert_replacement(r, match, new, g.added_ops, place)
    for v in g.constants:
        root.graph.drop_initializer(v)
    return touched


def try_build(r: Rule, match: Match) -> None:
    """Build what the rule makes of a match, and take it away again: raises Declined or RuleError where it would not."""
    root = match.ops[0]
    g = Build(root.graph, root)
    try:
        _build_replacement(r, g, match, _match_location(match))
    finally:
        root.graph.discard(g.added_ops[::-1])
        for v in g.constants:
            root.graph.drop_initializer(v)


def _match_location(match: Match) -> str:
    """The name of the root's first output that anything looks at."""
    root = match.ops[0]
    return next(v.name for v in root.outputs if v.consumers or root.graph.is_output(v))


def _build_replacement(r: Rule, g: Build, match: Match, place: str) -> tuple[Value | None, ...]:
    """What the rule builds for each output of the root, which it is not yet put in the place of."""
    root = match.ops[0]
    new = _check_replacement(r, root, _call_build(r, g, match, root, place), place)
    _require_change(root, new)
    return new


def _call_build(r: Rule, g: Build, match: Match, root: Op, place: str) -> Value | tuple[Value | None, ...]:
    try:
        return r.build(g, **r.arguments(match))
    except (Declined, ModelError, NoFixpoint, KeyboardInterrupt, NoProgress):
        raise
    except BaseException as e:
        raise RuleError(f"rule {r.name} failed at {root.label}: {format_error(e)}", r.name, place) from e


def _check_replacement(
    r: Rule, root: Op, built: Value | tuple[Value | None, ...], place: str
) -> tuple[Value | None, ...]:
    """What the rule returned, one entry for each output of the root."""
    new: tuple[Value | None, ...] = built if isinstance(built, tuple) else (built,)
    unchecked: tuple[Any, ...] = new
    if not all(v is None or isinstance(v, Value) for v in unchecked):
        raise RuleError(f"{r.name} returned {built!r} instead of values", r.name, place)
    if any(v is not None for v in new[len(root.outputs) :]):
        raise RuleError(f"{r.name} returned more values than {root.label} has outputs", r.name, place)
    new = (*new, *[None] * len(root.outputs))[: len(root.outputs)]
    for old, v in zip(root.outputs, new, strict=True):
        if v is None and (old.consumers or root.graph.is_output(old)):
            raise Declined(f"{old.name} is used, and the rule gives nothing for it")
    return new


def _require_change(root: Op, new: tuple[Value | None, ...]) -> None:
    """Decline what would change nothing, or could not be done in whole."""
    pairs = [(old, v) for old, v in zip(root.outputs, new, strict=True) if v is not None and v is not old]
    if not pairs:
        raise Declined("the replacement is what stands there")
    if root.type == "Identity":  # else an Identity takes its place where both values have names to keep
        for old, v in pairs:
            root.graph.require_replaceable(old, v)


def _insert_replacement(r: Rule, match: Match, new: tuple[Value | None, ...], added: list[Op], place: str) -> list[Op]:
    try:
        return _replace_root_outputs(r.name, match, new, added)
    except GraphError as e:
        raise RuleError(f"what {r.name} returned cannot stand at {match.ops[0].label}: {e}", r.name, place) from e


def _replace_root_outputs(by: str, match: Match, new: tuple[Value | None, ...], added: list[Op]) -> list[Op]:
    """Put the new values in the place of the root's outputs; returns the ops worth looking at again.

    What was added is marked as made of the ops matched. The last of it takes the root's name, and with it the doc
    string and metadata that the file has for the root.
    """
    root = match.ops[0]
    graph = root.graph
    set_origin(added, by, match.ops)
    near = {p: None for v in root.inputs if v is not None and (p := graph.producer(v)) is not None}
    readers = [user for old in root.outputs for user in old.consumers]
    replacements: dict[Value, Value] = {}  # what came to stand for each new value
    for old, v in zip(root.outputs, new, strict=True):
        if v is None or v is old:
            continue
        maker = graph.producer(v)
        if v in replacements:
            _replace_output(by, match, old, replacements[v])
        elif maker is not None and maker in added:
            graph.take_over(v, old)
            replacements[v] = old
        else:
            _replace_output(by, match, old, v)
            replacements[v] = v
    if added and not added[-1].name:
        inherit_name(added[-1], root)
    graph.discard(match.ops)
    touched = [*(p for p in near if p in p.graph), *(op for op in added if op in op.graph)]
    return [*touched, *readers]


def _replace_output(by: str, match: Match, old: Value, new: Value) -> None:
    """Let `new` stand for `old`; an Identity that has to stand between them is made of the match as well."""
    identity = match.ops[0].graph.replace_value(old, new)
    if identity is not None:
        made_from(identity, by, match.ops)
