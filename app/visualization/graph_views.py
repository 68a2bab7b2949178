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
from ..drawing.graph_layout import Link, laid_out
from ..drawing.picture import Box, Kind
from ..drawing.picture_layout import box_size
from ..drawing.picture_text import attributes, beginning, contents, ending, few, op_title, plain, type_of
from ..drawing.region_picture import named, source
from .visualization import Edge, Node, Sheet

MOST_TOLD, LONGEST = 40, 200
"""Lines, and letters of each."""


def title_of(op: Op) -> tuple[str, ...]:
    """The type, the weights inside, and the attributes; of a Constant what it holds."""
    if op.type == "Constant" and op.outputs and op.outputs[0].tensor is not None:
        return (beginning(contents(op.outputs[0].tensor)),)
    weights = few([beginning(f"{name} {size_of(v.tensor)}") for name, v in weights_of(op) if v.tensor is not None])
    return (ending(op_title(op.domain, op.type)), *weights, *map(beginning, attributes(op)))


def weights_of(op: Op) -> Iterator[tuple[str, Value]]:
    """The constants that an op reads and no op beside it makes, each with what the operator calls that input."""
    for i, v in enumerate(op.inputs):
        if v is not None and v.tensor is not None and (v.producer is None or v.producer.graph is not op.graph):
            yield _input_name(op, i) or ending(v.name), v


def _input_name(op: Op, index: int) -> str:
    formal = op.schema.inputs if op.schema is not None else ()
    is_variadic = len(op.inputs) > len(formal)
    return formal[index].name if index < len(formal) - is_variadic else ""


def size_of(tensor: Tensor) -> str:
    """`64x3x7x7`; of a very small tensor the elements."""
    told = contents(tensor)
    return "x".join(map(str, tensor.dims)) if told.endswith("]") and not told.startswith("[") else told


def told_of(op: Op) -> tuple[str, ...]:
    """Name, attributes, what it reads and makes, a line each."""
    lines = [op.label, *(f"{name}: {plain(value)}" for name, value in op.attrs.items())]
    lines += [f"reads {_typed(v)}" for v in op.inputs if v is not None]
    lines += [f"reads {_typed(v)}, inside" for v in op.captures]
    lines += [f"makes {_typed(v)}" for v in op.outputs if v.name]
    more = [f"and {len(lines) - MOST_TOLD + 1} more"] if len(lines) > MOST_TOLD else []
    return tuple(_short(line) for line in (*lines[: MOST_TOLD - len(more)], *more))


def _typed(v: Value) -> str:
    return f"{v.name} {type_of(v)}".strip()


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


MOST = 20_000
"""The ops that are drawn of a model, bodies included."""
WHOLE_NUMBERS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})
"""Types of shapes, indices and conditions: what they feed does not line up with them."""


@dataclass(slots=True)
class _Draft:
    """What is on a sheet, with no coordinates yet."""

    nodes: list[Node] = field(default_factory=list[Node])
    links: list[Link] = field(default_factory=list[Link])
    made: dict[Value, int] = field(default_factory=dict[Value, int])

    def add(self, kind: str, name: str, lines: tuple[str, ...], told: tuple[str, ...], value: Value | None) -> int:
        width, height = box_size(Box(Kind.OP, lines))
        self.nodes.append(Node(name, kind, "\n".join(lines), 0.0, 0.0, width, height, told))
        if value is not None:
            self.made[value] = len(self.nodes) - 1
        return len(self.nodes) - 1


def sheets_of(graph: Graph) -> list[Sheet]:
    """The main graph, then every body, outermost first: as much as there is room for."""
    graphs = list(graph.with_subgraphs())
    places = {g: i for i, g in enumerate(graphs)}
    sheets: list[Sheet] = []
    room = MOST
    for g in graphs:
        ops = g.sorted_ops()
        sheets.append(_sheet(g, ops[:room], places, max(len(ops) - room, 0)))
        room = max(room - len(ops), 0)
    return sheets


def _sheet(graph: Graph, ops: Sequence[Op], places: dict[Graph, int], undrawn: int) -> Sheet:
    """The ops are the first of the graph, each after what feeds it."""
    draft = _Draft()
    for v in graph.inputs:
        _add_value(draft, "input", v)
    for op in ops:
        place = draft.add("op" if op.type != "Constant" else "constant", op.label, title_of(op), told_of(op), None)
        draft.nodes[place] = _with_origin(draft.nodes[place], op, tuple(places[g] for g in op.subgraphs))
        draft.made.update(dict.fromkeys(op.outputs, place))
    for place, op in enumerate(ops, len(graph.inputs)):
        _link_inputs(draft, op, place)
    for v in graph.outputs:
        if v not in draft.made and v.producer is not None and v.producer.graph is graph:
            continue
        if v not in draft.made:
            _add_value(draft, "constant" if v.tensor is not None else "input", v)
        place = draft.add("output", v.name, named(v).lines, (), None)
        draft.links.append(Link(draft.made[v], place, v.name))
    return _placed(_title(graph), draft, undrawn)


def _add_value(draft: _Draft, kind: str, v: Value) -> None:
    """A value that no op of the graph makes."""
    box = source(v)
    draft.add(kind, v.name, box.lines, (box.told,), v)


def _link_inputs(draft: _Draft, op: Op, place: int) -> None:
    """Lines from all that an op reads but initializers, which are told inside; what comes from outside is added."""
    read = dict.fromkeys(v for v in (*op.inputs, *op.captures) if v is not None)
    for v in read:
        if v not in draft.made and v.tensor is not None:
            continue
        if v not in draft.made:
            _add_value(draft, "input", v)
        light = v.tensor is not None or v.known_dtype in WHOLE_NUMBERS
        draft.links.append(Link(draft.made[v], place, v.name, light))


def _with_origin(node: Node, op: Op, bodies: tuple[int, ...]) -> Node:
    origin = op.origin if isinstance(op.origin, Origin) else None
    mark, names = ("made", tuple(source_names(origin))) if origin is not None else ("", ())
    return Node(
        node.name, node.kind, node.title, 0.0, 0.0, node.width, node.height, node.told, mark, op.by, names, (), bodies
    )


def _title(graph: Graph) -> str:
    if graph.owner is None:
        return graph.declared.header.name or "main graph"
    names = [name for name, value in graph.owner.attrs.items() if value is graph]
    return f"{names[0]} of {graph.owner.label}" if names else graph.owner.label


def _placed(title: str, draft: _Draft, undrawn: int) -> Sheet:
    layout = laid_out([(n.width, n.height) for n in draft.nodes], draft.links)
    nodes = [_at(n, *centre) for n, centre in zip(draft.nodes, layout.centres, strict=True)]
    edges = [Edge(k.source, k.target, k.name, path) for k, path in zip(draft.links, layout.paths, strict=True)]
    return Sheet(title, round(layout.width, 1), round(layout.height, 1), nodes, edges, undrawn)


def _at(n: Node, x: float, y: float) -> Node:
    """The node in its place. Written out, for there are many."""
    return Node(
        n.name, n.kind, n.title, round(x, 1), round(y, 1), n.width, n.height, n.told, n.mark, n.rule, n.origin,
        n.rewrites, n.bodies,
    )  # fmt: skip
