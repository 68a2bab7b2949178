"""Where two models differ, as a review would have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..terminal import Screen, plural
from .diff_result import Change, ChangedOp, GraphDifference, ModelDifference, Node, Region, Weight
from .model_diff import Difference

STYLES = {"-": "red", "+": "green", "~": "yellow"}
ALIKE = 3  # changes told as one from this number on
TIMES = "\N{MULTIPLICATION SIGN}"
TYPES = 6  # in the headline of a region, one after the other
MAIN = 3  # in the headline of a region of more


def show_difference(screen: Screen, difference: Difference, most: int) -> None:
    """The summary, then every change; at most `most` lines of a region and names of a list."""
    for line in lines(difference, most):
        screen.line(line, STYLES.get(line.lstrip()[:1], ""))


def lines(difference: Difference, most: int) -> Iterator[str]:
    """Everything that is shown."""
    found = difference.found
    yield summary(found)
    yield from map(change_line, found.header)
    yield from graph_lines(found.graph, most)
    for name, function in found.functions.items():
        if not function.is_empty:
            yield f"~ function {name}:"
            yield from indented(graph_lines(function, most))
    if difference.names:
        yield from name_lines(found, most)


def summary(found: ModelDifference) -> str:
    """What it comes to, in a line."""
    counts = found.counts
    if found.is_empty:
        names = any(g.names for g in found.graphs)
        notes = bool(found.notes) or any(g.notes for g in found.graphs)
        apart = " and ".join(["names"] * names + ["notes"] * notes)
        return f"the same{f' but for {apart}' if apart else ''}: {plural(counts.unchanged, 'op')}"
    regions = [c for g in found.graphs for c in g.changes if isinstance(c, Region)]
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


def weights_of(graph: GraphDifference) -> Iterator[Weight]:
    """The constants that changed, at ops and elsewhere."""
    yield from graph.weights
    for change in graph.changes:
        if isinstance(change, ChangedOp):
            yield from change.weights


def graph_lines(graph: GraphDifference, most: int) -> Iterator[str]:
    """The rim of a graph, then its changes in order, those alike together."""
    yield from map(change_line, graph.interface)
    yield from (f"~ {weight_text(w, w.place)}" for w in graph.weights)
    for group in alike(graph.changes):
        yield from (
            group_lines(group, most)
            if len(group.changes) >= ALIKE
            else (line for c in group.changes for line in change_lines(c, most))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Changes with one headline."""

    headline: str
    changes: list[Region | ChangedOp]


def alike(changes: Sequence[Region | ChangedOp]) -> list[Group]:
    """The changes by headline where there are many of one, in order of the first; others alone."""
    by_headline: dict[str, list[Region | ChangedOp]] = {}
    for c in changes:
        by_headline.setdefault(headline(c), []).append(c)
    groups: list[Group] = []
    for c in changes:
        title = headline(c)
        many = len(by_headline[title]) >= ALIKE and not (isinstance(c, ChangedOp) and c.bodies)
        if not many:
            groups.append(Group(title, [c]))
        elif c is by_headline[title][0]:
            groups.append(Group(title, by_headline[title]))
    return groups


def group_lines(group: Group, most: int) -> Iterator[str]:
    """Many changes as one: what they are, and where."""
    yield f"{TIMES}{len(group.changes)} {group.headline}"
    yield f"    at {listed([place(c) for c in group.changes], most)}"


def headline(change: Region | ChangedOp) -> str:
    """What a change is, wherever it is."""
    if isinstance(change, ChangedOp):
        return f"~ {kind_of(change.before)}: {'; '.join(details(change))}"
    old, new = types(change.removed), types(change.added)
    by = f"  ({', '.join(change.rules)})" if change.rules else ""
    if change.kind == "replaced":
        return f"replaced: {old} -> {new}{by}"
    return f"{change.kind}: {old or new}{by}"


def types(nodes: Sequence[Node]) -> str:
    """The types of some ops, or their number and those that most of them have."""
    runs = [(kind, sum(1 for _ in run)) for kind, run in groupby(map(kind_of, nodes))]
    if len(runs) <= TYPES:
        return " + ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)
    common = Counter(map(kind_of, nodes)).most_common()
    told = ", ".join(f"{n} {kind}" for kind, n in common[:MAIN])
    return f"{len(nodes)} ops ({told}{', ...' if len(common) > MAIN else ''})"


def kind_of(node: Node) -> str:
    """The operator; its domain stands before it unless it is the standard one."""
    return f"{node.domain}::{node.type}" if node.domain else node.type


def label(node: Node) -> str:
    """The name of an op, or what its first result is called."""
    return node.name or next(iter(node.outputs), "")


