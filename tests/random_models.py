"""Random models of a few dozen operators, drawn by hypothesis; dims and choices shrink."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MAX_ELEMENTS = 2000


@dataclass(frozen=True)
class TypedValue:
    """A value of the model so far."""

    name: str
    shape: Shape
    dtype: int = FLOAT
    constant: bool = False


@dataclass
class RandomModelBuilder:
    """Adds nodes to a model; `draw` makes the choices."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    values: list[TypedValue] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def pick_value(self, dtype: int = FLOAT, ranks: range = range(7)) -> TypedValue | None:
        fitting = [v for v in self.values if v.dtype == dtype and len(v.shape) in ranks]
        return fitting[-1 - self.integer(0, len(fitting) - 1)] if fitting else None

    def add_constant(self, array: np.ndarray[Any, Any], *, as_node: bool = False) -> TypedValue:
        name = f"c{len(self.initializers) + len(self.nodes)}"
        tensor = numpy_helper.from_array(array, name)
        if as_node:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        return TypedValue(name, array.shape, dtype, constant=True)

    def random_weights(self, shape: Shape, *, positive: bool = False) -> TypedValue:
        rng = np.random.default_rng(self.integer(0, 3))
        data = rng.standard_normal(shape).astype(np.float32)
        return self.add_constant(np.abs(data) + np.float32(0.5) if positive else data)

    def int_constant(self, *numbers: int) -> TypedValue:
        return self.add_constant(np.array(numbers, np.int64), as_node=bool(self.integer(0, 1)))

    def add_node(
        self, op: str, inputs: list[TypedValue | None], *shapes: Shape, dtype: int | None = None, **attrs: Any
    ) -> None:
        kind = inputs[0].dtype if dtype is None and inputs[0] is not None else dtype or FLOAT
        if any(np.prod(s, dtype=np.int64) > MAX_ELEMENTS for s in shapes):
            return
        names = [f"v{len(self.nodes)}_{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, [i.name if i else "" for i in inputs], names, **attrs))
        self.values += [TypedValue(n, s, kind) for n, s in zip(names, shapes, strict=True)]


def unary(m: RandomModelBuilder) -> None:
    x = m.pick_value()
    ops = ("Relu", "Neg", "Tanh", "Sigmoid", "Abs", "Identity", "Erf", "Softplus", "Identity", "Floor", "HardSigmoid")
    if x:
        m.add_node(ops[m.integer(0, len(ops) - 1)], [x], x.shape)


def binary(m: RandomModelBuilder) -> None:
    x, y = m.pick_value(), m.pick_value()
    if x is None or y is None:
        return
    if m.integer(0, 1):
        y = m.random_weights(tuple(d if m.integer(0, 1) else 1 for d in x.shape[m.integer(0, len(x.shape)) :]))
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return
    ops = ("Add", "Mul", "Sub", "Max", "Min", "Add")
    pair = [x, y] if m.integer(0, 1) else [y, x]
    m.add_node(ops[m.integer(0, len(ops) - 1)], list(pair), shape)


def compare(m: RandomModelBuilder) -> None:
    x, y = m.pick_value(), m.pick_value()
    if x and y and x.shape == y.shape:
        m.add_node(("Greater", "Less", "Equal")[m.integer(0, 2)], [x, y], x.shape, dtype=BOOL)


def where(m: RandomModelBuilder) -> None:
    c = m.pick_value(BOOL)
    same = [v for v in m.values if c and v.shape == c.shape and v.dtype == FLOAT]
    if c and same:
        m.add_node("Where", [c, same[0], same[-1]], c.shape, dtype=FLOAT)


def cast(m: RandomModelBuilder) -> None:
    x = m.pick_value((FLOAT, BOOL)[m.integer(0, 1)])
    if x:
        m.add_node("Cast", [x], x.shape, dtype=FLOAT, to=FLOAT)


def dropout(m: RandomModelBuilder) -> None:
    x = m.pick_value()
    if x and m.integer(0, 1):
        m.add_node("Dropout", [x, m.add_constant(np.float32(0.0))], x.shape)
    elif x:
        m.add_node("Dropout", [x], x.shape)


def matmul_add(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(2, 5))
    if x is None:
        return
    columns = m.integer(1, 4)
    m.add_node("MatMul", [x, m.random_weights((x.shape[-1], columns))], (*x.shape[:-1], columns))
    if m.integer(0, 2):
        bias = m.random_weights(((columns,), (1, columns), (x.shape[-2], 1), (1, 1, columns))[m.integer(0, 3)])
        product = m.values[-1]
        shape = np.broadcast_shapes(product.shape, bias.shape)
        m.add_node("Add", [product, bias] if m.integer(0, 1) else [bias, product], shape)


def transpose(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 7))
    if x is None:
        return
    perm = m.draw(st.permutations(range(len(x.shape))))
    if m.integer(0, 2):
        m.add_node("Transpose", [x], tuple(x.shape[i] for i in perm), perm=perm)
    else:
        m.add_node("Transpose", [x], x.shape[::-1])


def reshape(m: RandomModelBuilder) -> None:
    x = m.pick_value()
    if x is None:
        return
    size = int(np.prod(x.shape))
    target = ((-1,), (size,), (1, size), (*x.shape[:1], -1) if x.shape and size else (-1,))[m.integer(0, 3)]
    shape = np.empty(x.shape).reshape(target).shape
    m.add_node("Reshape", [x, m.int_constant(*target)], shape)


