"""Operators as z3 terms: on numbers they simplify to the results of onnxruntime, bit for bit where floats are."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from passwright.core.ort.backends import LoadedModel
from passwright.core.proof.obligation import Fragment, NotApplicable
from passwright.core.proof.smt_evaluation import CannotRun, TermEvaluation, TermTensor
from passwright.core.proof.smt_terms import Arithmetic, Element, simplest_fraction, z3
from passwright.core.proof.smt_worker import number_of
from rewriting import each

Array = np.ndarray[Any, Any]
FLOATS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 2.5, -0.2, 1e-45, -1e-40, 3e38], np.float32)
REALS = np.array([0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, -0.25, 100.0], np.float32)
PAIRS = tuple(np.array(np.meshgrid(FLOATS, FLOATS), np.float32).reshape(2, -1))
REAL_PAIRS = tuple(np.array(np.meshgrid(REALS, REALS), np.float32).reshape(2, -1))


def integers(dtype: type) -> tuple[Array, Array]:
    """Pairs of integers, the least and greatest among them."""
    limits = np.iinfo(dtype)
    some = {limits.min, limits.min + 1, -7, -1, 0, 1, 2, 3, 7, 100, limits.max - 1, limits.max}
    kept = sorted(n for n in some if limits.min <= n <= limits.max)
    numbers = np.array(kept, dtype)
    a, b = (side.reshape(-1) for side in np.meshgrid(numbers, numbers))
    return a, b


def single(op: str, arrays: Sequence[Array], opset: int, attributes: Mapping[str, Any]) -> onnx.ModelProto:
    """A model of one node."""
    names = [f"i{k}" for k in range(len(arrays))]
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", types, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def encoded(
    op: str, arrays: Sequence[Array], *, over_reals: bool = False, opset: int = 20, **attributes: Any
) -> tuple[Array, Array]:
    """The results of onnxruntime and the elements of the encoding."""
    model = single(op, arrays, opset, attributes)
    feeds = {f"i{k}": a for k, a in enumerate(arrays)}
    wanted = LoadedModel(model.SerializeToString()).run(["y"], feeds)[0]
    evaluation = TermEvaluation(Arithmetic(over_reals))
    given = {name: evaluation.constant(a) for name, a in feeds.items()}
    if op not in MOVES:  # else it would compute with the numbers themselves
        first = 1 if op.startswith("Reduce") else None
        given.update({n: TermTensor(v.dtype, v.elements) for n, v in list(given.items())[:first]})
    found = evaluation.run(Fragment(model), given)["y"]
    assert isinstance(found, TermTensor)
    assert found.elements.shape == wanted.shape
    return wanted, found.elements


def values(elements: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers that terms simplify to."""
    found = np.zeros(elements.shape, dtype)
    for at in np.ndindex(elements.shape):
        element: Element = elements[at]
        found[at] = number_of(z3.simplify(element.term), dtype)
    return found


