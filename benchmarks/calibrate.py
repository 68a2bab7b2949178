"""Measurement of the constants of a `CostModel`.

`python benchmarks/calibrate.py` prints them for onnxruntime's CPU provider in one thread, on this machine. Of an op,
it measures the time that 40 of them take longer than 8: the shortest of several runs of each.
"""

from __future__ import annotations

import passwright  # noqa: F401 - turns off the telemetry of onnxruntime

# isort: split
from statistics import median
from time import perf_counter

import numpy as np
import onnx
import onnxruntime

FEW, MANY = 8, 40
RUNS = 60
SMALL_OPS = ("Neg(v{1})", "Transpose<perm=[1,0]>(v{1})", "MatMul(v{1}, x)", "Add(v{1}, x)")
FLOPS_ROWS = 256  # of square products
BLOCKS = [((1, 128, 12, 64), [0, 2, 1, 3]), ((1, 197, 12, 64), [0, 2, 1, 3]), ((1, 1500, 6, 64), [0, 2, 1, 3])]
STRIDED = [((1, 128, 768), [0, 2, 1]), ((1, 1500, 6, 64), [0, 2, 3, 1]), ((1, 1500, 384), [0, 2, 1])]


def main() -> None:
    """Print the constants."""
    op = median(seconds_per_op("v{0} = " + op, (4, 4)) for op in SMALL_OPS)
    few, many = (seconds_per_op(split(parts), (1, 16)) for parts in (2, 8))
    rates = [median(rate(shape, perm) for shape, perm in cases) for cases in (BLOCKS, STRIDED)]
    print(f"op_seconds={op:.2g}, output_seconds={(many - few) / 6:.2g}")
    flops = 2 * FLOPS_ROWS**3 / seconds_per_op("v{0} = MatMul(v{1}, x)", (FLOPS_ROWS, FLOPS_ROWS))
    print(f"flops_per_second={flops:.2g}")
    print(f"block_bytes_per_second={rates[0]:.2g}, strided_bytes_per_second={rates[1]:.2g}")


def split(parts: int) -> str:
    """A Split of `x`; nothing reads its results but the first."""
    others = "".join(f", p{{0}}_{k}" for k in range(1, parts))
    return f"v{{0}}{others} = Split<axis=-1,num_outputs={parts}>(x)"


def rate(shape: tuple[int, ...], perm: list[int]) -> float:
    """The bytes a second that a Transpose reads and writes."""
    spent = seconds_per_op(f"v{{0}} = Transpose<perm={perm}>(x)", shape)
    return 2 * np.dtype(np.float32).itemsize * float(np.prod(shape)) / spent


def seconds_per_op(op: str, shape: tuple[int, ...]) -> float:
    """The time of an op: `{0}` numbers its results, `{1}` the last of those before it."""
    few, many = (shortest_run(ops_text(op, count), shape) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def ops_text(op: str, count: int) -> str:
    """So many of an op, then the graph's output."""
    return " ".join(["v0 = Identity(x)", *(op.format(i + 1, i) for i in range(count)), f"y = Identity(v{count})"])


def shortest_run(ops: str, shape: tuple[int, ...]) -> float:
    """The time of the shortest of several runs, without optimizations."""
    text = f'<ir_version: 10, opset_import: ["": 18]> g (float{list(shape)} x) => (float[] y) {{ {ops} }}'
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = onnx.parser.parse_model(text).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.ones(shape, np.float32)
    times: list[float] = []
    for _ in range(RUNS):
        start = perf_counter()
        session.run(None, {"x": x})
        times.append(perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
