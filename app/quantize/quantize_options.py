"""Options of `quantize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.plugins.pass_registry import python_file
from ..optimize.run_options import plugin_files
from ..registry.pass_sources import PluginLike
from ..registry.python_data import data_files
from ..report.progress import Progress

LEAST = {"trials": 1, "seconds": 0, "threads": 0, "min_time": 0.01, "seed": 0}
"""The least numbers of options of a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationOptions:
    """The parameters of `quantize` except the model, as documented there."""

    output: str | Path | None = None
    data: Any = None
    labelled: str | Path | None = None
    metric: str = ""
    scheme: str = "auto"
    format: str = "qdq"
    budget: str = "1%"
    calibrate: str = ""
    target: str = ""
    leave: str | Sequence[str] = ()
    plugins: Sequence[PluginLike] = ()
    trials: int = 60
    seconds: float = 1800.0
    threads: int = 0
    min_time: float = 1.0
    batches: Sequence[int] = (1,)
    seed: int = 0
    report_to: str | Path | None = None
    page_to: str | Path | None = None
    op_errors: bool = False
    journal: str | Path | None = None
    progress: Progress = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise UsageError for numbers that make no sense."""
        require_least(self)
        if not self.batches or min(self.batches) < 1:
            raise UsageError(f"batches {list(self.batches)}: give sizes from 1 on")

    @property
    def excluded_names(self) -> Sequence[str]:
        """`leave` as a sequence, one name or several."""
        return (self.leave,) if isinstance(self.leave, str) else self.leave

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model."""
        metric = python_file(self.metric)
        files = [*data_files(self.labelled), *data_files(self.data), *plugin_files(self.plugins)]
        return files if metric is None else [*files, metric]


def require_least(options: object) -> None:
    """Raise UsageError for a number that is less than in LEAST."""
    for name, bound in LEAST.items():
        if not getattr(options, name) >= bound:
            raise UsageError(f"{name} {getattr(options, name)}: it has to be {bound} or more")
