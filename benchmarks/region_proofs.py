"""The share of changed regions that is proved: `python benchmarks/region_proofs.py [--pipeline NAME] [MODEL...]`.

For each golden model, one run with verification and proofs: its changed regions, how many are proved, folded weights
and how far they are rounded, the reasons for others, and the CPU seconds of verification and of proofs, of this process
and those that it started.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from passwright.core.processes.process_limits import IDLE_THREADS
from passwright.core.run.phase_timer import PROVING, SHOWN_NAMES, VERIFICATION_PHASES
from passwright.core.verify.proof_guarantees import ProofCounts

from passwright import optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
VERIFYING = {SHOWN_NAMES.get(phase, phase) for phase in VERIFICATION_PHASES}


@dataclass(slots=True)
class CpuTimes:
    """CPU seconds of verification and of proofs: of this process by phase, which a run reports to it.

    Those of other processes are of verification, whose runs of the original begin before its phases, or of proofs.
    """

    verifying: float = 0.0
    proving: float = 0.0
    phase: str = ""
    _last: dict[int, float] = field(default_factory=dict[int, float])

    def __call__(self, text: str) -> None:
        """Add the seconds since the last report to those of its phase."""
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            seconds = times.user + times.system
            spent = seconds - self._last.get(process.pid, seconds if not self.phase else 0.0)
            self._last[process.pid] = seconds
            if self.phase == PROVING:
                self.proving += spent
            elif self.phase in VERIFYING or process.pid != own.pid:
                self.verifying += spent
        self.phase = text.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Row:
    """The proofs of one model, with the CPU seconds of them and of verification."""

    name: str
    proofs: ProofCounts
    proving: float
    verifying: float

    @property
    def proved(self) -> int:
        """The number of regions that are proved."""
        return sum(self.proofs.proved.values())

    def __str__(self) -> str:
        proofs = self.proofs
        weights = (proofs.rounded_weights, f"{proofs.ulps:.2f}") if proofs.rounded_weights else ("", "")
        seconds = (f"{self.verifying:.2f}", f"{self.proving:.2f}", f"{self.proving / self.verifying:.1f}")
        cells = (f"`{self.name}`", f"{self.proved} of {proofs.changed}", *weights, *seconds)
        return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print a table, and the reasons with their number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, default=GOLDEN)
    parser.add_argument("--pipeline", default="basic")
    given = parser.parse_args()
    os.environ.update(IDLE_THREADS)  # as the command does
    optimize(given.models[0], given.pipeline, prove=True)  # imports, tables of the field
    print("| model | proved | folded weights | off by, in ulps | verification, s | proofs, s | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    rows: list[Row] = []
    for path in given.models:
        times = CpuTimes()
        times("loading")
        report = optimize(path, given.pipeline, prove=True, progress=times).report
        times("")
        if report.proofs is not None and report.proofs.changed:
            rows.append(Row(path.stem, report.proofs, times.proving, times.verifying))
            print(rows[-1], flush=True)
    print_summary(rows)


def print_summary(rows: list[Row]) -> None:
    """Print sums, ratios and reasons."""
    changed = sum(r.proofs.changed for r in rows)
    ratios = [r.proving / r.verifying for r in rows]
    total = sum(r.proving for r in rows) / sum(r.verifying for r in rows)
    print(f"\n{sum(r.proved for r in rows)} of {changed} changed regions of {len(rows)} models are proved.")
    print(f"Proofs take {total:.2f} times the CPU time of verification, {median(ratios):.2f} in the median model.\n")
    reasons = sum((Counter(r.proofs.reasons) for r in rows), Counter[str]())
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")


if __name__ == "__main__":
    main()
