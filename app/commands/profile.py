"""`passes profile`: the time of each node, before and after optimization."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..cli.parameters import Model
from ..cli.report_output import report_on
from ..options import option
from ..profile.profile_options import ProfileOptions

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin, or onnxruntime cannot run it; 2 usage error; 4
could not be verified."""
EXAMPLES = {
    "passes profile model.onnx": "lists the slowest nodes",
    "passes profile model.onnx --html p.html": "writes a page with charts",
}


@dataclass(frozen=True, kw_only=True)
class ProfileDisplayOptions:
    """The length of the printed list."""

    limit: int = option(15, "List at most N nodes of each model.", "N", least=0, is_own=True)


def profile(model: Model, options: ProfileOptions, shown: ProfileDisplayOptions) -> None:
    """Show the time of each op in onnxruntime, before and after optimization; writes no model."""
    from ..profile.document import describe  # noqa: PLC0415 - imports onnx
    from ..profile.profile import profile_model  # noqa: PLC0415 - imports onnx and numpy

    report_on(options, lambda o: profile_model(model, o), partial(describe, limit=shown.limit))
