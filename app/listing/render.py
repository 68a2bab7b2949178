"""What passes, rules and pipelines there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.text import Text

from ..terminal import Terminal, plural
from .listing import Listing, OptionInfo, PassInfo, PipelineInfo, RuleInfo


def show_listing(terminal: Terminal, listing: Listing) -> None:
    """All passes, a line each, by where they come from; all pipelines, and other optimizers."""
    widths = [max((len(row[i]) for row in map(_pass_cells, listing.passes)), default=0) for i in range(3)]
    for source, passes in groupby(listing.passes, key=lambda p: p.source):
        _heading(terminal, f"passes from {source}")
        for row in map(_pass_cells, passes):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            _print_truncated(terminal, "  ".join(("", *cells, row[-1])))
    _heading(terminal, "pipelines")
    for p in listing.pipelines:
        what = ", ".join(p.passes) if len(p.passes) <= 5 else f"{len(p.passes)} passes"
        _print_truncated(terminal, f"  {p.name} ({p.source}): {what or 'no passes'}{_repeat_text(p)}")
    if listing.adapters:
        _heading(terminal, "other optimizers")
        _print_truncated(terminal, f"  {', '.join(f'{name} ({state})' for name, state in listing.adapters.items())}")
    _print_truncated(terminal, "`passes list NAME` tells more of a pass, rule or pipeline")


def show_rules(terminal: Terminal, listing: Listing) -> None:
    """The rules of a listing, a line each, by pass."""
    width = max((len(r.name) for r in listing.rules), default=0)
    for pass_name, rules in groupby(listing.rules, key=lambda r: r.pass_name):
        _heading(terminal, pass_name)
        for r in rules:
            _print_truncated(terminal, f"  {r.name.ljust(width)}  {r.equation}")


def _pass_cells(p: PassInfo) -> tuple[str, str, str, str]:
    what = plural(len(p.rules), "rule") if p.rules else plural(len(p.options), "option") if p.options else ""
    return p.name, p.stage, what, p.summary


def _heading(terminal: Terminal, text: str) -> None:
    terminal.out.print(Text(text, style="bold"), soft_wrap=True)


def _print_truncated(terminal: Terminal, text: str) -> None:
    """A line, cut where a terminal ends."""
    line = Text(text)
    if terminal.out.is_terminal:
        line.truncate(terminal.out.width, overflow="ellipsis")
    terminal.out.print(line, soft_wrap=True)


def show_details(terminal: Terminal, listing: Listing) -> None:
    """All there is to tell of the passes, rules and pipelines that were asked for."""
    for p in listing.passes:
        for line in _pass_lines(p):
            terminal.line(line)
    for r in listing.rules:
        for line in _rule_lines(r, "", f", a rule of {r.pass_name}"):
            terminal.line(line)
    for q in listing.pipelines:
        terminal.line(f"{q.name}, a pipeline ({q.source}){_opsets_text(q)}")
        terminal.line(f"    {', '.join(q.passes) or 'no passes'}{_repeat_text(q)}")


def _pass_lines(p: PassInfo) -> Iterator[str]:
    runs = f"in {', '.join(p.pipelines)}" if p.pipelines else "where it is enabled"
    yield f"{p.name}, a pass ({p.source}), {runs}{_opsets_text(p)}"
    wishes = [f"stage {p.stage}"] if p.stage else []
    wishes += [f"before {name}" for name in p.before] + [f"after {name}" for name in p.after]
    if wishes:
        yield f"    {', '.join(wishes)}"
    yield from (f"    {line}".rstrip() for line in p.doc.splitlines())
    for option in p.options:
        yield from _option_lines(option)
    for r in p.rules:
        yield from _rule_lines(r, "    ")


def _option_lines(o: OptionInfo) -> Iterator[str]:
    yield f"    {{{o.name}={o.default}}}  {o.type or 'not to be set by text'}{f': {o.doc}' if o.doc else ''}"


def _rule_lines(r: RuleInfo, indent: str, where: str = "") -> Iterator[str]:
    yield f"{indent}{r.name}  [{r.contract}]{where}"
    yield from (f"{indent}    {line}".rstrip() for line in r.doc.splitlines())
    if r.fragile:
        yield f"{indent}    tried hardest around {', '.join(f'{x:g}' for x in r.fragile)}"


def _opsets_text(found: PassInfo | PipelineInfo) -> str:
    return f", opsets {found.opsets[0]} to {found.opsets[1]}" if found.opsets is not None else ""


def _repeat_text(p: PipelineInfo) -> str:
    return ", until nothing changes" if p.repeats else ""
