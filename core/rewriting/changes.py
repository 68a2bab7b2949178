"""A change that a run makes: who, where, and what of it is known."""

from __future__ import annotations

from dataclasses import dataclass

ChangeKey = tuple[str, str]
"""Who makes a change (a rule or pass) and where (a value that outlives it; "" for a pass as a whole)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made: `ordinal` counts from 0 over the whole run.

    Where changes are weighed, `made` are the ops that it put in, and `nodes_saved` and `weight_bytes_saved` say what
    the model became smaller by, or larger, if below zero: ops, bodies included, and bytes of constants.
    """

    ordinal: int
    pass_name: str
    by: str
    place: str
    replaced: tuple[str, ...]
    exact: bool
    made: tuple[str, ...] = ()
    nodes_saved: int = 0
    weight_bytes_saved: int = 0

    @property
    def where(self) -> str:
        """The place in words; a tool of others does all that it does as one change."""
        return f"at {self.place}" if self.place else "as a whole"
