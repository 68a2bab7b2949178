"""Pictures of the pattern of a rule, and of its example before and after."""

from __future__ import annotations

from collections.abc import Collection

from passwright.app.report.op_pictures import region_picture
from passwright.app.report.picture import Picture, svg
from passwright.core import ChangeLog, Graph, Op, Pass, Rule, RulePass, from_onnx
from passwright.core.rewriting.change_log import NO_LIMIT, BisectLimit
from pattern_pictures import pattern_picture
from record import Example


def pictures(target: Rule | Pass, example: Example) -> str:
    """The pictures side by side, before and after never apart from each other; as HTML that a search leaves out."""
    before, after = before_and_after(target, example)
    patterns = target.patterns if isinstance(target, Rule) else ()
    pattern = "".join(figure("pattern", pattern_picture(p), target.name) for p in patterns)
    change = figure("before", before, target.name) + figure("after", after, target.name)
    return f'<div class="pictures" data-search-exclude>{pattern}<div>{change}</div></div>'


def figure(caption: str, picture: Picture, name: str) -> str:
    """A picture with its caption."""
    return f"<figure><figcaption>{caption}</figcaption>{svg(picture, f'{name}, {caption}')}</figure>"


def before_and_after(target: Rule | Pass, example: Example) -> tuple[Picture, Picture]:
    """The example's ops, those that go and those that come marked: of a rule's first change, of a pass's whole run."""
    graph, change_log = apply_to_example(target, example)
    old = from_onnx(example.model()).graph
    gone = {name for change in change_log.changes for name in change.replaced}
    replaced = [op for g in old.with_subgraphs() for op in g.sorted_ops() if op.label in gone]
    made = [op for g in graph.with_subgraphs() for op in g.sorted_ops() if op.by]
    inner = bool(replaced) and all(op.graph is not old for op in replaced)
    here, there = (replaced[0].graph, corresponding_body(old, graph, replaced[0].graph)) if inner else (old, graph)
    return picture_of_graph(here, replaced), picture_of_graph(there, made)


def apply_to_example(target: Rule | Pass, example: Example) -> tuple[Graph, ChangeLog]:
    """The example after a rule's first change, or after the whole pass."""
    graph = from_onnx(example.model()).graph
    change_log = ChangeLog(record=True, limit=BisectLimit(after_changes=1) if isinstance(target, Rule) else NO_LIMIT)
    (RulePass(target.name, (target,)) if isinstance(target, Rule) else target).run(graph, change_log)
    return graph, change_log


def corresponding_body(old: Graph, new: Graph, body: Graph) -> Graph:
    """The counterpart in `new` of a body of `old`; all of `new` if its bodies are others."""
    bodies, others = list(old.with_subgraphs()), list(new.with_subgraphs())
    return others[bodies.index(body)] if len(bodies) == len(others) else new


def picture_of_graph(graph: Graph, marked: Collection[Op]) -> Picture:
    """All ops of a graph."""
    return region_picture(graph.sorted_ops(), marked, graph.outputs)
