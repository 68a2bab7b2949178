"""Our own run: verified as `passes run` does it, and once more without that to be timed as the others are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ...core.errors import UnverifiableError
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import Report
from ..environment import versions
from ..run.optimize import Result, run_pipeline
from ..run.run_options import RunOptions
from ..visualization.visualization import Visualization
from .comparison_report import OURS
from .tool_runs import OptimizerOutput, run_timed

VERIFICATION_PHASES = ("asking the original", "comparing", "comparing and writing", "finding what broke it")


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The contender, and what there is to tell about its run."""

    output: OptimizerOutput
    report: Report
    visualization: Visualization | None = None
    notes: list[str] = field(default_factory=list[str])

    @classmethod
    def run(cls, model: Path, options: RunOptions, folder: Path, timer: PhaseTimer) -> Self:
        """Run and write it into a new folder in `folder`. Raises what `optimize` raises, but not UnverifiableError."""
        place = folder / OURS
        place.mkdir()
        made = place / f"{OURS}.onnx"
        with timer.phase("optimizing and verifying"):
            result, notes = _optimize(model, replace(options, output=made))
        timer.seconds["verifying"] = round(sum(result.report.seconds.get(p, 0.0) for p in VERIFICATION_PHASES), 6)
        with timer.phase("optimizing once more, timed"):
            heard = run_timed(OURS, model, made.with_name("timed.onnx"), place / "log", _timed_options(options))
        for left in (place / "timed.onnx", place / "timed.onnx.data"):
            left.unlink(missing_ok=True)
        notes += [f"{OURS} left out {found.label}: {found.message}" for found in result.report.quarantined]
        notes += [f"{OURS} could not be timed: {heard['failure']}"] if "failure" in heard else []
        contender = OptimizerOutput(OURS, versions()[OURS], made, seconds=heard.get("seconds"))
        return cls(contender, result.report, result.visualization, notes)


def _timed_options(options: RunOptions) -> dict[str, Any]:
    """The options that change the optimized model, as JSON."""
    return {
        "pipeline": options.pipeline,
        "plugins": [str(p) for p in options.plugins],
        "only": list(options.only),
        "skip": list(options.skip),
        "enable": list(options.enable),
    }


def _optimize(model: Path, options: RunOptions) -> tuple[Result, list[str]]:
    """The result and notes on it; a model that cannot be verified is optimized all the same."""
    try:
        return run_pipeline(model, options), []
    except UnverifiableError as e:
        unverified = run_pipeline(model, replace(options, verify=False, inputs=None))
        return unverified, [f"{OURS} could not verify its result: {e}"]
