"""Reading expressions as polynomials, and the element types for which nothing is fused."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import polynomial as poly
from passwright.core import MatchFailure, Value, from_onnx
from passwright.passes.fusion.polynomials import affine_form, polynomial_coefficients
from passwright.passes.pipelines import FUSION
from rewrite_tables import Rewrites
from rewriting import each, load, table

C = "<float two = {2}, float three = {3}, float[1,1,1] wide = {2}, float[2] pair = {2, 2}, float zero = {0}>"


def values(body: str) -> tuple[Value, Value]:
    """The output and the input of a model of one expression."""
    graph = from_onnx(load(f"g (float[n,2] x) => (float[a,b] y) {C} {{ {body} }}")).graph
    return graph.outputs[0], graph.inputs[0]


@each(
    ("body", "want"),
    {
        "a multiple": ("y = Mul(x, two)", [0, 2]),
        "a quotient": ("y = Div(x, two)", [0, 0.5]),
        "a difference": ("a = Sub(two, x) y = Neg(a)", [-2, 1]),
        "a sum of three": ("a = Pow(x, three) y = Sum(a, x, two)", [2, 1, 0, 1]),
        "a product": ("a = Add(x, two) b = Mul(x, x) y = Mul(a, b)", [0, 0, 2, 1]),
        "nothing": ("y = Sub(x, x)", [0]),
    },
)
def test_polynomial(body: str, want: list[float]) -> None:
    assert polynomial_coefficients(*values(body)) == want


DEEP = " ".join(f"v{i + 1} = Neg({f'v{i}' if i else 'x'})" for i in range(8))


@each(
    "body",
    table(f"""
    a reciprocal: y = Div(two, x)
    over 0: y = Div(x, zero)
    another operator: y = Relu(x)
    several numbers: y = Mul(x, pair)
    a number that adds a dim: y = Mul(x, wide)
    a power of 2: y = Pow(two, x)
    a power of 0: y = Pow(x, zero)
    of degree 4: a = Mul(x, x) y = Mul(a, a)
    deep: {DEEP} y = Neg(v8)
"""),
)
def test_no_polynomial(body: str) -> None:
    with pytest.raises(MatchFailure):
        polynomial_coefficients(*values(body))


@given(numbers=st.lists(st.integers(-3, 3).filter(bool), min_size=1, max_size=4))
def test_any_line(numbers: list[int]) -> None:
    want: list[float] = [0.0, 1.0]
    lines, constants = [], []
    for i, n in enumerate(numbers):
        op, combine = [("Mul", poly.polymul), ("Add", poly.polyadd)][i % 2]
        want = combine(want, [n]).tolist()
        constants.append(f"float c{i} = {{{n}}}")
        lines.append(f"v{i + 1} = {op}(c{i}, {f'v{i}' if i else 'x'})")
    text = f"g (float[n] x) => (float[n] y) <{', '.join(constants)}> {{ {' '.join(lines)} y = Relu(v{len(numbers)}) }}"
    graph = from_onnx(load(text)).graph
    last = next(graph.ops("Relu")).inputs[0]
    assert last is not None
    assert affine_form(last) == (graph.inputs[0], want[1], want[0])


test_bfloat16_stays = Rewrites(
    "g (bfloat16[n,3] x) => (bfloat16[a,b] y)", *FUSION, weights={"c": np.asarray(1, ml_dtypes.bfloat16)}, runs=False
).all_stay("""
    RMSNormalization: h = Mul(x, x) v = ReduceMean<axes=[1]>(h) f = Add(v, c) s = Sqrt(f) r = Div(c, s) y = Mul(x, r)
    Gelu: h = Erf(x) p = Add(h, c) m = Mul(x, p) y = Mul(m, c)
    Softsign: h = Abs(x) p = Add(h, c) y = Div(x, p)
    LeakyRelu: h = Mul(x, c) y = Max(x, h)
    HardSigmoid: h = Clip(x, c, c) y = Div(h, c)
    Swish [opset=24]: h = Sigmoid(x) y = Mul(x, h)
    ReduceSumSquare: h = Mul(x, x) y = ReduceSum(h)
    LpNormalization: h = ReduceL2<axes=[1]>(x) y = Div(x, h)
""")
