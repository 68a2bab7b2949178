"""What the box of an op in a whole graph says, and what is told of it where somebody looks closer.

A model drawn as a whole: its main graph on one sheet, each body on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onnx import TensorProto

from ...core import Graph, Op, Tensor, Value
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


def node_title(op: Op) -> tuple[str, ...]:
    """The type, the weights inside, and the attributes; of a Constant what it holds."""
    if op.type == "Constant" and op.outputs and op.outputs[0].tensor is not None:
        return (cut_end(tensor_text(op.outputs[0].tensor)),)
    weights = limit_lines(
        [cut_end(f"{name} {tensor_size_text(v.tensor)}") for name, v in inline_constants(op) if v.tensor is not None]
    )
    return (cut_start(qualified_op_type(op.domain, op.type)), *weights, *map(cut_end, attribute_lines(op)))


def inline_constants(op: Op) -> Iterator[tuple[str, Value]]:
    """The constants that an op reads and no op beside it makes, each with what the operator calls that input."""
    for i, v in enumerate(op.inputs):
        if v is not None and v.tensor is not None and (v.producer is None or v.producer.graph is not op.graph):
            yield _input_name(op, i) or cut_start(v.name), v


def _input_name(op: Op, index: int) -> str:
    formal = op.schema.inputs if op.schema is not None else ()
    is_variadic = len(op.inputs) > len(formal)
    return formal[index].name if index < len(formal) - is_variadic else ""


def tensor_size_text(tensor: Tensor) -> str:
    """`64x3x7x7`; of a very small tensor the elements."""
    told = tensor_text(tensor)
    return "x".join(map(str, tensor.dims)) if told.endswith("]") and not told.startswith("[") else told


def node_details(op: Op) -> tuple[str, ...]:
    """Name, attributes, what it reads and makes, a line each."""
    lines = [op.label, *(f"{name}: {attribute_text(value)}" for name, value in op.attrs.items())]
    lines += [f"reads {_typed_name(v)}" for v in op.inputs if v is not None]
    lines += [f"reads {_typed_name(v)}, inside" for v in op.captures]
    lines += [f"makes {_typed_name(v)}" for v in op.outputs if v.name]
    more = [f"and {len(lines) - MAX_DETAILS + 1} more"] if len(lines) > MAX_DETAILS else []
    return tuple(_shortened(line) for line in (*lines[: MAX_DETAILS - len(more)], *more))


def _typed_name(v: Value) -> str:
    return f"{v.name} {type_text(v)}".strip()


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…"


MAX_OPS = 20_000
"""The ops that are drawn of a model, bodies included."""
AUXILIARY_DTYPES = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})
"""Types of shapes, indices and conditions: what they feed does not line up with them."""


@dataclass(slots=True)
class _Draft:
    """What is on a sheet, with no coordinates yet."""

    nodes: list[NodeView] = field(default_factory=list[NodeView])
    links: list[Link] = field(default_factory=list[Link])
    producers: dict[Value, int] = field(default_factory=dict[Value, int])

    def add(self, kind: str, name: str, lines: tuple[str, ...], details: tuple[str, ...], value: Value | None) -> int:
        width, height = box_size(Box(BoxKind.OP, lines))
        self.nodes.append(NodeView(name, kind, "\n".join(lines), 0.0, 0.0, width, height, details))
        if value is not None:
            self.producers[value] = len(self.nodes) - 1
        return len(self.nodes) - 1


def graph_views(graph: Graph) -> list[GraphView]:
    """The main graph, then every body, outermost first: as much as there is room for."""
    graphs = list(graph.with_subgraphs())
    places = {g: i for i, g in enumerate(graphs)}
    sheets: list[GraphView] = []
    room = MAX_OPS
    for g in graphs:
        ops = g.sorted_ops()
        sheets.append(_graph_view(g, ops[:room], places, max(len(ops) - room, 0)))
        room = max(room - len(ops), 0)
    return sheets


def _graph_view(graph: Graph, ops: Sequence[Op], body_indices: dict[Graph, int], undrawn: int) -> GraphView:
    """The ops are the first of the graph, each after what feeds it."""
    draft = _Draft()
    for v in graph.inputs:
        _add_value(draft, "input", v)
    for op in ops:
        place = draft.add(
            "op" if op.type != "Constant" else "constant", op.label, node_title(op), node_details(op), None
        )
        draft.nodes[place] = _with_origin(draft.nodes[place], op, tuple(body_indices[g] for g in op.subgraphs))
        draft.producers.update(dict.fromkeys(op.outputs, place))
    for place, op in enumerate(ops, len(graph.inputs)):
        _link_inputs(draft, op, place)
    for v in graph.outputs:
        if v not in draft.producers and v.producer is not None and v.producer.graph is graph:
            continue
        if v not in draft.producers:
            _add_value(draft, "constant" if v.tensor is not None else "input", v)
        place = draft.add("output", v.name, value_box(v).lines, (), None)
        draft.links.append(Link(draft.producers[v], place, v.name))
    return _laid_out(_title(graph), draft, undrawn)


def _add_value(draft: _Draft, kind: str, v: Value) -> None:
    """A value that no op of the graph makes."""
    box = source_box(v)
    draft.add(kind, v.name, box.lines, (box.tooltip,), v)


def _link_inputs(draft: _Draft, op: Op, place: int) -> None:
    """Lines from all that an op reads but initializers, which are told inside; what comes from outside is added."""
    read = dict.fromkeys(v for v in (*op.inputs, *op.captures) if v is not None)
    for v in read:
        if v not in draft.producers and v.tensor is not None:
            continue
        if v not in draft.producers:
            _add_value(draft, "input", v)
        light = v.tensor is not None or v.known_dtype in AUXILIARY_DTYPES
        draft.links.append(Link(draft.producers[v], place, v.name, light))


def _with_origin(node: NodeView, op: Op, bodies: tuple[int, ...]) -> NodeView:
    origin = op.origin if isinstance(op.origin, Origin) else None
    mark, names = ("made", tuple(source_names(origin))) if origin is not None else ("", ())
    return NodeView(
        node.name,
        node.kind,
        node.title,
        0.0,
        0.0,
        node.width,
        node.height,
        node.details,
        mark,
        op.by,
        names,
        (),
        bodies,
    )


def _title(graph: Graph) -> str:
    if graph.owner is None:
        return graph.declared.header.name or "main graph"
    names = [name for name, value in graph.owner.attrs.items() if value is graph]
    return f"{names[0]} of {graph.owner.label}" if names else graph.owner.label


def _laid_out(title: str, draft: _Draft, undrawn: int) -> GraphView:
    layout = graph_layout([(n.width, n.height) for n in draft.nodes], draft.links)
    nodes = [_node_at(n, *centre) for n, centre in zip(draft.nodes, layout.centres, strict=True)]
    edges = [EdgeView(k.source, k.target, k.name, path) for k, path in zip(draft.links, layout.paths, strict=True)]
    return GraphView(title, round(layout.width, 1), round(layout.height, 1), nodes, edges, undrawn)


def _node_at(n: NodeView, x: float, y: float) -> NodeView:
    """The node in its place. Written out, for there are many."""
    return NodeView(
        n.name, n.kind, n.title, round(x, 1), round(y, 1), n.width, n.height, n.details, n.mark, n.rule, n.origin,
        n.rewrites, n.bodies,
    )  # fmt: skip
