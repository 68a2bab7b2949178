"""What each change of a run saves: what moves in the graph, booked to the change that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..ir.mutation_log import Mutation, MutationLog
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change, ChangeKey
from .observer import ObserverDispatcher, inserted_ops


@dataclass(slots=True)
class SizeAccounting:
    """Books `moves` to changes, which are all kept, so that their ordinals are their places in the list.

    What moves after a change is asked for, and before the next, is part of it; so is what was built for it, since it
    was begun. What goes later, as a pass tidies up at its end, belongs to the change of that pass which named it.
    `dispatcher`: someone looks on.
    """

    log: MutationLog = field(default_factory=MutationLog)
    dispatcher: ObserverDispatcher | None = None
    _pending: tuple[ChangeKey, int] | None = None  # who was last about to make a change, and how many moves came before
    _change_of_op: dict[Op, int] = field(default_factory=dict[Op, int])
    _pass_name: str = ""

    def start_change(self, key: ChangeKey) -> None:
        """Note who is about to make a change."""
        self._notify_after()
        self._pending = key, len(self.log.entries)

    def assign_mutations(self, changes: list[Change], upcoming: ChangeKey | None = None) -> None:
        """Book what has moved, but for what was built for the change that comes next, if any."""
        self._notify_after()
        count = self._pending[1] if self._pending is not None and self._pending[0] == upcoming else None
        taken, self._pending = self.log.drain(count), None
        booked: dict[int, list[Mutation]] = {}
        at = last = len(changes) - 1
        for move in taken:
            if move.op is not None:
                at = self._change_of_op.get(move.op, at) if move.node_delta < 0 else last
            booked.setdefault(at, []).append(move)
        for ordinal, moves in booked.items() if changes else ():
            changes[ordinal] = _with_savings(changes[ordinal], moves)

    def register_change(self, change: Change, replaced: Sequence[Op | Value]) -> None:
        """Note which ops a change named; they may go later."""
        if self.dispatcher is not None:
            self.dispatcher.notify_before(change, replaced, self.log.entries)
        if change.pass_name != self._pass_name:
            self._pass_name = change.pass_name
            self._change_of_op.clear()
        self._change_of_op.update((op, change.ordinal) for op in replaced if isinstance(op, Op))

    def _notify_after(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.notify_after(self.log.entries)


def _with_savings(change: Change, mutations: Sequence[Mutation]) -> Change:
    """The change with what moved in it; an op that came and went again was never made."""
    nodes = nbytes = 0
    for move in mutations:
        nodes, nbytes = nodes - move.node_delta, nbytes - move.byte_delta
    return replace(
        change,
        made=(*change.made, *(op.label for op in inserted_ops(mutations))),
        nodes_saved=change.nodes_saved + nodes,
        weight_bytes_saved=change.weight_bytes_saved + nbytes,
    )
