"""Attributes as Python values.

Values in an order that matters, of which some are exchanged for others: outputs of a graph, edges of a wide op.

One operator application: its edges, its attributes, and where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import onnx
from onnx import helper

from . import op_schemas
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph
    from .origin import Origin, Source
    from .values import Value


def decode_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node that holds no subgraph."""
    return {a.name: attribute_value(a) for a in node.attribute}


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """An attribute as a Python value; a reference to a function's attribute stays a proto."""
    if proto.ref_attr_name:
        return proto
    value = op_schemas.plain(helper.get_attribute_value(proto))
    if proto.type == onnx.AttributeProto.TENSOR:
        return Tensor.from_proto(value)
    if proto.type == onnx.AttributeProto.TENSORS:
        return [Tensor.from_proto(t) for t in value]
    return value


T = TypeVar("T")


class Slots(Generic[T]):
    """Values in order, perhaps with repetitions; finding and exchanging one is O(its repetitions)."""

    __slots__ = ("_slots", "_values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._values = list(values)
        self._slots: dict[T, list[int]] = {}
        for i, v in enumerate(self._values):
            self._slots.setdefault(v, []).append(i)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __contains__(self, value: T) -> bool:
        return value in self._slots

    def swap(self, old: T, new: T) -> None:
        """Let `new` stand where `old` was."""
        slots = self._slots.pop(old, [])
        for i in slots:
            self._values[i] = new
        if slots:
            self._slots.setdefault(new, []).extend(slots)


MANY = 64
Side = Literal["inputs", "outputs"]


class Op:
    """One operator application. `None` in `inputs` is an optional input left out.

    `rest` is the NodeProto it came from without inputs and outputs; attributes are decoded from it
    when first asked for. An op made by a rewrite has none. `loaded` is `rest` as it was in the file: what is
    written is held to it. `origin` says what a rewrite made the op of, see `made_from`.
    """

    __slots__ = (
        "_attrs",
        "_name",
        "_slots",
        "domain",
        "graph",
        "hollow",
        "inferred_at",
        "inputs",
        "key",
        "loaded",
        "origin",
        "outputs",
        "rest",
        "subgraphs",
        "type",
        "version",
    )

    def __init__(
        self, op_type: str, domain: str, name: str | None, attrs: dict[str, Any] | None, rest: bytes | None
    ) -> None:
        self.type = op_type
        self.domain = domain
        self._name = name
        self._slots: dict[str, Slots[Value | None]] | None = None  # of edges that are many, once one was exchanged
        self.inputs: tuple[Value | None, ...] = ()
        self.outputs: tuple[Value, ...] = ()
        self.graph: Graph
        self.version = 0  # of the opset of its domain; 0 where the model does not import it
        self.key = 0  # where it stood in the file; orders the export
        self.inferred_at = -1
        self.rest = rest
        self.loaded: bytes | None = None
        self.origin: Origin | Source | None = None  # a Source: it came from the file, and an output was renamed since
        self.hollow = False  # whether `rest` lacks what is kept elsewhere: subgraphs, a large constant
        self.subgraphs: tuple[Graph, ...] = ()
        self._attrs = attrs

    def __repr__(self) -> str:
        return f"Op({self.label})"

    def __str__(self) -> str:
        return self.label

    @property
    def name(self) -> str:
        """The node's name; empty if it has none."""
        if self._name is None:
            self._name = onnx.NodeProto.FromString(self.rest or b"").name
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def is_renamed(self) -> bool:
        """Whether it is called otherwise than in the file it came from."""
        if self._name is None or self.loaded is None:  # a name that nobody asked for has not been changed
            return False
        return self._name != onnx.NodeProto.FromString(self.loaded).name

    @property
    def label(self) -> str:
        """Type and place, for messages."""
        where = self.name or (self.outputs[0].name if self.outputs else "")
        return f"{self.type} {where}".strip()

    @property
    def by(self) -> str:
        """The rule or pass that made the op last; empty if it came from the file."""
        return getattr(self.origin, "by", "")

    @property
    def schema(self) -> onnx.defs.OpSchema | None:
        """The schema in force, or None for an operator that ONNX does not define."""
        return op_schemas.schema(self.type, self.domain, self.version)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes as Python values: numbers, str, lists, Tensor, Graph; others as their proto. Read only."""
        if self._attrs is None:
            self._attrs = decode_attributes(onnx.NodeProto.FromString(self.rest or b""))
        return MappingProxyType(self._attrs)  # what is written there would not reach the file

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value; where it is not written, its schema default; without one, `default`."""
        if name in self.attrs:
            return self.attrs[name]
        known = op_schemas.attribute_default(self.type, self.domain, self.version, name)
        return default if known is None else known

    def input(self, index: int) -> Value | None:
        """The input at `index`, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    # -- edges, for the mutators of Graph only -------------------------------------------

    def connect(self, side: Side, values: Iterable[Value | None]) -> None:
        """Have these `values` for inputs or outputs."""
        setattr(self, side, tuple(values))
        if self._slots is not None:
            self._slots.pop(side, None)

    def exchange(self, side: Side, old: Value, new: Value) -> None:
        """Put `new` wherever `old` is among the inputs or outputs. Where those are many, O(places of `old`)."""
        slots = self._slots.get(side) if self._slots is not None else None
        if slots is None:
            values: tuple[Value | None, ...] = getattr(self, side)
            if len(values) <= MANY:
                setattr(self, side, exchanged(values, old, new))
                return
            slots = Slots(values)
            self._slots = {**(self._slots or {}), side: slots}
        slots.swap(old, new)
        with suppress(AttributeError):  # the tuple was not asked for since the last exchange
            delattr(self, side)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called where a slot is empty: the tuple of edges that are many is made when it is asked for."""
            if name not in {"inputs", "outputs"} or self._slots is None or name not in self._slots:
                raise AttributeError(f"an op has no {name} here", name=name, obj=self)
            values = tuple(self._slots[name])
            setattr(self, name, values)
            return values

    @property
    def captures(self) -> tuple[Value, ...]:
        """Values of enclosing graphs that its subgraphs read, in order of appearance."""
        found: dict[Value, None] = {}
        for sub in self.subgraphs:
            found.update(dict.fromkeys(sub.outer_values()))
        return tuple(found)


def exchanged(values: Sequence[T], old: Value, new: Value) -> tuple[T | Value, ...]:
    """`values` with `new` wherever `old` was. Searched and copied in C: ops may have 10,000 inputs."""
    out: list[T | Value] = list(values)
    try:
        at = out.index(old)
        while True:
            out[at] = new
            at = out.index(old, at + 1)
    except ValueError:
        return tuple(out)
