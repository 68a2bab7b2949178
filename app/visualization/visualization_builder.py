"""The story of a run, put together when it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...core import Graph
from ...core.ir.origin import Origin
from ...core.pass_manager.pipeline import Pass, leaves, rules_in
from ...core.rewriting.changes import Change
from ...core.rewriting.rules import Rule
from ..listing.listing import pass_doc
from .graph_views import graph_views
from .snapshots import SnapshotObserver
from .visualization import GraphView, NodeView, Rewrite, Visualization

Ordinals = Mapping[str, Sequence[int]]


def build_visualization(
    pipeline: Pass, changes: Sequence[Change], observer: SnapshotObserver, before: Graph, after: Graph
) -> Visualization:
    """The story of a run of `pipeline` whose witness was `observer`; `before` is loaded anew, `after` what it left."""
    olds, news = graph_views(before), graph_views(after)
    replaced = _ordinals_by_label((c.ordinal, (*c.replaced, *observer.removed_ops.get(c.ordinal, ()))) for c in changes)
    made = _ordinals_by_label((c.ordinal, c.made) for c in changes)
    graphs = list(after.with_subgraphs())
    there = {op.label for g in graphs for op in g.ops()} | {v.name for g in graphs for v in g.outputs}
    rebuilt = {op.label for g in graphs for op in g.ops() if isinstance(op.origin, Origin)}
    return Visualization(
        _rewrites(pipeline, changes, observer),
        [_with_nodes(s, [_node_before(n, replaced, there, rebuilt) for n in s.nodes]) for s in olds],
        [_with_nodes(s, [_node_after(n, replaced, made) for n in s.nodes]) for s in news],
    )


def _rewrites(pipeline: Pass, changes: Sequence[Change], observer: SnapshotObserver) -> list[Rewrite]:
    said = _rule_descriptions(pipeline)
    rewrites: list[Rewrite] = []
    for c in changes:
        equation, contract = said.get((c.pass_name, c.by)) or said.get((c.pass_name, c.pass_name), ("", ""))
        before, after = observer.pictures.get(c.ordinal, (None, None))
        rewrites.append(
            Rewrite(
                c.ordinal, c.pass_name, c.by, equation, contract or ("exact" if c.exact else "rounding"), c.place,
                c.replaced, c.made, c.nodes_saved, c.weight_bytes_saved, before, after,
            )
        )  # fmt: skip
    return rewrites


def _rule_descriptions(pipeline: Pass) -> dict[tuple[str, str], tuple[str, str]]:
    """Equation and contract of each rule, by its pass and name; of a pass by itself its first line."""
    said = {(p.name, p.name): (pass_doc(p).partition("\n")[0], "") for p in leaves(pipeline)}
    for p in leaves(pipeline):
        said |= {(p.name, r.name): (r.equation, str(r.contract)) for r in rules_in(p) if isinstance(r, Rule)}
    return said


def _ordinals_by_label(named: Iterable[tuple[int, Iterable[str]]]) -> Ordinals:
    """The changes by the labels of ops, in order."""
    found: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for ordinal, labels in named:
        for label in labels:
            found[label][ordinal] = None
    return {label: tuple(ordinals) for label, ordinals in found.items()}


def _node_before(n: NodeView, replaced: Ordinals, there: Collection[str], rebuilt: Collection[str]) -> NodeView:
    """An op of the original is gone if no op of its name is there, or only one that a rewrite made."""
    if not _is_op(n):
        return n
    touched = tuple(replaced.get(n.name, ()))
    is_gone = n.name not in there or (bool(touched) and n.name in rebuilt)
    return replace(n, mark="gone" if is_gone else "", rewrites=touched)


def _node_after(n: NodeView, replaced: Ordinals, made: Ordinals) -> NodeView:
    """An op that was made knows who made it; one that was there knows who changed it."""
    if not _is_op(n):
        return n
    return replace(n, rewrites=tuple(made.get(n.name) or replaced.get(n.name, ())))


def _is_op(n: NodeView) -> bool:
    return n.kind in {"op", "constant"}


def _with_nodes(sheet: GraphView, nodes: list[NodeView]) -> GraphView:
    return replace(sheet, nodes=nodes)
