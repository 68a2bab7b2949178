"""Where two models differ, as a review would have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..terminal import Terminal, plural
from .diff_result import ChangedOp, ConstantDifference, Delta, GraphDifference, ModelDifference, Node, SubgraphChange
from .model_diff import DiffReport

STYLES = {"-": "red", "+": "green", "~": "yellow"}
MIN_GROUP_SIZE = 3  # changes told as one from this number on
TIMES = "\N{MULTIPLICATION SIGN}"
MAX_TYPE_RUNS = 6  # in the headline of a region, one after the other
MAX_COMMON_TYPES = 3  # in the headline of a region of more


def show_difference(terminal: Terminal, difference: DiffReport, limit: int) -> None:
    """The summary, then every change; at most `limit` lines of a region and names of a list."""
    for line in diff_lines(difference, limit):
        terminal.line(line, STYLES.get(line.lstrip()[:1], ""))


def diff_lines(difference: DiffReport, limit: int) -> Iterator[str]:
    """Everything that is shown."""
    found = difference.difference
    yield summary(found)
    yield from map(change_line, found.header)
    yield from graph_lines(found.graph, limit)
    for name, function in found.functions.items():
        if not function.is_empty:
            yield f"~ function {name}:"
            yield from indented(graph_lines(function, limit))
    if difference.include_names:
        yield from name_lines(found, limit)


def summary(found: ModelDifference) -> str:
    """What it comes to, in a line."""
    counts = found.counts
    if found.is_empty:
        names = any(g.names for g in found.graphs)
        notes = bool(found.notes) or any(g.notes for g in found.graphs)
        apart = " and ".join(["names"] * names + ["notes"] * notes)
        return f"the same{f' but for {apart}' if apart else ''}: {plural(counts.unchanged, 'op')}"
    regions = [c for g in found.graphs for c in g.changes if isinstance(c, SubgraphChange)]
    replaced = sum(r.kind == "replaced" for r in regions)
    weights = {(w.before, w.after) for g in found.graphs for w in weights_of(g)}
    told = [
        f"{plural(counts.removed, 'op')} removed" if counts.removed else "",
        f"{plural(counts.added, 'op')} added" if counts.added else "",
        f"{plural(replaced, 'region')} replaced ({plural(counts.replaced, 'op')} by {counts.replacing})"
        if replaced
        else "",
        f"{plural(counts.changed, 'op')} changed" if counts.changed else "",
        f"{plural(len(weights), 'weight')} changed" if weights else "",
        f"{plural(len(found.header), 'line')} of the header changed" if found.header else "",
        "interface changed" if any(g.interface for g in found.graphs) else "",
    ]
    return f"{', '.join(t for t in told if t)}; {plural(counts.unchanged, 'op')} unchanged"


def weights_of(graph: GraphDifference) -> Iterator[ConstantDifference]:
    """The constants that changed, at ops and elsewhere."""
    yield from graph.weights
    for change in graph.changes:
        if isinstance(change, ChangedOp):
            yield from change.weights


def graph_lines(graph: GraphDifference, limit: int) -> Iterator[str]:
    """The rim of a graph, then its changes in order, those alike together."""
    yield from map(change_line, graph.interface)
    yield from (f"~ {weight_text(w, w.location)}" for w in graph.weights)
    for group in group_changes(graph.changes):
        yield from (
            group_lines(group, limit)
            if len(group.changes) >= MIN_GROUP_SIZE
            else (line for c in group.changes for line in change_lines(c, limit))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Changes with one headline."""

    headline: str
    changes: list[SubgraphChange | ChangedOp]


def group_changes(changes: Sequence[SubgraphChange | ChangedOp]) -> list[Group]:
    """The changes by headline where there are many of one, in order of the first; others alone."""
    by_headline: dict[str, list[SubgraphChange | ChangedOp]] = {}
    for c in changes:
        by_headline.setdefault(headline(c), []).append(c)
    groups: list[Group] = []
    for c in changes:
        title = headline(c)
        many = len(by_headline[title]) >= MIN_GROUP_SIZE and not (isinstance(c, ChangedOp) and c.bodies)
        if not many:
            groups.append(Group(title, [c]))
        elif c is by_headline[title][0]:
            groups.append(Group(title, by_headline[title]))
    return groups


def group_lines(group: Group, limit: int) -> Iterator[str]:
    """Many changes as one: what they are, and where."""
    yield f"{TIMES}{len(group.changes)} {group.headline}"
    yield f"    at {limited_list([change_location(c) for c in group.changes], limit)}"


def headline(change: SubgraphChange | ChangedOp) -> str:
    """What a change is, wherever it is."""
    if isinstance(change, ChangedOp):
        return f"~ {qualified_op_type(change.before)}: {'; '.join(change_details(change))}"
    old, new = types_text(change.removed), types_text(change.added)
    by = f"  ({', '.join(change.rules)})" if change.rules else ""
    if change.kind == "replaced":
        return f"replaced: {old} -> {new}{by}"
    return f"{change.kind}: {old or new}{by}"


def types_text(nodes: Sequence[Node]) -> str:
    """The types of some ops, or their number and those that most of them have."""
    runs = [(kind, sum(1 for _ in run)) for kind, run in groupby(map(qualified_op_type, nodes))]
    if len(runs) <= MAX_TYPE_RUNS:
        return " + ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)
    common = Counter(map(qualified_op_type, nodes)).most_common()
    told = ", ".join(f"{n} {kind}" for kind, n in common[:MAX_COMMON_TYPES])
    return f"{len(nodes)} ops ({told}{', ...' if len(common) > MAX_COMMON_TYPES else ''})"


