"""Where an op that a rewrite made came from.

Kept flat and bounded: each op holds its sources itself, at most `MOST`, so that a chain of rewrites of any
length costs the same at each link, and nothing that was replaced is held but the bytes of its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import onnx

if TYPE_CHECKING:
    from .op import Op

MOST = 50


class Source(NamedTuple):
    """An op of the file: its NodeProto without edges, and what its first output was called."""

    node: bytes
    output: str


@dataclass(frozen=True, slots=True)
class Origin:
    """`by` is the rule or pass that made the op last; `more` says that it has more than the `sources` listed.

    `namesake` is the NodeProto of the op whose name it took, if any: it hands on doc string and metadata.
    """

    by: str
    sources: tuple[Source, ...]
    more: bool = False
    namesake: bytes = b""


def made_from(op: Op, by: str, ops: Iterable[Op]) -> Op:
    """Note that the rule or pass `by` made `op` out of `ops`, which may be gone already; returns `op`.

    Where one of `ops` was made by a rewrite itself, its sources count, so that in the end all are ops of the file.
    """
    mark((op,), by, tuple(ops))
    return op


def mark(made: Iterable[Op], by: str, ops: tuple[Op, ...]) -> None:
    """`made_from` for several at once."""
    origin = origin_of(by, ops)
    trace = ops[0].graph.shared.trace if ops else None
    for op in made:
        op.origin = origin
        if trace is not None:
            trace.replaced(ops, op)


def origin_of(by: str, ops: Iterable[Op]) -> Origin:
    """The origin of what `by` makes out of `ops`."""
    found: dict[Source, None] = {}
    more = False
    for op in ops:
        known = op.origin
        if isinstance(known, Origin):
            found.update(dict.fromkeys(known.sources))
            more |= known.more
        else:
            found[known or source_of(op)] = None
    return Origin(by, tuple(found)[:MOST], more or len(found) > MOST)


def source_of(op: Op) -> Source:
    """An op that no rewrite made, or none that said so, as a source."""
    node = op.loaded
    if node is None:
        node = onnx.NodeProto(name=op.name).SerializeToString() if op.name else b""
    return Source(node, op.outputs[0].name if op.outputs else "")


def remember(op: Op | None) -> None:
    """Keep what the first output of `op` is called in the file, before that changes: a nameless op is known by it."""
    if op is not None and op.origin is None and op.loaded is not None:
        op.origin = source_of(op)


def inherit(op: Op, root: Op) -> None:
    """Give `op` the name of `root`, which it replaces, and with it the doc string and metadata of that in the file."""
    if root.name:
        op.name = root.name
    namesake = root.origin.namesake if isinstance(root.origin, Origin) else root.loaded or b""
    if isinstance(op.origin, Origin) and namesake:
        op.origin = replace(op.origin, namesake=namesake)
