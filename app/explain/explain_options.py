"""Options of `explain`."""

from __future__ import annotations

from dataclasses import dataclass

from ..optimize.run_options import RewriteOptions
from ..options import TargetOptions, option


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(TargetOptions, RewriteOptions):
    """The parameters of `explain` except the model and the name, as documented there."""

    as_is: bool = option(False, "Match in the model as loaded, not in the result of the pipeline.")
    at: str = option("", "Explain only this node, or the producer of this value.", "NAME")
    limit: int = option(10, "List at most N nodes of each kind.", "N", least=0, is_own=True)
