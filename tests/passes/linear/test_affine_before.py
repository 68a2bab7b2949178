"""Scales and shifts in front of a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

FOLD_AFFINE_BEFORE_CONV = rule_pass(affine_into_conv, "fold-affine-before-conv")

Arrays = dict[str, Any]
G = "g (float[2,4,5,4] x) => (float[a,b,c,d] y)"
W, WB = "<float[1] w = {0}>", "<float[1] w = {0}, float[1] b = {0}>"
STATS = "s, m, n, v"


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Numbers away from zero, of either sign."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(dtype)


def arrays(c: Any = None, **others: Any) -> Arrays:
    """The weights of a Conv from four to six channels, a constant in front of it, and statistics of four channels."""
    fixed = {"w": numbers(6, 4, 3, 2), "c": numbers(4, 1, 1, seed=1) if c is None else np.asarray(c, np.float32)}
    stats = {"s": numbers(4), "m": numbers(4, seed=2), "n": numbers(4, seed=3), "v": abs(numbers(4, seed=4))}
    return {**fixed, **stats, **others}


@pytest.mark.parametrize(
    ("body", "after"),
    [
        pytest.param("t = Mul(x, c) y = Conv<pads=[1,0,1,2]>(t, w)", "y = Conv<pads=[1,0,1,2]>(x, w)", id="product"),
        pytest.param("t = Mul(c, x) y = Conv(t, w)", "y = Conv(x, w)", id="product, the constant first"),
        pytest.param("t = Div(x, c) y = Conv<pads=[1,1,1,1]>(t, w)", "y = Conv<pads=[1,1,1,1]>(x, w)", id="quotient"),
        pytest.param("t = Add(x, c) y = Conv(t, w)", "y = Conv(x, w, b)", id="sum"),
        pytest.param("t = Add(c, x) y = Conv(t, w)", "y = Conv(x, w, b)", id="sum, the constant first"),
        pytest.param("t = Sub(x, c) y = Conv(t, w, k)", "y = Conv(x, w, b)", id="difference"),
        pytest.param("t = Sub(c, x) y = Conv(t, w)", "y = Conv(x, w, b)", id="difference from a constant"),
        pytest.param("t = Neg(x) y = Conv<pads=[1,1,1,1]>(t, w)", "y = Conv<pads=[1,1,1,1]>(x, w)", id="negation"),
        pytest.param("t = Sub(x, c) u = Div(t, c) y = Conv(u, w)", "y = Conv(x, w, b)", id="mean and deviation"),
        pytest.param(
            "t = Sub(x, c) u = Div(t, c) y = Conv<pads=[1,1,1,1]>(u, w)",
            "t = Sub(x, c) y = Conv<pads=[1,1,1,1]>(t, w)",
            id="deviation only, where it pads",
        ),
        pytest.param(
            'u = Add(x, c) y = Conv<auto_pad="VALID">(u, w)', 'y = Conv<auto_pad="VALID">(x, w, b)', id="no auto_pad"
        ),
        pytest.param(
            'u = Mul(x, c) y = Conv<auto_pad="SAME_LOWER">(u, w)',
            'y = Conv<auto_pad="SAME_LOWER">(x, w)',
            id="scaled, auto_pad",
        ),
        pytest.param(
            f"t = BatchNormalization(x, {STATS}) y = Conv<strides=[2,1]>(t, w, k)",
            "y = Conv<strides=[2,1]>(x, w, b)",
            id="normalization",
        ),
    ],
)
@pytest.mark.parametrize("c", [None, 0.7, [[[[1.5]]]]], ids=["per channel", "scalar", "rank 4"])
def test_becomes(body: str, after: str, c: Any) -> None:
    after = after.replace("t = Sub(x, c)", "t = Sub(x, w)")
    header = WB if ", b)" in after else W
    weights = arrays(c, k=numbers(6))
    becomes(f"{G} {{ {body} }}", f"{G} {header} {{ {after} }}", FOLD_AFFINE_BEFORE_CONV, weights=weights)


@pytest.mark.parametrize(
    ("body", "after", "weights"),
    [
        pytest.param(
            "t = Mul(x, c) y = Conv<group=2>(t, w)",
            "y = Conv<group=2>(x, w)",
            arrays(w=numbers(6, 2, 3, 2)),
            id="scale, grouped",
        ),
        pytest.param(
            "t = Sub(x, c) y = Conv<group=2>(t, w)",
            "y = Conv<group=2>(x, w, b)",
            arrays(w=numbers(6, 2, 3, 2)),
            id="shift, grouped",
        ),
        pytest.param(
            f"t = BatchNormalization(x, {STATS}) y = Conv<group=4>(t, w)",
            "y = Conv<group=4>(x, w, b)",
            arrays(w=numbers(8, 1, 2, 2)),
            id="normalization, depthwise",
        ),
        pytest.param(
            "t = Mul(x, c) y = ConvTranspose<group=2, pads=[1,1,0,0]>(t, w)",
            "y = ConvTranspose<group=2, pads=[1,1,0,0]>(x, w)",
            arrays(w=numbers(4, 3, 2, 2)),
            id="transposed, grouped",
        ),
        pytest.param(
            "t = Div(x, c) y = ConvTranspose(t, w, k)",
            "y = ConvTranspose(x, w, b)",
            arrays(w=numbers(4, 3, 2, 2), k=numbers(3)),
            id="transposed, with bias",
        ),
        pytest.param(
            f"t = BatchNormalization(x, {STATS}) y = Conv<pads=[1,1,1,1]>(t, w)",
            "y = Conv<pads=[1,1,1,1]>(x, w)",
            arrays(m=np.zeros(4, np.float32), n=np.zeros(4, np.float32)),
            id="a normalization that does not shift, where it pads",
        ),
        pytest.param(
            'u = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(u, w)',
            'y = Conv<auto_pad="SAME_UPPER">(x, w, b)',
            arrays(w=numbers(6, 4, 1, 1)),
            id="one point needs no padding",
        ),
    ],
)
def test_becomes_with_other_convolutions(body: str, after: str, weights: Arrays) -> None:
    header = WB if ", b)" in after else W
    becomes(f"{G} {{ {body} }}", f"{G} {header} {{ {after} }}", FOLD_AFFINE_BEFORE_CONV, weights=weights)


@pytest.mark.parametrize("opset", [7, 9, 13, 15, 22])
def test_every_opset_since_7(opset: int) -> None:
    text = f"{G} {{ t = Sub(x, c) u = BatchNormalization(t, {STATS}) y = Conv(u, w) }}"
    after = f"{G} {WB} {{ y = Conv(x, w, b) }}"
    becomes(text, after, FOLD_AFFINE_BEFORE_CONV, opset=opset, weights=arrays())


@pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("double", np.float64)])
def test_other_types(kind: str, dtype: Any) -> None:
    text = f"{G} {{ t = Sub(x, c) u = Mul(t, c) y = Conv(u, w) }}".replace("float[", f"{kind}[")
    after = f"{G} {WB} {{ y = Conv(x, w, b) }}".replace("float[", f"{kind}[")
    weights = {name: a.astype(dtype) / 4 for name, a in arrays().items()}
    becomes(text, after, FOLD_AFFINE_BEFORE_CONV, weights=weights)


@pytest.mark.parametrize(
    ("body", "weights"),
    [
        pytest.param("t = Add(x, c) y = Conv<pads=[0,0,0,1]>(t, w)", arrays(), id="shift where it pads"),
        pytest.param('t = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(t, w)', arrays(), id="shift, auto_pad"),
        pytest.param(f"t = BatchNormalization(x, {STATS}) y = Conv<pads=[1,0,0,0]>(t, w)", arrays(), id="normal, pads"),
        pytest.param("t = Add(x, c) y = ConvTranspose(t, w)", arrays(w=numbers(4, 3, 2, 2)), id="shift, transposed"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(4)), id="along the last axis, as many as channels"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(5, 1)), id="along rows"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(2, 1, 1, 1)), id="along the batch"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(4, 5, 4)), id="per element"),
        pytest.param("t = Div(c, x) y = Conv(t, w)", arrays(), id="quotient of a constant"),
        pytest.param("t = Div(x, c) y = Conv(t, w)", arrays(0), id="division by zero"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(3e38), id="overflow"),
        pytest.param("t = Add(x, c) y = Conv(t, w)", arrays(3e38), id="bias overflows"),
        pytest.param("t = Sub(x, c) y = Conv(t, w)", arrays(np.nan), id="not a number"),
        pytest.param("t = Mul(x, c) r = Relu(t) y = Conv(r, w)", arrays(), id="apart"),
        pytest.param("t = Mul(x, c) p = Conv(t, w) r = Relu(t) q = Conv(r, w) y = Add(p, q)", arrays(), id="shared"),
        pytest.param("t = Mul(x, x) y = Conv(t, w)", arrays(), id="no constant"),
        pytest.param("k = Neg(w) t = Mul(x, c) y = Conv(t, k)", arrays(), id="computed weights"),
        pytest.param("k = Neg(b) t = Add(x, c) y = Conv(t, w, k)", arrays(b=numbers(6)), id="computed bias"),
        pytest.param("t = Mul(w, c) y = Conv(x, t)", arrays(), id="the weights are scaled"),
        pytest.param("t = Mul(x, c) y = Conv(t, w)", arrays(w=numbers(0, 4, 3, 2)), id="no channels come out"),
    ],
)
def test_stays(body: str, weights: Arrays) -> None:
    stays(f"{G} {{ {body} }}", FOLD_AFFINE_BEFORE_CONV, weights=weights)


@pytest.mark.parametrize(
    ("text", "opset", "runs"),
    [
        pytest.param(
            "g (float[2,1,5,4] x) => (float[a,b,c,d] y) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
            id="stretches the channels",
        ),
        pytest.param(
            "g (float[2,C,5,4] x) => (float[a,b,c,d] y) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
            id="may stretch the channels",
        ),
        pytest.param(
            "g (float[5,4] x) => (float[a,b,c,d] y) { t = Mul(x, q) y = Conv(t, w) }", 17, True, id="stretches the rank"
        ),
        pytest.param(
            "g (float[2,4,5,4] x) => (float[a,b,c,d] y, float[a,b,c,d] t) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
            id="inner value is a graph output",
        ),
        pytest.param(
            "g (float[2,4,5,4] x, float[1] k = {2}) => (float[a,b,c,d] y) { t = Mul(x, k) y = Conv(t, w) }",
            17,
            True,
            id="overridable factor",
        ),
        pytest.param(
            "g (float[2,4,5,4] x) => (float[a,b,c,d] y) { t = Mul<axis=1, broadcast=1>(x, c) y = Conv(t, w) }",
            6,
            False,
            id="broadcast by attribute",
        ),
        pytest.param(
            "g (float[2,4,5,4] x) => (float[a,b,c,d] y) {"
            " t, p, r = BatchNormalization<training_mode=1>(x, s, m, n, v) y = Conv(t, w) }",
            15,
            True,
            id="training mode",
        ),
    ],
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    weights = arrays(q=numbers(1, 4, 1, 1))
    stays(text, FOLD_AFFINE_BEFORE_CONV, opset=opset, weights=weights, runs=runs)


@given(
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    inputs=st.integers(1, 2),
    spatial=st.integers(1, 3),
    padded=st.booleans(),
    op=st.sampled_from(["Add(x, c)", "Sub(x, c)", "Sub(c, x)", "Mul(x, c)", "Div(x, c)", "Neg(x)"]),
    uniform=st.booleans(),
)
def test_any_convolution(
    *, transposed: bool, groups: int, inputs: int, spatial: int, padded: bool, op: str, uniform: bool
) -> None:
    shape = (groups * inputs, 2) if transposed else (groups * 2, inputs)
    dims = ",".join(map(str, (2, groups * inputs, *[3] * spatial)))
    conv = f"{'ConvTranspose' if transposed else 'Conv'}<group={groups}, pads={[int(padded)] * 2 * spatial}>"
    text = f"g (float[{dims}] x) => (float[{','.join('abcde'[: spatial + 2])}] y) {{ t = {op} y = {conv}(t, w) }}"
    c = numbers(1 if uniform else groups * inputs, *[1] * spatial, seed=2)
    model = load(text, weights={"w": numbers(*shape, *[2] * spatial), "c": c})
    result, _ = apply_passes(model, FOLD_AFFINE_BEFORE_CONV)
    out = to_onnx(result)
    shifts = op.startswith(("Add", "Sub"))
    assert len(op_types(out)) == 1 + (shifts and (transposed or padded))
    require_equivalent(model, out)