def bits(array: Array) -> Array:
    """The bits of floats, with one NaN."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), array.dtype.type(np.nan), array).view(f"u{array.dtype.itemsize}")


def require_equal(op: str, arrays: Sequence[Array], **options: Any) -> None:
    wanted, elements = encoded(op, arrays, **options)
    np.testing.assert_array_equal(bits(values(elements, wanted.dtype)), bits(wanted))


Cases = dict[str, tuple[str, Sequence[Array], dict[str, Any]]]


def of(arrays: Sequence[Array], ops: str, **attributes: Any) -> Cases:
    """Operators on the same arrays, by name."""
    types = " ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
    return {" ".join([op, types, *(f"{k}={v}" for k, v in attributes.items())]): (op, arrays, attributes)
            for op in ops.split()}  # fmt: skip


def merged(tables: Iterable[Cases]) -> Cases:
    return {name: case for table in tables for name, case in table.items()}


INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
WIDE = (np.int32, np.int64, np.uint32, np.uint64)
ARITHMETIC, ORDER = "Add Sub Mul Div", "Less LessOrEqual Greater GreaterOrEqual"
UNARY = "Abs Ceil Floor IsInf IsNaN Neg Reciprocal Relu Round Sign"
FIRST = np.array([0], np.int64)


def divisible(dtype: type) -> tuple[Array, Array]:
    """Pairs of integers whose quotient is defined."""
    a, b = integers(dtype)
    kept = (b != 0) & ~((a == np.iinfo(dtype).min) & (b.astype(object) == -1))
    return a[kept], b[kept]


def some(dtype: type, *shape: int) -> Array:
    """The first integers of a type, in a shape."""
    return integers(dtype)[0][: math.prod(shape)].reshape(shape)


FLOAT_CASES: Cases = {
    **of([FLOATS], f"{UNARY} Sqrt Identity"),
    **of([FLOATS], "IsInf", detect_negative=0),
    **of([FLOATS], "IsInf", detect_positive=0),
    **of([FLOATS], "LeakyRelu", alpha=0.1),
    **of([FLOATS], "Shrink", lambd=1.0, bias=0.3),
    **of([FLOATS], "ThresholdedRelu", alpha=1.0),
    **of([FLOATS], "Cast", to=TensorProto.DOUBLE),
    **of([FLOATS], "Cast", to=TensorProto.BOOL),
    **of([FLOATS], "Clip", opset=6, min=-1.0, max=2.0),
    **of(PAIRS, f"{ARITHMETIC} {ORDER} Equal PRelu Sum"),
    **{f"Clip {bounds}": ("Clip", [FLOATS, *(np.array(b, np.float32) for b in bounds)], {})
       for bounds in ((0, 6), (-0.0, 0.0), (0.0, -0.0), (2, 1), (np.nan, 1), (0, np.nan))},
    **{f"Where {first}": ("Where", [np.array([first, not first] * 6), FLOATS, FLOATS[::-1].copy()], {})
       for first in (True, False)},
    **of([np.array([n], np.float32) for n in (1e8, 1, -1e8, 1)], "Sum"),  # from the left
    **of([FLOATS.reshape(1, -1), FIRST], "ReduceMax ReduceMin ReduceProd"),
    **of([FLOATS, FIRST[:0]], "ReduceMax ReduceMin ReduceMean ReduceSum ReduceProd", noop_with_empty_axes=1),
}  # fmt: skip
SHIFTS = [np.array([0, 1, 200, 255], np.uint8).repeat(8), np.tile(np.arange(8, dtype=np.uint8), 4)]
TIES = np.array([[3, 1, 3], [2, 2, 0]], np.int32)
INTEGER_CASES: Cases = {
    **merged(of(integers(t), f"Add Sub Mul {ORDER} Max Min") for t in WIDE),
    **merged(of(integers(t), "BitwiseAnd BitwiseOr BitwiseXor") for t in INTEGERS),
    **merged(of(divisible(t), "Mod") for t in INTEGERS),
    **merged(of(divisible(t), "Div") for t in WIDE),
    **of(divisible(np.int32), "Mod", fmod=1),
    **merged(of([np.unique(integers(t)[0])], "Abs Sign Neg BitwiseNot") for t in INTEGERS[:4]),
    **merged(of(SHIFTS, "BitShift", direction=way) for way in ("LEFT", "RIGHT")),
    **of([np.array([False, False, True, True]), np.array([False, True, False, True])], "And Or Xor Equal"),
    **of([np.array([False, True])], "Not"),
    **of([np.arange(-128, 128).astype(np.int8), np.array(0.1, np.float32)], "DequantizeLinear"),
    **of([np.arange(-128, 128).astype(np.int8), np.array(0.1, np.float32), np.array(3, np.int8)], "DequantizeLinear"),
    **of([np.arange(-6, 6).astype(np.int8).reshape(2, 3, 2), np.array([0.1, 0.3, 7], np.float32),
          np.array([1, -2, 0], np.int8)], "DequantizeLinear", axis=1),
    **of([some(np.int32, 2, 3, 4), np.array([0, 2])], "ReduceMax ReduceMin", keepdims=0),
    **of([some(np.int32, 1, 12), FIRST], "ReduceMax ReduceMin ReduceMean ReduceProd ReduceSum", keepdims=0),
    **of([some(np.int32, 2, 2, 3), integers(np.int32)[1][-6:].reshape(3, 2)], "MatMul"),
    **merged(of([TIES], "ArgMax ArgMin", axis=1, select_last_index=last) for last in (0, 1)),
}  # fmt: skip
MOVES: Mapping[str, tuple[Sequence[Array], dict[str, Any]]] = {
    "Concat": ([np.resize(FLOATS, (2, 2)), np.resize(FLOATS[4:], (2, 3))], {"axis": 1}),
    "DepthToSpace": ([np.resize(FLOATS, (1, 4, 1, 2))], {"blocksize": 2}),
    "Expand": ([FLOATS[:3].reshape(3, 1), np.array([2, 1, 4])], {}),
    "Flatten": ([np.resize(FLOATS, (2, 3, 2))], {"axis": 2}),
    "Gather": ([FLOATS, np.array([[0, -1], [5, 3]])], {}),
    "GatherElements": ([np.resize(FLOATS, (2, 3)), np.array([[1, 0, -1]])], {"axis": 0}),
    "GatherND": ([np.resize(FLOATS, (2, 3)), np.array([[1, 0], [0, -1]])], {}),
    "OneHot": ([np.array([1, 0, -1, 9]), np.array(3), np.array([0.5, -0.0], np.float32)], {}),
    "Pad": ([FLOATS, np.array([2, -1])], {}),
    "Reshape": ([FLOATS[:6], np.array([3, -1])], {}),
    "ReverseSequence": ([np.resize(FLOATS, (3, 2)), np.array([2, 3])], {}),
    "ScatterElements": ([FLOATS[:4], np.array([2, 0]), FLOATS[5:7]], {}),
    "ScatterND": ([FLOATS[:4], np.array([[3], [0]]), FLOATS[5:7]], {}),
    "Slice": ([FLOATS, np.array([-1]), np.array([-9]), np.array([0]), np.array([-2])], {}),
    "SpaceToDepth": ([np.resize(FLOATS, (1, 1, 2, 4))], {"blocksize": 2}),
    "Squeeze": ([FLOATS[:3].reshape(1, 3, 1), np.array([-1])], {}),
    "Tile": ([FLOATS[:3], np.array([2])], {}),
    "Transpose": ([np.resize(FLOATS, (2, 3, 2))], {"perm": [2, 0, 1]}),
    "Trilu": ([np.resize(FLOATS[5:], (3, 3))], {"upper": 0}),
    "Unsqueeze": ([FLOATS, np.array([0, -1])], {}),
}


@each(
    ("op", "arrays", "attributes"),
    {**FLOAT_CASES, **INTEGER_CASES, **{op: (op, *arguments) for op, arguments in MOVES.items()}},
)
def test_every_bit_is_kept(op: str, arrays: Sequence[Array], attributes: dict[str, Any]) -> None:
    require_equal(op, arrays, **attributes)


@each("op", ["Max", "Min"])
def test_extremes_of_floats_keep_every_bit_but_of_two_zeros(op: str) -> None:
    a, b = PAIRS
    is_open = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    require_equal(op, [a[~is_open], b[~is_open]])
    # onnxruntime gives the first or the second zero, by which of them is broadcast.
    zeros = [np.zeros(1, np.float32), np.full(1, -0.0, np.float32)]
    wanted, elements = encoded(op, zeros)
    solver = z3.Solver()
    solver.add(z3.Not(z3.fpIsZero(elements[0].term)))
    assert wanted[0] == 0
    assert solver.check() == z3.unsat
    assert not z3.is_fp_value(z3.simplify(elements[0].term))


@each(("a", "b"), [(1, 0), (-(2**31), -1)])
def test_a_division_that_ends_the_process_is_not_defined(a: int, b: int) -> None:
    evaluation = TermEvaluation(Arithmetic(over_reals=False))
    given = [np.array([n], np.int32) for n in (a, b)]
    feeds = {f"i{k}": evaluation.constant(v) for k, v in enumerate(given)}
    feeds = {n: TermTensor(v.dtype, v.elements) for n, v in feeds.items()}
    found = evaluation.run(Fragment(single("Div", given, 20, {})), feeds)["y"]
    assert isinstance(found, TermTensor)
    assert z3.is_false(z3.simplify(found.elements[0].defined))


NUMBERS = {
    TensorProto.FLOAT: np.array([0, -0.0, 0.7, -0.7, 1, -1, 2.5, 100, -100], np.float32),
    TensorProto.INT8: integers(np.int8)[0][:12],
    TensorProto.UINT8: integers(np.uint8)[0][:12],
    TensorProto.INT32: integers(np.int32)[0][:12],
    TensorProto.INT64: integers(np.int64)[0][:12],
    TensorProto.UINT64: integers(np.uint64)[0][:12],
    TensorProto.BOOL: np.array([True, False]),
}


@pytest.mark.parametrize("to", [*NUMBERS, TensorProto.DOUBLE])
@pytest.mark.parametrize("source", NUMBERS)
def test_casts(source: int, to: int) -> None:
    x = NUMBERS[source]
    if source == TensorProto.FLOAT and to in {TensorProto.UINT8, TensorProto.UINT64}:
        x = x[x > -1]  # of others the C++ standard says nothing
    require_equal("Cast", [x], to=to)


def test_a_cast_out_of_range_is_some_number() -> None:
    _, elements = encoded("Cast", [np.array([3e9, np.nan], np.float32)], to=TensorProto.INT32)
    assert not any(z3.is_bv_value(z3.simplify(e.term)) for e in elements)


@each("op", ["ReduceSum", "ReduceProd"])
def test_sums_of_integers_are_unknown_functions(op: str) -> None:
    # onnxruntime computes them as floats and saturates.
    _, elements = encoded(op, [integers(np.int32)[0][:4], np.array([0], np.int64)])
    assert not z3.is_bv_value(z3.simplify(elements[0].term))


REAL_CASES: Cases = {
    **of([REALS], f"{UNARY} HardSigmoid HardSwish Softsign LeakyRelu Shrink ThresholdedRelu"),
    **of([REALS], "HardSigmoid", alpha=0.4, beta=0.1),
    **of([REALS], "Cast", to=TensorProto.DOUBLE),
    **of(REAL_PAIRS, f"{ARITHMETIC} {ORDER} Equal Max Min Mean"),
    **{f"Pow {n}": ("Pow", [REALS[REALS != 0], np.array(n, np.float32)], {}) for n in (0, 1, 2, 3, -1, -2)},
    **of([REALS[:8].reshape(2, 2, 2), np.array([0, 2])],
         "ReduceL1 ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare"),
    **{f"MatMul {a} {b}": ("MatMul", [np.resize(REALS, a), np.resize(REALS, b)], {}) for a, b in (
        ((2, 3), (3, 2)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)), ((2, 1, 2, 3), (2, 3, 2)))},
    **of([np.resize(REALS, (3, 2)), np.resize(REALS, (4, 3)), REALS[:4]],
         "Gemm", transA=1, transB=1, alpha=0.5, beta=2.0),
}  # fmt: skip


@each(("op", "arrays", "attributes"), REAL_CASES)
def test_real_numbers_are_the_same(op: str, arrays: Sequence[Array], attributes: dict[str, Any]) -> None:
    """The encoding over the reals gives the number of onnxruntime, whose constants and results are exact here."""
    wanted, elements = encoded(op, arrays, over_reals=True, **attributes)
    for at in np.ndindex(wanted.shape):
        element: Element = elements[at]
        if not z3.is_true(z3.simplify(element.defined)):
            assert not np.isfinite(wanted[at])
            continue
        found = number_of(z3.simplify(element.term), np.dtype(np.float64))
        np.testing.assert_allclose(found, wanted[at], rtol=1e-6, err_msg=str(at))


def test_a_place_out_of_range_does_not_run() -> None:
    evaluation = TermEvaluation(Arithmetic(over_reals=False))
    given = [FLOATS, np.array([99])]
    feeds = {f"i{k}": evaluation.constant(v) for k, v in enumerate(given)}
    with pytest.raises(CannotRun, match="out of range"):
        evaluation.run(Fragment(single("Gather", given, 20, {})), feeds)


def test_other_operators_are_functions_of_all_that_they_read() -> None:
    evaluation = TermEvaluation(Arithmetic(over_reals=False))
    x = np.resize(FLOATS, (2, 3))
    model = single("Softmax", [x], 20, {})
    first, second = (evaluation.run(Fragment(model), {"i0": evaluation.constant(x)})["y"] for _ in range(2))
    other = evaluation.run(Fragment(single("Softmax", [x], 20, {"axis": 0})), {"i0": evaluation.constant(x)})["y"]
    assert isinstance(first, TermTensor)
    assert isinstance(second, TermTensor)
    assert isinstance(other, TermTensor)
    assert first.elements[0, 0].term.eq(second.elements[0, 0].term)
    assert not first.elements[0, 0].term.eq(first.elements[0, 1].term)
    assert not first.elements[0, 0].term.eq(other.elements[0, 0].term)


@each("op", ["RandomNormalLike", "Bernoulli"])
def test_random_operators_are_no_functions(op: str) -> None:
    evaluation = TermEvaluation(Arithmetic(over_reals=False))
    with pytest.raises(NotApplicable):
        evaluation.run(Fragment(single(op, [FLOATS], 20, {})), {"i0": evaluation.variable("i0", 1, FLOATS.shape)})


@each(
    ("number", "wanted"),
    [
        (np.float32(0.1), Fraction(1, 10)),
        (np.float32(1e-5), Fraction(1, 100000)),
        (np.float32(-1 / 3), Fraction(-1, 3)),
        (np.float64(0.3), Fraction(3, 10)),
        (np.float32(16777216), Fraction(16777216)),
        (np.int64(-4), Fraction(-4)),
        (np.float16(0.1), Fraction(float(np.float16(0.1)))),
    ],
)
def test_simplest_fractions(number: Any, wanted: Fraction) -> None:
    assert simplest_fraction(number) == wanted


@each("dtype", [np.float32, np.float64])
def test_a_float_is_the_number_to_which_its_fraction_rounds(dtype: type) -> None:
    numbers = np.random.default_rng(0).standard_normal(500).astype(dtype)
    numbers = np.concatenate([numbers, numbers * dtype(1e-30), np.exp2(np.arange(-140, 120)).astype(dtype)])
    found = [simplest_fraction(n) for n in numbers]
    assert all(dtype(float(f)) == n for f, n in zip(found, numbers, strict=True))
    assert all(f != 0 for f in found)
