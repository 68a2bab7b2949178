"""Reshapes and their inverses around elementwise ops and matrix products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.core.errors import EvaluationError
from passwright.passes.movement import reshapes
from passwright.passes.movement.reshapes import (
    gemm_without_reshapes,
    multiply_without_batch_reshapes,
    multiply_without_reshapes,
    sink_reshape,
)
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, run, stays, to_onnx

MULTIPLY_WITHOUT_RESHAPES = rule_pass(reshapes, "multiply-without-reshapes")
SINK_RESHAPES = rule_pass(reshapes, "sink-reshapes")

ROWS = (multiply_without_reshapes, gemm_without_reshapes, multiply_without_batch_reshapes)


def model(x: str, rank: int, body: str, **constants: list[int] | float) -> str:
    lines = ", ".join(
        f"int64[{len(v)}] {n} = {{{','.join(map(str, v))}}}" if isinstance(v, list) else f"float {n} = {{{v}}}"
        for n, v in constants.items()
    )
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y)" + (f" <{lines}>" if lines else "") + f" {{ {body} }}"


reshape_sinking = Rewrites("g ({x}) => (float[] y)", sink_reshape, x="float[N,3,4] x")

test_elementwise = reshape_sinking.all_become("""
    one op: u = Reshape(x, [-1,12]) v = Relu(u) y = Reshape(v, [-1,3,4]) => y = Relu(x)
    a Flatten: u = Flatten(x) v = Relu(u) y = Reshape(v, [-1,3,4]) => y = Relu(x)
    a chain with numbers: u = Reshape(x, [-1,12]) v = Mul(u, 0.5) w = Sub(0.5, v) z = Exp(w) y = Reshape(z, [-1,3,4])
        => v = Mul(x, c) w = Sub(c, v) y = Exp(w)
    variadic ops: u = Reshape(x, [-1,12]) v = Max(u, 0.5) w = Mean(0.5, v) y = Reshape(w, [-1,3,4])
        => v = Max(x, c) y = Mean(c, v)
    Shrink: u = Reshape(x, [-1,12]) v = Shrink<lambd=0.3>(u) y = Reshape(v, [-1,3,4]) => y = Shrink<lambd=0.3>(x)
    an axis [x=float[N,M] x]: u = Unsqueeze(x, [1]) v = Clip(u, 0.5) y = Squeeze(v, [1]) => y = Clip(x, c)
    a Cast [x=float[N,M] x]: u = Unsqueeze(x, [1]) v = Cast<to=1>(u) y = Squeeze(v, [1]) => y = Cast<to=1>(x)
    two reshapes are one [x=float[N,2,6] x]: u = Reshape(x, [-1,12]) v = Relu(u) y = Reshape(v, [-1,3,4])
        => v = Relu(x) y = Reshape(v, back)
    two axes are taken at once [x=float[N,1,M,1] x]: u = Squeeze(x, [1]) v = Relu(u) y = Squeeze(v, [2])
        => v = Relu(x) y = Squeeze(v, end)
    the first serves others: u = Reshape(x, [-1,12]) v = Relu(u) w = Reshape(v, [-1,3,4]) z = Neg(u)
        t = Reshape(z, [-1,3,4]) y = Add(w, t) => w = Relu(x) t = Neg(x) y = Add(w, t)
""")

test_elementwise_stays = reshape_sinking.all_stay("""
    one way: v = Relu(x) y = Reshape(v, [-1,3,4])
    along an axis: u = Reshape(x, [-1,12]) v = Softmax(u) y = Reshape(v, [-1,3,4])
    a vector is added [x=float[N,3,4] x, float[12] b]: u = Reshape(x, [-1,12]) v = Add(u, b) y = Reshape(v, [-1,3,4])
    a number from outside [x=float[N,3,4] x, float b]: u = Reshape(x, [-1,12]) v = Add(u, b) y = Reshape(v, [-1,3,4])
    the computed value is read twice:
        u = Reshape(x, [-1,12]) v = Relu(u) w = Reshape(v, [-1,3,4]) z = Reshape(v, [-1,3,4]) y = Add(w, z)
    the first stays, and so would the second [x=float[N,2,6] x]:
        u = Reshape(x, [-1,12]) v = Relu(u) w = Reshape(v, [-1,3,4]) z = ReduceSum(u) y = Add(w, z)
    a Transpose: u = Transpose(x) v = Relu(u) y = Reshape(v, [-1,3,4])
    adds dims [x=float[N,M] x]: u = Unsqueeze(x, [1]) v = Mul(u, [[[1.0]]]) y = Squeeze(v, [1])
    adds dims to a scalar [x=float[1] x]: u = Squeeze(x, [0]) v = Add(u, [2.0]) y = Unsqueeze(v, [0])
    adds dims to a row [x=float[1,3] x]: u = Squeeze(x, [0]) v = Mul(u, [[2.0]]) y = Unsqueeze(v, [0])
    two operands [x=float[N,3,4] x, float[N,12] z]: u = Reshape(x, [-1,12]) v = Add(u, z) y = Reshape(v, [-1,3,4])
