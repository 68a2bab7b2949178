"""Looking at what a run of the pipeline left: is the graph valid, its interface kept, are its values right?"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ..errors import GraphError, InterfaceError, ModelError, Why, told
from ..io.serialized_model import export
from ..verify.input_generation import Draw
from ..verify.verdict import Mismatch
from .pass_manager import Attempt


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong with an attempt, in a word and a line; where outputs differ, how."""

    why: Why
    message: str
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """An attempt and what is wrong with it. `bits`: whether results had to be equal to the last bit."""

    attempt: Attempt
    failure: Failure | None
    bits: bool = False


Judge = Callable[[Attempt, bool, Collection[Draw] | None], Mismatch | None]
"""Compares the model of an attempt with the original, bit for bit if asked, on some draws or all."""


@dataclass(frozen=True, slots=True)
class Look:
    """How attempts are looked at: by whom, on which draws (None: all), bit for bit, after each pass, when written.

    Without a judge only what shows without running the model is found.
    """

    judge: Judge | None = None
    on: Collection[Draw] | None = None
    bits: bool = False
    careful: bool = False
    exports: bool = False

    def like(self, failed: Trial) -> Look:
        """What suffices to see the same failure again."""
        assert failed.failure is not None
        if failed.failure.why not in {Why.WRONG, Why.REFUSED}:
            return replace(self, judge=None, exports=True)
        mismatch = failed.failure.mismatch
        shown_by = (mismatch.draw,) if mismatch is not None and mismatch.draw is not None else ()
        return replace(self, on=shown_by, bits=failed.bits)

    def at(self, attempt: Attempt) -> Trial:
        """The attempt and what is wrong with it."""
        failure = fault(attempt, exports=self.exports)
        if failure is None and self.judge is not None:
            try:
                failure = difference(self.judge(attempt, self.bits, self.on))
            except GraphError as e:  # it cannot be written
                failure = Failure(Why.INVALID, str(e))
        return Trial(attempt, failure, self.bits)


def fault(attempt: Attempt, *, exports: bool = False) -> Failure | None:
    """What can be said against an attempt without running its model; writing it is tried if asked. O(V + E)."""
    if attempt.failed is not None:
        return Failure(attempt.failed.why, str(attempt.failed))
    try:
        attempt.model.graph.validate()
        attempt.interface.require(attempt.model)
        if exports:
            export(attempt.model)
    except InterfaceError as e:
        return Failure(Why.INTERFACE, str(e))
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as e:  # noqa: BLE001 - a pass may leave anything
        return Failure(Why.INVALID, told(e))
    return None


def difference(mismatch: Mismatch | None) -> Failure | None:
    """What a comparison with the original came to."""
    if mismatch is None:
        return None
    return Failure(Why.REFUSED if mismatch.draw is None else Why.WRONG, str(mismatch), mismatch)
