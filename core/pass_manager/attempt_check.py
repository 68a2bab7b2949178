"""Looking at what a run of the pipeline left: is the graph valid, its interface kept, are its values right?"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ..errors import FailureKind, GraphError, InterfaceError, ModelError, format_error
from ..io.serialized_model import serialize
from ..verify.input_generation import InputSet
from ..verify.verdict import Mismatch
from .pass_manager import Attempt


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong with an attempt, in a word and a line; where outputs differ, how."""

    kind: FailureKind
    message: str
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class CheckedAttempt:
    """An attempt and what is wrong with it. `exact`: whether results had to be equal to the last bit."""

    attempt: Attempt
    failure: Failure | None
    exact: bool = False


Comparer = Callable[[Attempt, bool, Collection[InputSet] | None], Mismatch | None]
"""Compares the model of an attempt with the original, bit for bit if asked, on some draws or all."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How attempts are looked at: by whom, on which draws (None: all), bit for bit, after each pass, when written.

    Without a judge only what shows without running the model is found.
    """

    compare: Comparer | None = None
    input_sets: Collection[InputSet] | None = None
    exact: bool = False
    validates_graphs: bool = False
    tries_export: bool = False

    def to_reproduce(self, failed: CheckedAttempt) -> CheckOptions:
        """What suffices to see the same failure again."""
        assert failed.failure is not None
        if failed.failure.kind not in {FailureKind.WRONG, FailureKind.REFUSED}:
            return replace(self, compare=None, tries_export=True)
        mismatch = failed.failure.mismatch
        shown_by = (mismatch.input_set,) if mismatch is not None and mismatch.input_set is not None else ()
        return replace(self, input_sets=shown_by, exact=failed.exact)

    def check(self, attempt: Attempt) -> CheckedAttempt:
        """The attempt and what is wrong with it."""
        failure = static_failure(attempt, try_export=self.tries_export)
        if failure is None and self.compare is not None:
            try:
                failure = mismatch_failure(self.compare(attempt, self.exact, self.input_sets))
            except GraphError as e:  # it cannot be written
                failure = Failure(FailureKind.INVALID, str(e))
        return CheckedAttempt(attempt, failure, self.exact)


def static_failure(attempt: Attempt, *, try_export: bool = False) -> Failure | None:
    """What can be said against an attempt without running its model; writing it is tried if asked. O(V + E)."""
    if attempt.error is not None:
        return Failure(attempt.error.kind, str(attempt.error))
    try:
        attempt.model.graph.validate()
        attempt.interface.require(attempt.model)
        if try_export:
            serialize(attempt.model)
    except InterfaceError as e:
        return Failure(FailureKind.INTERFACE, str(e))
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as e:  # noqa: BLE001 - a pass may leave anything
        return Failure(FailureKind.INVALID, format_error(e))
    return None


def mismatch_failure(mismatch: Mismatch | None) -> Failure | None:
    """What a comparison with the original came to."""
    if mismatch is None:
        return None
    return Failure(FailureKind.REFUSED if mismatch.input_set is None else FailureKind.WRONG, str(mismatch), mismatch)
