"""One run of one tool on one model, in a process of its own: `python benchmarks/measure.py TOOL MODEL RESULT.json`."""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import onnx
from counting import live_nodes

Optimize = Callable[[str], onnx.ModelProto]

# Each function imports all that its tool needs, also what the tool itself would import late.


def passwright() -> Optimize:
    import onnxruntime  # noqa: F401 - for constant folding
    from passwright.passes import optimize

    return lambda path: optimize(path, verify=False).model


def onnxsim() -> Optimize:
    import onnxruntime  # noqa: F401 - for constant folding
    from onnxsim import simplify

    return lambda path: simplify(path)[0]


def onnxslim() -> Optimize:
    import onnxruntime  # noqa: F401 - for constant folding
    import sympy  # noqa: F401 - for symbolic shapes
    from onnxslim import slim

    def optimize(path: str) -> onnx.ModelProto:
        model = slim(path)
        assert isinstance(model, onnx.ModelProto)
        return model

    return optimize


def onnxscript() -> Optimize:
    from onnxscript import optimizer

    return lambda path: optimizer.optimize(onnx.load(path))


def onnxoptimizer() -> Optimize:
    from onnxoptimizer import optimize

    return lambda path: optimize(onnx.load(path))


def ort_basic() -> Optimize:
    """onnxruntime's own optimizers at the level of standard operators, saved offline."""
    import onnxruntime

    def optimize(path: str) -> onnx.ModelProto:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 3
        with TemporaryDirectory() as folder:
            options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return onnx.load(options.optimized_model_filepath)

    return optimize


FUNCTIONS = (passwright, onnxsim, onnxslim, onnxoptimizer, onnxscript, ort_basic)
TOOLS: dict[str, Callable[[], Optimize]] = {f.__name__: f for f in FUNCTIONS}


def peak_bytes() -> int:
    """The most memory this process had. It starts with that of its parent, which must be small (getrusage(2))."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("model", type=Path)
    parser.add_argument("result", type=Path, help="where to write the figures, as JSON")
    parser.add_argument("--save", type=Path, help="where to write the optimized model")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    start = perf_counter()
    optimize = TOOLS[options.tool]()
    ready = perf_counter()
    model = optimize(str(options.model))
    done = perf_counter()
    figures = {
        "seconds": done - ready,
        "import_seconds": ready - start,
        "peak_bytes": peak_bytes(),
        "nodes": live_nodes(model),
        "original_nodes": live_nodes(onnx.load(options.model, load_external_data=False)),
    }
    if options.save:
        onnx.save(model, options.save)
    options.result.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
