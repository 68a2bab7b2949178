"""What a rule has to say to one op: it fires there, or why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import Declined, RuleError
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from ..pattern import Found, match_op
from ..rewrite import attempt, is_seen
from ..rules import Match, Rule, given_by
from .closest import closest, size_of
from .miss import Kind, Miss
from .words import any_of, described, inside, readers_elsewhere

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
