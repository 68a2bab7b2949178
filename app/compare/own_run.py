"""Our own run: verified as `passes run` does it, and once more without that to be timed as the others are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ...core.errors import Unverifiable
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import Report
from ...core.verify.verification_spec import Inputs
from ..environment import versions
from ..run.optimize import Result, optimize
from ..visualization.visualization import Story
from .comparison_report import OURS
from .tool_runs import Contender, timed

PROVING = ("asking the original", "comparing", "comparing and writing", "finding what broke it")


@dataclass(frozen=True, slots=True)
class Wanted:
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
class Ours:
    """The contender, and what there is to tell about its run."""

    contender: Contender
    report: Report
    story: Story | None = None
    notes: list[str] = field(default_factory=list[str])

    @classmethod
    def of(
        cls,
        model: Path,
        wanted: Wanted,
        inputs: Inputs | None,
        seed: int,
        folder: Path,
        watch: Stopwatch,
        *,
        story: bool = False,
    ) -> Self:
        """Run and write it into a new folder in `folder`. Raises what `optimize` raises, but not Unverifiable."""
        place = folder / OURS
        place.mkdir()
        made = place / f"{OURS}.onnx"
        with watch.phase("optimizing and verifying"):
            result, notes = _run(model, wanted, inputs, seed, made, story=story)
        watch.seconds["verifying"] = round(sum(result.report.seconds.get(p, 0.0) for p in PROVING), 6)
        with watch.phase("optimizing once more, timed"):
            heard = timed(OURS, model, made.with_name("timed.onnx"), place / "log", wanted.to_data())
        for left in (place / "timed.onnx", place / "timed.onnx.data"):
            left.unlink(missing_ok=True)
        notes += [f"{OURS} left out {found.label}: {found.message}" for found in result.report.quarantined]
        notes += [f"{OURS} could not be timed: {heard['failure']}"] if "failure" in heard else []
        contender = Contender(OURS, versions()[OURS], made, seconds=heard.get("seconds"))
        return cls(contender, result.report, result.story, notes)


def _run(
    model: Path, wanted: Wanted, inputs: Inputs | None, seed: int, made: Path, *, story: bool
) -> tuple[Result, list[str]]:
    """The result and what to note: a model that cannot be verified is optimized all the same."""

    def run(*, verify: bool) -> Result:
        return optimize(
            model,
            wanted.pipeline,
            wanted.plugins,
            verify,
            inputs if verify else None,
            only=wanted.only,
            skip=wanted.skip,
            enable=wanted.enable,
            seed=seed,
            output=made,
            story=story,
        )

    try:
        return run(verify=True), []
    except Unverifiable as e:
        return run(verify=False), [f"{OURS} could not verify its result: {e}"]
