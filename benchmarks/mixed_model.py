"""Models of any number of nodes, in the mix that exporters leave: `python benchmarks/mixed_model.py 20000 out.onnx`.

Deep, deterministic, dynamic in its batch. Every sixteen layers or so the input is mixed in again, so that the output
depends on it however deep the model is. Layers share a few weights: the file is mostly nodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

CHANNELS, IMAGE_SIZE = 8, 4
FEATURES = CHANNELS * IMAGE_SIZE * IMAGE_SIZE
WEIGHTS_PER_KIND = 4  # of each kind of weight
OPSET, IR_VERSION = 17, 8  # supported by all tools
TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


@dataclass
class ModelWriter:
    """The model as far as it is written."""

    random: Random
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"/layers.{len(self.nodes)}/{kind}"
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_output_0"], name, **attributes))
        return f"{name}_output_0"

    def constant(self, *elements: float, kind: type[np.generic] = np.int64) -> str:
        """A Constant node, as exporters write one at every place that needs it."""
        return self.op("Constant", value=numpy_helper.from_array(np.array(elements, kind)))

    def weight(self, kind: str) -> str:
        return f"{kind}.{self.random.randrange(WEIGHTS_PER_KIND)}"

    def add_weights(self) -> None:
        draw = np.random.default_rng(0)

        def add(kind: str, number: int, elements: NDArray[np.float64]) -> None:
            self.weights.append(numpy_helper.from_array(elements.astype(np.float32), f"{kind}.{number}"))

        for n in range(WEIGHTS_PER_KIND):
            add("kernel", n, draw.normal(0, 0.1, (CHANNELS, CHANNELS, 3, 3)))
            add("dense", n, draw.normal(0, FEATURES**-0.5, (FEATURES, FEATURES)))
            add("bias", n, draw.normal(0, 0.1, FEATURES))
            add("scale", n, draw.uniform(0.5, 1, CHANNELS))
            add("shift", n, draw.normal(0, 0.1, CHANNELS))
            add("mean", n, draw.normal(0, 0.1, CHANNELS))
            add("variance", n, draw.uniform(0.5, 1.5, CHANNELS))


def convolution(m: ModelWriter, x: str) -> str:
    """Conv and BatchNormalization: 2 nodes."""
    y = m.op("Conv", x, m.weight("kernel"), pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    return m.op("BatchNormalization", y, *map(m.weight, ("scale", "shift", "mean", "variance")), epsilon=1e-5)


def convolution_block(m: ModelWriter, x: str) -> str:
    return m.op("Relu", convolution(m, x))


def residual_block(m: ModelWriter, x: str) -> str:
    y = convolution(m, convolution_block(m, x))
    return m.op("Tanh", m.op("Add", y, x))


def input_skip_connection(m: ModelWriter, x: str) -> str:
    return m.op("Tanh", m.op("Add", convolution(m, "image"), x))


def dense_block(m: ModelWriter, x: str) -> str:
    """Flatten, MatMul and Add, back to an image; the shapes are computed, in part from constants."""
    batch = m.op("Unsqueeze", m.op("Gather", m.op("Shape", x), m.op("Squeeze", m.constant(0))), m.constant(0))
    area = m.op("Mul", m.constant(IMAGE_SIZE), m.constant(IMAGE_SIZE))
    width = m.op("Cast", m.op("Mul", m.constant(CHANNELS), area), to=onnx.TensorProto.INT64)
    y = m.op("Reshape", x, m.op("Concat", batch, width, axis=0))
    y = m.op("Add", m.op("MatMul", y, m.weight("dense")), m.weight("bias"))
    return m.op("Reshape", y, m.op("Concat", batch, m.constant(CHANNELS, IMAGE_SIZE, IMAGE_SIZE), axis=0))


def cancelling_transposes(m: ModelWriter, x: str) -> str:
    return m.op("Transpose", m.op("Transpose", x, perm=TO_NHWC), perm=TO_NCHW)


def merging_transposes(m: ModelWriter, x: str) -> str:
    """Two that become one, then an op between, then back."""
    y = m.op("Transpose", m.op("Transpose", x, perm=[1, 0, 2, 3]), perm=[1, 2, 3, 0])
    return m.op("Transpose", m.op("Sin", y), perm=TO_NCHW)


def no_op_layer(m: ModelWriter, x: str) -> str:
    return m.op("Dropout", m.op("Identity", x))


def scale_layer(m: ModelWriter, x: str) -> str:
    """By a constant that is computed."""
    root = m.op("Sqrt", m.constant(64, kind=np.float32))
    return m.op("Mul", x, m.op("Div", root, m.constant(8, kind=np.float32)))


def duplicate_gates(m: ModelWriter, x: str) -> str:
    """The same gate computed twice."""
    a, b = (m.op("Mul", x, m.op("Sigmoid", x)) for _ in range(2))
    return m.op("Add", a, b)


def with_dead_branch(m: ModelWriter, x: str) -> str:
    convolution_block(m, x)
    return m.op("LeakyRelu", x, alpha=0.1)


Layer = Callable[[ModelWriter, str], str]
LAYERS: dict[Layer, int] = {  # how often each comes among the others
    convolution_block: 5,
    residual_block: 4,
    dense_block: 2,
    cancelling_transposes: 2,
    merging_transposes: 2,
    no_op_layer: 2,
    scale_layer: 2,
    duplicate_gates: 2,
    with_dead_branch: 1,
    input_skip_connection: 2,
}
MAX_LAYER_NODES = 20  # nodes of a layer


def mixed_model(nodes: int, seed: int = 0) -> onnx.ModelProto:
    """The model of exactly `nodes` nodes."""
    m = ModelWriter(Random(seed))
    m.add_weights()
    x = convolution_block(m, "image")
    layers, frequencies = list(LAYERS), list(LAYERS.values())
    while len(m.nodes) + MAX_LAYER_NODES + 2 < nodes:
        (layer,) = m.random.choices(layers, frequencies)
        x = layer(m, x)
    x = input_skip_connection(m, x)
    while len(m.nodes) < nodes:
        x = m.op("Sin", x)
    m.nodes[-1].output[0] = "features"
    shape = ["batch", CHANNELS, IMAGE_SIZE, IMAGE_SIZE]
    image, features = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("image", "features")
    )
    graph = helper.make_graph(m.nodes, f"mixed-{nodes}", [image], [features], m.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, help="how many nodes, at least 100")
    parser.add_argument("path", type=Path, help="where to write the model")
    options = parser.parse_args()
    onnx.save(mixed_model(options.nodes), options.path)


if __name__ == "__main__":
    main()
