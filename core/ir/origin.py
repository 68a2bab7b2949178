"""Origins of ops made by rewrites: the author and the nodes of the file.

Each op holds its sources itself, at most `MAX_SOURCES`, so that a step in a chain of rewrites costs the same at any
length, and of a replaced op only the bytes of its node stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import onnx

if TYPE_CHECKING:
    from .op import Op

MAX_SOURCES = 50


class SourceNode(NamedTuple):
    """A node of the file: its NodeProto without edges, and the name of its first output."""

    node: bytes
    output: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The rule or pass `by` that made the op last, and its `sources`; `is_truncated` if there are more of them.

    `named_after` is the NodeProto of the op whose name, doc string and metadata it took, if any.
    """

    by: str
    sources: tuple[SourceNode, ...]
    is_truncated: bool = False
    named_after: bytes = b""


def made_from(op: Op, by: str, ops: Iterable[Op]) -> Op:
    """Record that the rule or pass `by` made `op` from `ops`, which may be removed already; returns `op`.

    For one of `ops` that a rewrite made, its own sources count, so that all sources are nodes of the file.
    """
    set_origin((op,), by, tuple(ops))
    return op


def set_origin(made: Iterable[Op], by: str, ops: tuple[Op, ...]) -> None:
    """`made_from` for several at once."""
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
    """An op without recorded origin as a source."""
    node = op.loaded_proto_bytes
    if node is None:
        node = onnx.NodeProto(name=op.name).SerializeToString() if op.name else b""
    return SourceNode(node, op.outputs[0].name if op.outputs else "")


def record_source(op: Op | None) -> None:
    """Record the name of the first output of `op` in the file before it changes: it identifies a nameless op."""
    if op is not None and op.origin is None and op.loaded_proto_bytes is not None:
        op.origin = source_node_of(op)


def inherit_name(op: Op, root: Op) -> None:
    """Give `op` the name of `root`, which it replaces, and the doc string and metadata of that in the file."""
    if root.name:
        op.name = root.name
    namesake = root.origin.named_after if isinstance(root.origin, Origin) else root.loaded_proto_bytes or b""
    if isinstance(op.origin, Origin) and namesake:
        op.origin = replace(op.origin, named_after=namesake)
