"""Where an op that a rewrite made came from.

Kept flat and bounded: each op holds its sources itself, at most `MAX_SOURCES`, so that a chain of rewrites of any
length costs the same at each link, and nothing that was replaced is held but the bytes of its node.
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
    """An op of the file: its NodeProto without edges, and what its first output was called."""

    node: bytes
    output: str


@dataclass(frozen=True, slots=True)
class Origin:
    """`by` is the rule or pass that made the op last; `is_truncated` says that it has more than the `sources` listed.

    `named_after` is the NodeProto of the op whose name it took, if any: it hands on doc string and metadata.
    """

    by: str
    sources: tuple[SourceNode, ...]
    is_truncated: bool = False
    named_after: bytes = b""


def made_from(op: Op, by: str, ops: Iterable[Op]) -> Op:
    """Note that the rule or pass `by` made `op` out of `ops`, which may be gone already; returns `op`.

    Where one of `ops` was made by a rewrite itself, its sources count, so that in the end all are ops of the file.
    """
    set_origin((op,), by, tuple(ops))
    return op


def set_origin(made: Iterable[Op], by: str, ops: tuple[Op, ...]) -> None:
    """`made_from` for several at once."""
    origin = combined_origin(by, ops)
    trace = ops[0].graph.context.replacement_log if ops else None
    for op in made:
        op.origin = origin
        if trace is not None:
            trace.record_derived(ops, op)


def combined_origin(by: str, ops: Iterable[Op]) -> Origin:
    """The origin of what `by` makes out of `ops`."""
    found: dict[SourceNode, None] = {}
    more = False
    for op in ops:
        known = op.origin
        if isinstance(known, Origin):
            found.update(dict.fromkeys(known.sources))
            more |= known.is_truncated
        else:
            found[known or source_node_of(op)] = None
    return Origin(by, tuple(found)[:MAX_SOURCES], more or len(found) > MAX_SOURCES)


def source_node_of(op: Op) -> SourceNode:
    """An op that no rewrite made, or none that said so, as a source."""
    node = op.loaded_proto_bytes
    if node is None:
        node = onnx.NodeProto(name=op.name).SerializeToString() if op.name else b""
    return SourceNode(node, op.outputs[0].name if op.outputs else "")


def record_source(op: Op | None) -> None:
    """Keep what the first output of `op` is called in the file, before that changes: a nameless op is known by it."""
    if op is not None and op.origin is None and op.loaded_proto_bytes is not None:
        op.origin = source_node_of(op)


def inherit_name(op: Op, root: Op) -> None:
    """Give `op` the name of `root`, which it replaces, and with it the doc string and metadata of that in the file."""
    if root.name:
        op.name = root.name
    namesake = root.origin.named_after if isinstance(root.origin, Origin) else root.loaded_proto_bytes or b""
    if isinstance(op.origin, Origin) and namesake:
        op.origin = replace(op.origin, named_after=namesake)
