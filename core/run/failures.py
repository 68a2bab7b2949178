"""Failures of runs, and the changes that are rejected for them."""

from __future__ import annotations

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from ..errors import FailureKind
from ..verify.verdict import Mismatch


class RewriteFailure(Struct, frozen=True):
    """The failure of a run: its kind, a one-line message, and the mismatch if outputs differ."""

    kind: FailureKind
    message: str
    mismatch: Mismatch | None = None

    @classmethod
    def of_mismatch(cls, mismatch: Mismatch) -> Self:
        """The failure of a model that does not load, or differs from the original."""
        kind = FailureKind.REFUSED if mismatch.input_set is None else FailureKind.WRONG
        return cls(kind, str(mismatch), mismatch)


class RejectedChange(Struct, frozen=True):
    """A wrong change that was skipped: its author and place, the failure, and the inputs that show it.

    `place` is the name of a value, or "" if a pass (or rule) is excluded as a whole. `error` and `allowed` are
    absolute; `input_kind` and `input_set` describe the inputs. `condition` is the condition of the rule's contract, if
    the failure shows only beyond finite numbers.
    """

    pass_name: str
    by: str
    place: str
    failure_kind: FailureKind
    message: str
    ordinal: int | None = None
    replaced: tuple[str, ...] = ()
    output: str = ""
    error: float | None = None
    allowed: float | None = None
    input_kind: str = ""
    input_set: str = ""
    repro: str = ""
    condition: str = ""

    @classmethod
    def of(
        cls,
        failure: RewriteFailure,
        pass_name: str,
        by: str = "",
        place: str = "",
        *,
        ordinal: int | None = None,
        replaced: tuple[str, ...] = (),
    ) -> RejectedChange:
        """Make the entry for the failure of a change, or of a rule or pass as a whole, with the outputs' mismatch."""
        found = cls(pass_name, by or pass_name, place, failure.kind, failure.message, ordinal, replaced)
        if failure.mismatch is None or (shown_by := failure.mismatch.input_set) is None:
            return found
        found = replace(found, output=failure.mismatch.output, input_kind=shown_by.kind, input_set=str(shown_by))
        off = failure.mismatch.difference
        return replace(found, error=off.error, allowed=off.allowed) if off is not None and off.error else found

    @property
    def label(self) -> str:
        """The author and place."""
        who = self.by if self.by == self.pass_name else f"{self.pass_name}/{self.by}"
        number = f" #{self.ordinal}" if self.ordinal is not None else ""
        return f"{who}{number} at {self.place}" if self.place else f"{who}{number}, as a whole"

    @property
    def description(self) -> str:
        """The label and message in one line."""
        return f"{self.label}: {self.message.removeprefix(f'{self.place}: ')}"
