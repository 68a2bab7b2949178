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

Optimize = Callable[[str], onnx.ModelProto]


def passwright_optimizer() -> Optimize:
    """passwright, with the modules imported that it would import later."""
    from passwright import optimize

    # isort: split
    import onnxruntime  # noqa: F401 - for constant folding; after passwright, which turns its telemetry off

    return lambda path: optimize(path, verify=False).model


def peer_optimizer(name: str) -> Callable[[], Optimize]:
    """An optimizer as `passes compare` calls it; files that it writes are read again."""

    def prepared() -> Optimize:
        from passwright.app.registry.tool_functions import FILE_OPTIMIZERS

        tool = FILE_OPTIMIZERS[name]()

        def optimize(path: str) -> onnx.ModelProto:
            with TemporaryDirectory() as folder:
                destination = Path(folder) / "optimized.onnx"
                made = tool(Path(path), destination)
                return onnx.load(destination) if made is None else made

        return optimize

    return prepared


PEERS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript")
TOOLS: dict[str, Callable[[], Optimize]] = {
    "passwright": passwright_optimizer,
    **{name: peer_optimizer(name) for name in PEERS},
    "ort_basic": peer_optimizer("ort-basic"),
}  # fmt: skip


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
    peak = peak_bytes()
    from counting import count_live_nodes  # late: it imports passwright

    figures = {
        "seconds": done - ready,
        "import_seconds": ready - start,
        "peak_bytes": peak,
        "nodes": count_live_nodes(model),
        "original_nodes": count_live_nodes(onnx.load(options.model, load_external_data=False)),
    }
    if options.save:
        onnx.save(model, options.save)
    options.result.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
