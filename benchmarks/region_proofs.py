"""The share of changed regions that is proved: `python benchmarks/region_proofs.py [--pipeline NAME] [MODEL...]`.

For each golden model, one run with verification and proofs: its changed regions, how many are proved, folded weights
and how far they are rounded, the reasons for others, and the time of proving as a share of that of verification.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from statistics import median

from passwright.core.pass_manager.phase_timer import PROVING, seconds_of_verification
from passwright.core.pass_manager.report import Report

from passwright import optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))


def main() -> None:
    """Print a table, and the reasons with their number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, default=GOLDEN)
    parser.add_argument("--pipeline", default="basic")
    given = parser.parse_args()
    optimize(given.models[0], given.pipeline, prove=True)  # imports, tables of the field
    print("| model | changed regions | proved | folded weights | off by, in ulps | time / verification |")
    print("|---|---:|---:|---:|---:|---:|")
    changed: list[Report] = []
    for path in given.models:
        report = optimize(path, given.pipeline, prove=True).report
        if report.proofs is not None and report.proofs.changed:
            changed.append(report)
            print(row(path.stem, report), flush=True)
    proofs = [report.proofs for report in changed if report.proofs is not None]
    proved = sum(sum(p.proved.values()) for p in proofs)
    shares = [share_of_time(report) for report in changed]
    print(f"\n{proved} of {sum(p.changed for p in proofs)} changed regions of {len(proofs)} models are proved.")
    print(f"The median time is {median(shares):.2f} of that of verification, the largest {max(shares):.2f}.\n")
    reasons = sum((Counter(p.reasons) for p in proofs), Counter[str]())
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")


def row(name: str, report: Report) -> str:
    """The line of a model in the table."""
    proofs = report.proofs
    assert proofs is not None
    weights = (proofs.rounded_weights, f"{proofs.ulps:.2f}") if proofs.rounded_weights else ("", "")
    cells = (name, proofs.changed, sum(proofs.proved.values()), *weights, f"{share_of_time(report):.2f}")
    return f"| {' | '.join(map(str, cells))} |"


def share_of_time(report: Report) -> float:
    """The time of proving as a share of that of verification."""
    return report.seconds[PROVING] / seconds_of_verification(report.seconds)


if __name__ == "__main__":
    main()
