"""Visualization of runs: the rewrites, and the model before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from onnx import TensorProto

from ...core import Graph, Op, Value
from ...core.ir.op import Origin
from ...core.ir.op_schemas import qualified_op_type
from ...core.rewriting.change_log import Change
from ...core.rewriting.rules import Rule
from ...core.run.pipeline import Pass, leaves, rules_in
from ...core.serialization.provenance import source_names
from .descriptions import pass_doc
from .graph_layout import GraphLayout, Link, graph_layout
from .op_pictures import source_box, value_box
from .picture import Box, BoxKind, Picture, box_size
from .picture_text import attribute_lines, attribute_text, cut_end, cut_start, limit_lines, tensor_text, type_text
from .snapshots import SnapshotObserver

MAX_DETAILS, MAX_LINE_CHARS = 40, 200
"""Maximum number of lines, and of letters in each."""
MAX_OPS = 20_000
"""Maximum number of drawn ops of a model, including bodies."""
AUXILIARY_DTYPES = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})
"""Types of shapes, indices and conditions; ops are not aligned along them."""


class Rewrite(Struct, frozen=True):
    """A change, with its pictures directly before and after; None if there were too many to draw.

    `equation` is the equation of its rule, or the summary of its pass. `contract` is exact, rounding or conditional.
    """

    change: Change
    equation: str
    contract: str
    before: Picture | None = None
    after: Picture | None = None


@dataclass(slots=True)
class NodeView:
    """An op, input, output or constant of a whole graph, and the size of its box.

    Attributes:
        kind: "op", "constant" (a Constant op, or an initializer that is an output), "input" or "output". A value that a
            body captures is also an input.
        name: the label of an op, as in changes, or the name of a value.
        title: the lines in the box, beginning with the type.
        details: attributes, inputs and outputs with their types.
        mark: "gone" for an op that a rewrite replaced, "made" for one that a rewrite added, or "".
        rule: the rule that made it; `origin` are the nodes of the file that it replaces.
        rewrites: the ordinals of the changes that touched it.
        bodies: the indices of the graphs inside it.
    """

    name: str
    kind: str
    title: str
    width: float
    height: float
    details: tuple[str, ...] = ()
    mark: str = ""
    rule: str = ""
    origin: tuple[str, ...] = ()
    rewrites: tuple[int, ...] = ()
    bodies: tuple[int, ...] = ()


class GraphView(Struct, frozen=True):
    """A graph drawn as a whole: the main one, or the body of an op.

    For a graph that is too large, only the first nodes are drawn; `undrawn` is the number of the other ops.
    """

    title: str
    nodes: list[NodeView]
    links: list[Link]
    layout: GraphLayout
    undrawn: int = 0


@dataclass(slots=True)
class Visualization:
    """The rewrites in order, and the model before and after: its main graph, then the bodies."""

    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    before: list[GraphView] = field(default_factory=list[GraphView])
    after: list[GraphView] = field(default_factory=list[GraphView])


def build_visualization(
    pipeline: Pass, changes: Sequence[Change], observer: SnapshotObserver, before: Graph, after: Graph
) -> Visualization:
    """Visualize a run of `pipeline` with its observer; `before` is loaded again, `after` is the result.

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
    """The changes with the equations and contracts of their rules; for a pass without rules, its summary."""
    described = {(p.name, p.name): (pass_doc(p).partition("\n")[0], "") for p in leaves(pipeline)}
    for p in leaves(pipeline):
        described |= {(p.name, r.name): (r.equation, str(r.contract)) for r in rules_in(p) if isinstance(r, Rule)}
    rewrites: list[Rewrite] = []
    for c in changes:
        equation, contract = described.get((c.pass_name, c.by)) or described.get((c.pass_name, c.pass_name), ("", ""))
        contract = contract or ("exact" if c.exact else "rounding")
        rewrites.append(Rewrite(c, equation, contract, *observer.pictures.get(c.ordinal, (None, None))))
    return rewrites


def _ordinals_by_label(labelled: Iterable[tuple[int, Iterable[str]]]) -> Mapping[str, tuple[int, ...]]:
    """The ordinals of changes by the labels of ops, in order."""
    found: dict[str, dict[int, None]] = {}
    for ordinal, labels in labelled:
        for label in labels:
            found.setdefault(label, {})[ordinal] = None
    return {label: tuple(ordinals) for label, ordinals in found.items()}


def graph_views(graph: Graph) -> list[GraphView]:
    """The main graph, then every body, outermost first, up to MAX_OPS ops in total."""
    graphs = list(graph.with_subgraphs())
    indices = {g: i for i, g in enumerate(graphs)}
    views: list[GraphView] = []
    room = MAX_OPS
    for g in graphs:
        ops = g.sorted_ops()
        views.append(_GraphViewBuilder(g, ops[:room], indices).view(max(len(ops) - room, 0)))
        room = max(room - len(ops), 0)
    return views


