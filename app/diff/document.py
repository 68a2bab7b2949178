"""The document of the differences of two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import cast

from ...core.ir.op_schemas import qualified_op_type
from ..report.document import CARD, PAGE, TERMINAL, Document, Preformatted, Section
from ..report.finding import Finding, Level
from ..report.number_text import plural
from .diff_result import (
    ChangedOp,
    ConstantDifference,
    Delta,
    DiffReport,
    GraphDifference,
    ModelDifference,
    Node,
    SubgraphChange,
)

MAX_CARD_LINES, MAX_PAGE_LINES = 4, 40  # per region
MIN_GROUP_SIZE = 3  # changes with one headline
TIMES = "\N{MULTIPLICATION SIGN}"
MAX_TYPE_RUNS = 6  # in the headline of a region, in order
MAX_COMMON_TYPES = 3  # in the headline of a larger region


def describe(report: DiffReport, limit: int = MAX_CARD_LINES) -> Document:
    """Describe every change, with at most `limit` lines per region and names per list."""
    changes = [
        Preformatted("Changes", [*difference_lines(report, most)], diff=True, on=media, folded=media is not PAGE)
        for most, media in ((limit, TERMINAL), (MAX_CARD_LINES, CARD), (MAX_PAGE_LINES, PAGE))
    ]
    return Document(
        "passes diff",
        f"{report.other} against {Path(report.original).name}",
        summary(report.difference),
        "good" if report.is_equal else "open",
        blocks=[Section("changes", "Changes", changes)],
        findings=findings(report),
    )


def findings(report: DiffReport) -> list[Finding]:
    """The findings: each difference of interfaces, and each kind of other change."""
    found = [_finding(report, Level.NOTE, "the header differs", _delta_line(d)) for d in report.difference.header]
    for graph in report.difference.graphs:
        lines = [*map(_delta_line, graph.interface), *(_weight_text(w, w.location) for w in graph.weights)]
        found += (_finding(report, Level.WARNING, "the interface or a weight differs", line) for line in lines)
        by_headline = dict[str, list[str]]()
        for change in graph.changes:
            by_headline.setdefault(_headline(change), []).append(_first_label(change))
        for headline, labels in by_headline.items():
            times = f"{TIMES}{len(labels)} " if len(labels) > 1 else ""
            found.append(_finding(report, Level.NOTE, "the structure differs", f"{times}{headline}", labels))
    return found


def _finding(report: DiffReport, level: Level, title: str, message: str, places: Sequence[str] = ()) -> Finding:
    return Finding(level, "different-model", title, message, report.other, places)


def _first_label(change: SubgraphChange | ChangedOp) -> str:
    """The name of the first op of a change."""
    return _label(change.before if isinstance(change, ChangedOp) else (change.removed or change.added)[0])


def difference_lines(report: DiffReport, limit: int) -> Iterator[str]:
    """Yield a line for each change, followed by its details."""
    found = report.difference
    yield from _graph_lines(found.graph, limit)
    for name, function in found.functions.items():
        if not function.is_empty:
            yield f"~ function {name}:"
            yield from _indented(_graph_lines(function, limit))
    yield from _limited([*map(_delta_line, found.header)], limit)
    if report.include_names:
        names = [_delta_line(c) for g in found.graphs for c in g.names]
        notes = [_delta_line(c) for c in (*found.notes, *(c for g in found.graphs for c in g.notes))]
        for lines, what in ((names, "names"), (notes, "notes")):
            if lines:
                yield f"{what}:"
                yield from _indented(_limited(lines, limit))


def summary(found: ModelDifference) -> str:
    """The numbers of changes in one line."""
    counts = found.counts
    graphs = list(found.graphs)
    if found.is_empty:
        names, notes = any(g.names for g in graphs), bool(found.notes) or any(g.notes for g in graphs)
        apart = " and ".join(["names"] * names + ["notes"] * notes)
        return f"identical{f' except for {apart}' if apart else ''}: {plural(counts.unchanged, 'op')}"
    replaced = sum(isinstance(c, SubgraphChange) and c.kind == "replaced" for g in graphs for c in g.changes)
    weights = {(w.before, w.after) for g in graphs for c in g.changes if isinstance(c, ChangedOp) for w in c.weights}
    weights |= {(w.before, w.after) for g in graphs for w in g.weights}
    parts = [
        (counts.removed, f"{plural(counts.removed, 'op')} removed"),
        (counts.added, f"{plural(counts.added, 'op')} added"),
        (replaced, f"{plural(replaced, 'region')} replaced ({plural(counts.replaced, 'op')} by {counts.replacing})"),
        (counts.changed, f"{plural(counts.changed, 'op')} changed"),
        (weights, f"{plural(len(weights), 'weight')} changed"),
        (found.header, f"{plural(len(found.header), 'line')} of the header changed"),
        (any(g.interface for g in graphs), "interface changed"),
    ]
    return f"{', '.join(text for is_there, text in parts if is_there)}; {plural(counts.unchanged, 'op')} unchanged"


def _graph_lines(graph: GraphDifference, limit: int) -> Iterator[str]:
    """Yield the changed interface of a graph, then its changes in order, grouped by headline."""
    yield from map(_delta_line, graph.interface)
    yield from (f"~ {_weight_text(w, w.location)}" for w in graph.weights)
    by_headline: dict[str, list[SubgraphChange | ChangedOp]] = {}
    titles = [f"{_headline(c)}{id(c) if isinstance(c, ChangedOp) and c.bodies else ''}" for c in graph.changes]
    for title, c in zip(titles, graph.changes, strict=True):
        by_headline.setdefault(title, []).append(c)
    for title, c in zip(titles, graph.changes, strict=True):
        group = by_headline[title]
        if len(group) < MIN_GROUP_SIZE:
            yield from _change_lines(c, limit)
        elif c is group[0]:
            yield f"{TIMES}{len(group)} {title}"
            yield f"    at {_joined(list(map(_first_label, group)), limit)}"


def _headline(change: SubgraphChange | ChangedOp) -> str:
    """The change without its location."""
    if isinstance(change, ChangedOp):
        return f"~ {_type(change.before)}: {'; '.join(_details(change))}"
    old, new = _types_text(change.removed), _types_text(change.added)
    by = f"  ({', '.join(change.rules)})" if change.rules else ""
    return f"{change.kind}: {f'{old} -> {new}' if change.kind == 'replaced' else old or new}{by}"


def _types_text(nodes: Sequence[Node]) -> str:
    """The types of ops; for many ops, their number and the most common types."""
    types = list(map(_type, nodes))
    runs = [(kind, sum(1 for _ in run)) for kind, run in groupby(types)]
    if len(runs) <= MAX_TYPE_RUNS:
        return " + ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)
    common = Counter(types).most_common()
    most = ", ".join(f"{n} {kind}" for kind, n in common[:MAX_COMMON_TYPES])
    return f"{len(nodes)} ops ({most}{', ...' if len(common) > MAX_COMMON_TYPES else ''})"


def _type(node: Node) -> str:
    return qualified_op_type(node.domain, node.type)


def _label(node: Node) -> str:
    """The name of an op, or of its first output."""
    return node.name or next(iter(node.outputs), "")


def _change_lines(change: SubgraphChange | ChangedOp, limit: int) -> Iterator[str]:
    """A change with its location."""
    if isinstance(change, ChangedOp):
        details = "; ".join(_details(change))
        yield f"~ {_type(change.before)} {_label(change.before)}{f': {details}' if details else ''}"
        for name, body in change.bodies.items():
            yield f"    in {name}:"
            yield from _indented(_indented(_graph_lines(body, limit)))
        return
    yield _headline(change)
    ops = [*(f"- {_node_text(n)}" for n in change.removed), *(f"+ {_node_text(n)}" for n in change.added)]
    yield from _indented(_limited(ops, limit))
    reads = [_renamed_text(c) for c in change.reads]
    kept = [str(c.after) for c in change.writes if c.before == c.after and c.what == "value"]
    others = [_output_text(c) for c in change.writes if c.before != c.after or c.what != "value"]
    parts = (f"reads {_joined(reads, limit)}" * bool(reads), f"gives {_joined(kept, limit)}" * bool(kept))
    if boundary := "; ".join(filter(None, (*parts, _joined(others, limit)))):
        yield f"    {boundary}"


def _node_text(node: Node) -> str:
    """An op with its attributes, inputs and outputs."""
    attributes = ", ".join(f"{k}={_compact(v)}" for k, v in node.attributes.items())
    name = f" {node.name}" if node.name else ""
    ends = f"({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"
    return f"{_type(node)}{name}{f' <{attributes}>' if attributes else ''} {ends}"


def _output_text(change: Delta) -> str:
    """An output of a region that has changed."""
    if change.before is None:
        return f"{change.after} was added"
    if change.after is None:
        return f"{change.before} was removed"
    constant = "the constant " if change.what == "constant" else ""
    return f"{change.before} is now {constant}{change.after}"


def _renamed_text(change: Delta) -> str:
    if change.before and change.after and change.before != change.after:
        return f"{change.before} (now {change.after})"
    return str(change.after or change.before)


def _details(change: ChangedOp) -> list[str]:
    """The changes of an op without the changes of its bodies."""
    details = [f"{c.what} {_before_and_after(c)}" for c in change.attributes]
    details += [f"input {c.what}: {_before_and_after(c)}" for c in change.inputs]
    details += [_weight_text(w, f"weight {w.before}") for w in change.weights]
    return [*details, *["operands commuted"] * change.commuted]


def _weight_text(weight: ConstantDifference, what: str) -> str:
    """The difference of two constants."""
    name = f" (now {weight.after})" if weight.before != weight.after else ""
    if weight.types[0] != weight.types[1]:
        return f"{what}{name}: {weight.types[0]} -> {weight.types[1]}"
    if weight.differing is None:
        return f"{what}{name}: other elements"
    far = f", by at most {weight.largest:.3g}" if weight.largest is not None else ""
    return f"{what}{name}: {weight.differing} of {plural(weight.elements, 'element')} differ{far}"


def _delta_line(change: Delta) -> str:
    """An entry of the header or interface that was changed, added or removed."""
    if change.before is None:
        return f"+ {change.what}: {_compact(change.after)}"
    if change.after is None:
        return f"- {change.what}: {_compact(change.before)}"
    return f"~ {change.what}: {_before_and_after(change)}"


def _before_and_after(change: Delta) -> str:
    return f"{_compact(change.before)} -> {_compact(change.after)}"


def _compact(value: object) -> str:
    """A value in a line."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"[{','.join(map(_compact, cast('list[object]', value)))}]"
    return " ".join(str(value).split())


def _joined(texts: Sequence[str], limit: int) -> str:
    """The first texts joined in one line, and the number of the others."""
    return ", ".join(_limited(texts, limit))


def _limited(texts: Sequence[str], limit: int) -> Sequence[str]:
    return texts if len(texts) <= limit else [*texts[:limit], f"... and {len(texts) - limit} more"]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
