"""Convolutions in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_merging
from rewriting import apply_passes, becomes, cases, initializers, load, op_types, require_equivalent, stays

MERGE_CONSECUTIVE_CONVS = rule_pass(conv_merging, "merge-consecutive-convs")

Arrays = dict[str, Any]
G = "g (float[2,3,6,5] z) => (float[a,b,c,d] y)"
X = "x = Tanh(z)"  # of infinities two convolutions make NaN where one may not
W, WB = "<float[1] w = {0}>", "<float[1] w = {0}, float[1] b = {0}>"


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays(w: tuple[int, ...], v: tuple[int, ...], dtype: Any = np.float32) -> Arrays:
    """Weights of both, and a bias for each."""
    two = {"w": numbers(*w, dtype=dtype), "v": numbers(*v, seed=1, dtype=dtype)}
    return {**two, "b": numbers(w[0], seed=2, dtype=dtype), "c": numbers(v[0], seed=3, dtype=dtype)}


@cases(
    ("body", "after", "w", "v"),
    {
        "point second": (
            "t = Conv<pads=[1,0,0,1]>(x, w) y = Conv(t, v)",
            "y = Conv<pads=[1,0,0,1]>(x, w)",
            (4, 3, 3, 2),
            (2, 4, 1, 1),
        ),
        "point second, first bias": (
            "t = Conv<pads=[1,0,0,1]>(x, w, b) y = Conv(t, v)",
            "y = Conv<pads=[1,0,0,1]>(x, w, b)",
            (4, 3, 3, 2),
            (2, 4, 1, 1),
        ),
        "second bias": ("t = Conv(x, w) y = Conv(t, v, c)", "y = Conv(x, w, b)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "both biases": ("t = Conv(x, w, b) y = Conv(t, v, c)", "y = Conv(x, w, b)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "strides": (
            "t = Conv<strides=[1,2], dilations=[2,1]>(x, w, b) y = Conv<strides=[2,1]>(t, v, c)",
            "y = Conv<strides=[2,2], dilations=[2,1]>(x, w, b)",
            (4, 3, 2, 2),
            (4, 4, 1, 1),
        ),
        "auto_pad of the first": (
            't = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w) y = Conv<auto_pad="SAME_LOWER">(t, v)',
            'y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)',
            (4, 3, 3, 2),
            (4, 4, 1, 1),
        ),
        "point second, grouped": (
            "t = Conv<group=3>(x, w, b) y = Conv<group=3>(t, v)",
            "y = Conv<group=3>(x, w, b)",
            (6, 1, 2, 2),
            (3, 2, 1, 1),
        ),
        "point first, padded": (
            "t = Conv(x, w) y = Conv<pads=[1,1,1,1], strides=[2,2]>(t, v, c)",
            "y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b)",
            (3, 3, 1, 1),
            (4, 3, 3, 2),
        ),
        "point first, biases": (
            "t = Conv(x, w, b) y = Conv<dilations=[1,2]>(t, v, c)",
            "y = Conv<dilations=[1,2]>(x, w, b)",
            (4, 3, 1, 1),
            (4, 4, 3, 2),
        ),
        "point first, grouped": (
            "t = Conv<group=3>(x, w, b) y = Conv<group=3>(t, v)",
            "y = Conv<group=3>(x, w, b)",
            (6, 1, 1, 1),
            (3, 2, 3, 2),
        ),
        "both points": ("t = Conv(x, w, b) y = Conv(t, v, c)", "y = Conv(x, w, b)", (3, 3, 1, 1), (5, 3, 1, 1)),
    },
)
def test_becomes(body: str, after: str, w: tuple[int, ...], v: tuple[int, ...]) -> None:
    text = f"{G} {WB if ', b)' in after else W} {{ {X} {after} }}"
    out = becomes(f"{G} {{ {X} {body} }}", text, MERGE_CONSECUTIVE_CONVS, weights=arrays(w, v))
    assert initializers(out).keys().isdisjoint({"w", "v"})


def test_a_chain() -> None:
    weights = arrays((4, 3, 3, 3), (4, 4, 1, 1))
    text = f"{G} {{ {X} r = Conv<pads=[1,1,1,1]>(x, w, b) s = Conv(r, v, c) t = Conv(s, v) y = Conv(t, v, c) }}"
    after = f"{G} {WB} {{ {X} y = Conv<pads=[1,1,1,1]>(x, w, b) }}"
    becomes(text, after, MERGE_CONSECUTIVE_CONVS, weights=weights)


@pytest.mark.parametrize("opset", [1, 7, 11, 22])
def test_every_opset(opset: int) -> None:
    weights = arrays((4, 3, 3, 3), (4, 4, 1, 1))
    text, after = f"{G} {{ {X} t = Conv(x, w, b) y = Conv(t, v, c) }}", f"{G} {WB} {{ {X} y = Conv(x, w, b) }}"
    becomes(text, after, MERGE_CONSECUTIVE_CONVS, opset=opset, weights=weights, runs=opset >= 7)


@pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("double", np.float64)])
def test_other_types(kind: str, dtype: Any) -> None:
    weights = arrays((4, 3, 2, 2), (4, 4, 1, 1), dtype)
    text, after = f"{G} {{ {X} t = Conv(x, w, b) y = Conv(t, v, c) }}", f"{G} {WB} {{ {X} y = Conv(x, w, b) }}"
    text, after = (t.replace("float[", f"{kind}[") for t in (text, after))
    out = becomes(text, after, MERGE_CONSECUTIVE_CONVS, weights=weights)
    assert {a.dtype for a in initializers(out).values()} == {np.dtype(dtype)}


@cases(
    ("body", "w", "v"),
    {
        "no points": ("t = Conv(x, w) y = Conv(t, v)", (4, 3, 3, 2), (4, 4, 2, 1)),
        "padded points": ("t = Conv(x, w) y = Conv<pads=[0,0,1,0]>(t, v)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "it widens": ("t = Conv(x, w) y = Conv(t, v)", (2, 3, 3, 2), (8, 2, 1, 1)),
        "it narrows first": ("t = Conv(x, w) y = Conv(t, v)", (1, 3, 1, 1), (8, 1, 3, 2)),
        "separable": ("t = Conv<group=3>(x, w) y = Conv(t, v)", (3, 1, 3, 2), (4, 3, 1, 1)),
        "bias, padded": ("t = Conv(x, w, b) y = Conv<pads=[0,0,0,1]>(t, v)", (3, 3, 1, 1), (3, 3, 3, 2)),
        "bias, auto_pad": ('t = Conv(x, w, b) y = Conv<auto_pad="SAME_LOWER">(t, v)', (3, 3, 1, 1), (3, 3, 3, 2)),
        "points with steps": ("t = Conv<strides=[2,1]>(x, w) y = Conv(t, v)", (3, 3, 1, 1), (3, 3, 3, 2)),
        "points, padded": ("t = Conv<pads=[1,1,1,1]>(x, w) y = Conv(t, v)", (3, 3, 1, 1), (3, 3, 3, 2)),
        "auto_pad depends on strides": (
            't = Conv<auto_pad="SAME_UPPER">(x, w) y = Conv<strides=[2,2]>(t, v)',
            (3, 3, 3, 2),
            (3, 3, 1, 1),
        ),
        "apart": ("t = Conv(x, w) r = Relu(t) y = Conv(r, v)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "shared inner value": ("t = Conv(x, w) r = Conv(t, v) y = Add(t, r)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "computed weights": ("k = Neg(w) t = Conv(x, k) y = Conv(t, v)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "computed points": ("k = Neg(v) t = Conv(x, w) y = Conv(t, k)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "computed bias": ("k = Neg(b) t = Conv(x, w, k) y = Conv(t, v)", (4, 3, 3, 2), (4, 4, 1, 1)),
        "transposed": ("t = ConvTranspose(x, w) y = Conv(t, v)", (3, 4, 3, 2), (4, 4, 1, 1)),
        "not seen": ("t = Conv(x, w) y = Conv(x, w) u = Conv(t, v)", (4, 3, 3, 2), (4, 4, 1, 1)),
    },
)
def test_stays(body: str, w: tuple[int, ...], v: tuple[int, ...]) -> None:
    stays(f"{G} {{ {X} {body} }}", MERGE_CONSECUTIVE_CONVS, weights=arrays(w, v))


@cases(
    "text",
    {
        "inner value is a graph output": (
            "g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] t) { t = Conv(x, w) y = Conv(t, v) }"
        ),
        "overridable bias": (
            "g (float[2,3,6,5] x, float[4] k = {1,2,3,4}) => (float[a,b,c,d] y) { t = Conv(x, w, k) y = Conv(t, v) }"
        ),
        "weights are a graph input": (
            "g (float[2,3,6,5] x, float[4,4,1,1] k) => (float[a,b,c,d] y) { t = Conv(x, w) y = Conv(t, k) }"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, MERGE_CONSECUTIVE_CONVS, weights=arrays((4, 3, 3, 2), (4, 4, 1, 1)))


def test_overflow_stays() -> None:
    weights = arrays((4, 3, 3, 2), (4, 4, 1, 1))
    weights = {name: a * np.float32(1e25) for name, a in weights.items()}
    stays(f"{G} {{ {X} t = Conv(x, w) y = Conv(t, v) }}", MERGE_CONSECUTIVE_CONVS, weights=weights)


@given(
    point_first=st.booleans(),
    groups=st.integers(1, 3),
    channels=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    kernel=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    pad=st.integers(0, 1),
    strides=st.lists(st.integers(1, 2), min_size=2, max_size=2),
    biases=st.lists(st.sampled_from(["", ", {}"]), min_size=2, max_size=2),
)
def test_any_two(
    *,
    point_first: bool,
    groups: int,
    channels: list[int],
    kernel: list[int],
    pad: int,
    strides: list[int],
    biases: list[str],
) -> None:
    inputs, between, outputs = (groups * c for c in channels)
    n = len(kernel)
    kernels = [(1,) * n, tuple(kernel)][:: 1 if point_first else -1]
    dims = ",".join(map(str, (2, inputs, *[5] * n)))
    attrs = [f"<group={groups}, strides={[s] * n}, pads={[pad * (len(set(k)) > 1 or k[0] > 1)] * 2 * n}>" for s, k in
             zip(strides, kernels, strict=True)]  # fmt: skip
    model = load(
        f"g (float[{dims}] z) => (float[{','.join('abcde'[: n + 2])}] y) {{ {X}"
        f" t = Conv{attrs[0]}(x, w{biases[0].format('b')}) y = Conv{attrs[1]}(t, v{biases[1].format('c')}) }}",
        weights=arrays((between, channels[0], *kernels[0]), (outputs, channels[1], *kernels[1])),
    )
    result, change_log = apply_passes(model, MERGE_CONSECUTIVE_CONVS)
    out = to_onnx(result)
    assert len(op_types(out)) == 3 - change_log.change_count
    before, after = (sum(a.size for n, a in initializers(m).items() if n not in "bc") for m in (model, out))
    assert after <= before + (between + outputs)
    require_equivalent(model, out)
