"""Options of `diff`."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import PageOptions, ReportOptions, option


@dataclass(frozen=True, kw_only=True)
class DiffOptions(PageOptions, ReportOptions):
    """The parameters of `diff` except the models, as documented there."""

    include_names: bool = option(
        False, "Also report differences in names, doc strings, metadata of nodes and positions of constants."
    )