class _GraphViewBuilder:
    """The nodes of a graph, and the links between them. `ops` are the first of the graph, in order."""

    def __init__(self, graph: Graph, ops: Sequence[Op], body_indices: dict[Graph, int]) -> None:
        self.graph = graph
        self.nodes: list[NodeView] = []
        self.links: list[Link] = []
        self.producers: dict[Value, int] = {}
        for v in graph.inputs:
            self._add_value("input", v)
        for op in ops:
            self._add_op(op, tuple(body_indices[g] for g in op.subgraphs))
        for index, op in enumerate(ops, len(graph.inputs)):
            self._link_inputs(op, index)
        for v in graph.outputs:
            if v not in self.producers and v.producer is not None and v.producer.graph is graph:
                continue
            if v not in self.producers:
                self._add_value("constant" if v.tensor is not None else "input", v)
            self.links.append(Link(self.producers[v], self._add("output", v.name, value_box(v).lines), v.name))

    def _add(self, kind: str, name: str, lines: tuple[str, ...], details: tuple[str, ...] = ()) -> int:
        """Add a node, and return its index."""
        width, height = box_size(Box(BoxKind.OP, lines))
        self.nodes.append(NodeView(name, kind, "\n".join(lines), width, height, details))
        return len(self.nodes) - 1

    def _add_value(self, kind: str, v: Value) -> None:
        """Add a value that no op of the graph produces."""
        box = source_box(v)
        self.producers[v] = self._add(kind, v.name, box.lines, (box.tooltip,))

    def _add_op(self, op: Op, bodies: tuple[int, ...]) -> None:
        index = self._add("constant" if op.type == "Constant" else "op", op.label, _title(op), _details(op))
        node = self.nodes[index]
        node.rule, node.bodies = op.by, bodies
        if isinstance(op.origin, Origin):
            node.mark, node.origin = "made", tuple(source_names(op.origin))
        self.producers.update(dict.fromkeys(op.outputs, index))

    def _link_inputs(self, op: Op, index: int) -> None:
        """Link an op with its inputs, except initializers, which its box shows; add inputs from outside."""
        for v in dict.fromkeys(v for v in (*op.inputs, *op.captures) if v is not None):
            if v not in self.producers:
                if v.tensor is not None:
                    continue
                self._add_value("input", v)
            is_auxiliary = v.tensor is not None or v.known_dtype in AUXILIARY_DTYPES
            self.links.append(Link(self.producers[v], index, v.name, is_auxiliary))

    def view(self, undrawn: int) -> GraphView:
        """Lay out the graph."""
        layout = graph_layout([(n.width, n.height) for n in self.nodes], self.links)
        owner = self.graph.owner
        title = self.graph.declared.header.name or "main graph"
        if owner is not None:
            names = [name for name, value in owner.attrs.items() if value is self.graph]
            title = f"{names[0]} of {owner.label}" if names else owner.label
        return GraphView(title, self.nodes, self.links, layout, undrawn)


def _title(op: Op) -> tuple[str, ...]:
    """The type, the weights shown inside, and the attributes; for a Constant, its elements."""
    if op.type == "Constant" and op.outputs and op.outputs[0].tensor is not None:
        return (cut_end(tensor_text(op.outputs[0].tensor)),)
    weights = limit_lines([cut_end(text) for text in _weight_texts(op)])
    return (cut_start(qualified_op_type(op.domain, op.type)), *weights, *map(cut_end, attribute_lines(op)))


def _weight_texts(op: Op) -> Iterator[str]:
    """Yield the constants that an op reads and no op in the graph produces, such as `W 64x3x7x7`; tiny ones in full."""
    formal = op.schema.inputs if op.schema is not None else ()
    is_variadic = len(op.inputs) > len(formal)
    for i, v in enumerate(op.inputs):
        if v is not None and v.tensor is not None and (v.producer is None or v.producer.graph is not op.graph):
            name = formal[i].name if i < len(formal) - is_variadic else ""
            text = tensor_text(v.tensor)
            if text.endswith("]") and not text.startswith("["):
                text = "x".join(map(str, v.tensor.dims))
            yield f"{name or cut_start(v.name)} {text}"


def _details(op: Op) -> tuple[str, ...]:
    """The name, attributes, inputs and outputs, one per line."""
    lines = [op.label, *(f"{name}: {attribute_text(value)}" for name, value in op.attrs.items())]
    lines += [f"reads {_typed_name(v)}" for v in op.inputs if v is not None]
    lines += [f"reads {_typed_name(v)}, inside" for v in op.captures]
    lines += [f"makes {_typed_name(v)}" for v in op.outputs if v.name]
    return tuple(cut_end(line, MAX_LINE_CHARS) for line in limit_lines(lines, MAX_DETAILS))


def _typed_name(v: Value) -> str:
    return f"{v.name} {type_text(v)}".strip()
