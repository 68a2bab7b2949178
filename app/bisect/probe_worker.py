"""The process that onnxruntime may crash: `python -m <this module> FOLDER` answers probes, a line of JSON each.

A probe is a Setting. While it runs, the answer grows by a line for each draw begun; its last line is what failed,
or null. child.py beside it is the other end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...core.errors import EvaluationError, ModelLoadError
from ...core.ort.backends import OnnxRuntime
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import serve
from ...core.verify.output_comparison import compare_outputs
from .probe_process import ComparisonCase, read_case


def probe_replies(case: ComparisonCase, config: SessionConfig) -> Iterator[dict[str, str | None]]:
    """The draws in turn, then the first failure."""
    try:
        suspect = OnnxRuntime(case.model, config)
        for label, feeds, wanted in case.answers():
            yield {"draw": label}
            results = dict(zip(case.output_names, suspect.run(case.output_names, feeds), strict=True))
            if failure := _first_difference(case, wanted, results):
                yield {"failure": failure}
                return
    except ModelLoadError as e:
        yield {"failure": str(e), "draw": None}
    except EvaluationError as e:
        yield {"failure": str(e)}
    else:
        yield {"failure": None}


def _first_difference(case: ComparisonCase, expected: dict[str, Any], results: dict[str, Any]) -> str:
    """The first output that is wrong, and how; empty if none is."""
    for name, got in results.items():
        found = compare_outputs(expected[name], got, exact=False, compare_values=name not in case.random_outputs)
        if found.reason:
            return f"{name}: {found.reason}"
    return ""


def serve_probes(folder: Path) -> None:
    """Answer what comes on standard input, until it ends."""
    case = read_case(folder)
    serve(lambda probe: probe_replies(case, SessionConfig(**probe)))


if __name__ == "__main__":
    serve_probes(Path(sys.argv[1]))