def place(change: Region | ChangedOp) -> str:
    """Where a change is."""
    if isinstance(change, ChangedOp):
        return label(change.before)
    return label((change.removed or change.added)[0])


def change_lines(change: Region | ChangedOp, most: int) -> Iterator[str]:
    """A change by itself."""
    if isinstance(change, ChangedOp):
        told = f": {'; '.join(details(change))}" if details(change) else ""
        yield f"~ {kind_of(change.before)} {label(change.before)}{told}"
        for name, body in change.bodies.items():
            yield f"    in {name}:"
            yield from indented(indented(graph_lines(body, most)))
        return
    yield headline(change)
    ops = [*(f"- {node_text(n)}" for n in change.removed), *(f"+ {node_text(n)}" for n in change.added)]
    yield from indented(ops if len(ops) <= most else [*ops[:most], f"... and {len(ops) - most} more"])
    rim = rim_text(change, most)
    if rim:
        yield f"    {rim}"


def node_text(node: Node) -> str:
    """An op with its attributes and edges."""
    attributes = f" <{', '.join(f'{k}={compact(v)}' for k, v in node.attributes.items())}>" if node.attributes else ""
    name = f" {node.name}" if node.name else ""
    return f"{kind_of(node)}{name}{attributes} ({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"


def rim_text(region: Region, most: int) -> str:
    """What a region reads, and what others read of it."""
    reads = [renamed(c) for c in region.reads]
    kept = [str(c.after) for c in region.writes if c.before == c.after and c.what == "value"]
    others = [c for c in region.writes if c.before != c.after or c.what != "value"]
    told = [f"reads {listed(reads, most)}" if reads else "", f"gives {listed(kept, most)}" if kept else ""]
    return "; ".join(t for t in (*told, listed([written(c) for c in others], most)) if t)


def written(change: Change) -> str:
    """A result of a region that is not simply what it was."""
    if change.before is None:
        return f"{change.after} is new"
    if change.after is None:
        return f"{change.before} is gone"
    constant = "the constant " if change.what == "constant" else ""
    return f"{change.before} is now {constant}{change.after}"


def renamed(change: Change) -> str:
    """A value that has two names."""
    if change.before and change.after and change.before != change.after:
        return f"{change.before} (now {change.after})"
    return str(change.after or change.before)


def details(change: ChangedOp) -> list[str]:
    """What changed of an op, bodies aside."""
    told = [f"{c.what} {compact(c.before)} -> {compact(c.after)}" for c in change.attributes]
    told += [f"input {c.what}: {compact(c.before)} -> {compact(c.after)}" for c in change.inputs]
    told += [weight_text(w, f"weight {w.before}") for w in change.weights]
    return [*told, *(["operands commuted"] if change.commuted else [])]


def weight_text(weight: Weight, what: str) -> str:
    """How far two constants are apart."""
    name = f" (now {weight.after})" if weight.before != weight.after else ""
    if weight.types[0] != weight.types[1]:
        return f"{what}{name}: {weight.types[0]} -> {weight.types[1]}"
    if weight.differing is None:
        return f"{what}{name}: other elements"
    far = f", by at most {weight.largest:.3g}" if weight.largest is not None else ""
    return f"{what}{name}: {weight.differing} of {plural(weight.elements, 'element')} differ{far}"


def change_line(change: Change) -> str:
    """Something of the header or the rim that changed, came or went."""
    if change.before is None:
        return f"+ {change.what}: {compact(change.after)}"
    if change.after is None:
        return f"- {change.what}: {compact(change.before)}"
    return f"~ {change.what}: {compact(change.before)} -> {compact(change.after)}"


def name_lines(found: ModelDifference, most: int) -> Iterator[str]:
    """Names and notes, each kind at most `most` times."""
    names = [change_line(c) for g in found.graphs for c in g.names]
    notes = [change_line(c) for c in (*found.notes, *(c for g in found.graphs for c in g.notes))]
    for told, what in ((names, "names"), (notes, "notes")):
        if told:
            yield f"{what}:"
            yield from indented(told[:most])
            if len(told) > most:
                yield f"    ... and {len(told) - most} more"


def compact(value: object) -> str:
    """A value in a line."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"[{','.join(map(compact, value))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return " ".join(str(value).split())


def listed(names: Sequence[str], most: int) -> str:
    """Names in a line, the first of many."""
    return ", ".join(names[:most]) + (f", ... and {len(names) - most} more" if len(names) > most else "")


def indented(told: Iterable[str]) -> Iterator[str]:
    """Lines further in."""
    return (f"    {line}" for line in told)
