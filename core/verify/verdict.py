"""How far one output is from what the original gives.

What a comparison with the original came to, as data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import VerificationError
from .input_generation import Draw


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


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first output found wrong, or a model that does not load or run.

    `output` is empty where the model fails as a whole, `draw` None where it does not load. Finite inputs are
    compared first, so a mismatch on others says that the finite ones agree.
    """

    output: str
    reason: str
    draw: Draw | None
    difference: Difference | None

    @property
    def only_nonfinite(self) -> bool:
        """Whether it shows on NaN or infinite inputs alone."""
        return self.draw is not None and not self.draw.is_finite

    def __str__(self) -> str:
        return self.told_of("the rewritten model")

    def told_of(self, model: str) -> str:
        """One line on it, with a word for the model that was compared."""
        if self.draw is None:
            return f"{model} is refused: {self.reason}"
        where = f"{self.draw} (finite inputs agree)" if self.only_nonfinite else str(self.draw)
        if not self.output:
            return f"{model} fails on {where}: {self.reason}"
        return f"{self.output}: {self.reason}, on {where}"


class Mismatched(VerificationError):
    """Raised for the first `mismatch`."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(str(mismatch))
        self.mismatch = mismatch


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared with what, and the largest difference of each output, up to the first `failure`.

    `draws` and `differences` are about finite inputs, `nonfinite_draws` and `nonfinite` about NaN and infinite ones.
    Outputs that are `random` were compared by type and rank only.
    """

    backend: str
    exact: bool
    draws: tuple[str, ...]
    differences: dict[str, Difference]
    random: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Mismatch | None = None
    nonfinite_draws: tuple[str, ...] = ()
    nonfinite: dict[str, Difference] = field(default_factory=dict[str, Difference])

    def to_data(self) -> dict[str, Any]:
        """Numbers, texts, lists and dicts, for JSON; a draw goes by its name."""
        data = asdict(replace(self, failure=None))
        if self.failure is not None:
            f = self.failure
            data["failure"] = {
                "output": f.output,
                "reason": f.reason,
                "draw": None if f.draw is None else str(f.draw),
                "difference": None if f.difference is None else asdict(f.difference),
            }
        return data
