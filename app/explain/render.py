"""Why a rule fires, or does not."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.rewriting.changes import Change
from ..descriptions import listed
from ..terminal import Screen, plural
from .closest_match import Kind, Miss
from .explain import NOWHERE, Explanation, PassExplained, RuleExplained
from .match_report import Account

IN_THE_WAY = {
    Kind.OPERATOR: "another op",
    Kind.DOMAIN: "another domain",
    Kind.ATTRIBUTE: "an attribute",
    Kind.INPUTS: "the number of inputs",
    Kind.ORDER: "the order of inputs",
    Kind.CONSTANT: "no constant",
    Kind.VARIABLE: "two values for one name",
    Kind.SHARED: "used elsewhere",
    Kind.DECLINED: "declined by the rule",
    Kind.RAISED: "the rule fails",
    Kind.FORBIDDEN: "not allowed",
    Kind.DEAD: "dead",
}


def show_explanation(screen: Screen, told: Explanation, most: int) -> None:
    """Each rule with where it fired, and its near misses."""
    state = "as it is" if told.as_is else f"in a run of {told.pipeline}"
    screen.line(f"{told.source}, {state}{f', around {told.at}' if told.at else ''}; not verified")
    for note in told.notes:
        screen.line(f"note: {note}")
    for found in told.left_out:
        screen.line(f"left out of the run: {found.label}: {found.message}")
    idle = [r for r in told.rules if len(told.rules) > 1 and r.rank == NOWHERE]
    busy = [r for r in told.rules if r not in idle]
    shown = busy[:most] if told.is_group else busy
    for r in shown:
        _show_rule(screen, r, most, as_is=told.as_is)
    for p in told.passes:
        if p.made or not told.is_group:
            _show_pass(screen, p, most, as_is=told.as_is)
    if told.is_group:
        further = f"{plural(len(busy) - len(shown), 'rule')} further off (--most), " if len(busy) > len(shown) else ""
        rest = f"{plural(len(idle), 'rule')} with nothing to start at"
        screen.line(
            further + rest if told.rules else "they have no patterns to compare; those not shown made no change"
        )
    else:
        _show_idle(screen, idle)


def _show_idle(screen: Screen, rules: Sequence[RuleExplained]) -> None:
    """The rules that have nothing to start at, those for one reason together."""
    remarks: dict[str, list[str]] = {}
    for r in rules:
        if r.left is not None:
            remarks.setdefault(r.left.remark, []).append(r.name)
    for remark, names in remarks.items():
        screen.line(f"{remark}: {', '.join(names)}")


def _show_rule(screen: Screen, r: RuleExplained, most: int, *, as_is: bool) -> None:
    screen.line(f"{r.name}  [{r.contract}]  of {r.pass_name}")
    if r.equation:
        screen.line(f"    {r.equation}")
    if not as_is:
        times = {0: "did not fire", 1: "fired once"}.get(len(r.made), f"fired {len(r.made)} times")
        _show_changes(screen, times, r.made, most)
    if r.left is not None:
        _show_account(screen, r.left, most, as_is=as_is)


def _show_pass(screen: Screen, p: PassExplained, most: int, *, as_is: bool) -> None:
    screen.line(f"{p.name}  (no pattern to compare)")
    if p.summary:
        screen.line(f"    {p.summary}")
    changes = plural(len(p.made), "change")
    _show_changes(screen, f"would make {changes}" if as_is else f"made {changes}", p.made, most)


def _show_changes(screen: Screen, heading: str, changes: Sequence[Change], most: int) -> None:
    screen.line(f"    {heading}")
    for c in changes[:most]:
        screen.line(f"        #{c.ordinal} {c.where}, replacing {listed(c.replaced)}")
    _show_rest(screen, len(changes) - most)


def _show_account(screen: Screen, left: Account, most: int, *, as_is: bool) -> None:
    if left.fires:
        screen.line(f"    {'would fire' if as_is else 'would still fire'} at {plural(len(left.fires), 'op')}")
        for f in left.fires[:most]:
            screen.line(f"        {f.root}{f.inside}")
        _show_rest(screen, len(left.fires) - most)
    if left.remark:
        screen.line(f"    nothing to start at{'' if as_is else ' is left'}: {left.remark}")
    missed = left.roots - len(left.fires)
    if missed:
        kinds = ", ".join(f"{IN_THE_WAY[Kind(kind)]} ({n})" for kind, n in left.kinds.items())
        screen.line(f"    not at {plural(missed, 'op')}{'' if as_is else ' left'}: {kinds}")
    for f in left.misses:
        screen.line(f"        {f.root}{f.inside}: {f.matched} of {plural(f.size, 'op')} fit")
        for m in f.misses:
            screen.line(f"            {_reason(m)}")
    _show_rest(screen, missed - len(left.misses))


def _reason(miss: Miss) -> str:
    values = ", ".join(f"{name} is {what}" for name, what in (miss.values or {}).items())
    return f"{miss.why}: {values}" if values else miss.why


def _show_rest(screen: Screen, more: int) -> None:
    if more > 0:
        screen.line(f"        ... and {more} more (--most)")