""")

W = {"w": np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5), "b": np.linspace(-1, 1, 5, dtype=np.float32)}
W["r"] = W["w"].T.copy()


@pytest.mark.parametrize(
    ("x", "before", "after", "rank"),
    [
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = MatMul(u, w) y = Reshape(v, back)", "y = MatMul(x, w)",
                     3, id="product"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = MatMul(u, w) t = Add(v, b) y = Reshape(t, back)",
                     "v = MatMul(x, w) y = Add(v, b)", 3, id="with a bias"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = MatMul(u, w) t = Add(b, v) y = Reshape(t, back)",
                     "v = MatMul(x, w) y = Add(v, b)", 3, id="with a bias before it"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = Gemm(u, w, b) y = Reshape(v, back)",
                     "v = MatMul(x, w) y = Add(v, b)", 3, id="a Gemm"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = Gemm(u, w) y = Reshape(v, back)",
                     "y = MatMul(x, w)", 3, id="a Gemm without bias"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = Gemm<transB=1>(u, r, b) y = Reshape(v, back)",
                     "v = MatMul(x, r) y = Add(v, b)", 3, id="a Gemm of transposed weights"),
        pytest.param("float[N,3,4] x", "u = Flatten<axis=2>(x) v = MatMul(u, w) y = Reshape(v, copied)",
                     "u = Flatten<axis=2>(x) v = MatMul(u, w) y = Reshape(v, copied)", 3, id="rows elsewhere"),
        pytest.param("float[2,3,4] x", "u = Flatten<axis=2>(x) v = MatMul(u, w) y = Reshape(v, back)",
                     "y = MatMul(x, w)", 3, id="a Flatten"),
        pytest.param("float[N,1,4] x", "u = Squeeze(x, one) v = MatMul(u, w) y = Reshape(v, single)",
                     "y = MatMul(x, w)", 3, id="a Squeeze"),
        pytest.param("float[N,3,4] x",
                     "u = Reshape(x, flat) v = MatMul(u, w) p = Reshape(v, back) n = MatMul(u, w) q = Reshape(n, back)"
                     " y = Add(p, q)",
                     "p = MatMul(x, w) q = MatMul(x, w) y = Add(p, q)", 3, id="rows that several multiply"),
    ],
)  # fmt: skip
def test_rows(x: str, before: str, after: str, rank: int) -> None:
    c: dict[str, list[int] | float] = {
        "flat": [-1, 4], "back": [-1, 3, 5], "copied": [3, -1, 5], "one": [1], "single": [-1, 1, 5],
    }  # fmt: skip
    if before == after:
        stays(model(x, rank, before, **c), *ROWS, weights=W, runs=False)
        return
    becomes(model(x, rank, before, **c), with_weights(x, rank, after), *ROWS, weights=W)


def with_weights(x: str, rank: int, body: str) -> str:
    """The text with small placeholder weights: only the structure is compared."""
    lines = ", ".join(f"float[1] {n} = {{0}}" for n in "wbr")
    return f"g ({x}) => (float[{','.join('pqrs'[:rank])}] y) <{lines}> {{ {body} }}"


@pytest.mark.parametrize(
    ("x", "body"),
    [
        pytest.param("float[N,3,4] x", "v = MatMul(x, w) y = Reshape(v, back)", id="no Reshape before"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = MatMul(u, w) y = Reshape(v, other)",
                     id="another shape"),
        pytest.param("float[N,4,3] x", "u = Reshape(x, flat) v = MatMul(u, w) y = Reshape(v, back)", id="rows are cut"),
        pytest.param("float[N,3,4] x, float[N,3,5] z",
                     "u = Reshape(x, flat) v = MatMul(u, w) p = Reshape(v, back) q = Relu(v) n = Reshape(q, other)"
                     " y = Add(p, z)", id="the product is read"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = Gemm<alpha=2.0>(u, w) y = Reshape(v, back)",
                     id="scaled"),
        pytest.param("float[N,3,4] x", "u = Reshape(x, flat) v = Gemm<transB=1>(u, r) p = Reshape(v, back)"
                     " q = ReduceSum(r) y = Add(p, q)", id="transposed weights that serve others"),
        pytest.param("float[2,3,4] x", "u = Reshape(x, flat) v = MatMul(u, w) t = Add(v, m) y = Reshape(t, back)",
                     id="another bias for each row"),
        pytest.param("float[3,4] x", "u = Reshape(x, flat) v = Gemm(u, w) y = Reshape(v, back)", id="a matrix anyway"),
        pytest.param("float[2,3,4] x, float[2,4,5] k", "u = Reshape(x, cube) v = MatMul(u, k) y = Reshape(v, back)",
                     id="a product of batches"),
    ],
)  # fmt: skip
def test_rows_stay(x: str, body: str) -> None:
    text = model(x, 3, body, flat=[-1, 4], back=[-1, 3, 5], other=[3, -1, 5], cube=[2, 3, 4])
    text = text.replace("n = Reshape(q, other) y = Add(p, z)", "n = ReduceSum(q) k = Add(n, z) y = Add(p, k)")
    stays(text, *ROWS, weights={**W, "m": np.ones((6, 5), np.float32)}, runs="other" not in body)


@each("opset", [7, 13, 25])
def test_every_opset(opset: int) -> None:
    body = "u = Reshape(x, flat) v = MatMul(u, w) z = Relu(v) y = Reshape(z, back)"
    text = model("float[2,3,4] x", 3, body, flat=[6, 4], back=[2, 3, 5])
    after = "v = MatMul(x, w) y = Relu(v)"
    rules = (sink_reshape, multiply_without_reshapes)
    out = to_onnx(apply_passes(load(text, opset, W), *rules)[0])
    assert [n.op_type for n in out.graph.node] == ["Reshape", "MatMul", "Relu", "Reshape"], after
    body = "u = Reshape(x, flat) v = MatMul(u, w) z = Reshape(v, back) y = Relu(z)"
    text = model("float[2,3,4] x", 3, body, flat=[6, 4], back=[2, 3, 5])
    becomes(text, with_weights("float[2,3,4] x", 3, after), *rules, opset=opset, weights=W)


def test_passes() -> None:
    assert SINK_RESHAPES.rules == (sink_reshape,)
    assert MULTIPLY_WITHOUT_RESHAPES.rules == ROWS


@given(
    flat=st.sampled_from([[-1, 4], [0, -1], [6, 4], [-1, 12], [2, -1, 2], [24]]),
    back=st.sampled_from([[2, 3, 4], [-1, 3, 4], [0, -1], [0, 3, -1], [4, 6]]),
    ops=st.lists(st.sampled_from(["Relu", "Neg", "Tanh", "Abs"]), min_size=1, max_size=3),
)
def test_any_round_trip(flat: list[int], back: list[int], ops: list[str]) -> None:
    lines = [f"v{i + 1} = {op}(v{i})" for i, op in enumerate(ops)]
    rank = len(back)
    text = model(
        "float[2,3,4] x", rank, f"v0 = Reshape(x, f) {' '.join(lines)} y = Reshape(v{len(ops)}, t)", f=flat, t=back
    )
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
    try:
        want = run(load(text), {"x": x})[0]
    except EvaluationError:  # the shapes do not fit each other
        return
    out = to_onnx(apply_passes(load(text), sink_reshape)[0])
    np.testing.assert_array_equal(run(out, {"x": x})[0], want)
    assert len(out.graph.node) <= len(ops) + 1
