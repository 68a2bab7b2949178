"""Padding in front of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_padding
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

FOLD_PAD_INTO_POOL = rule_pass(conv_padding, "fold-pad-into-pool")

G = "g (float[2,3,6,5] x) => (float[a,b,c,d] y)"
P = "int64[8] p = {0,0,1,2,0,0,0,1}"


@cases(
    ("body", "after"),
    {
        "average": (
            "t = Pad(x, p) y = AveragePool<kernel_shape=[2,3]>(t)",
            "y = AveragePool<kernel_shape=[2,3], pads=[1,2,0,1], count_include_pad=1>(x)",
        ),
        "average that counts padding of its own": (
            "t = Pad(x, p) y = AveragePool<kernel_shape=[3,4], count_include_pad=1, pads=[1,0,1,0], strides=[2,1]>(t)",
            "y = AveragePool<kernel_shape=[3,4], count_include_pad=1, pads=[2,2,1,1], strides=[2,1]>(x)",
        ),
    },
)
def test_becomes(body: str, after: str) -> None:
    becomes(f"{G} <{P}> {{ {body} }}", f"{G} {{ {after} }}", FOLD_PAD_INTO_POOL)


def test_symbolic_extent_that_is_not_zero() -> None:
    text = f"g (float[2,3,H,5] x, float[2,3,1,5] z) => (float[a,b,c,d] y) <{P}> {{ u = Concat<axis=2>(x, z)"
    becomes(
        f"{text} t = Pad(u, p) y = AveragePool<kernel_shape=[2,3]>(t) }}",
        f"{text} y = AveragePool<kernel_shape=[2,3], pads=[1,2,0,1], count_include_pad=1>(u) }}",
        FOLD_PAD_INTO_POOL,
    )


@pytest.mark.parametrize("opset", [7, 10, 11, 13, 19, 22])
def test_every_opset(opset: int) -> None:
    pad = "Pad<pads=[0,0,1,2,0,0,0,1]>(x)" if opset < 11 else "Pad(x, p)"
    head = G if opset < 11 else f"{G} <{P}>"
    becomes(
        f"{head} {{ t = {pad} y = AveragePool<kernel_shape=[2,3]>(t) }}",
        f"{G} {{ y = AveragePool<kernel_shape=[2,3], pads=[1,2,0,1], count_include_pad=1>(x) }}",
        FOLD_PAD_INTO_POOL,
        opset=opset,
    )


@cases(
    ("kind", "fill"),
    {"nothing is below zero": ("uint8", ""), "-128": ("int8", ", least")},
)
def test_pads_with_the_least_byte_fold(kind: str, fill: str) -> None:
    text = f"g ({kind}[1,1,4,4] x) => ({kind}[a,b,c,d] y)"
    before = f"{text} <{P}, int8 least = {{-128}}> {{ t = Pad(x, p{fill}) y = MaxPool<kernel_shape=[2,3]>(t) }}"
    becomes(before, f"{text} {{ y = MaxPool<kernel_shape=[2,3], pads=[1,2,0,1]>(x) }}", FOLD_PAD_INTO_POOL)


@cases(
    ("kind", "body"),
    {
        "another value": ("uint8", "t = Pad(x, p, five) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "zero is not the least": ("int8", "t = Pad(x, p) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "padded by a kernel": ("uint8", "t = Pad(x, p) y = MaxPool<kernel_shape=[1,3]>(t)"),
        "steps over": ("uint8", "t = Pad(x, p) y = MaxPool<kernel_shape=[2,3], dilations=[1,2]>(t)"),
        "rounds up": ("uint8", "t = Pad(x, p) y = MaxPool<kernel_shape=[2,3], ceil_mode=1>(t)"),
        "indices are used": (
            "uint8",
            "t = Pad(x, p) m, i = MaxPool<kernel_shape=[2,3]>(t) f = Cast<to=2>(i) y = BitwiseXor(m, f)",
        ),
    },
)
def test_stays_for_other_bytes(kind: str, body: str) -> None:
    text = f"g ({kind}[1,1,4,6] x) => ({kind}[a,b,c,d] y)"
    stays(f"{text} <{P}, uint8 five = {{5}}> {{ {body} }}", FOLD_PAD_INTO_POOL, opset=18)


@cases(
    "body",
    {
        "maximum of possibly negative values": ("t = Pad(x, p) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "another value, average": ("t = Pad(x, p, one) y = AveragePool<kernel_shape=[2,3]>(t)"),
        "another value, greatest": ("r = Relu(x) t = Pad(r, p, one) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "maximum of possible NaNs": ("r = Relu(x) t = Pad(r, p) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "maximum of possible infinities": ("t = Pad(x, p, least) y = MaxPool<kernel_shape=[2,3]>(t)"),
        "does not count its own padding": ("t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], pads=[0,0,1,0]>(t)"),
        "same": ('t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], auto_pad="SAME_UPPER">(t)'),
        "rounds up, average": ("t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(t)"),
        "padded by a kernel, average": ("t = Pad(x, p) y = AveragePool<kernel_shape=[2,2]>(t)"),
        "edge": ('t = Pad<mode="edge">(x, p) y = AveragePool<kernel_shape=[2,3]>(t)'),
        "shared": ("t = Pad(x, p) a = AveragePool<kernel_shape=[2,3]>(t) y = Mul(t, t) z = Abs(a)"),
        "apart": ("t = Pad(x, p) n = Neg(t) y = AveragePool<kernel_shape=[2,3]>(n)"),
        "the whole": ("t = Pad(x, p) y = GlobalAveragePool(t)"),
        "another pool": ("t = Pad(x, p) y = LpPool<kernel_shape=[2,3]>(t)"),
        "the channels": ("t = Pad(x, q) y = AveragePool<kernel_shape=[2,3]>(t)"),
    },
)
def test_stays(body: str) -> None:
    weights = {"one": np.float32(1), "least": np.float32(-np.inf), "q": np.array([0, 1, 0, 0, 0, 0, 0, 0])}
    stays(f"{G} <{P}> {{ {body} }}", FOLD_PAD_INTO_POOL, weights=weights)


@cases(
    "text",
    {
        "an extent that may be zero": ("g (float[2,3,H,5] x) => (float[a,b,c,d] y)"),
        "an extent of zero": ("g (float[2,3,0,5] x) => (float[a,b,c,d] y)"),
    },
)
def test_stays_if_empty(text: str) -> None:
    stays(f"{text} <{P}> {{ t = Pad(x, p) y = AveragePool<kernel_shape=[1,3]>(t) }}", FOLD_PAD_INTO_POOL)


@given(
    kind=st.sampled_from(["float", "uint8"]),
    kernel=st.lists(st.integers(1, 4), min_size=2, max_size=2),
    strides=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    more=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    extents=st.lists(st.integers(1, 5), min_size=2, max_size=2),
)
def test_any_padding(kind: str, kernel: list[int], strides: list[int], more: list[int], extents: list[int]) -> None:
    extents = [max(e, k) for e, k in zip(extents, kernel, strict=True)]
    pool = "AveragePool" if kind == "float" else "MaxPool"
    text = f"g ({kind}[1,2,{extents[0]},{extents[1]}] x) => ({kind}[a,b,c,d] y) {{ t = Pad(x, p)"
    weights: dict[str, Any] = {"p": np.array([0, 0, *more[:2], 0, 0, *more[2:]])}
    model = load(f"{text} y = {pool}<kernel_shape={kernel}, strides={strides}>(t) }}", weights=weights)
    result, _ = apply_passes(model, FOLD_PAD_INTO_POOL)
    out = to_onnx(result)
    fits = all(p < kernel[i % 2] for i, p in enumerate(more))
    assert op_types(out) == ([pool] if fits else ["Pad", pool])
    require_equivalent(model, out)