def squeeze(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x is None:
        return
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if ones and m.integer(0, 1):
        m.add_node("Squeeze", [x, m.int_constant(ones[0])], x.shape[: ones[0]] + x.shape[ones[0] + 1 :])
    else:
        m.add_node("Unsqueeze", [x, m.int_constant(0)], (1, *x.shape))


def concat(m: RandomModelBuilder) -> None:
    x, y = m.pick_value(ranks=range(1, 5)), m.pick_value(ranks=range(1, 5))
    if x and y and x.shape[1:] == y.shape[1:]:
        m.add_node("Concat", [x, y], (x.shape[0] + y.shape[0], *x.shape[1:]), axis=0)


def slice_or_split(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x and x.shape[0] > 1:
        if m.integer(0, 1):
            m.add_node("Slice", [x, m.int_constant(0), m.int_constant(1), m.int_constant(0)], (1, *x.shape[1:]))
        else:
            rows, rest = x.shape[0], x.shape[1:]
            m.add_node("Split", [x, m.int_constant(1, rows - 1)], (1, *rest), (rows - 1, *rest), axis=0)


def gather(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x and x.shape[0]:
        index = m.integer(0, x.shape[0] - 1)
        if m.integer(0, 1):
            m.add_node("Gather", [x, m.add_constant(np.int64(index))], x.shape[1:])
        else:
            m.add_node("Gather", [x, m.int_constant(index, 0)], (2, *x.shape[1:]), axis=0)


def reduce(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x and 0 not in x.shape:
        keep = m.integer(0, 1)
        shape = (*x.shape[:-1], *([1] if keep else []))
        m.add_node(("ReduceMean", "ReduceMax")[m.integer(0, 1)], [x, m.int_constant(-1)], shape, keepdims=keep)


def softmax(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x and 0 not in x.shape:
        m.add_node(("Softmax", "LogSoftmax")[m.integer(0, 1)], [x], x.shape, axis=-1)


def conv(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(3, 5))
    if x is None or 0 in x.shape or x.shape[1] > 8:
        return
    groups = x.shape[1] if m.integer(0, 1) else 1
    out, window = groups * m.integer(1, 2), [1] * (len(x.shape) - 2)
    if m.integer(0, 2):
        inputs: list[TypedValue | None] = [x, m.random_weights((out, x.shape[1] // groups, *window))]
        op = "Conv"
    else:
        inputs, op = [x, m.random_weights((x.shape[1], out // groups, *window))], "ConvTranspose"
    if m.integer(0, 1):
        inputs.append(m.random_weights((out,)))
    m.add_node(op, inputs, (x.shape[0], out, *x.shape[2:]), group=groups)
    if m.integer(0, 3):
        scales = [m.random_weights((out,), positive=is_variance) for is_variance in (False, False, False, True)]
        m.add_node("BatchNormalization", [m.values[-1], *scales], m.values[-1].shape, epsilon=0.01)


def shape_arithmetic(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x is None:
        return
    m.add_node("Shape", [x], (len(x.shape),), dtype=INT)
    m.add_node("Reshape", [x, m.values[-1]], x.shape)


def expanded_constant(m: RandomModelBuilder) -> None:
    fill = numpy_helper.from_array(np.array([1.5], np.float32))
    size = m.integer(1, 4)
    m.add_node("ConstantOfShape", [m.int_constant(size)], (size,), dtype=FLOAT, value=fill)
    m.add_node("Expand", [m.values[-1], m.int_constant(2, size)], (2, size), dtype=FLOAT)


def if_branches(m: RandomModelBuilder) -> None:
    x = m.pick_value(ranks=range(1, 5))
    if x is None:
        return
    info = helper.make_tensor_value_info
    bodies = []
    for i, op in enumerate(("Neg", "Identity")):
        name = f"b{len(m.nodes)}_{i}"
        inner = [helper.make_node("Identity", [x.name], [f"i{name}"]), helper.make_node(op, [f"i{name}"], [name])]
        bodies.append(helper.make_graph(inner, name, [], [info(name, FLOAT, x.shape)]))
    if m.integer(0, 1):
        condition: TypedValue | None = m.add_constant(np.bool_(m.integer(0, 1)))
    else:
        condition = next((v for v in m.values if v.dtype == BOOL and np.prod(v.shape) == 1), None)
    if condition:
        m.add_node("If", [condition], x.shape, dtype=FLOAT, then_branch=bodies[0], else_branch=bodies[1])


NODE_GENERATORS = (
    unary, binary, unary, binary, compare, where, cast, dropout, matmul_add, transpose, transpose, reshape, squeeze,
    concat, slice_or_split, gather, reduce, softmax, conv, conv, shape_arithmetic, expanded_constant, if_branches,
)  # fmt: skip


@st.composite
def models(draw: Callable[[st.SearchStrategy[Any]], Any], node_counts: tuple[int, int] = (5, 60)) -> onnx.ModelProto:
    """A valid model of 5 to 60 nodes or slightly more, with one or two float inputs."""
    m = RandomModelBuilder(draw)
    dims = st.integers(1, 4)
    shapes = [tuple(draw(st.lists(dims, min_size=2, max_size=4))) for _ in range(m.integer(1, 2))]
    m.values = [TypedValue(f"x{i}", s) for i, s in enumerate(shapes)]
    for _ in range(m.integer(*node_counts)):
        NODE_GENERATORS[m.integer(0, len(NODE_GENERATORS) - 1)](m)
    inputs = [helper.make_tensor_value_info(f"x{i}", FLOAT, s) for i, s in enumerate(shapes)]
    made = m.values[len(shapes) :]
    kept = [v for i, v in enumerate(made) if i >= len(made) - 2 or m.integer(0, 7) == 0]
    if not kept:
        m.add_node("Neg", [m.values[0]], m.values[0].shape)
        kept = m.values[-1:]
    outputs = [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in kept]
    graph = helper.make_graph(m.nodes, "random", inputs, outputs, m.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
