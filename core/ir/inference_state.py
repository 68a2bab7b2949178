"""State of the inference of ops: done, never done, or done from facts that were refined since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op
    from .values import Value

NOT_INFERRED, OUTDATED = -1, 0  # of `Op.inferred_epoch`; else the epoch of the graph in which the op was inferred


def invalidate_dependents(value: Value) -> None:
    """Have the ops that depend on `value` inferred again where they can be refined, as there is more to know about it.

    O(ops that were inferred since the last time). A global epoch would have all ops inferred again, those before them
    included: quadratic time for a chain that is rewritten from its start to its end.
    """
    invalidate_inference(_users(value))


def invalidate_inference(ops: Iterable[Op]) -> None:
    """Have `ops`, and those that depend on them, inferred again where they can be refined."""
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op.inferred_epoch != op.graph.context.inference_epoch:
            continue  # as those that depend on values that it may refine
        op.inferred_epoch = OUTDATED
        for v in op.outputs:
            if not v.is_fully_known:
                stack += _users(v)


def _users(value: Value) -> Iterable[Op]:
    """The ops that infer from `value`: its consumers, and the op whose body returns it."""
    maker = value.producer
    owner = maker.graph.owner if maker is not None and maker.graph.is_output(value) else None
    return value.consumers if owner is None else (*value.consumers, owner)
