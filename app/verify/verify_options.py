"""Options of `verify`."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.verify.effort import Effort
from ..options import (
    EFFORTS,
    InputOptions,
    LimitOptions,
    ReportOptions,
    SeedOptions,
    ShapeOptions,
    parse_effort,
    verification_option,
)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(LimitOptions, SeedOptions, ShapeOptions, InputOptions, ReportOptions):
    """The parameters of `verify` except the models, as documented there."""

    exact: bool = verification_option(False, "Require bit-identical outputs.", is_own=True)
    effort: Effort = verification_option(
        "default",
        "Effort of verification: quick, default or thorough.",
        "CHOICE",
        parse=parse_effort,
        completes=(EFFORTS,),
    )
    prove: bool = verification_option(False, "Prove the regions in which the models differ, too.", is_own=True)
