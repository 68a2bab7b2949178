"""How far one output is from what the original gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest absolute `error` of an output and what was `allowed`; `reason` is set where that is too much.

    Of integers, bools and strings, `error` counts the wrong elements. `relative` and `ulps` are the largest
    relative error and distance in units in the last place; `floor` is how far the original itself moves, None
    where nobody asked. `excused` elements differ, and jump in the original too. `magnitude` is that of the largest
    element that is wanted, for floats. All numbers are finite.
    """

    error: float = 0.0
    allowed: float = 0.0
    reason: str = ""
    relative: float | None = None
    ulps: float | None = None
    floor: float | None = None
    excused: int = 0
    magnitude: float | None = None

    @property
    def share(self) -> float:
        """Error in parts of what is allowed."""
        return self.error / self.allowed if self.allowed else float(self.error > 0)
