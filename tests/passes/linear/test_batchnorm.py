"""BatchNormalization behind a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from passwright.passes.linear.affine_into_conv import fold_batchnorm_into_conv
from rewriting import apply_passes, becomes, cases, initializers, load, op_types, require_equivalent, stays

FOLD_BATCHNORM = rule_pass(affine_into_conv, "fold-batchnorm")

RULES = (fold_batchnorm_into_conv,)
Weights = dict[str, Any]


def statistics(channels: int, dtype: Any = np.float32, seed: int = 1) -> Weights:
    """Scale, bias, mean and variance; some scales negative."""
    rng = np.random.default_rng(seed)
    s, b, m = (rng.standard_normal(channels).astype(dtype) for _ in range(3))
    return {"s": s, "b": b, "m": m, "v": rng.uniform(0.5, 2, channels).astype(dtype)}


def weights(shape: tuple[int, ...], channels: int, *, bias: bool = False, dtype: Any = np.float32) -> Weights:
    """Weights of a convolution and the statistics behind it."""
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal(shape).astype(dtype)} | statistics(channels, dtype)
    return w | ({"c": rng.standard_normal(channels).astype(dtype)} if bias else {})


def becomes_one(
    conv: str, shape: tuple[int, ...], *, x: str, channels: int, bn: str = "", opset: int = 17, **how: Any
) -> Any:
    """The pair becomes one equivalent op of the same attributes."""
    kind = how.pop("kind", "float")
    w = weights(shape, channels, **how)
    op, _, attributes = conv.partition("<")
    attributes = f"<{attributes}" if attributes else ""
    text = f"g ({kind}[{x}] x) => ({kind}[{','.join('abcde'[: len(shape)])}] y)"
    after = f"{text} <float[1] k = {{0}}, float[1] l = {{0}}> {{ y = {op}{attributes}(x, k, l) }}"
    before = f"{text} {{ t = {op}{attributes}(x, w{', c' if how.get('bias') else ''})"
    before += f" y = BatchNormalization{bn}(t, s, b, m, v) }}"
    return becomes(before, after, *RULES, opset=opset, weights=w)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@cases(
    ("conv", "x", "shape", "channels"),
    {
        "1-D": ("Conv", "2,3,9", (4, 3, 3), 4),
        "2-D": ("Conv", "2,3,6,7", (4, 3, 3, 2), 4),
        "3-D": ("Conv", "1,2,4,5,4", (3, 2, 2, 3, 2), 3),
        "grouped": ("Conv<group=2>", "2,4,5,5", (6, 2, 3, 3), 6),
        "depthwise": ("Conv<group=3>", "2,3,5,5", (3, 1, 3, 3), 3),
        "depthwise, two filters a channel": ("Conv<group=3>", "2,3,5,5", (6, 1, 3, 3), 6),
        "attributes": ("Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2]>", "2,3,9,9", (4, 3, 3, 2), 4),
        "auto_pad": ('Conv<auto_pad="SAME_UPPER">', "2,3,5,5", (4, 3, 3, 3), 4),
        "symbolic batch": ("Conv", "N,3,8,8", (4, 3, 3, 3), 4),
        "one number": ("Conv", "2,1,5", (1, 1, 1), 1),
        "transposed 1-D": ("ConvTranspose", "2,3,9", (3, 4, 3), 4),
        "transposed 2-D": ("ConvTranspose", "2,3,4,5", (3, 4, 3, 2), 4),
        "transposed 3-D": ("ConvTranspose", "1,2,3,4,3", (2, 3, 2, 3, 2), 3),
        "transposed, grouped": ("ConvTranspose<group=2>", "2,4,5,5", (4, 3, 3, 3), 6),
        "transposed, depthwise": ("ConvTranspose<group=3>", "2,3,5,5", (3, 1, 3, 3), 3),
        "transposed, attributes": (
            "ConvTranspose<output_padding=[1,0], pads=[1,0,1,0], strides=[2,2]>",
            "2,3,5,5",
            (3, 4, 3, 3),
            4,
        ),
    },
)
def test_becomes(conv: str, x: str, shape: tuple[int, ...], channels: int, bias: bool) -> None:
    becomes_one(conv, shape, x=x, channels=channels, bias=bias)


@pytest.mark.parametrize("conv", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("opset", [7, 8, 9, 13, 14, 15, 22])
def test_every_opset_since_7(conv: str, opset: int) -> None:
    becomes_one(conv, (3, 3, 2, 2), x="2,3,5,5", channels=3, opset=opset)


@pytest.mark.parametrize("conv", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("double", np.float64)])
def test_other_types(conv: str, kind: str, dtype: Any) -> None:
    """onnxruntime's CPU provider has no such kernels: the oracle is onnx.reference."""
    out = becomes_one(conv, (3, 3, 2, 2), x="2,3,4,4", channels=3, kind=kind, dtype=dtype, bias=True)
    assert {a.dtype for a in initializers(out).values()} == {np.dtype(dtype)}


