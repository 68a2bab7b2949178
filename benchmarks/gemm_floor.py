"""The least time of the matrix products of a model: `python benchmarks/gemm_floor.py THREADS RESULT.json` measures it.

A product takes at least its flops at the peak rate of large products, and at least the bytes of its second operand at
the rate of products of one row, which is that of memory where the operands do not fit into the caches together.
Products in Einsum and recurrent operators are not counted, which makes the floor lower.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from passwright.app.measure.profile_trace import KERNEL_SUFFIX, read_events
from passwright.core.ort.sessions import DISABLE_ALL, ENABLE_ALL, SessionConfig, inference_session

ROWS = (256, 512, 1024)  # of square products, for the peak
MEGABYTES = (1, 4, 16, 64, 256)  # of the second operand of products of one row
SECONDS = 0.4  # for each size
FLOAT_BYTES = 4
INTEGER_PRODUCTS = {
    "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QuantizeLinear", "DynamicQuantizeLinear",
}  # fmt: skip


@dataclass(frozen=True)
class Product:
    """A matrix product: `bytes` of the second operand."""

    flops: int
    bytes: int


@dataclass(frozen=True)
class Peak:
    """Rates of this machine: flops per second, and bytes per second by the bytes that are read in turn."""

    flops: float
    bytes: Mapping[int, float]

    @classmethod
    def of(cls, measured: Sequence[Mapping[str, Any]]) -> Peak:
        """The best of several measurements, as JSON has them: other load makes each too low."""
        sizes = measured[0]["bytes"]
        best = {int(size): max(m["bytes"][size] for m in measured) for size in sizes}
        return cls(max(m["flops"] for m in measured), best)

    def floor(self, counts: Mapping[Product, int]) -> float:
        """The least seconds of products, each so many times."""
        needed = sum(p.bytes * count for p, count in counts.items())
        fitting = [size for size in self.bytes if size <= needed] or [min(self.bytes)]
        rate = self.bytes[max(fitting)]
        return sum(max(p.flops / self.flops, p.bytes / rate) * count for p, count in counts.items())


def measure_peak(threads: int) -> Peak:
    flops = max(2 * n**3 / _seconds(n, n, n, threads) for n in ROWS)
    rates: dict[int, float] = {}
    for size in (n << 20 for n in MEGABYTES):
        rates[size] = size / _seconds(1, 1024, size // FLOAT_BYTES // 1024, threads)
    return Peak(flops, rates)


def products_run(model: Path, feeds: Mapping[str, Any], threads: int) -> Counter[Product] | None:
    """The products of a run without optimizations, by onnxruntime's profile; None if some are of integers."""
    with TemporaryDirectory() as folder:
        config = SessionConfig(DISABLE_ALL, intra_op_threads=threads, profile_prefix=str(Path(folder) / "profile"))
        session = inference_session(model, config)
        session.run(None, dict(feeds))
        return count_products(read_events(Path(session.end_profiling())))


def count_products(events: Iterable[Mapping[str, Any]]) -> Counter[Product] | None:
    """The number of products of each kind; None if some are of integers."""
    found: Counter[Product] = Counter()
    for event in events:
        if not str(event.get("name", "")).endswith(KERNEL_SUFFIX):
            continue
        args = event["args"]
        if args["op_name"] in INTEGER_PRODUCTS:
            return None
        inputs, outputs = (list(_shapes(args[key])) for key in ("input_type_shape", "output_type_shape"))
        if inputs and outputs:
            found.update(_products(args["op_name"], inputs, outputs))
    return found


def _shapes(typed: Iterable[Mapping[str, list[int]]]) -> Iterator[list[int]]:
    for item in typed:
        yield from item.values()


def _products(kind: str, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> Iterator[Product]:
    first, result = inputs[0], prod(outputs[0])
    if kind in {"MatMul", "FusedMatMul"}:
        yield Product(2 * result * first[-1], FLOAT_BYTES * prod(inputs[1]))
    elif kind == "Gemm":
        yield Product(2 * prod(first) * outputs[0][-1], FLOAT_BYTES * prod(inputs[1]))
    elif kind == "Conv":
        yield Product(2 * result * prod(inputs[1][1:]), FLOAT_BYTES * prod(inputs[1]))
    elif kind == "ConvTranspose":
        yield Product(2 * prod(first) * prod(inputs[1][1:]), FLOAT_BYTES * prod(inputs[1]))
    elif kind == "Attention":
        keys, values = inputs[1], inputs[2]
        total = outputs[1][2] if len(outputs) > 1 else keys[-2]  # present keys include the past
        yield Product(2 * total * prod(first), FLOAT_BYTES * prod(keys) * total // keys[-2])
        yield Product(2 * total * result, FLOAT_BYTES * prod(values) * total // values[-2])


def _seconds(rows: int, inner: int, columns: int, threads: int) -> float:
    """The least seconds of a call that multiplies by weights."""
    weights = np.random.default_rng(0).normal(size=(inner, columns)).astype(np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [rows, inner]), ("y", [rows, columns]))
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    config = SessionConfig(ENABLE_ALL, prepack_weights=True, allow_spinning=True, intra_op_threads=threads)
    session = inference_session(model.SerializeToString(), config)
    feeds = {"x": np.ones((rows, inner), np.float32)}
    times: list[float] = []
    while sum(times) < SECONDS or len(times) < 3:
        start = perf_counter()
        session.run(None, feeds)
        times.append(perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threads", type=int)
    parser.add_argument("result", type=Path)
    options = parser.parse_args()
    options.result.write_text(json.dumps(asdict(measure_peak(options.threads))))


if __name__ == "__main__":
    main()
