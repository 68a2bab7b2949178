"""Passes, rules and pipelines as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ..report.terminal import Terminal, plural
from .listing import TRANSFORM, Listing, PassInfo, PipelineInfo, RuleInfo

_OPTION_FIELD = re.compile(r"\{(\w+)\}")


def show_listing(terminal: Terminal, listing: Listing) -> None:
    """Print all passes, a line each, by source; all pipelines, and other optimizers."""
    rows = [(p.source, (p.name, p.stage, _size(p), p.summary)) for p in listing.passes]
    widths = [max((len(cells[i]) for _, cells in rows), default=0) for i in range(3)]
    for source, passes in groupby(rows, key=lambda row: row[0]):
        _heading(terminal, f"passes from {source}")
        for _, cells in passes:
            padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
            terminal.wrapped(cells[-1], "  ".join(("", *padded, "")))
    _heading(terminal, "pipelines")
    for p in listing.pipelines:
        what = ", ".join(p.passes) if len(p.passes) <= 5 else f"{len(p.passes)} passes"
        terminal.wrapped(f"{what or 'no passes'}{_repeat_text(p)}", f"  {p.name} ({p.source}): ")
    if listing.adapters:
        _heading(terminal, "other optimizers")
        terminal.wrapped(", ".join(f"{name} ({state})" for name, state in listing.adapters.items()), "  ")
    terminal.wrapped("`passes list NAME` describes a pass, rule or pipeline in full, `--search` finds them")


def show_rules(terminal: Terminal, listing: Listing) -> None:
    """Print the rules of a listing by pass, and the passes without one."""
    width = max((len(r.name) for r in listing.rules), default=0)
    for pass_name, rules in groupby(listing.rules, key=lambda r: r.pass_name):
        _heading(terminal, pass_name)
        for r in rules:
            terminal.wrapped(r.equation, f"  {r.name.ljust(width)}  ")
    for p in listing.passes:
        if all(r.pass_name != p.name for r in listing.rules):
            _heading(terminal, p.name)
            terminal.wrapped(p.summary, "  ")


def show_details(terminal: Terminal, listing: Listing) -> None:
    """Print all data of the passes, rules and pipelines."""
    lines = [line for p in listing.passes for line in _pass_lines(p)]
    lines += [line for r in listing.rules for line in _rule_lines(r, "", f", a rule of {r.pass_name}")]
    for q in listing.pipelines:
        lines.append(f"{q.name}, a pipeline ({q.source}){_opsets_text(q)}")
        lines.append(f"    {', '.join(q.passes) or 'no passes'}{_repeat_text(q)}")
    terminal.lines(lines)


def _size(p: PassInfo) -> str:
    return plural(len(p.rules), "rule") if p.rules else plural(len(p.options), "option") if p.options else ""


def _heading(terminal: Terminal, text: str) -> None:
    terminal.line(text, "bold")


def _pass_lines(p: PassInfo) -> Iterator[str]:
    runs = f"in {', '.join(p.pipelines)}" if p.pipelines else "where it is enabled"
    kind = "a transform" if p.stage == TRANSFORM else "a pass"
    yield f"{p.name}, {kind} ({p.source}), {runs}{_opsets_text(p)}"
    order = [f"stage {p.stage}"] if p.stage and p.stage != TRANSFORM else []
    order += [f"enabled by {_OPTION_FIELD.sub(lambda m: m[1].upper(), p.option)}"] if p.option else []
    order += [f"before {name}" for name in p.before] + [f"after {name}" for name in p.after]
    if order:
        yield f"    {', '.join(order)}"
    yield from (f"    {line}".rstrip() for line in p.doc.splitlines())
    for o in p.options:
        yield f"    {{{o.name}={o.default}}}  {o.type or 'not to be set by text'}{f': {o.doc}' if o.doc else ''}"
    for r in p.rules:
        yield from _rule_lines(r, "    ")


def _rule_lines(r: RuleInfo, indent: str, where: str = "") -> Iterator[str]:
    yield f"{indent}{r.name}  [{r.contract}]{where}"
    yield from (f"{indent}    {line}".rstrip() for line in r.doc.splitlines())
    if r.proof:
        yield f"{indent}    guarantee: {r.proof}"
    if r.critical_values:
        yield f"{indent}    tried hardest around {', '.join(f'{x:g}' for x in r.critical_values)}"


def _opsets_text(found: PassInfo | PipelineInfo) -> str:
    return f", opsets {found.opsets[0]} to {found.opsets[1]}" if found.opsets is not None else ""


def _repeat_text(p: PipelineInfo) -> str:
    return ", until nothing changes" if p.repeats else ""
