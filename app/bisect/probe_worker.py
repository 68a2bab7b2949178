"""Worker of probe_process, which onnxruntime may crash: `python -m <this module> FOLDER`.

A request is a SessionConfig. The reply grows by a part for each input set begun; its failure is the first difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...core.errors import EvaluationError
from ...core.ort.backends import OnnxRuntime
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import serve
from ...core.verify.output_comparison import compare_outputs
from .probe_process import ComparisonCase, read_case


def probe_parts(case: ComparisonCase, config: SessionConfig) -> Iterator[dict[str, str]]:
    """The input sets in turn. Raises EvaluationError for the first failure."""
    suspect = OnnxRuntime(case.model, config)
    for label, feeds, expected in case.answers():
        yield {"draw": label}
        results = dict(zip(case.output_names, suspect.run(case.output_names, feeds), strict=True))
        if failure := _first_difference(case, expected, results):
            raise EvaluationError(failure)


def _first_difference(case: ComparisonCase, expected: dict[str, Any], results: dict[str, Any]) -> str:
    """The first output that is wrong, and how; empty if none is."""
    for name, got in results.items():
        found = compare_outputs(expected[name], got, exact=False, compare_values=name not in case.random_outputs)
        if found.reason:
            return f"{name}: {found.reason}"
    return ""


def serve_probes(folder: Path) -> None:
    """Reply to requests, until the input ends."""
    case = read_case(folder)
    serve(lambda request: probe_parts(case, SessionConfig(**request)), (EvaluationError,))


if __name__ == "__main__":
    serve_probes(Path(sys.argv[1]))
