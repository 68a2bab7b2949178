"""A residual network of 102 MB with its batch normalizations kept: `python benchmarks/residual.py out.onnx`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and blocks: as ResNet-50 has them
CLASSES = 1000


@dataclass
class ModelWriter:
    """The network as far as it is written."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def weight(self, array: NDArray[np.float64]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        spread = (inputs * kernel * kernel) ** -0.5
        w = self.weight(self.rng.standard_normal((outputs, inputs, kernel, kernel)) * spread)
        y = self.op("Conv", x, w, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        low, high = (0.5, 0.3), (1.5, 2.0)
        scale, var = (self.weight(self.rng.uniform(a, b, outputs)) for a, b in zip(low, high, strict=True))
        bias, mean = (self.weight(self.rng.standard_normal(outputs) * 0.1) for _ in range(2))
        return self.op("BatchNormalization", y, scale, bias, mean, var)

    def block(self, x: str, inputs: int, width: int, stride: int) -> str:
        y = self.op("Relu", self.conv(x, inputs, width, 1))
        y = self.op("Relu", self.conv(y, width, width, 3, stride))
        y = self.conv(y, width, 4 * width, 1)
        shortcut = x if inputs == 4 * width else self.conv(x, inputs, 4 * width, 1, stride)
        return self.op("Relu", self.op("Add", y, shortcut))


def residual_network(batch: int | str = "N") -> onnx.ModelProto:
    """The model, for images of 224 x 224."""
    net, channels = ModelWriter(), 64
    x = net.op("Relu", net.conv("x", 3, channels, 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (width, blocks) in enumerate(STAGES):
        for i in range(blocks):
            x = net.block(x, channels, width, 2 if stage and not i else 1)
            channels = 4 * width
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("MatMul", x, net.weight(net.rng.standard_normal((channels, CLASSES)) * 0.02))
    net.nodes.append(helper.make_node("Add", [x, net.weight(net.rng.standard_normal(CLASSES))], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
        ("x", [batch, 3, 224, 224]), ("y", [batch, CLASSES]),
    )]  # fmt: skip
    graph = helper.make_graph(net.nodes, "residual", ends[:1], ends[1:], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    onnx.save(residual_network(), parser.parse_args().out)


if __name__ == "__main__":
    main()
