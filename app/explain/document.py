"""The document of an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...core.rewriting.change_log import Change
from ..optimize.closest_match import MismatchKind
from ..optimize.match_report import MatchDiagnosis, MatchReport
from ..report.descriptions import join_truncated
from ..report.document import Document, Lines, Preformatted
from ..report.number_text import plural
from .explain import NO_ROOTS, Explanation, RuleExplanation
from .explain_options import ExplainOptions

MISS_TEXTS = {
    MismatchKind.OPERATOR: "another op",
    MismatchKind.DOMAIN: "another domain",
    MismatchKind.ATTRIBUTE: "an attribute",
    MismatchKind.INPUTS: "the number of inputs",
    MismatchKind.ORDER: "the order of inputs",
    MismatchKind.CONSTANT: "no constant",
    MismatchKind.VARIABLE: "two values for one name",
    MismatchKind.SHARED: "used elsewhere",
    MismatchKind.DECLINED: "declined by the rule",
    MismatchKind.RAISED: "the rule fails",
    MismatchKind.FORBIDDEN: "not allowed",
    MismatchKind.DEAD: "dead",
}


def describe(explanation: Explanation, limit: int = ExplainOptions.limit) -> Document:
    """Each rule with its changes and near misses."""
    state = "as it is" if explanation.as_is else f"in a run of {explanation.pipeline}"
    around = f", around {explanation.at}" if explanation.at else ""
    return Document(
        "passes explain",
        explanation.source,
        "",
        summary=f"{state}{around}; nothing was verified",
        blocks=[
            Lines(explanation.notes, "note"),
            Lines([q.description for q in explanation.rejected], "skipped in the run"),
            Preformatted("Rules", [*_explanation_lines(explanation, limit)]),
        ],
    )


def _explanation_lines(explanation: Explanation, limit: int) -> Iterator[str]:
    as_is, is_group, rules = explanation.as_is, explanation.is_group, explanation.rules
    idle = [r for r in rules if len(rules) > 1 and r.rank == NO_ROOTS]
    busy = [r for r in rules if r not in idle]
    shown = busy[:limit] if is_group else busy
    for r in shown:
        yield from _rule_lines(r, limit, as_is=as_is)
    for p in explanation.passes:
        if p.changes or p.declines or not is_group:
            yield f"{p.name}  (no pattern to compare)"
            if p.summary:
                yield f"    {p.summary}"
            made = f"{'would make' if as_is else 'made'} {plural(len(p.changes), 'change')}"
            yield from _change_lines(made, p.changes, limit)
            yield from _decline_lines(p.declines, limit)
    if is_group and not rules:
        yield "these passes have no patterns to compare; passes that made no change are not shown"
    elif is_group:
        further = (
            f"{plural(len(busy) - len(shown), 'rule')} with a more distant match (--limit), "
            if len(busy) > len(shown)
            else ""
        )
        yield f"{further}{plural(len(idle), 'rule')} with no op to start from"
    else:
        reports = [(r.match_report.remark, r.name) for r in idle if r.match_report is not None]
        for remark in dict.fromkeys(remark for remark, _ in reports):
            yield f"{remark}: {', '.join(name for other, name in reports if other == remark)}"


def _rule_lines(r: RuleExplanation, limit: int, *, as_is: bool) -> Iterator[str]:
    yield f"{r.name}  [{r.contract}]  of {r.pass_name}"
    if r.equation:
        yield f"    {r.equation}"
    if not as_is:
        times = {0: "was not applied", 1: "applied once"}.get(len(r.changes), f"applied {len(r.changes)} times")
        yield from _change_lines(times, r.changes, limit)
    if r.match_report is not None:
        yield from _match_lines(r.match_report, limit, as_is=as_is)


def _change_lines(heading: str, changes: Sequence[Change], limit: int) -> Iterator[str]:
    yield f"    {heading}"
    for c in changes[:limit]:
        replaced = f", replacing {join_truncated(c.replaced)}" if c.replaced else ""
        yield f"        #{c.ordinal} {c.where}{replaced}"
    yield from _remaining_count(len(changes) - limit)


def _decline_lines(declines: Mapping[str, str], limit: int) -> Iterator[str]:
    if declines:
        yield f"    declined {plural(len(declines), 'change')}"
        yield from (f"        at {place}: {why}" for place, why in list(declines.items())[:limit])
        yield from _remaining_count(len(declines) - limit)


def _match_lines(report: MatchReport, limit: int, *, as_is: bool) -> Iterator[str]:
    if report.matches:
        yield f"    {'would apply' if as_is else 'would still apply'} at {plural(len(report.matches), 'op')}"
        yield from (f"        {f.root}{f.inside}" for f in report.matches[:limit])
        yield from _remaining_count(len(report.matches) - limit)
    if report.remark:
        yield f"    no op {'' if as_is else 'left '}to start from: {report.remark}"
    missed = report.roots - len(report.matches)
    if missed:
        kinds = ", ".join(f"{MISS_TEXTS[MismatchKind(kind)]} ({n})" for kind, n in report.miss_counts.items())
        yield f"    no match at {plural(missed, 'op' if as_is else 'remaining op')}: {kinds}"
    alike: dict[tuple[str, ...], list[str]] = {}
    for f in report.near_misses:
        alike.setdefault(tuple(_miss_lines(f)), []).append(f.root)
    for (place, *reasons), roots in alike.items():
        yield f"        {join_truncated(roots)}{place}"
        yield from (f"            {reason}" for reason in reasons)
    yield from _remaining_count(missed - len(report.near_misses))


def _miss_lines(f: MatchDiagnosis) -> Iterator[str]:
    """How much of a pattern fits at an op, to write after its name, and the reasons."""
    yield f"{f.inside}: {f.matched} of {plural(f.size, 'op')} fit"
    for m in f.failures:
        values = ", ".join(f"{name} is {what}" for name, what in (m.bindings or {}).items())
        yield f"{m.reason}{f': {values}' if values else ''}"


def _remaining_count(more: int) -> Iterator[str]:
    if more > 0:
        yield f"        ... and {more} more (--limit)"
