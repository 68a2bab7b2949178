"""Folding without a session: the bits of onnxruntime's results, and bounded sizes."""

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from passwright.core import Graph, evaluate, from_onnx
from passwright.core.operators.table import OPERATORS
from passwright.passes.folding.fold_constants import evaluate_arrays
from rewriting import each, load

MIB = 1 << 20
EXACT = [name for name, operator in OPERATORS.items() if operator.exact]
WEIGHTS: dict[str, Any] = {
    "f": np.array([[1.5, -2.25, 0.0], [-0.0, 3e38, 1e-42]], np.float32),
    "g": np.array([[3.0], [7.0]], np.float32),
    "d": np.array([1.1, -2.9, 1e300], np.float64),
    "h": np.array([[0.1, -2.5], [65504, 6e-8]], np.float16),
    "i": np.array([[5, -7, 2**62], [-(2**63), 3, 0]], np.int64),
    "j": np.array([3, -1, 2], np.int64),
    "u": np.array([200, 7, 1], np.uint8),
    "b": np.array([True, False, True]),
    "c": np.array([[True], [False]]),
    "t": np.array(["one", "two", "three"], object),
    "e": np.zeros((0, 3), np.float32),
    "n": np.array([np.nan, 1, -np.nan], np.float32),
    "zero": np.array([0], np.int64),
    "one": np.array([1], np.int64),
    "two": np.array([2], np.int64),
    "s0": np.int64(0),
    "s9": np.int64(9),
    "s2": np.int64(2),
    "back": np.array([-1], np.int64),
    "far": np.array([-(2**63)], np.int64),
    "shape": np.array([3, -1], np.int64),
    "wide": np.array([4, 2, 3], np.int64),
    "twice": np.array([2, 3], np.int64),
    "r": np.array([[2**40 + 1, 3, 7], [2**31 + 1, -5, 1]], np.int64),
    "rows": np.array([[1, 0], [-1, 0]], np.int64),
    "split": np.array([1, 2], np.int64),
}
CASES = [
    "y = Add(f, g)", "y = Sub(g, f)", "y = Mul(f, f)", "y = Div(f, g)", "y = Div(d, d)",
    "y = Div(i, by)", "y = Div(u, u2)", "y = Mod(i, by)", "y = Mod(j, by)", "y = Neg(f)", "y = Abs(i)",
    "y = Sign(f)", "y = Sign(i)", "y = Sqrt(g)", "y = Sqrt(m)", "y = Floor(d)", "y = Ceil(f)", "y = Round(m)",
    "y = Add(i, j)", "y = Mul(i, i)", "y = Sub(i, j)", "y = Neg(i)", "y = Max(i, j)", "y = Min(j, i, i)",
    "y = Equal(i, j)", "y = Equal(b, c)", "y = Greater(f, g)", "y = Less(i, j)", "y = LessOrEqual(d, d)",
    "y = GreaterOrEqual(n, n)", "y = And(b, c)", "y = Or(b, c)", "y = Xor(b, c)", "y = Not(c)",
    "y = Where(c, f, g)", "y = Where(b, n, n)", "y = Where(b, t, t)",
    "y = Cast<to=1>(i)", "y = Cast<to=11>(i)", "y = Cast<to=6>(i)", "y = Cast<to=2>(i)", "y = Cast<to=9>(i)",
    "y = Cast<to=1>(d)", "y = Cast<to=7>(g)", "y = Cast<to=1>(h)", "y = Cast<to=9>(f)", "y = Cast<to=1>(b)",
    "y = CastLike(u, d)", "y = Identity(h)", "y = Identity(t)",
    "y = Concat<axis=1>(f, g, e2)", "y = Concat<axis=0>(f, e)", "y = Concat<axis=-1>(t, t)",
    "y = ConstantOfShape(wide)", "y = ConstantOfShape<value=int8[1] {-3}>(twice)", "y = Expand(g, wide)",
    "y = Expand(t, wide)", "y = Flatten<axis=0>(f)", "y = Flatten<axis=-1>(f)",
    "y = Gather<axis=1>(f, rows)", "y = Gather(t, j2)", "y = Gather<axis=-1>(h, s0)",
    "y = Reshape(f, shape)", "y = Reshape(i, back)", "y = Shape(f)", "y = Shape<start=-1>(e)", "y = Size(f)",
    "y = Slice(f, back, far, one, back)", "y = Slice(i, one, two, one)", "y = Slice(e, zero, two)",
    "y = Squeeze(g, one)", "y = Squeeze(g)", "y = Transpose(f)", "y = Transpose<perm=[0, 1]>(h)",
    "y = Unsqueeze(f, shape2)", "y = Tile(f, twice)", "y = Tile(t, two)", "y = Tile(f, vanishing)",
    "y = Range(s0, s9, s2)", "y = Range(s9, s0, m2)", "y = Range(s9, s0, s2)", "y, z = Split<axis=1>(f, split)",
    "y, z = Split<num_outputs=2>(t)",
    "y = ReduceProd(j)", "y = ReduceSum<keepdims=0>(r, one)", "y = ReduceMax(r, back)", "y = ReduceMin<keepdims=0>(j)",
]  # fmt: skip
ROUNDED = ("Sqrt", "Floor", "Ceil", "Round")  # of one float operand
MORE: dict[str, Any] = {
    "e2": np.zeros((2, 0), np.float32),
    "j2": np.array([2, -1], np.int64),
    "shape2": np.array([-1, 0], np.int64),
    "m2": np.int64(-2),
    "by": np.array([3, -2, 7], np.int64),
    "u2": np.array([7], np.uint8),
    "vanishing": np.array([2, 0], np.int64),
    "m": np.array([0.5, 1.5, 2.5, 2.0, 1e-45, 3e38, np.inf, 8388609.0], np.float32),
}