@pytest.mark.parametrize(
    "bn",
    [
        "<epsilon=0.5>",
        "<epsilon=0.0>",
        "<momentum=0.1>",
        "<training_mode=0>",
    ],
)
def test_attributes_of_the_normalization(bn: str) -> None:
    becomes_one("Conv", (4, 3, 3, 3), x="2,3,5,5", channels=4, bn=bn)


def test_default_of_spatial_may_be_spelled_out() -> None:
    becomes_one("Conv", (4, 3, 3, 3), x="2,3,5,5", channels=4, bn="<spatial=1>", opset=7)


G = "g (float[2,3,5,5] x) => (float[a,b,c,d] y)"
PAIR = "t = Conv(x, w) y = BatchNormalization(t, s, b, m, v)"
W = weights((4, 3, 3, 3), 4)


def test_shared_weights_are_scaled_in_a_copy() -> None:
    text = "g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[a,b,c,d] z)"
    model = load(f"{text} {{ {PAIR} z = Conv(x, w) }}", weights=W)
    result, _ = apply_passes(model, *RULES)
    out = to_onnx(result)
    require_equivalent(model, out)
    assert op_types(out) == ["Conv", "Conv"]
    np.testing.assert_array_equal(initializers(out)["w"], W["w"])


def test_statistics_shared_by_two_convolutions() -> None:
    text = "g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[a,b,c,d] z)"
    before = f"{text} {{ {PAIR} n = Neg(x) u = Conv(n, w) z = BatchNormalization(u, s, b, m, v) }}"
    model = load(before, weights=W)
    result, _ = apply_passes(model, *RULES)
    out = to_onnx(result)
    require_equivalent(model, out)
    assert op_types(out) == ["Conv", "Neg", "Conv"]
    assert not W.keys() & initializers(out).keys()


def test_two_normalizations_in_a_row() -> None:
    model = load(f"{G} {{ t = Conv(x, w) u = BatchNormalization(t, s, b, m, v)"
                 f" y = BatchNormalization(u, m, s, b, v) }}", weights=W)  # fmt: skip
    result, _ = apply_passes(model, *RULES)
    out = to_onnx(result)
    require_equivalent(model, out)
    assert op_types(out) == ["Conv"]


def test_mixed_types() -> None:
    """Since opset 15 scale and statistics may be wider than the data; the new weights are of the data's type."""
    w = weights((4, 3, 3, 3), 4, dtype=np.float16) | statistics(4, np.float32)
    model = load(f"{G} {{ {PAIR} }}".replace("float[", "float16["), opset=15, weights=w)
    result, _ = apply_passes(model, *RULES)
    out = to_onnx(result)
    assert op_types(out) == ["Conv"]
    assert {a.dtype for a in initializers(out).values()} == {np.dtype(np.float16)}
    require_equivalent(model, out)


def test_inside_an_if_body() -> None:
    text = (
        "g (bool k, float[2,3,5,5] x) => (float[a,b,c,d] y) {{ y = If (k) <"
        "then_branch = p () => (float[a,b,c,d] r) {{ {} }}, "
        "else_branch = q () => (float[a,b,c,d] u) {{ u = Conv(x, w) }}> }}"
    )
    model = load(text.format("t = Conv(x, w) r = BatchNormalization(t, s, b, m, v)"), weights=W)
    result, _ = apply_passes(model, *RULES)
    out = to_onnx(result)
    require_equivalent(model, out)
    branch = next(a.g for a in out.graph.node[0].attribute if a.name == "then_branch")
    assert [n.op_type for n in branch.node] == ["Conv"]


@cases(
    ("body", "change"),
    {
        "no convolution": ("y = BatchNormalization(x, s, b, m, v)", {k: W[k][:3] for k in "sbmv"}),
        "apart": ("t = Conv(x, w) r = Relu(t) y = BatchNormalization(r, s, b, m, v)", {}),
        "no normalization": ("y = Conv(x, w)", {}),
        "shared inner value": (f"{PAIR.replace('y =', 'n =')} r = Relu(t) y = Add(n, r)", {}),
        "the same value twice": ("t = Conv(x, w) n = BatchNormalization(t, s, b, m, v) y = Sub(t, n)", {}),
        "weights are computed": ("k = Neg(w) t = Conv(x, k) y = BatchNormalization(t, s, b, m, v)", {}),
        "scale is computed": ("k = Neg(s) t = Conv(x, w) y = BatchNormalization(t, k, b, m, v)", {}),
        "variance is computed": ("k = Exp(v) t = Conv(x, w) y = BatchNormalization(t, s, b, m, k)", {}),
        "bias is computed": ("k = Neg(b) t = Conv(x, w, k) y = BatchNormalization(t, s, b, m, v)", {}),
        "a variance that cancels epsilon": (PAIR, {"v": np.full(4, -1e-5, np.float32)}),
        "a negative variance": (PAIR, {"v": np.full(4, -1, np.float32)}),
        "statistics not a number": (PAIR, {"m": np.full(4, np.nan, np.float32)}),
        "scaled weights overflow": (PAIR, {"w": W["w"] * np.float32(1e30), "s": np.full(4, 1e20, np.float32)}),
    },
)
def test_stays(body: str, change: Weights) -> None:
    stays(f"{G} {{ {body} }}", *RULES, weights=W | change)


