"""Random models of a few dozen operators, as hypothesis draws them: dims and choices shrink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MOST_ELEMENTS = 2000


@dataclass(frozen=True)
class Known:
    """A value made so far."""

    name: str
    shape: Shape
    dtype: int = FLOAT
    constant: bool = False


@dataclass
class Maker:
    """Adds nodes to a model; `draw` makes the choices."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    values: list[Known] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def int(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def pick(self, dtype: int = FLOAT, ranks: range = range(7)) -> Known | None:
        fitting = [v for v in self.values if v.dtype == dtype and len(v.shape) in ranks]
        return fitting[-1 - self.int(0, len(fitting) - 1)] if fitting else None

    def array(self, array: np.ndarray[Any, Any], *, as_node: bool = False) -> Known:
        name = f"c{len(self.initializers) + len(self.nodes)}"
        tensor = numpy_helper.from_array(array, name)
        if as_node:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        return Known(name, array.shape, dtype, constant=True)

    def weights(self, shape: Shape, *, positive: bool = False) -> Known:
        rng = np.random.default_rng(self.int(0, 3))
        data = rng.standard_normal(shape).astype(np.float32)
        return self.array(np.abs(data) + np.float32(0.5) if positive else data)

    def ints(self, *numbers: int) -> Known:
        return self.array(np.array(numbers, np.int64), as_node=bool(self.int(0, 1)))

    def add(self, op: str, inputs: list[Known | None], *shapes: Shape, dtype: int | None = None, **attrs: Any) -> None:
        kind = inputs[0].dtype if dtype is None and inputs[0] is not None else dtype or FLOAT
        if any(np.prod(s, dtype=np.int64) > MOST_ELEMENTS for s in shapes):
            return
        names = [f"v{len(self.nodes)}_{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, [i.name if i else "" for i in inputs], names, **attrs))
        self.values += [Known(n, s, kind) for n, s in zip(names, shapes, strict=True)]


def unary(m: Maker) -> None:
    x = m.pick()
    ops = ("Relu", "Neg", "Tanh", "Sigmoid", "Abs", "Identity", "Erf", "Softplus", "Identity", "Floor", "HardSigmoid")
    if x:
        m.add(ops[m.int(0, len(ops) - 1)], [x], x.shape)


def binary(m: Maker) -> None:
    x, y = m.pick(), m.pick()
    if x is None or y is None:
        return
    if m.int(0, 1):
        y = m.weights(tuple(d if m.int(0, 1) else 1 for d in x.shape[m.int(0, len(x.shape)) :]))
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return
    ops = ("Add", "Mul", "Sub", "Max", "Min", "Add")
    pair = [x, y] if m.int(0, 1) else [y, x]
    m.add(ops[m.int(0, len(ops) - 1)], list(pair), shape)


def compare(m: Maker) -> None:
    x, y = m.pick(), m.pick()
    if x and y and x.shape == y.shape:
        m.add(("Greater", "Less", "Equal")[m.int(0, 2)], [x, y], x.shape, dtype=BOOL)


def where(m: Maker) -> None:
    c = m.pick(BOOL)
    same = [v for v in m.values if c and v.shape == c.shape and v.dtype == FLOAT]
    if c and same:
        m.add("Where", [c, same[0], same[-1]], c.shape, dtype=FLOAT)


def cast(m: Maker) -> None:
    x = m.pick((FLOAT, BOOL)[m.int(0, 1)])
    if x:
        m.add("Cast", [x], x.shape, dtype=FLOAT, to=FLOAT)


def dropout(m: Maker) -> None:
    x = m.pick()
    if x and m.int(0, 1):
        m.add("Dropout", [x, m.array(np.float32(0.0))], x.shape)
    elif x:
        m.add("Dropout", [x], x.shape)


def matmul_add(m: Maker) -> None:
    x = m.pick(ranks=range(2, 5))
    if x is None:
        return
    columns = m.int(1, 4)
    m.add("MatMul", [x, m.weights((x.shape[-1], columns))], (*x.shape[:-1], columns))
    if m.int(0, 2):
        bias = m.weights(((columns,), (1, columns), (x.shape[-2], 1), (1, 1, columns))[m.int(0, 3)])
        product = m.values[-1]
        shape = np.broadcast_shapes(product.shape, bias.shape)
        m.add("Add", [product, bias] if m.int(0, 1) else [bias, product], shape)


def transpose(m: Maker) -> None:
    x = m.pick(ranks=range(1, 7))
    if x is None:
        return
    perm = m.draw(st.permutations(range(len(x.shape))))
    if m.int(0, 2):
        m.add("Transpose", [x], tuple(x.shape[i] for i in perm), perm=perm)
    else:
        m.add("Transpose", [x], x.shape[::-1])


def reshape(m: Maker) -> None:
    x = m.pick()
    if x is None:
        return
    size = int(np.prod(x.shape))
    target = ((-1,), (size,), (1, size), (*x.shape[:1], -1) if x.shape and size else (-1,))[m.int(0, 3)]
    shape = np.empty(x.shape).reshape(target).shape
    m.add("Reshape", [x, m.ints(*target)], shape)


def squeeze(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x is None:
        return
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and m.int(0, 1):
        m.add("Squeeze", [x, m.ints(ones[0])], x.shape[: ones[0]] + x.shape[ones[0] + 1 :])
    else:
        m.add("Unsqueeze", [x, m.ints(0)], (1, *x.shape))


def concat(m: Maker) -> None:
    x, y = m.pick(ranks=range(1, 5)), m.pick(ranks=range(1, 5))
    if x and y and x.shape[1:] == y.shape[1:]:
        m.add("Concat", [x, y], (x.shape[0] + y.shape[0], *x.shape[1:]), axis=0)


def slices(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x and x.shape[0] > 1:
        if m.int(0, 1):
            m.add("Slice", [x, m.ints(0), m.ints(1), m.ints(0)], (1, *x.shape[1:]))
        else:
            m.add("Split", [x, m.ints(1, x.shape[0] - 1)], (1, *x.shape[1:]), (x.shape[0] - 1, *x.shape[1:]), axis=0)


def gather(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x and x.shape[0]:
        index = m.int(0, x.shape[0] - 1)
        if m.int(0, 1):
            m.add("Gather", [x, m.array(np.int64(index))], x.shape[1:])
        else:
            m.add("Gather", [x, m.ints(index, 0)], (2, *x.shape[1:]), axis=0)


def reduce(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x and 0 not in x.shape:
        keep = m.int(0, 1)
        shape = (*x.shape[:-1], *([1] if keep else []))
        m.add(("ReduceMean", "ReduceMax")[m.int(0, 1)], [x, m.ints(-1)], shape, keepdims=keep)


def softmax(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x and 0 not in x.shape:
        m.add(("Softmax", "LogSoftmax")[m.int(0, 1)], [x], x.shape, axis=-1)


def conv(m: Maker) -> None:
    x = m.pick(ranks=range(3, 5))
    if x is None or 0 in x.shape or x.shape[1] > 8:
        return
    groups = x.shape[1] if m.int(0, 1) else 1
    out, window = groups * m.int(1, 2), [1] * (len(x.shape) - 2)
    if m.int(0, 2):
        inputs: list[Known | None] = [x, m.weights((out, x.shape[1] // groups, *window))]
        op = "Conv"
    else:
        inputs, op = [x, m.weights((x.shape[1], out // groups, *window))], "ConvTranspose"
    if m.int(0, 1):
        inputs.append(m.weights((out,)))
    m.add(op, inputs, (x.shape[0], out, *x.shape[2:]), group=groups)
    if m.int(0, 3):
        statistics = [m.weights((out,)), m.weights((out,)), m.weights((out,)), m.weights((out,), positive=True)]
        m.add("BatchNormalization", [m.values[-1], *statistics], m.values[-1].shape, epsilon=0.01)


def shape_arithmetic(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x is None:
        return
    m.add("Shape", [x], (len(x.shape),), dtype=INT)
    m.add("Reshape", [x, m.values[-1]], x.shape)


def constants(m: Maker) -> None:
    fill = numpy_helper.from_array(np.array([1.5], np.float32))
    size = m.int(1, 4)
    m.add("ConstantOfShape", [m.ints(size)], (size,), dtype=FLOAT, value=fill)
    m.add("Expand", [m.values[-1], m.ints(2, size)], (2, size), dtype=FLOAT)


def branch(m: Maker) -> None:
    x = m.pick(ranks=range(1, 5))
    if x is None:
        return
    info = helper.make_tensor_value_info
    bodies = []
    for i, op in enumerate(("Neg", "Identity")):
        name = f"b{len(m.nodes)}_{i}"
        inner = [helper.make_node("Identity", [x.name], [f"i{name}"]), helper.make_node(op, [f"i{name}"], [name])]
        bodies.append(helper.make_graph(inner, name, [], [info(name, FLOAT, x.shape)]))
    if m.int(0, 1):
        condition: Known | None = m.array(np.bool_(m.int(0, 1)))
    else:
        condition = next((v for v in m.values if v.dtype == BOOL and np.prod(v.shape) == 1), None)
    if condition:
        m.add("If", [condition], x.shape, dtype=FLOAT, then_branch=bodies[0], else_branch=bodies[1])


STEPS = (
    unary, binary, unary, binary, compare, where, cast, dropout, matmul_add, transpose, transpose, reshape, squeeze,
    concat, slices, gather, reduce, softmax, conv, conv, shape_arithmetic, constants, branch,
)  # fmt: skip


@st.composite
def models(draw: Callable[[st.SearchStrategy[Any]], Any], steps: tuple[int, int] = (5, 60)) -> onnx.ModelProto:
    """A valid model of 5 to 60 nodes and a little more, with one or two float inputs."""
    m = Maker(draw)
    dims = st.integers(1, 4)
    shapes = [tuple(draw(st.lists(dims, min_size=2, max_size=4))) for _ in range(m.int(1, 2))]
    m.values = [Known(f"x{i}", s) for i, s in enumerate(shapes)]
    for _ in range(m.int(*steps)):
        STEPS[m.int(0, len(STEPS) - 1)](m)
    inputs = [helper.make_tensor_value_info(f"x{i}", FLOAT, s) for i, s in enumerate(shapes)]
    made = m.values[len(shapes) :]
    kept = [v for i, v in enumerate(made) if i >= len(made) - 2 or m.int(0, 7) == 0]
    if not kept:
        m.add("Neg", [m.values[0]], m.values[0].shape)
        kept = m.values[-1:]
    outputs = [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in kept]
    graph = helper.make_graph(m.nodes, "random", inputs, outputs, m.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
