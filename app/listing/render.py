"""What passes, rules and pipelines there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.text import Text

from ..terminal import Screen, plural
from .listing import Listing, OptionFacts, PassFacts, PipelineFacts, RuleFacts


def show_listing(screen: Screen, found: Listing) -> None:
    """All passes, a line each, by where they come from; all pipelines, and other optimizers."""
    widths = [max((len(row[i]) for row in map(_row, found.passes)), default=0) for i in range(3)]
    for source, passes in groupby(found.passes, key=lambda p: p.source):
        _heading(screen, f"passes from {source}")
        for row in map(_row, passes):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            _one_line(screen, "  ".join(("", *cells, row[-1])))
    _heading(screen, "pipelines")
    for p in found.pipelines:
        what = ", ".join(p.passes) if len(p.passes) <= 5 else f"{len(p.passes)} passes"
        _one_line(screen, f"  {p.name} ({p.source}): {what or 'no passes'}{_again(p)}")
    if found.adapters:
        _heading(screen, "other optimizers")
        _one_line(screen, f"  {', '.join(f'{name} ({state})' for name, state in found.adapters.items())}")
    _one_line(screen, "`passes list NAME` tells more of a pass, rule or pipeline")


def _row(p: PassFacts) -> tuple[str, str, str, str]:
    what = plural(len(p.rules), "rule") if p.rules else plural(len(p.options), "option") if p.options else ""
    return p.name, p.stage, what, p.summary


def _heading(screen: Screen, text: str) -> None:
    screen.out.print(Text(text, style="bold"), soft_wrap=True)


def _one_line(screen: Screen, text: str) -> None:
    """A line, cut where a terminal ends."""
    line = Text(text)
    if screen.out.is_terminal:
        line.truncate(screen.out.width, overflow="ellipsis")
    screen.out.print(line, soft_wrap=True)


def show_details(screen: Screen, found: Listing) -> None:
    """All there is to tell of the passes, rules and pipelines that were asked for."""
    for p in found.passes:
        for line in _of_pass(p):
            screen.line(line)
    for r in found.rules:
        for line in _of_rule(r, "", f", a rule of {r.pass_name}"):
            screen.line(line)
    for q in found.pipelines:
        screen.line(f"{q.name}, a pipeline ({q.source}){_opsets(q)}")
        screen.line(f"    {', '.join(q.passes) or 'no passes'}{_again(q)}")


def _of_pass(p: PassFacts) -> Iterator[str]:
    runs = f"in {', '.join(p.pipelines)}" if p.pipelines else "where it is enabled"
    yield f"{p.name}, a pass ({p.source}), {runs}{_opsets(p)}"
    wishes = [f"stage {p.stage}"] if p.stage else []
    wishes += [f"before {name}" for name in p.before] + [f"after {name}" for name in p.after]
    if wishes:
        yield f"    {', '.join(wishes)}"
    yield from (f"    {line}".rstrip() for line in p.doc.splitlines())
    for option in p.options:
        yield from _of_option(option)
    for r in p.rules:
        yield from _of_rule(r, "    ")


def _of_option(o: OptionFacts) -> Iterator[str]:
    yield f"    {{{o.name}={o.default}}}  {o.type or 'not to be set by text'}{f': {o.doc}' if o.doc else ''}"


def _of_rule(r: RuleFacts, indent: str, where: str = "") -> Iterator[str]:
    yield f"{indent}{r.name}  [{r.contract}]{where}"
    yield from (f"{indent}    {line}".rstrip() for line in r.doc.splitlines())
    if r.fragile:
        yield f"{indent}    tried hardest around {', '.join(f'{x:g}' for x in r.fragile)}"


def _opsets(found: PassFacts | PipelineFacts) -> str:
    return f", opsets {found.opsets[0]} to {found.opsets[1]}" if found.opsets is not None else ""


def _again(p: PipelineFacts) -> str:
    return ", until nothing changes" if p.repeats else ""