def qualified_op_type(node: Node) -> str:
    """The operator; its domain stands before it unless it is the standard one."""
    return f"{node.domain}::{node.type}" if node.domain else node.type


def node_label(node: Node) -> str:
    """The name of an op, or what its first result is called."""
    return node.name or next(iter(node.outputs), "")


def change_location(change: SubgraphChange | ChangedOp) -> str:
    """Where a change is."""
    if isinstance(change, ChangedOp):
        return node_label(change.before)
    return node_label((change.removed or change.added)[0])


def change_lines(change: SubgraphChange | ChangedOp, limit: int) -> Iterator[str]:
    """A change by itself."""
    if isinstance(change, ChangedOp):
        told = f": {'; '.join(change_details(change))}" if change_details(change) else ""
        yield f"~ {qualified_op_type(change.before)} {node_label(change.before)}{told}"
        for name, body in change.bodies.items():
            yield f"    in {name}:"
            yield from indented(indented(graph_lines(body, limit)))
        return
    yield headline(change)
    ops = [*(f"- {node_text(n)}" for n in change.removed), *(f"+ {node_text(n)}" for n in change.added)]
    yield from indented(ops if len(ops) <= limit else [*ops[:limit], f"... and {len(ops) - limit} more"])
    rim = boundary_text(change, limit)
    if rim:
        yield f"    {rim}"


def node_text(node: Node) -> str:
    """An op with its attributes and edges."""
    attributes = (
        f" <{', '.join(f'{k}={compact_text(v)}' for k, v in node.attributes.items())}>" if node.attributes else ""
    )
    name = f" {node.name}" if node.name else ""
    return f"{qualified_op_type(node)}{name}{attributes} ({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"


def boundary_text(region: SubgraphChange, limit: int) -> str:
    """What a region reads, and what others read of it."""
    reads = [renamed_value_text(c) for c in region.reads]
    kept = [str(c.after) for c in region.writes if c.before == c.after and c.what == "value"]
    others = [c for c in region.writes if c.before != c.after or c.what != "value"]
    told = [
        f"reads {limited_list(reads, limit)}" if reads else "",
        f"gives {limited_list(kept, limit)}" if kept else "",
    ]
    return "; ".join(t for t in (*told, limited_list([output_change_text(c) for c in others], limit)) if t)


def output_change_text(change: Delta) -> str:
    """A result of a region that is not simply what it was."""
    if change.before is None:
        return f"{change.after} is new"
    if change.after is None:
        return f"{change.before} is gone"
    constant = "the constant " if change.what == "constant" else ""
    return f"{change.before} is now {constant}{change.after}"


def renamed_value_text(change: Delta) -> str:
    """A value that has two names."""
    if change.before and change.after and change.before != change.after:
        return f"{change.before} (now {change.after})"
    return str(change.after or change.before)


def change_details(change: ChangedOp) -> list[str]:
    """What changed of an op, bodies aside."""
    told = [f"{c.what} {compact_text(c.before)} -> {compact_text(c.after)}" for c in change.attributes]
    told += [f"input {c.what}: {compact_text(c.before)} -> {compact_text(c.after)}" for c in change.inputs]
    told += [weight_text(w, f"weight {w.before}") for w in change.weights]
    return [*told, *(["operands commuted"] if change.commuted else [])]


def weight_text(weight: ConstantDifference, what: str) -> str:
    """How far two constants are apart."""
    name = f" (now {weight.after})" if weight.before != weight.after else ""
    if weight.types[0] != weight.types[1]:
        return f"{what}{name}: {weight.types[0]} -> {weight.types[1]}"
    if weight.differing is None:
        return f"{what}{name}: other elements"
    far = f", by at most {weight.largest:.3g}" if weight.largest is not None else ""
    return f"{what}{name}: {weight.differing} of {plural(weight.elements, 'element')} differ{far}"


def change_line(change: Delta) -> str:
    """Something of the header or the rim that changed, came or went."""
    if change.before is None:
        return f"+ {change.what}: {compact_text(change.after)}"
    if change.after is None:
        return f"- {change.what}: {compact_text(change.before)}"
    return f"~ {change.what}: {compact_text(change.before)} -> {compact_text(change.after)}"


def name_lines(found: ModelDifference, limit: int) -> Iterator[str]:
    """Names and notes, each kind at most `limit` times."""
    names = [change_line(c) for g in found.graphs for c in g.names]
    notes = [change_line(c) for c in (*found.notes, *(c for g in found.graphs for c in g.notes))]
    for told, what in ((names, "names"), (notes, "notes")):
        if told:
            yield f"{what}:"
            yield from indented(told[:limit])
            if len(told) > limit:
                yield f"    ... and {len(told) - limit} more"


def compact_text(value: object) -> str:
    """A value in a line."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"[{','.join(map(compact_text, value))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return " ".join(str(value).split())


def limited_list(names: Sequence[str], limit: int) -> str:
    """Names in a line, the first of many."""
    return ", ".join(names[:limit]) + (f", ... and {len(names) - limit} more" if len(names) > limit else "")


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Lines further in."""
    return (f"    {line}" for line in lines)
