"""Verdict on an optimized model: `python benchmarks/verdicts.py ORIGINAL.onnx OPTIMIZED.onnx VERDICT.json`.

The verdict has three independent parts, each a line of text or empty: `wrong`, how values differ beyond tolerance by
passwright's own verification; `interface`, how inputs and outputs differ, in which case values are not compared; and
`invalid`, the objection of the ONNX checker. `refused` excludes the others: no runtime loads the optimized model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import onnx
from passwright.core.errors import PassesError

from passwright import verify


def one_line(text: object) -> str:
    return " ".join(str(text).split())[:200]


def checker_objection(model: Path) -> str:
    """The objection of the ONNX checker, in a line; empty if there is none."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as e:
        return one_line(e)
    return ""


def differences(original: Path, optimized: Path) -> dict[str, str]:
    """The parts `wrong` and `interface` of the verdict, or `refused`."""
    try:
        found = verify(original, optimized)
    except PassesError as e:
        return {"refused": one_line(e)}
    failure = found.verdict.failure if found.verdict is not None else None
    if failure is not None and failure.input_set is None:
        return {"refused": one_line(failure)}
    return {"wrong": one_line(failure or ""), "interface": one_line("; ".join(found.interface_differences))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", type=Path)
    parser.add_argument("optimized", type=Path)
    parser.add_argument("verdict", type=Path, help="where to write the verdict, as JSON")
    options = parser.parse_args()
    verdict = differences(options.original, options.optimized) | {"invalid": checker_objection(options.optimized)}
    options.verdict.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
