"""Our own run: verified as `passes run` does it, and once more without that to be timed as the others are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ...core.errors import UnverifiableError
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import Report
from ...core.verify.verification_spec import Inputs
from ..environment import versions
from ..run.optimize import Result, optimize
from ..visualization.visualization import Visualization
from .comparison_report import OURS
from .tool_runs import OptimizerOutput, run_timed

VERIFICATION_PHASES = ("asking the original", "comparing", "comparing and writing", "finding what broke it")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the run is asked for, in the words of `optimize`."""

    pipeline: str = "basic"
    plugins: Sequence[str | Path] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    enable: Sequence[str] = ()

    def to_data(self) -> dict[str, Any]:
        """For another process."""
        return {
            "pipeline": self.pipeline,
            "plugins": [str(p) for p in self.plugins],
            "only": list(self.only),
            "skip": list(self.skip),
            "enable": list(self.enable),
        }


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The contender, and what there is to tell about its run."""

    output: OptimizerOutput
    report: Report
    visualization: Visualization | None = None
    notes: list[str] = field(default_factory=list[str])

    @classmethod
    def run(
        cls,
        model: Path,
        options: RunOptions,
        inputs: Inputs | None,
        seed: int,
        folder: Path,
        timer: PhaseTimer,
        *,
        visualize: bool = False,
    ) -> Self:
        """Run and write it into a new folder in `folder`. Raises what `optimize` raises, but not UnverifiableError."""
        place = folder / OURS
        place.mkdir()
        made = place / f"{OURS}.onnx"
        with timer.phase("optimizing and verifying"):
            result, notes = _optimize(model, options, inputs, seed, made, visualize=visualize)
        timer.seconds["verifying"] = round(sum(result.report.seconds.get(p, 0.0) for p in VERIFICATION_PHASES), 6)
        with timer.phase("optimizing once more, timed"):
            heard = run_timed(OURS, model, made.with_name("timed.onnx"), place / "log", options.to_data())
        for left in (place / "timed.onnx", place / "timed.onnx.data"):
            left.unlink(missing_ok=True)
        notes += [f"{OURS} left out {found.label}: {found.message}" for found in result.report.quarantined]
        notes += [f"{OURS} could not be timed: {heard['failure']}"] if "failure" in heard else []
        contender = OptimizerOutput(OURS, versions()[OURS], made, seconds=heard.get("seconds"))
        return cls(contender, result.report, result.visualization, notes)


def _optimize(
    model: Path, options: RunOptions, inputs: Inputs | None, seed: int, destination: Path, *, visualize: bool
) -> tuple[Result, list[str]]:
    """The result and what to note: a model that cannot be verified is optimized all the same."""

    def run(*, verify: bool) -> Result:
        return optimize(
            model,
            options.pipeline,
            options.plugins,
            verify,
            inputs if verify else None,
            only=options.only,
            skip=options.skip,
            enable=options.enable,
            seed=seed,
            output=destination,
            visualize=visualize,
        )

    try:
        return run(verify=True), []
    except UnverifiableError as e:
        return run(verify=False), [f"{OURS} could not verify its result: {e}"]
