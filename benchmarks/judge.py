"""Whether a model computes what its original does: `python benchmarks/judge.py ORIGINAL.onnx OPTIMIZED.onnx`.

passwright's own verification, whatever made the second model. Exit code 1 and one line where it does not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import onnx
from passwright.core.errors import PassesError

from passwright import verify


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", type=Path)
    parser.add_argument("optimized", type=Path)
    options = parser.parse_args()
    try:
        onnx.checker.check_model(options.optimized)
        found = verify(options.original, options.optimized)
    except (PassesError, onnx.checker.ValidationError) as e:
        sys.exit(" ".join(str(e).split())[:200])
    if not found.agrees:
        failure = found.verdict.failure if found.verdict is not None else None
        sys.exit("; ".join(found.interface_differences) or " ".join(str(failure).split())[:200])


if __name__ == "__main__":
    main()
