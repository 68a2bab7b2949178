"""Models written by hand in onnxscript."""

from pathlib import Path

import numpy as np
import onnx
import onnxscript
from onnxscript import BOOL, FLOAT, INT64, graph, script
from onnxscript import opset18 as op

from .recipe import Recipe

BATCH, TIME, STEPS = "batch", "time", "steps"
CUSTOM = onnxscript.values.Opset("golden.layers", 1)


def _weight(name: str, *shape: int, seed: int) -> onnx.TensorProto:
    values = np.random.default_rng(seed).normal(0, 0.4, shape).astype(np.float32)
    return onnx.numpy_helper.from_array(values, name)


FIRST, SECOND = _weight("first", 8, 16, seed=0), _weight("second", 16, 4, seed=1)
SHIFT = _weight("shift", 16, seed=2)
KERNEL, STEP = _weight("kernel", 6, 3, 3, seed=3), _weight("step", 5, 5, seed=4)


@script(CUSTOM, default_opset=op)
def RMSNorm(x, eps: float = 1e-5):
    square = op.ReduceMean(x * x, [-1], keepdims=1)
    return x / op.Sqrt(square + op.CastLike(eps, x))


@script(CUSTOM, default_opset=op)
def SwishDense(x, weight, bias):
    y = op.MatMul(x, weight) + bias
    return y * op.Sigmoid(y)


@script(default_opset=op)
def layered(x: FLOAT[BATCH, 8]) -> FLOAT[BATCH, 4]:
    x = op.Identity(RMSNorm(x))
    y = SwishDense(x, op.Constant(value=FIRST), op.Constant(value=SHIFT))
    y = op.Transpose(op.Transpose(y, perm=[1, 0]), perm=[1, 0])
    y = op.Identity(RMSNorm(y, eps=1e-3))
    return op.MatMul(y, op.Constant(value=SECOND))


@script(default_opset=op)
def branching(x: FLOAT[BATCH, 3, TIME], flip: BOOL, rounds: INT64) -> FLOAT[BATCH, STEPS, 6]:
    y = op.Conv(x, op.Constant(value=KERNEL), pads=[1, 1])
    if flip:
        y = op.Transpose(op.Identity(y), perm=[0, 2, 1])
    else:
        y = op.Reshape(op.Relu(y), op.Concat(op.Shape(y, end=1), [-1, 6], axis=0))
    for _ in range(rounds):
        y = op.Dropout(op.Tanh(y + y))
    return y


@script(default_opset=op)
def cumulative(x: FLOAT[TIME, 5]):
    weight = op.Constant(value=STEP)

    @graph()
    def step(state, row):
        mixed = op.Squeeze(op.MatMul(op.Unsqueeze(state, [0]), weight), [0])
        state = op.Tanh(op.Identity(op.Add(mixed, row)))
        return state, op.Identity(state)

    start = op.ConstantOfShape(op.Constant(value_ints=[5]))
    _, states = op.Scan(start, x, body=step, num_scan_inputs=1)
    return states


def _write(function: onnxscript.OnnxFunction, path: Path, **options: object) -> str:
    path.write_bytes(function.to_model_proto(**options).SerializeToString(deterministic=True))
    return f"onnxscript {onnxscript.__version__}"


def build_layered(path: Path) -> str:
    return _write(layered, path)


def build_branching(path: Path) -> str:
    return _write(branching, path)


def build_cumulative(path: Path) -> str:
    return _write(cumulative, path, output_types=[FLOAT[TIME, 5]])


RECIPES = (
    Recipe("script_layers", "onnxscript: local functions with attributes, transposes that cancel", build_layered),
    Recipe("script_branching", "onnxscript: If and Loop written as Python, Identity and Dropout", build_branching,
           {"rounds": range(4)}),
    Recipe("script_scan", "onnxscript: Scan whose body captures a weight from outside", build_cumulative),
)  # fmt: skip
