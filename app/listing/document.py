"""Documents of passes, rules, pipelines and targets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..report.document import TERMINAL, Block, Document, Facts, Lines, Preformatted
from ..report.number_text import plural
from .listing import ANY, NEVER, TRANSFORM, EngineInfo, Listing, PassInfo, PipelineInfo, RuleInfo, TargetInfo

OTHERS = {
    "none": "supports only the listed operators",
    "standard": "supports all standard operators; listed operators only in the listed forms",
    "function": "supports the operators that its function accepts, by type, opset and element types",
}
"""Operators that a target supports besides its list."""
_OPTION_FIELD = re.compile(r"\{(\w+)\}")


def describe_all(listing: Listing) -> Document:
    """Describe all passes by source, one per line, then pipelines, targets, engines and other optimizers."""
    cells = [(p.name, p.stage, _size(p)) for p in listing.passes]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    blocks = list[Block]()
    for source, passes in groupby(zip(cells, listing.passes, strict=True), key=lambda row: row[1].source):
        named = {"  ".join(map(str.ljust, texts, widths)): p.summary for texts, p in passes}
        blocks.append(Facts(f"passes from {source}", named, on=TERMINAL))
    pipelines = dict[str, str]()
    for p in listing.pipelines:
        what = ", ".join(p.passes) if len(p.passes) <= 5 else f"{len(p.passes)} passes"
        pipelines[f"{p.name} ({p.source}):"] = f"{what or 'no passes'}{_repeat_text(p)}"
    others = ", ".join(f"{name} ({state})" for name, state in listing.adapters.items())
    hint = "`passes list NAME` describes a pass, rule, pipeline or target in full, `--search` finds them"
    blocks += [
        Facts("pipelines", pipelines, on=TERMINAL),
        _target_facts(listing.targets),
        Facts("engines", {f"{e.name} ({e.source}):": _engine_text(e) for e in listing.engines}, on=TERMINAL),
        Facts("other optimizers", {"": others} if others else {}, on=TERMINAL),
        Lines([hint]),
    ]
    return _document(listing, blocks)


def _target_facts(targets: Sequence[TargetInfo]) -> Facts:
    return Facts("targets", {f"{t.name} ({t.source}):": t.description for t in targets}, on=TERMINAL)


def _engine_text(e: EngineInfo) -> str:
    state = e.version or ("installed" if not e.install else f"not installed: {e.install}")
    return f"{state}; {', '.join(e.precisions)}"


def describe_rules(listing: Listing) -> Document:
    """Describe the rules of a listing by pass, the passes without rules, and targets."""
    blocks = [
        Facts(pass_name, {r.name: r.equation for r in rules}, on=TERMINAL)
        for pass_name, rules in groupby(listing.rules, key=lambda r: r.pass_name)
    ]
    with_rules = {r.pass_name for r in listing.rules}
    blocks += [Facts(p.name, {"": p.summary}, on=TERMINAL) for p in listing.passes if p.name not in with_rules]
    return _document(listing, [*blocks, _target_facts(listing.targets)])


def describe_details(listing: Listing) -> Document:
    """Describe passes, rules, pipelines and targets in full."""
    lines = [line for p in listing.passes for line in _pass_lines(p)]
    lines += [line for r in listing.rules for line in _rule_lines(r, "", f", a rule of {r.pass_name}")]
    lines += [line for t in listing.targets for line in _target_lines(t)]
    for q in listing.pipelines:
        lines.append(f"{q.name}, a pipeline ({q.source}){_opsets_text(q)}")
        lines.append(f"    {', '.join(q.passes) or 'no passes'}{_repeat_text(q)}")
    return _document(listing, [Preformatted("Details", lines)])


def _document(listing: Listing, blocks: Sequence[Block]) -> Document:
    broken = [" ".join(message.split()) for message in dict.fromkeys(listing.broken.values())]
    return Document("passes list", "passes", "", warnings=broken, blocks=blocks)


def _size(p: PassInfo) -> str:
    return plural(len(p.rules), "rule") if p.rules else plural(len(p.options), "option") if p.options else ""


def _pass_lines(p: PassInfo) -> Iterator[str]:
    runs = f"in {', '.join(p.pipelines)}" if p.pipelines else "only if enabled"
    kind = "a transform" if p.stage == TRANSFORM else "a pass"
    yield f"{p.name}, {kind} ({p.source}), {runs}{_opsets_text(p)}"
    order = [f"stage {p.stage}"] if p.stage and p.stage != TRANSFORM else []
    order += [f"enabled by {_OPTION_FIELD.sub(lambda m: m[1].upper(), p.option)}"] if p.option else []
    order += [f"before {name}" for name in p.before] + [f"after {name}" for name in p.after]
    if order:
        yield f"    {', '.join(order)}"
    yield from (f"    {line}".rstrip() for line in p.doc.splitlines())
    for o in p.options:
        yield f"    {{{o.name}={o.default}}}  {o.type or 'cannot be set as text'}{f': {o.doc}' if o.doc else ''}"
    for r in p.rules:
        yield from _rule_lines(r, "    ")


def _target_lines(t: TargetInfo) -> Iterator[str]:
    opset = f"opset {t.opset}" if t.opset else "opsets of the installed onnxruntime"
    yield f"{t.name}, a target ({t.source}), {opset}"
    yield from (f"    {line}" for line in (t.description, f"by {t.list_source}" if t.list_source else "") if line)
    yield f"    {OTHERS[t.others]}"
    for title, forms in {"takes": t.operators, "avoids": t.avoided}.items():
        for form, operators in forms.items():
            verb = title if form != NEVER else "lacks"
            yield f"    {verb} {' '.join(operators)}{f': {form}' if form not in {ANY, NEVER} else ''}"
    for r in t.rules:
        yield from _rule_lines(r, "    ")
    if t.last:
        yield f"    last: {', '.join(t.last)}"


def _rule_lines(r: RuleInfo, indent: str, where: str = "") -> Iterator[str]:
    yield f"{indent}{r.name}  [{r.contract}]{where}"
    yield from (f"{indent}    {line}".rstrip() for line in r.doc.splitlines())
    if r.proof:
        yield f"{indent}    guarantee: {r.proof}"
    if r.critical_values:
        yield f"{indent}    tested most around {', '.join(f'{x:g}' for x in r.critical_values)}"


def _opsets_text(found: PassInfo | PipelineInfo) -> str:
    return f", opsets {found.opsets[0]} to {found.opsets[1]}" if found.opsets is not None else ""


def _repeat_text(p: PipelineInfo) -> str:
    return ", until nothing changes" if p.repeats else ""
