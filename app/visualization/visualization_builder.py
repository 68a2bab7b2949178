"""The visualization of a run, made when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...core import Graph
from ...core.ir.origin import Origin
from ...core.pass_manager.pipeline import Pass, leaves, rules_in
from ...core.rewriting.changes import Change
from ...core.rewriting.rules import Rule
from ..listing.listing import pass_doc
from .graph_views import graph_views
from .snapshots import SnapshotObserver
from .visualization import GraphView, NodeView, Rewrite, Visualization


def build_visualization(
    pipeline: Pass, changes: Sequence[Change], observer: SnapshotObserver, before: Graph, after: Graph
) -> Visualization:
    """The visualization of a run of `pipeline` with its observer; `before` is loaded anew, `after` is the result.

    An op of the original is gone if no op has its name any more, or only one that a rewrite made.
    """
    found = Visualization(_rewrites(pipeline, changes, observer), graph_views(before), graph_views(after))
    replaced = _ordinals_by_label((c.ordinal, (*c.replaced, *observer.removed_ops.get(c.ordinal, ()))) for c in changes)
    made = _ordinals_by_label((c.ordinal, c.made) for c in changes)
    graphs = list(after.with_subgraphs())
    remaining = {op.label for g in graphs for op in g.ops()} | {v.name for g in graphs for v in g.outputs}
    rebuilt = {op.label for g in graphs for op in g.ops() if isinstance(op.origin, Origin)}
    for n in _ops(found.before):
        n.rewrites = replaced.get(n.name, ())
        n.mark = "gone" if n.name not in remaining or (n.rewrites and n.name in rebuilt) else ""
    for n in _ops(found.after):
        n.rewrites = made.get(n.name) or replaced.get(n.name, ())
    return found


def _ops(views: Iterable[GraphView]) -> Iterator[NodeView]:
    return (n for view in views for n in view.nodes if n.kind in {"op", "constant"})


def _rewrites(pipeline: Pass, changes: Sequence[Change], observer: SnapshotObserver) -> list[Rewrite]:
    """The changes with the equations and contracts of their rules; of a pass without rules, its summary."""
    described = {(p.name, p.name): (pass_doc(p).partition("\n")[0], "") for p in leaves(pipeline)}
    for p in leaves(pipeline):
        described |= {(p.name, r.name): (r.equation, str(r.contract)) for r in rules_in(p) if isinstance(r, Rule)}
    rewrites: list[Rewrite] = []
    for c in changes:
        equation, contract = described.get((c.pass_name, c.by)) or described.get((c.pass_name, c.pass_name), ("", ""))
        before, after = observer.pictures.get(c.ordinal, (None, None))
        rewrites.append(
            Rewrite(
                c.ordinal, c.pass_name, c.by, equation, contract or ("exact" if c.exact else "rounding"), c.place,
                c.replaced, c.made, c.nodes_saved, c.weight_bytes_saved, before, after,
            )
        )  # fmt: skip
    return rewrites


def _ordinals_by_label(labelled: Iterable[tuple[int, Iterable[str]]]) -> Mapping[str, tuple[int, ...]]:
    """The changes by the labels of ops, in order."""
    found: dict[str, dict[int, None]] = {}
    for ordinal, labels in labelled:
        for label in labels:
            found.setdefault(label, {})[ordinal] = None
    return {label: tuple(ordinals) for label, ordinals in found.items()}
