"""Operator applications: edges, attributes, and origins of ops made by rewrites.

An origin is the author of an op and the nodes of the file from which it was made. Each op stores its sources, at
most `MAX_SOURCES`, so that each step in a chain of rewrites costs the same; only the node bytes of a replaced op are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from ..errors import MatchFailure
from ..support.author_errors import require_argument, require_type
from . import op_schemas
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph
    from .values import Value

MAX_SOURCES = 50
NOT_INFERRED, OUTDATED = -1, 0  # of `Op.inferred_epoch`; otherwise, the epoch of the graph in which the op was inferred


class SourceNode(NamedTuple):
    """A node of the file: its NodeProto without edges, and the name of its first output."""

    node: bytes
    output: str


class Origin(Struct, frozen=True):
    """The rule or pass `by` that last made the op, and its `sources`; `is_truncated` if there are more.

    `named_after` is the NodeProto of the op whose name, doc string and metadata it took, if any.
    """

    by: str
    sources: tuple[SourceNode, ...]
    is_truncated: bool = False
    named_after: bytes = b""


def attribute_value(
    proto: onnx.AttributeProto,
    read_tensor: Callable[[onnx.TensorProto], Tensor] = Tensor.from_proto,
    read_graph: Callable[[onnx.GraphProto], Any] = lambda graph: graph,
) -> Any:
    """An attribute as a Python value; a reference to a function's attribute stays a proto."""
    if proto.ref_attr_name:
        return proto
    match proto.type:
        case onnx.AttributeProto.TENSOR:
            return read_tensor(proto.t)
        case onnx.AttributeProto.TENSORS:
            return list(map(read_tensor, proto.tensors))
        case onnx.AttributeProto.GRAPH:
            return read_graph(proto.g)
        case onnx.AttributeProto.GRAPHS:
            return list(map(read_graph, proto.graphs))
        case _:
            return op_schemas.decode_strings(helper.get_attribute_value(proto))


T = TypeVar("T")


