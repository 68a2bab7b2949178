"""Verdicts of comparisons of a model with the original, and the differences found."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from ..errors import OUT_OF_MEMORY, VerificationError
from .input_sets import InputSet

HALF_IN_SINGLE = "onnxruntime computes most ops of 16-bit floats in 32 bits on a CPU"
UNSEEN_OVERFLOW = f"{HALF_IN_SINGLE}, so what overflows only in 16 bits is not seen"
LARGE_INPUT = 1e9
"""The magnitude of inputs above which a mismatch names it."""


class OutputDifference(Struct, frozen=True):
    """The largest absolute `error` of an output and the `allowed` error; `reason` is set if the error is larger.

    For integers, bools and strings, `error` counts the wrong elements. `relative` and `ulps` are the largest relative
    error and distance in units in the last place; `noise_floor` is the change of the original itself under
    perturbation, None if it was not computed. `excused` elements differ, and jump in the original too; a verdict counts
    them over all input sets. `magnitude`: of the largest expected element, for floats. All numbers are finite.
    """

    error: float = 0.0
    allowed: float = 0.0
    reason: str = ""
    relative: float | None = None
    ulps: float | None = None
    noise_floor: float | None = None
    excused: int = 0
    magnitude: float | None = None

    @property
    def share_of_allowed(self) -> float:
        """The error divided by the allowed error."""
        return self.error / self.allowed if self.allowed else float(self.error > 0)

    def to_data(self) -> dict[str, Any]:
        """The difference as data for JSON."""
        return to_builtins(self) | {"share_of_allowed": self.share_of_allowed}

    def worse(self, other: OutputDifference) -> OutputDifference:
        """The one with the larger share of its allowed error, with the excused elements of both."""
        worst = max(self, other, key=lambda d: (bool(d.reason), d.share_of_allowed))
        excused = self.excused + other.excused
        return worst if worst.excused == excused else replace(worst, excused=excused)


class Mismatch(Struct, frozen=True):
    """The first wrong output, or a model that does not load or run.

    `output` is empty if the model does not run; `input_set` is None if it does not load. Finite inputs are compared
    first, so a mismatch on non-finite ones implies that finite ones agree. `cut_point` is the first value that the
    model computes wrongly from values of the original, "" if it is not known, and `region` has the names of everything
    between these and the cut point in either model. Without a wrong output, `output` is the cut point. `is_gain`: all
    elements that differ are finite, and not finite in the original. `magnitude`: of the largest finite input.
    """

    output: str
    reason: str
    input_set: InputSet | None
    difference: OutputDifference | None
    cut_point: str = ""
    region: frozenset[str] = frozenset()
    is_gain: bool = False
    magnitude: float = 0.0

    @property
    def lacks_memory(self) -> bool:
        """Whether the model does not load or run because memory ran out."""
        return self.reason.endswith(OUT_OF_MEMORY)

    @property
    def is_outside_finite(self) -> bool:
        """Whether an output differs only on NaN or infinite inputs, or where it is not finite in the original."""
        return bool(self.output) and (self.is_nonfinite_only or self.is_gain)

    @property
    def is_nonfinite_only(self) -> bool:
        """Whether it occurs only on NaN or infinite inputs."""
        return self.input_set is not None and not self.input_set.is_finite

    def __str__(self) -> str:
        return self.describe("the rewritten model")

    def describe(self, model_label: str) -> str:
        """The mismatch in one line, with a label for the model that was compared."""
        if self.input_set is None:
            return f"{model_label} does not load: {self.reason}"
        where = str(self.input_set)
        if self.magnitude >= LARGE_INPUT:
            where += f" {'and' if self.input_set.sizes else 'with'} numbers up to {self.magnitude:.1e}"
        where += " (finite inputs agree)" * self.is_nonfinite_only
        if not self.output:
            return f"{model_label} fails on {where}: {self.reason}"
        return f"{self.output}: {self.reason}, on {where}"


class MismatchError(VerificationError):
    """Raised for the first `mismatch`."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(str(mismatch))
        self.mismatch = mismatch


class Verdict(Struct, frozen=True):
    """The result of a comparison: input sets and the largest difference of each output, up to the first `failure`.

    `input_sets` and `differences` are for finite inputs, `nonfinite_input_sets` and `nonfinite_differences` for NaN and
    infinite ones. `sizes` has all sizes of each symbolic dim in these sets. Outputs that are `random` were compared
    only by type and rank. `changed_regions` counts the regions that were compared on the original's values, on finite
    inputs. On `excused_sets` input sets, outputs differ outside finite numbers as `conditions` of the model permit. An
    engine may be right only within `limits`, such as "no size is 0"; the `excused_sets` are then beyond them.
    """

    backend: str
    exact: bool
    input_sets: tuple[str, ...]
    differences: dict[str, OutputDifference]
    random: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Mismatch | None = None
    nonfinite_input_sets: tuple[str, ...] = ()
    nonfinite_differences: dict[str, OutputDifference] = field(default_factory=dict[str, OutputDifference])
    changed_regions: int = 0
    sizes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    excused_sets: int = 0
    conditions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether no difference was found."""
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"wrong: {self.failure}"
        agreement = "bit-identical" if self.exact else "within tolerance"
        return f"verified: {agreement}, on {len(self.input_sets)} sets of inputs"

    def __repr__(self) -> str:
        return f"<Verdict: {self}>"

    def to_data(self) -> dict[str, Any]:
        """The verdict as data for JSON; an input set is given by its name."""
        data = to_builtins(replace(self, failure=None))
        for kind in ("differences", "nonfinite_differences"):
            found: dict[str, OutputDifference] = getattr(self, kind)
            data[kind] = {name: d.to_data() for name, d in found.items()}
        if self.failure is not None:
            f = self.failure
            data["failure"] = {
                "output": f.output,
                "site": f.cut_point,
                "reason": f.reason,
                "input_set": None if f.input_set is None else str(f.input_set),
                "difference": None if f.difference is None else f.difference.to_data(),
            }
        return data