def graph_of(text: str, weights: dict[str, Any], opset: int = 20) -> Graph:
    return from_onnx(load(f"g (float[2] x) => (float[2] o) {{ {text} o = Neg(x) }}", opset, weights)).graph


def in_both(text: str, weights: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The results of the op of `text` here, and in onnxruntime."""
    (op,) = (op for op in graph_of(text, weights).sorted_ops() if op.outputs[0].name != "o")
    here, rest = evaluate_arrays([op], op.outputs, MIB)
    there = evaluate([op], op.outputs)
    assert rest == ([] if here else [op])
    return [here[v].array for v in op.outputs if v in here], [there[v].array for v in op.outputs if v in there]


def same_bits(a: Any, b: Any) -> bool:
    if a.dtype.hasobject:
        return a.shape == b.shape and a.tolist() == b.tolist()
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@each("text", CASES)
def test_results_have_the_bits_of_onnxruntime(text: str) -> None:
    here, there = in_both(text, WEIGHTS | MORE)
    assert len(here) == len(there) > 0
    assert all(map(same_bits, here, there))


def test_every_exact_operator_has_a_case() -> None:
    assert {text.split(" = ")[1].partition("(")[0].partition("<")[0] for text in CASES} == set(EXACT)


@each(
    "text",
    {
        "NaN": ("y = Add(n, n)"),
        "beyond the range of the integers": ("y = Cast<to=7>(f)"),
        "a Cast of NaN": ("y = Cast<to=1>(n)"),
        "to half precision": ("y = Cast<to=10>(f)"),
        "to text": ("y = Cast<to=8>(f)"),
        "half precision": ("y = Add(h, h)"),
        "a division by 0": ("y = Div(i, zero)"),
        "a division by -1": ("y = Div(i, back)"),
        "a remainder of a division by 0": ("y = Mod(j, i)"),
        "a remainder of the sign of the dividend": ("y = Mod<fmod=1>(j, j)"),
        "a maximum of floats, whose zeros have signs": ("y = Max(f, g)"),
        "a Range of floats": ("y = Range(p, q, q)"),
        "a sum of floats": ("y = ReduceSum(f)"),
        "a sum of integers that float64 rounds": ("y = ReduceSum(i)"),
        "a product that overflows": ("y = ReduceProd(u)"),
        "an index out of range": ("y = Gather(t, s9)"),
        "another number of elements": ("y = Reshape(f, wide)"),
        "parts that do not add up": ("y, z = Split<axis=1>(f, j)"),
        "fewer axes than starts": ("y = Slice(f, zero, two, none)"),
        "repeats of another rank": ("y = Tile(f, two)"),
        "no kernel": ("y = Exp(f)"),
    },
)
def test_others_are_left(text: str) -> None:
    graph = graph_of(text, WEIGHTS | {"p": np.float32(1), "q": np.float32(2), "none": np.zeros(0, np.int64)})
    (op,) = (op for op in graph.sorted_ops() if op.outputs[0].name != "o")
    assert evaluate_arrays([op], op.outputs, MIB) == ({}, [op])


@each(
    "text",
    [
        "y = ConstantOfShape(big)", "y = Expand(g, big)", "y = Tile(row, big)", "y = Gather(f, many)",
        "y = Range(s0, most, one0)", "y = Add(row, column)", "y = Where(b1, row, column)",
    ],
)  # fmt: skip
def test_sizes_are_checked_by_the_inputs(text: str) -> None:
    """A shape that the file declares has no influence."""
    more = {
        "big": np.array([1 << 40], np.int64),
        "row": np.ones(2000, np.float32),
        "column": np.ones((2000, 1), np.float32),
        "many": np.zeros(100_000, np.int64),
        "most": np.int64(2**63 - 1),
        "one0": np.int64(1),
        "b1": np.array([True]),
    }
    (op,) = (op for op in graph_of(text, WEIGHTS | more).sorted_ops() if op.outputs[0].name != "o")
    assert evaluate_arrays([op], op.outputs, MIB) == ({}, [op])


@given(data=st.data())
def test_arithmetic_has_the_bits_of_onnxruntime(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(["Add", "Sub", "Mul", "Div", "Less", "Equal", *ROUNDED]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64] + [np.int32, np.int64] * (op not in {"Div", *ROUNDED})))
    operands = {
        name: data.draw(arrays.arrays(dtype, data.draw(st.sampled_from([(7,), (1,), (33, 7)]))))
        for name in ("p" if op in ROUNDED else "pq")
    }
    here, there = in_both(f"y = {op}({', '.join(operands)})", operands)
    assert all(map(same_bits, here, there))
    assert here or (operands["p"].dtype.kind == "f" and np.isnan(there[0]).any())


def test_empty_results_take_no_memory() -> None:
    (op, _) = graph_of("y = Tile(f, far_vanishing)", WEIGHTS | {"far_vanishing": np.array([2**40, 0])}).sorted_ops()
    found, _ = evaluate_arrays([op], op.outputs, MIB)
    assert [t.dims for t in found.values()] == [(2**41, 0)]


def test_intermediate_results_are_not_kept() -> None:
    graph = graph_of("p = Expand(g, wide) q = Neg(p) y = Slice(q, zero, one)", WEIGHTS)
    ops = [op for op in graph.sorted_ops() if op.outputs[0].name != "o"]
    found, rest = evaluate_arrays(ops, ops[-1].outputs, MIB)
    assert ([v.name for v in found], rest) == (["y"], [])
    array = found[ops[-1].outputs[0]].array
    assert array.base is None or array.base.nbytes == array.nbytes  # which is that of `q` in a view of it


def test_values_for_other_ops_are_given() -> None:
    graph = graph_of("p = Neg(f) q = Exp(p) y = Neg(q)", WEIGHTS)
    ops = [op for op in graph.sorted_ops() if op.outputs[0].name != "o"]
    found, rest = evaluate_arrays(ops, ops[-1].outputs, MIB)
    assert ([v.name for v in found], [op.type for op in rest]) == (["p"], ["Exp", "Neg"])


def test_types_that_numpy_lacks_are_moved() -> None:
    weights = {"w": np.array([[1, 2.5]], ml_dtypes.bfloat16)}
    (op,) = (op for op in graph_of("y = Transpose(w)", weights).sorted_ops() if op.outputs[0].name != "o")
    found, _ = evaluate_arrays([op], op.outputs, MIB)
    assert same_bits(found[op.outputs[0]].array, np.ascontiguousarray(weights["w"].T))


def test_old_opsets_are_left() -> None:
    """Before opset 8, operators broadcast in one direction, from an axis."""
    (op,) = (op for op in graph_of("y = Add(f, g)", WEIGHTS, 6).sorted_ops() if op.outputs[0].name != "o")
    assert evaluate_arrays([op], op.outputs, MIB) == ({}, [op])
    assert "Add" in EXACT
