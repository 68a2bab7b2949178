"""Larger models as exporters write them: `python benchmarks/generated.py KIND BLOCKS OUT.onnx`.

`transformer`: attention with computed shapes, LayerNormalization and Gelu spelled out (TorchScript's way). `nhwc`: a
residual network of TensorFlow's layout, each Conv between two Transposes. `repvgg`: in training form, three branches to
a block.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, CHANNELS = 64, 4, 16
TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


class ModelWriter:
    """A model as far as it is written."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        names = [name] + [f"{name}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name, **attributes))
        return name

    def constant(self, *elements: float, kind: type[np.generic] = np.int64, scalar: bool = False) -> str:
        return self.constant_array(np.array(elements[0] if scalar else elements, kind))

    def constant_array(self, array: NDArray[Any]) -> str:
        return self.op("Constant", value=numpy_helper.from_array(array))

    def number(self, x: float) -> str:
        return self.constant(x, kind=np.float32, scalar=True)

    def weight(self, *shape: int, spread: float = 0.1, mean: float = 0.0) -> str:
        array: NDArray[np.float64] = self.rng.normal(mean, spread, shape)
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def model(self, x: list[int | str], y: str, out: list[int | str]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [y], ["y"], "out"))
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", out))]
        graph = helper.make_graph(self.nodes, "generated", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dense(w: ModelWriter, x: str, inputs: int, outputs: int) -> str:
    return w.op("Add", w.weight(outputs), w.op("MatMul", x, w.weight(inputs, outputs)))


def layer_norm(w: ModelWriter, x: str) -> str:
    d = w.op("Sub", x, w.op("ReduceMean", x, axes=[-1]))
    v = w.op("ReduceMean", w.op("Pow", d, w.number(2)), axes=[-1])
    n = w.op("Div", d, w.op("Sqrt", w.op("Add", v, w.number(1e-5))))
    return w.op("Add", w.op("Mul", n, w.weight(WIDTH, mean=1)), w.weight(WIDTH))


def dim(w: ModelWriter, x: str, axis: int) -> str:
    return w.op("Unsqueeze", w.op("Gather", w.op("Shape", x), w.constant(axis, scalar=True), axis=0), w.constant(0))


def split_heads(w: ModelWriter, x: str, perm: list[int]) -> str:
    split = w.op("Concat", dim(w, x, 0), dim(w, x, 1), w.constant(HEADS), w.constant(WIDTH // HEADS), axis=0)
    return w.op("Transpose", w.op("Reshape", x, split), perm=perm)


def attention(w: ModelWriter, x: str) -> str:
    q, k, v = (dense(w, x, WIDTH, WIDTH) for _ in range(3))
    scores = w.op("MatMul", split_heads(w, q, [0, 2, 1, 3]), split_heads(w, k, [0, 2, 3, 1]))
    scale = w.op("Sqrt", w.op("Cast", w.constant(WIDTH // HEADS, scalar=True), to=TensorProto.FLOAT))
    mixed = w.op("MatMul", w.op("Softmax", w.op("Div", scores, scale), axis=-1), split_heads(w, v, [0, 2, 1, 3]))
    back = w.op("Concat", dim(w, x, 0), dim(w, x, 1), w.constant(WIDTH), axis=0)
    return dense(w, w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), back), WIDTH, WIDTH)


def gelu(w: ModelWriter, x: str) -> str:
    erf = w.op("Erf", w.op("Div", x, w.number(2**0.5)))
    return w.op("Mul", w.op("Mul", x, w.op("Add", erf, w.number(1))), w.number(0.5))


def transformer(blocks: int) -> onnx.ModelProto:
    w = ModelWriter()
    x = "x"
    for _ in range(blocks):
        x = w.op("Add", x, w.op("Dropout", attention(w, layer_norm(w, x))))
        x = w.op("Add", x, dense(w, gelu(w, dense(w, layer_norm(w, x), WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH))
    return w.model(["batch", "sequence", WIDTH], x, ["batch", "sequence", WIDTH])


def conv(w: ModelWriter, x: str, kernel: int = 3) -> str:
    pads = [kernel // 2] * 4
    return w.op("Conv", x, w.weight(CHANNELS, CHANNELS, kernel, kernel), pads=pads, kernel_shape=[kernel] * 2)


def batch_norm(w: ModelWriter, x: str) -> str:
    ones, shifts = (w.weight(CHANNELS, spread=0.01, mean=1) for _ in range(2)), (w.weight(CHANNELS) for _ in range(2))
    scale, var = ones
    return w.op("BatchNormalization", x, scale, *shifts, var)


def nhwc(blocks: int) -> onnx.ModelProto:
    w = ModelWriter()
    x = "x"
    for _ in range(blocks):
        y = x
        for last in (False, True):
            y = w.op("Transpose", conv(w, w.op("Transpose", y, perm=TO_NCHW)), perm=TO_NHWC)
            y = w.op("Add", w.op("Mul", y, w.weight(CHANNELS, mean=1)), w.weight(CHANNELS))
            y = y if last else w.op("Relu", y)
        x = w.op("Relu", w.op("Add", x, y))
    return w.model(["batch", "height", "width", CHANNELS], x, ["batch", "height", "width", CHANNELS])


def repvgg(blocks: int) -> onnx.ModelProto:
    w = ModelWriter()
    x = "x"
    for _ in range(blocks):
        branches = [batch_norm(w, conv(w, x)), batch_norm(w, conv(w, x, 1)), batch_norm(w, x)]
        x = w.op("Relu", w.op("Add", w.op("Add", branches[0], branches[1]), branches[2]))
    return w.model(["batch", CHANNELS, "height", "width"], x, ["batch", CHANNELS, "height", "width"])


KINDS: dict[str, Callable[[int], onnx.ModelProto]] = {f.__name__: f for f in (transformer, nhwc, repvgg)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("blocks", type=int)
    parser.add_argument("path", type=Path, help="where to write the model")
    options = parser.parse_args()
    onnx.save(KINDS[options.kind](options.blocks), options.path)


if __name__ == "__main__":
    main()
