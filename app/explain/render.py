"""Explanations as text."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.rewriting.changes import Change
from ..descriptions import join_truncated
from ..terminal import Terminal, plural
from .closest_match import MatchFailureKind
from .explain import NO_ROOTS, Explanation, RuleExplanation
from .match_report import MatchReport

MISS_TEXTS = {
    MatchFailureKind.OPERATOR: "another op",
    MatchFailureKind.DOMAIN: "another domain",
    MatchFailureKind.ATTRIBUTE: "an attribute",
    MatchFailureKind.INPUTS: "the number of inputs",
    MatchFailureKind.ORDER: "the order of inputs",
    MatchFailureKind.CONSTANT: "no constant",
    MatchFailureKind.VARIABLE: "two values for one name",
    MatchFailureKind.SHARED: "used elsewhere",
    MatchFailureKind.DECLINED: "declined by the rule",
    MatchFailureKind.RAISED: "the rule fails",
    MatchFailureKind.FORBIDDEN: "not allowed",
    MatchFailureKind.DEAD: "dead",
}


def show_explanation(terminal: Terminal, explanation: Explanation, limit: int) -> None:
    """Print each rule with its changes and near misses."""
    state = "as it is" if explanation.as_is else f"in a run of {explanation.pipeline}"
    terminal.line(
        f"{explanation.source}, {state}{f', around {explanation.at}' if explanation.at else ''}; not verified"
    )
    notes = [f"note: {note}" for note in explanation.notes]
    for line in (*notes, *(f"left out of the run: {q.label}: {q.message}" for q in explanation.quarantined)):
        terminal.line(line)
    idle = [r for r in explanation.rules if len(explanation.rules) > 1 and r.rank == NO_ROOTS]
    busy = [r for r in explanation.rules if r not in idle]
    shown = busy[:limit] if explanation.is_group else busy
    for r in shown:
        _show_rule(terminal, r, limit, as_is=explanation.as_is)
    for p in explanation.passes:
        if p.changes or not explanation.is_group:
            terminal.line(f"{p.name}  (no pattern to compare)")
            if p.summary:
                terminal.line(f"    {p.summary}")
            made = f"{'would make' if explanation.as_is else 'made'} {plural(len(p.changes), 'change')}"
            _show_changes(terminal, made, p.changes, limit)
    if explanation.is_group:
        further = f"{plural(len(busy) - len(shown), 'rule')} further off (--limit), " if len(busy) > len(shown) else ""
        rest = f"{plural(len(idle), 'rule')} with nothing to start at"
        terminal.line(
            further + rest if explanation.rules else "they have no patterns to compare; those not shown made no change"
        )
        return
    remarks: dict[str, list[str]] = {}
    for r in idle:
        if r.match_report is not None:
            remarks.setdefault(r.match_report.remark, []).append(r.name)
    for remark, names in remarks.items():
        terminal.line(f"{remark}: {', '.join(names)}")


def _show_rule(terminal: Terminal, r: RuleExplanation, limit: int, *, as_is: bool) -> None:
    terminal.line(f"{r.name}  [{r.contract}]  of {r.pass_name}")
    if r.equation:
        terminal.line(f"    {r.equation}")
    if not as_is:
        times = {0: "did not fire", 1: "fired once"}.get(len(r.changes), f"fired {len(r.changes)} times")
        _show_changes(terminal, times, r.changes, limit)
    if r.match_report is not None:
        _show_match_report(terminal, r.match_report, limit, as_is=as_is)


def _show_changes(terminal: Terminal, heading: str, changes: Sequence[Change], limit: int) -> None:
    terminal.line(f"    {heading}")
    for c in changes[:limit]:
        terminal.line(f"        #{c.ordinal} {c.where}, replacing {join_truncated(c.replaced)}")
    _show_remaining_count(terminal, len(changes) - limit)


def _show_match_report(terminal: Terminal, match_report: MatchReport, limit: int, *, as_is: bool) -> None:
    if match_report.matches:
        terminal.line(
            f"    {'would fire' if as_is else 'would still fire'} at {plural(len(match_report.matches), 'op')}"
        )
        for f in match_report.matches[:limit]:
            terminal.line(f"        {f.root}{f.inside}")
        _show_remaining_count(terminal, len(match_report.matches) - limit)
    if match_report.remark:
        terminal.line(f"    nothing to start at{'' if as_is else ' is left'}: {match_report.remark}")
    missed = match_report.roots - len(match_report.matches)
    if missed:
        kinds = ", ".join(f"{MISS_TEXTS[MatchFailureKind(kind)]} ({n})" for kind, n in match_report.miss_counts.items())
        terminal.line(f"    not at {plural(missed, 'op')}{'' if as_is else ' left'}: {kinds}")
    for f in match_report.near_misses:
        terminal.line(f"        {f.root}{f.inside}: {f.matched} of {plural(f.size, 'op')} fit")
        for m in f.failures:
            values = ", ".join(f"{name} is {what}" for name, what in (m.bindings or {}).items())
            terminal.line(f"            {m.reason}{f': {values}' if values else ''}")
    _show_remaining_count(terminal, missed - len(match_report.near_misses))


def _show_remaining_count(terminal: Terminal, more: int) -> None:
    if more > 0:
        terminal.line(f"        ... and {more} more (--limit)")
