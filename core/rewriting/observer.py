"""Who looks at the graph while a run changes it, just before each change and just after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from ..ir.mutation_log import Move
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change


class Witness(Protocol):
    """Sees each change that is made, and must leave the graph as it is: nothing may be inferred either.

    `moves` are those of the change, as far as they are known: an op that came may have gone again.
    """

    def before(self, change: Change, replaced: Sequence[Op | Value], moves: Sequence[Move]) -> None:
        """The graph is as the change finds it, but for the `moves`: what was built for it, and is read by nothing yet.

        Of a pass that changes graphs without asking, they are all that it did.
        """
        ...

    def after(self, change: Change, moves: Sequence[Move]) -> None:
        """The graph is as the change left it. What a pass tidies up at its end may still be there."""
        ...


@dataclass(slots=True)
class Watch:
    """Calls a witness at the right times. `seconds` is what that took, `failure` what first kept it from looking."""

    witness: Witness
    seconds: float = 0.0
    failure: Exception | None = None
    _open: Change | None = None  # the change that is being made

    def begin(self, change: Change, replaced: Sequence[Op | Value], moves: Sequence[Move]) -> None:
        """A change is about to be made."""
        self._open = change
        self._call(lambda: self.witness.before(change, replaced, moves))

    def end(self, moves: Sequence[Move]) -> None:
        """The next one is begun: the last is made, if it has not been said yet."""
        if self._open is None:
            return
        change, self._open = self._open, None
        self._call(lambda: self.witness.after(change, moves))

    def _call(self, look: Callable[[], None]) -> None:
        start = perf_counter()
        try:
            look()
        except Exception as e:  # noqa: BLE001 - no pass is to be blamed for it
            self.failure = self.failure or e
        self.seconds += perf_counter() - start


def came(moves: Iterable[Move]) -> list[Op]:
    """The ops that came and did not go again, in order."""
    there: dict[Op, None] = {}
    for move in moves:
        if move.op is not None and move.nodes > 0:
            there[move.op] = None
        elif move.op is not None:
            there.pop(move.op, None)
    return list(there)


def went(moves: Iterable[Move]) -> list[Op]:
    """The ops that were there before and went, in order."""
    moves = list(moves)
    own = {move.op for move in moves if move.nodes > 0}
    return [move.op for move in moves if move.op is not None and move.nodes < 0 and move.op not in own]
