"""The gain of `reduce-peak-memory` on branching models: `python benchmarks/peak_memory.py`.

Each figure is the peak of a process of its own above its state before the run: onnxruntime, one thread, no arena.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import helper, numpy_helper

from passwright import optimize

STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")
OPSETS = [helper.make_opsetid("", 17)]


class Builder:
    """A model of convolutions on an image of `width` channels."""

    def __init__(self, width: int, size: int) -> None:
        self.rng, self.width = np.random.default_rng(0), width
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.image = [1, width, size, size]

    def add(self, op_type: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def constant(self, array: np.ndarray, name: str) -> str:
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(self, x: str, name: str, channels: tuple[int, int], kernel: int, **attributes: object) -> str:
        shape = (channels[1], channels[0], kernel, kernel)
        weight = self.constant(self.rng.normal(size=shape) / np.sqrt(channels[0] * kernel**2), f"{name}_w")
        return self.add("Conv", [x, weight], name, pads=[kernel // 2] * 4, **attributes)

    def model(self, output: str) -> onnx.ModelProto:
        types = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.image) for name in ("x", output)]
        graph = helper.make_graph(self.nodes, "branches", types[:1], types[1:], self.weights)
        return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


def blocks_of_branches(blocks: int = 4, width: int = 32) -> onnx.ModelProto:
    """Blocks of four wide branches, which are written side by side."""
    b, x = Builder(width, 96), "x"
    for block in range(blocks):
        names = {f"b{block}_{i}": kernel for i, kernel in enumerate((1, 3, 5, 3))}
        wide = [b.conv(x, f"{name}_wide", (width, 4 * width), 1) for name in names]
        active = [b.add(("Elu", "Softplus")[i % 2], [y], f"{y}_active") for i, y in enumerate(wide)]
        thin = zip(names.items(), active, strict=True)
        thin = [b.conv(y, name, (4 * width, width // 4), kernel) for (name, kernel), y in thin]
        x = b.add("Concat", thin, f"b{block}", axis=1)
    return b.model(x)


def pyramid(levels: int = 5, width: int = 16) -> onnx.ModelProto:
    """A pyramid whose levels are all enlarged before they are added."""
    b, x = Builder(width, 256), "x"
    found = [x := b.conv(x, f"level{i}", (width, width), 3, strides=[2, 2]) for i in range(levels)]
    scales = [b.constant(np.array([1, 1, 2 ** (i + 1), 2 ** (i + 1)]), f"scale{i}") for i in range(levels)]
    large = [
        b.add("Resize", [y, "", s], f"large{i}", mode="nearest")
        for i, (y, s) in enumerate(zip(found, scales, strict=True))
    ]
    for i, (_, y) in enumerate(pairwise(large)):
        large[0] = b.add("Add", [large[0], y], f"sum{i}")
    return b.model(large[0])


def highest_memory() -> float:
    """The highest resident memory of this process since the last reset, in MB."""
    found = re.search(r"VmHWM:\s+(\d+)", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def measure(path: str, order: str, level: str) -> None:
    """Print the peak of one run, in MB."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.execution_order = getattr(ort.ExecutionOrder, order)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads, options.enable_cpu_mem_arena, options.enable_mem_pattern = 1, False, False
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    REFERENCES.write_text("5")  # resets the highest memory
    before = highest_memory()
    session.run(None, feeds)
    print(f"{highest_memory() - before:.1f}")


def main() -> None:
    """Print a row for each model, order of execution and value of `runs`."""
    print(f"{'model':10}{'order':16}{'runs':15}{'not fused':>18}{'fused':>18}")
    with TemporaryDirectory() as folder:
        for name, model in (("blocks", blocks_of_branches()), ("pyramid", pyramid())):
            given = Path(folder, f"{name}.onnx")
            onnx.save(model, given)
            for runs in ("any", "in-file-order", "depth-first"):
                ordered = Path(folder, f"{name}_{runs}.onnx")
                optimize(given, "none", enable=[f"reduce-peak-memory{{runs={runs}}}"], output=ordered)
                for order in ("PRIORITY_BASED", "DEFAULT"):
                    peaks = [
                        " -> ".join(peak_of(path, order, level) for path in (given, ordered))
                        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")
                    ]
                    print(f"{name:10}{order:16}{runs:15}{peaks[0]:>18}{peaks[1]:>18}", flush=True)


def peak_of(path: Path, order: str, level: str) -> str:
    """The peak of one run in a process of its own."""
    command = [sys.executable, __file__, str(path), order, level]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    measure(*sys.argv[1:]) if sys.argv[1:] else main()