FIVE = "float[a,b,c,d] y, float[e] p, float[f] q, float[g] r, float[h] u"


@cases(
    ("text", "opset", "runs"),
    {
        "inner value is a graph output": (
            "g (float[2,3,5,5] x) => (float[a,b,c,d] t, float[a,b,c,d] y) { " + PAIR + " }",
            17,
            True,
        ),
        "training mode": (
            (
                "g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[e] p, float[f] q) { t = Conv(x, w)"
                " y, p, q = BatchNormalization<training_mode=1>(t, s, b, m, v) }"
            ),
            15,
            True,
        ),
        "training mode, one output": (
            (
                "g (float[2,3,5,5] x) => (float[a,b,c,d] y) { t = Conv(x, w)"
                " y = BatchNormalization<training_mode=1>(t, s, b, m, v) }"
            ),
            15,
            False,
        ),
        "five outputs before opset 14": (
            f"g (float[2,3,5,5] x) => ({FIVE}) {{ t = Conv(x, w) y, p, q, r, u = BatchNormalization(t, s, b, m, v) }}",
            9,
            False,
        ),
        "five outputs before opset 14, four unused": (
            (
                "g (float[2,3,5,5] x) => (float[a,b,c,d] y) {"
                " t = Conv(x, w) y, p, q, r, u = BatchNormalization(t, s, b, m, v) }"
            ),
            9,
            False,
        ),
        "statistics per element": (
            (
                "g (float[2,3,5,5] x) => (float[a,b,c,d] y)"
                " { t = Conv(x, w) y = BatchNormalization<spatial=0>(t, s, b, m, v) }"
            ),
            7,
            False,
        ),
        "opset 6": (
            (
                "g (float[2,3,5,5] x) => (float[a,b,c,d] y)"
                " { t = Conv(x, w) y = BatchNormalization<is_test=1>(t, s, b, m, v) }"
            ),
            6,
            False,
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3,5,5] x) => (float[a,b,c,d] y) { t = Conv(x, w) y = If (k) <"
                "then_branch = p () => (float[a,b,c,d] r) { r = BatchNormalization(t, s, b, m, v) }, "
                "else_branch = q () => (float[a,b,c,d] u) { z = Neg(x) u = Conv(z, w) }> }"
            ),
            17,
            True,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    stays(text, *RULES, opset=opset, weights=W, runs=runs)


@pytest.mark.parametrize("name", ["w", "c", "s", "b", "m", "v"])
def test_stays_if_overridable(name: str) -> None:
    w = weights((4, 3, 3, 3), 4, bias=True)
    dims = ",".join(map(str, w[name].shape))
    numbers = ", ".join(f"{f:.6f}" for f in w.pop(name).reshape(-1))
    text = f"g (float[2,3,5,5] x, float[{dims}] {name} = {{{numbers}}}) => (float[o,p,q,r] y)"
    stays(f"{text} {{ t = Conv(x, w, c) y = BatchNormalization(t, s, b, m, v) }}", *RULES, weights=w)


@pytest.mark.parametrize("name", ["w", "c", "s", "b", "m", "v"])
def test_stays_if_a_graph_input(name: str) -> None:
    w = weights((4, 3, 3, 3), 4, bias=True)
    dims = ",".join(map(str, w.pop(name).shape))
    text = f"g (float[2,3,5,5] x, float[{dims}] {name}) => (float[o,p,q,r] y)"
    stays(f"{text} {{ t = Conv(x, w, c) y = BatchNormalization(t, s, b, m, v) }}", *RULES, weights=w)


def test_half_that_overflows_stays() -> None:
    w = weights((4, 3, 3, 3), 4, dtype=np.float16) | {"s": np.full(4, 60000, np.float16)}
    w["v"] = np.full(4, 1e-3, np.float16)
    stays(f"{G} {{ {PAIR} }}".replace("float[", "float16["), *RULES, weights=w)


def test_stays_in_exact_runs() -> None:
    _, change_log = apply_passes(load(f"{G} {{ {PAIR} }}", weights=W), FOLD_BATCHNORM, exact_only=True)
    assert not change_log.changes


@given(
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    inputs=st.integers(1, 2),
    outputs=st.integers(1, 3),
    kernel=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    bias=st.booleans(),
    epsilon=st.sampled_from(["1e-05", "0.001", "0.5"]),
)
def test_any_convolution(
    *, transposed: bool, groups: int, inputs: int, outputs: int, kernel: list[int], bias: bool, epsilon: str
) -> None:
    x = ",".join(map(str, (2, groups * inputs, *(k + 1 for k in kernel))))
    shape = (groups * inputs, outputs, *kernel) if transposed else (groups * outputs, inputs, *kernel)
    conv = f"{'ConvTranspose' if transposed else 'Conv'}<group={groups}>"
    becomes_one(conv, shape, x=x, channels=groups * outputs, bias=bias, bn=f"<epsilon: float = {epsilon}>")