class IndexedSequence(Generic[T]):
    """A sequence of values, possibly repeated; finding or replacing a value is O(its repetitions).

    Used for the outputs of a graph and the edges of ops that have many.
    """

    __slots__ = ("_positions", "_values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._values = list(values)
        self._positions: dict[T, list[int]] = {}
        for i, v in enumerate(self._values):
            self._positions.setdefault(v, []).append(i)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __contains__(self, value: T) -> bool:
        return value in self._positions

    def positions(self, value: T) -> Sequence[int]:
        """The positions of `value`."""
        return self._positions.get(value, ())

    def replace(self, old: T, new: T) -> None:
        """Replace `old` by `new`."""
        slots = self._positions.pop(old, [])
        for i in slots:
            self._values[i] = new
        if slots:
            self._positions.setdefault(new, []).extend(slots)


def without_trailing_omitted(operands: Iterable[T]) -> list[T]:
    """Remove omitted inputs or outputs at the end, which have no meaning; also works on names."""
    found = list(operands)
    while found and (found[-1] is None or found[-1] == ""):
        found.pop()
    return found


SLOTS_THRESHOLD = 64
Side = Literal["inputs", "outputs"]


class Op:
    """One operator application. `None` in `inputs` is an omitted optional input.

    `proto_bytes` is the NodeProto of the file without inputs and outputs; its attributes are decoded on first use. An
    op made by a rewrite has none. `loaded_proto_bytes` is the original `proto_bytes`, with which the interface check
    compares the written node. `origin` names the ops from which a rewrite made the op; see `made_from`.

    Examples:
        >>> add = next(graph.ops("Add"))
        >>> add.type, [v.name for v in add.inputs if v is not None], add.attrs
        ('Add', ['r', 'c'], mappingproxy({}))
        >>> add.operand(1).name, add.input(2), add.attr("axis", 0)
        ('c', None, 0)
    """

    __slots__ = (
        "_attrs",
        "_indexed_edges",
        "_name",
        "domain",
        "graph",
        "inferred_epoch",
        "inputs",
        "is_stripped",
        "loaded_proto_bytes",
        "order_key",
        "origin",
        "outputs",
        "proto_bytes",
        "subgraphs",
        "type",
        "version",
    )

    def __init__(
        self, op_type: str, domain: str, name: str | None, attrs: dict[str, Any] | None, proto_bytes: bytes | None
    ) -> None:
        self.type = op_type
        self.domain = domain
        self._name = name
        self._indexed_edges: dict[str, IndexedSequence[Value | None]] | None = None  # many edges, once one was replaced
        self.inputs: tuple[Value | None, ...] = ()
        self.outputs: tuple[Value, ...] = ()
        self.graph: Graph
        self.version = 0  # of the opset of its domain; 0 if the model does not import it
        self.order_key = 0  # position in the file; determines the order on export
        self.inferred_epoch = NOT_INFERRED
        self.proto_bytes = proto_bytes
        self.loaded_proto_bytes: bytes | None = None
        self.origin: Origin | SourceNode | None = None  # a SourceNode if an output of an op in the file was replaced
        self.is_stripped = False  # whether `proto_bytes` lacks subgraphs or a large constant, which are then in `attrs`
        self.subgraphs: tuple[Graph, ...] = ()
        self._attrs = attrs

    def __repr__(self) -> str:
        return f"Op({self.label})"

    def __str__(self) -> str:
        return self.label

    @property
    def name(self) -> str:
        """The name of the node; empty if it has none."""
        if self._name is None:
            self._name = onnx.NodeProto.FromString(self.proto_bytes or b"").name
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        if self.proto_bytes is not None:
            node = onnx.NodeProto.FromString(self.proto_bytes)
            node.name = name
            self.proto_bytes = node.SerializeToString(deterministic=True)

    @property
    def label(self) -> str:
        """The type, and the name or first output, for messages."""
        where = self.name or (self.outputs[0].name if self.outputs else "")
        return f"{self.type} {where}".strip()

    @property
    def by(self) -> str:
        """The rule or pass that last made the op; "" if it is from the file."""
        return getattr(self.origin, "by", "")

    @property
    def schema(self) -> onnx.defs.OpSchema | None:
        """The schema at the model's opset; None for an operator that ONNX does not define."""
        return op_schemas.schema(self.type, self.domain, self.version)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes as Python values: numbers, str, lists, Tensor, Graph; others as protos. Read-only."""
        if self._attrs is None:
            node = onnx.NodeProto.FromString(self.proto_bytes or b"")
            self._attrs = {a.name: attribute_value(a) for a in node.attribute}
        return MappingProxyType(self._attrs)  # changes would not be written to the file

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; if it is absent, its schema default, otherwise `default`."""
        if name in self.attrs:
            return self.attrs[name]
        known = op_schemas.attribute_default(self.type, self.domain, self.version, name)
        return default if known is None else known

    def input(self, index: int) -> Value | None:
        """The input at `index`; None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int = 0) -> Value:
        """The input at `index`. Raises MatchFailure if it is omitted."""
        if (found := self.input(index)) is None:
            raise MatchFailure(f"{self.label} has no input {index}")
        return found

    def positions_of(self, value: Value) -> Sequence[int]:
        """The indices of the inputs equal to `value`; O(their number) if there are many inputs."""
        if len(self.inputs) <= SLOTS_THRESHOLD:
            return [i for i, v in enumerate(self.inputs) if v is value]
        return sorted(self._index_edges("inputs").positions(value))

    def _index_edges(self, side: Side) -> IndexedSequence[Value | None]:
        """The inputs or outputs with their positions, cached until they are set."""
        found = self._indexed_edges.get(side) if self._indexed_edges is not None else None
        if found is None:
            values: tuple[Value | None, ...] = getattr(self, side)
            found = IndexedSequence(values)
            self._indexed_edges = {**(self._indexed_edges or {}), side: found}
        return found

    def set_edges(self, side: Side, values: Iterable[Value | None]) -> None:
        """Set the inputs or outputs to `values`."""
        setattr(self, side, tuple(values))
        if self._indexed_edges is not None:
            self._indexed_edges.pop(side, None)

    def replace_edge(self, side: Side, old: Value, new: Value) -> None:
        """Replace `old` by `new` among the inputs or outputs; O(uses of `old`) if there are many."""
        if self._indexed_edges is None or side not in self._indexed_edges:
            values: tuple[Value | None, ...] = getattr(self, side)
            if len(values) <= SLOTS_THRESHOLD:
                setattr(self, side, replaced(values, old, new))
                return
        slots = self._index_edges(side)
        slots.replace(old, new)
        with suppress(AttributeError):  # raised if the tuple was not read since the last replacement
            delattr(self, side)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Build the tuple of many edges when its slot is empty."""
            if name not in {"inputs", "outputs"} or self._indexed_edges is None or name not in self._indexed_edges:
                raise AttributeError(f"'Op' object has no attribute {name!r}", name=name, obj=self)
            values = tuple(self._indexed_edges[name])
            setattr(self, name, values)
            return values

    @property
    def captures(self) -> tuple[Value, ...]:
        """Values of enclosing graphs that its subgraphs read, in order of appearance."""
        found: dict[Value, None] = {}
        for sub in self.subgraphs:
            found.update(dict.fromkeys(sub.captured_values()))
        return tuple(found)


def replaced(values: Sequence[T], old: Value, new: Value) -> tuple[T | Value, ...]:
    """Replace `old` by `new` in `values`, using C-level search and copy because ops may have 10,000 inputs."""
    out: list[T | Value] = list(values)
    try:
        at = out.index(old)
        while True:
            out[at] = new
            at = out.index(old, at + 1)
    except ValueError:
        return tuple(out)


def is_known(op: Op) -> bool:
    """Whether ONNX defines the operator. Others are opaque: never folded, merged or dropped.

    Examples:
        >>> [is_known(op) for op in graph.ops()]
        [True, True, True]
    """
    return op.schema is not None


def may_drop(op: Op) -> bool:
    """Whether an op may be removed when its outputs are unused; opaque ops may have effects.

    Examples:
        >>> may_drop(next(graph.ops("Abs")))
        True
    """
    return is_known(op) and all(may_drop(inner) for sub in op.subgraphs for inner in sub.ops())


def made_from(op: Op, by: str, ops: Iterable[Op]) -> Op:
    """Record that the rule or pass `by` made `op` from `ops`, which may already be removed; return `op`.

    If a rewrite made one of `ops`, its sources are used instead, so that all sources are nodes of the file.

    Examples:
        >>> relu = next(graph.ops("Relu"))
        >>> build = RewriteBuilder(graph, relu)
        >>> new = build.Max(relu.input(0), 0.0)
        >>> made_from(build.added_ops[0], "relu-to-max", [relu]).origin.by
        'relu-to-max'
    """
    require_type(op, Op, "made_from", "an op first")
    require_type(by, str, "made_from", "the name of the pass after the op")
    require_argument(not isinstance(ops, Op | str), "made_from", "a list of the ops that it replaces", ops)
    set_origin((op,), by, tuple(ops))
    return op


def set_origin(made: Iterable[Op], by: str, ops: tuple[Op, ...]) -> None:
    """Apply `made_from` to several ops at once."""
    found: dict[SourceNode, None] = {}
    more = False
    for op in ops:
        known = op.origin
        if isinstance(known, Origin):
            found.update(dict.fromkeys(known.sources))
            more |= known.is_truncated
        else:
            found[known or source_node_of(op)] = None
    origin = Origin(by, tuple(found)[:MAX_SOURCES], more or len(found) > MAX_SOURCES)
    log = ops[0].graph.context.replacement_log if ops else None
    for op in made:
        op.origin = origin
        if log is not None:
            for source in ops:
                log.derived_ops.setdefault(source, {})[op] = None


def source_node_of(op: Op) -> SourceNode:
    """Convert an op without recorded origin to a source."""
    node = op.loaded_proto_bytes
    if node is None:
        node = onnx.NodeProto(name=op.name).SerializeToString() if op.name else b""
    return SourceNode(node, op.outputs[0].name if op.outputs else "")


def record_source(op: Op | None) -> None:
    """Record the first output of `op` in the file before it changes, because it identifies an op without a name."""
    if op is not None and op.origin is None and op.loaded_proto_bytes is not None:
        op.origin = source_node_of(op)


def inherit_name(op: Op, root: Op) -> None:
    """Give `op` the name of `root`, which it replaces, with the doc string and metadata of `root` in the file."""
    if root.name:
        op.name = root.name
    namesake = root.origin.named_after if isinstance(root.origin, Origin) else root.loaded_proto_bytes or b""
    if isinstance(op.origin, Origin) and namesake:
        op.origin = replace(op.origin, named_after=namesake)
