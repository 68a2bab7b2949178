"""Views of whole graphs: the main graph of a model, and each body by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import TensorProto

from ...core import Graph, Op, Value
from ...core.ir.origin import Origin
from ...core.serialization.provenance import source_names
from ..drawing.graph_layout import Link, graph_layout
from ..drawing.picture import Box, BoxKind
from ..drawing.picture_layout import box_size
from ..drawing.picture_text import (
    attribute_lines,
    attribute_text,
    cut_end,
    cut_start,
    limit_lines,
    qualified_op_type,
    tensor_text,
    type_text,
)
from ..drawing.region_picture import source_box, value_box
from .visualization import EdgeView, GraphView, NodeView

MAX_DETAILS, MAX_LINE_CHARS = 40, 200
"""Lines, and letters of each."""
MAX_OPS = 20_000
"""The ops that are drawn of a model, bodies included."""
AUXILIARY_DTYPES = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})
"""Types of shapes, indices and conditions: ops do not line up with them."""


def graph_views(graph: Graph) -> list[GraphView]:
    """The main graph, then every body, outermost first, up to MAX_OPS ops in all."""
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
        """Add a node without coordinates, and return its index."""
        width, height = box_size(Box(BoxKind.OP, lines))
        self.nodes.append(NodeView(name, kind, "\n".join(lines), 0.0, 0.0, width, height, details))
        return len(self.nodes) - 1

    def _add_value(self, kind: str, v: Value) -> None:
        """Add a value that no op of the graph makes."""
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
        """Link an op with its inputs, but not with initializers, which its box shows; add those from outside."""
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
        for n, (x, y) in zip(self.nodes, layout.centres, strict=True):
            n.x, n.y = round(x, 1), round(y, 1)
        edges = [EdgeView(k.source, k.target, k.name, path) for k, path in zip(self.links, layout.paths, strict=True)]
        owner = self.graph.owner
        title = self.graph.declared.header.name or "main graph"
        if owner is not None:
            names = [name for name, value in owner.attrs.items() if value is self.graph]
            title = f"{names[0]} of {owner.label}" if names else owner.label
        return GraphView(title, round(layout.width, 1), round(layout.height, 1), self.nodes, edges, undrawn)


def _title(op: Op) -> tuple[str, ...]:
    """The type, the weights inside, and the attributes; of a Constant its elements."""
    if op.type == "Constant" and op.outputs and op.outputs[0].tensor is not None:
        return (cut_end(tensor_text(op.outputs[0].tensor)),)
    weights = limit_lines([cut_end(text) for text in _weight_texts(op)])
    return (cut_start(qualified_op_type(op.domain, op.type)), *weights, *map(cut_end, attribute_lines(op)))


def _weight_texts(op: Op) -> Iterator[str]:
    """The constants that an op reads and that no op beside it makes, such as `W 64x3x7x7`; very small ones in full."""
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
    """Name, attributes, inputs and outputs, a line each."""
    lines = [op.label, *(f"{name}: {attribute_text(value)}" for name, value in op.attrs.items())]
    lines += [f"reads {_typed_name(v)}" for v in op.inputs if v is not None]
    lines += [f"reads {_typed_name(v)}, inside" for v in op.captures]
    lines += [f"makes {_typed_name(v)}" for v in op.outputs if v.name]
    more = [f"and {len(lines) - MAX_DETAILS + 1} more"] if len(lines) > MAX_DETAILS else []
    shown = (*lines[: MAX_DETAILS - len(more)], *more)
    return tuple(line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…" for line in shown)


def _typed_name(v: Value) -> str:
    return f"{v.name} {type_text(v)}".strip()
