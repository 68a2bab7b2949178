"""Checks of an attempt: validity of the graph, interface, and values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ..errors import FailureKind, GraphError, InterfaceError, ModelError, format_error
from ..io.model import serialize
from ..verify.input_generation import InputSet
from ..verify.verdict import Mismatch
from .pass_manager import Attempt


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an attempt: its kind, a one-line message, and the mismatch if outputs differ."""

    kind: FailureKind
    message: str
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class CheckedAttempt:
    """An attempt and its failure, if any. `exact`: whether outputs had to be bit-identical."""

    attempt: Attempt
    failure: Failure | None
    exact: bool = False


Comparer = Callable[[Attempt, bool, Collection[InputSet] | None], Mismatch | None]
"""Compares the model of an attempt with the original, bit for bit if the flag is set, on some input sets or all."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of the check of attempts: the comparer, input sets (None: all), exactness, further static checks.

    Without a comparer, only failures that show without running the model are found. `validates_graphs`: after each
    pass. `tries_export`: the model is serialized too.
    """

    compare: Comparer | None = None
    input_sets: Collection[InputSet] | None = None
    exact: bool = False
    validates_graphs: bool = False
    tries_export: bool = False

    def to_reproduce(self, failed: CheckedAttempt) -> CheckOptions:
        """The options that suffice to reproduce the failure of `failed`."""
        assert failed.failure is not None
        if failed.failure.kind not in {FailureKind.WRONG, FailureKind.REFUSED}:
            return replace(self, compare=None, tries_export=True)
        mismatch = failed.failure.mismatch
        shown_by = (mismatch.input_set,) if mismatch is not None and mismatch.input_set is not None else ()
        return replace(self, input_sets=shown_by, exact=failed.exact)

    def check(self, attempt: Attempt) -> CheckedAttempt:
        """Check an attempt."""
        failure = static_failure(attempt, try_export=self.tries_export)
        if failure is None and self.compare is not None:
            try:
                failure = mismatch_failure(self.compare(attempt, self.exact, self.input_sets))
            except GraphError as e:  # it cannot be written
                failure = Failure(FailureKind.INVALID, str(e))
        return CheckedAttempt(attempt, failure, self.exact)


def static_failure(attempt: Attempt, *, try_export: bool = False) -> Failure | None:
    """The failure of an attempt that shows without running its model, with `try_export` in export too. O(V + E)."""
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
    """The failure that a mismatch with the original is."""
    if mismatch is None:
        return None
    return Failure(FailureKind.REFUSED if mismatch.input_set is None else FailureKind.WRONG, str(mismatch), mismatch)
