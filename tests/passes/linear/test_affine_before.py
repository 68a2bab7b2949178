"""Scales and shifts in front of a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

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


@cases(
    ("body", "after"),
    {
        "product": ("t = Mul(x, c) y = Conv<pads=[1,0,1,2]>(t, w)", "y = Conv<pads=[1,0,1,2]>(x, w)"),
        "product, the constant first": ("t = Mul(c, x) y = Conv(t, w)", "y = Conv(x, w)"),
        "quotient": ("t = Div(x, c) y = Conv<pads=[1,1,1,1]>(t, w)", "y = Conv<pads=[1,1,1,1]>(x, w)"),
        "sum": ("t = Add(x, c) y = Conv(t, w)", "y = Conv(x, w, b)"),
        "sum, the constant first": ("t = Add(c, x) y = Conv(t, w)", "y = Conv(x, w, b)"),
        "difference": ("t = Sub(x, c) y = Conv(t, w, k)", "y = Conv(x, w, b)"),
        "difference from a constant": ("t = Sub(c, x) y = Conv(t, w)", "y = Conv(x, w, b)"),
        "negation": ("t = Neg(x) y = Conv<pads=[1,1,1,1]>(t, w)", "y = Conv<pads=[1,1,1,1]>(x, w)"),
        "mean and deviation": ("t = Sub(x, c) u = Div(t, c) y = Conv(u, w)", "y = Conv(x, w, b)"),
        "deviation only, where it pads": (
            "t = Sub(x, c) u = Div(t, c) y = Conv<pads=[1,1,1,1]>(u, w)",
            "t = Sub(x, c) y = Conv<pads=[1,1,1,1]>(t, w)",
        ),
        "no auto_pad": ('u = Add(x, c) y = Conv<auto_pad="VALID">(u, w)', 'y = Conv<auto_pad="VALID">(x, w, b)'),
        "scaled, auto_pad": (
            'u = Mul(x, c) y = Conv<auto_pad="SAME_LOWER">(u, w)',
            'y = Conv<auto_pad="SAME_LOWER">(x, w)',
        ),
        "normalization": (
            f"t = BatchNormalization(x, {STATS}) y = Conv<strides=[2,1]>(t, w, k)",
            "y = Conv<strides=[2,1]>(x, w, b)",
        ),
    },
)
@pytest.mark.parametrize("c", [None, 0.7, [[[[1.5]]]]], ids=["per channel", "scalar", "rank 4"])
def test_becomes(body: str, after: str, c: Any) -> None:
    after = after.replace("t = Sub(x, c)", "t = Sub(x, w)")
    header = WB if ", b)" in after else W
    weights = arrays(c, k=numbers(6))
    becomes(f"{G} {{ {body} }}", f"{G} {header} {{ {after} }}", FOLD_AFFINE_BEFORE_CONV, weights=weights)


@cases(
    ("body", "after", "weights"),
    {
        "scale, grouped": (
            "t = Mul(x, c) y = Conv<group=2>(t, w)",
            "y = Conv<group=2>(x, w)",
            arrays(w=numbers(6, 2, 3, 2)),
        ),
        "shift, grouped": (
            "t = Sub(x, c) y = Conv<group=2>(t, w)",
            "y = Conv<group=2>(x, w, b)",
            arrays(w=numbers(6, 2, 3, 2)),
        ),
        "normalization, depthwise": (
            f"t = BatchNormalization(x, {STATS}) y = Conv<group=4>(t, w)",
            "y = Conv<group=4>(x, w, b)",
            arrays(w=numbers(8, 1, 2, 2)),
        ),
        "transposed, grouped": (
            "t = Mul(x, c) y = ConvTranspose<group=2, pads=[1,1,0,0]>(t, w)",
            "y = ConvTranspose<group=2, pads=[1,1,0,0]>(x, w)",
            arrays(w=numbers(4, 3, 2, 2)),
        ),
        "transposed, with bias": (
            "t = Div(x, c) y = ConvTranspose(t, w, k)",
            "y = ConvTranspose(x, w, b)",
            arrays(w=numbers(4, 3, 2, 2), k=numbers(3)),
        ),
        "a normalization that does not shift, where it pads": (
            f"t = BatchNormalization(x, {STATS}) y = Conv<pads=[1,1,1,1]>(t, w)",
            "y = Conv<pads=[1,1,1,1]>(x, w)",
            arrays(m=np.zeros(4, np.float32), n=np.zeros(4, np.float32)),
        ),
        "one point needs no padding": (
            'u = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(u, w)',
            'y = Conv<auto_pad="SAME_UPPER">(x, w, b)',
            arrays(w=numbers(6, 4, 1, 1)),
        ),
    },
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


@cases(
    ("body", "weights"),
    {
        "shift where it pads": ("t = Add(x, c) y = Conv<pads=[0,0,0,1]>(t, w)", arrays()),
        "shift, auto_pad": ('t = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(t, w)', arrays()),
        "normal, pads": (f"t = BatchNormalization(x, {STATS}) y = Conv<pads=[1,0,0,0]>(t, w)", arrays()),
        "shift, transposed": ("t = Add(x, c) y = ConvTranspose(t, w)", arrays(w=numbers(4, 3, 2, 2))),
        "along the last axis, as many as channels": ("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(4))),
        "along rows": ("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(5, 1))),
        "along the batch": ("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(2, 1, 1, 1))),
        "per element": ("t = Mul(x, c) y = Conv(t, w)", arrays(numbers(4, 5, 4))),
        "quotient of a constant": ("t = Div(c, x) y = Conv(t, w)", arrays()),
        "division by zero": ("t = Div(x, c) y = Conv(t, w)", arrays(0)),
        "overflow": ("t = Mul(x, c) y = Conv(t, w)", arrays(3e38)),
        "bias overflows": ("t = Add(x, c) y = Conv(t, w)", arrays(3e38)),
        "not a number": ("t = Sub(x, c) y = Conv(t, w)", arrays(np.nan)),
        "apart": ("t = Mul(x, c) r = Relu(t) y = Conv(r, w)", arrays()),
        "shared": ("t = Mul(x, c) p = Conv(t, w) r = Relu(t) q = Conv(r, w) y = Add(p, q)", arrays()),
        "no constant": ("t = Mul(x, x) y = Conv(t, w)", arrays()),
        "computed weights": ("k = Neg(w) t = Mul(x, c) y = Conv(t, k)", arrays()),
        "computed bias": ("k = Neg(b) t = Add(x, c) y = Conv(t, w, k)", arrays(b=numbers(6))),
        "the weights are scaled": ("t = Mul(w, c) y = Conv(x, t)", arrays()),
        "no channels come out": ("t = Mul(x, c) y = Conv(t, w)", arrays(w=numbers(0, 4, 3, 2))),
    },
)
def test_stays(body: str, weights: Arrays) -> None:
    stays(f"{G} {{ {body} }}", FOLD_AFFINE_BEFORE_CONV, weights=weights)


@cases(
    ("text", "opset", "runs"),
    {
        "stretches the channels": (
            "g (float[2,1,5,4] x) => (float[a,b,c,d] y) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
        ),
        "may stretch the channels": (
            "g (float[2,C,5,4] x) => (float[a,b,c,d] y) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
        ),
        "stretches the rank": ("g (float[5,4] x) => (float[a,b,c,d] y) { t = Mul(x, q) y = Conv(t, w) }", 17, True),
        "inner value is a graph output": (
            "g (float[2,4,5,4] x) => (float[a,b,c,d] y, float[a,b,c,d] t) { t = Mul(x, c) y = Conv(t, w) }",
            17,
            True,
        ),
        "overridable factor": (
            "g (float[2,4,5,4] x, float[1] k = {2}) => (float[a,b,c,d] y) { t = Mul(x, k) y = Conv(t, w) }",
            17,
            True,
        ),
        "broadcast by attribute": (
            "g (float[2,4,5,4] x) => (float[a,b,c,d] y) { t = Mul<axis=1, broadcast=1>(x, c) y = Conv(t, w) }",
            6,
            False,
        ),
        "training mode": (
            (
                "g (float[2,4,5,4] x) => (float[a,b,c,d] y) {"
                " t, p, r = BatchNormalization<training_mode=1>(x, s, m, n, v) y = Conv(t, w) }"
            ),
            15,
            True,
        ),
    },
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
