"""Options of `tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ...core.errors import UsageError
from ...core.ort.sessions import MAX_THREADS
from ...core.verify.verification_spec import Effort
from ...passes.pipelines import PIPELINES
from ..quantize.criterion import Budget
from ..quantize.quantize_options import require_least
from ..quantize.schemes import AUTO, requested_schemes
from ..registry.python_data import data_files
from ..report.progress import Progress
from .objective import Objective

DEFAULT_PIPELINES = ("basic", "ort")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The parameters of `tune` except the model, as documented there."""

    output: str | Path | None = None
    settings_to: str | Path | None = None
    script_to: str | Path | None = None
    goal: str = "latency"
    quantile: str = "p50"
    dims: Mapping[str, Sequence[int]] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None
    inputs: Any = None
    threads: int = 0
    pipelines: Sequence[str] = DEFAULT_PIPELINES
    providers: Sequence[str] | None = None
    budget: str | None = None
    scheme: str = AUTO
    data: Any = None
    labelled: str | Path | None = None
    metric: str = ""
    seconds: float = 600.0
    trials: int = 200
    min_time: float = 1.0
    effort: Effort = "default"
    seed: int = 0
    journal: str | Path | None = None
    report_to: str | Path | None = None
    page_to: str | Path | None = None
    progress: Progress = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise UsageError for numbers and names that make no sense."""
        require_least(self)
        if self.threads > MAX_THREADS:
            raise UsageError(f"threads {self.threads}: onnxruntime gets {MAX_THREADS} at most")
        for name in self.pipelines:
            if name not in PIPELINES:
                raise UsageError(f"--pipeline {name}: choose from {', '.join(PIPELINES)}")
        if any(not sizes or min(sizes) < 1 for sizes in (self.dims or {}).values()):
            raise UsageError("dims: give sizes from 1 on")
        self._require_budget()

    def _require_budget(self) -> None:
        """Raise UsageError for options of accuracy without a budget, and for schemes that do not exist."""
        if self.budget is not None:
            Budget.parse(self.budget)
            requested_schemes(self.scheme, "", "qdq")
            return
        given = {
            "--data": self.data, "--labelled": self.labelled, "--metric": self.metric, "--scheme": self.scheme != AUTO,
        }  # fmt: skip
        for option in (name for name, value in given.items() if value):
            raise UsageError(f"{option} is for models of another accuracy: give --budget")

    @property
    def objective(self) -> Objective:
        """The figure to make small."""
        return Objective.of(self.goal, self.quantile)

    @property
    def cores(self) -> int:
        """The threads that a session may have."""
        return self.threads or psutil.cpu_count(logical=False) or psutil.cpu_count() or 1

    @property
    def schemes(self) -> list[str]:
        """The names of schemes to try, each a model; none without a budget."""
        return [] if self.budget is None else [name.strip() for name in self.scheme.split(",")]

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model."""
        return [*data_files(self.labelled), *data_files(self.data), *data_files(self.inputs)]
