"""Padding in front of a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_padding
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

FOLD_PAD_INTO_CONV = rule_pass(conv_padding, "fold-pad-into-conv")

G = "g (float[2,3,6,5] x) => (float[a,b,c,d] y)"
P = "int64[8] p = {0,0,1,2,0,0,0,3}"
W = "float[1] w = {0}"
AFTER = f"{G} <{W}> {{ y = Conv<pads=[1,2,0,3]>(x, w) }}"
Arrays = dict[str, Any]
WEIGHTS: Arrays = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 2)).astype(np.float32)}


@cases(
    ("text", "after"),
    {
        "value left out": (f"<{P}> {{ t = Pad(x, p) y = Conv(t, w) }}", "y = Conv<pads=[1,2,0,3]>(x, w)"),
        "zero": (f"<{P}, float z = {{0}}> {{ t = Pad(x, p, z) y = Conv(t, w) }}", "y = Conv<pads=[1,2,0,3]>(x, w)"),
        "mode spelled out": (
            f'<{P}, float z = {{0}}> {{ t = Pad<mode="constant">(x, p, z) y = Conv(t, w) }}',
            "y = Conv<pads=[1,2,0,3]>(x, w)",
        ),
        "with padding of its own": (
            f"<{P}> {{ t = Pad(x, p) y = Conv<pads=[0,1,2,0], strides=[2,1], dilations=[1,2]>(t, w) }}",
            "y = Conv<pads=[1,3,2,3], strides=[2,1], dilations=[1,2]>(x, w)",
        ),
        "valid": (f'<{P}> {{ t = Pad(x, p) y = Conv<auto_pad="VALID">(t, w) }}', "y = Conv<pads=[1,2,0,3]>(x, w)"),
        "same, upper": (
            f'<{P}> {{ t = Pad(x, p) y = Conv<auto_pad="SAME_UPPER">(t, w) }}',
            "y = Conv<pads=[2,2,1,4]>(x, w)",
        ),
        "same, lower": (
            f'<{P}> {{ t = Pad(x, p) y = Conv<auto_pad="SAME_LOWER">(t, w) }}',
            "y = Conv<pads=[2,3,1,3]>(x, w)",
        ),
        "same, with strides and a known extent": (
            f'<{P}> {{ t = Pad(x, p) y = Conv<auto_pad="SAME_UPPER", strides=[2,3]>(t, w) }}',
            "y = Conv<strides=[2,3], pads=[2,2,1,4]>(x, w)",
        ),
        "grouped": (f"<{P}> {{ t = Pad(x, p) y = Conv<group=3>(t, v) }}", "y = Conv<group=3, pads=[1,2,0,3]>(x, w)"),
        "computed weights": (f"<{P}> {{ k = Exp(w) t = Pad(x, p) y = Conv(t, k) }}", None),
        "no": ("<int64[8] p = {0,0,0,0,0,0,0,0}> { t = Pad(x, p) y = Conv(t, w) }", "y = Conv<pads=[0,0,0,0]>(x, w)"),
    },
)
def test_becomes(text: str, after: str | None) -> None:
    weights = {**WEIGHTS, "v": WEIGHTS["w"][:3, :1]}
    after = after or "k = Exp(w) y = Conv<pads=[1,2,0,3]>(x, k)"
    becomes(f"{G} {text}", f"{G} <{W}> {{ {after} }}", FOLD_PAD_INTO_CONV, weights=weights)


@pytest.mark.parametrize("opset", [7, 10, 11, 13, 18, 19, 21, 23])
def test_every_opset(opset: int) -> None:
    pad = "t = Pad<pads=[0,0,1,2,0,0,0,3]>(x)" if opset < 11 else "t = Pad(x, p)"
    head = "" if opset < 11 else f"<{P}>"
    becomes(f"{G} {head} {{ {pad} y = Conv(t, w) }}", AFTER, FOLD_PAD_INTO_CONV, opset=opset, weights=WEIGHTS)


@cases(
    ("axes", "pads", "after"),
    {
        "spatial": ([2, 3], [1, 2, 0, 3], [1, 2, 0, 3]),
        "in another order": ([3, 2], [2, 1, 3, 0], [1, 2, 0, 3]),
        "from the end": ([-1], [2, 3], [0, 2, 0, 3]),
        "channels by nothing": ([1, 2], [0, 1, 0, 2], [1, 0, 2, 0]),
    },
)
def test_axes(axes: list[int], pads: list[int], after: list[int]) -> None:
    weights = {**WEIGHTS, "p": np.array(pads), "i": np.array(axes)}
    text = f'{G} {{ t = Pad(x, p, "", i) y = Conv(t, w) }}'
    becomes(text, f"{G} <{W}> {{ y = Conv<pads={after}>(x, w) }}", FOLD_PAD_INTO_CONV, opset=18, weights=weights)


def test_symbolic_extents() -> None:
    head = "g (float[N,3,H,V] x) => (float[a,b,c,d] y)"
    after = f"{head} <{W}> {{ y = Conv<pads=[1,2,0,3]>(x, w) }}"
    becomes(f"{head} <{P}> {{ t = Pad(x, p) y = Conv(t, w) }}", after, FOLD_PAD_INTO_CONV, weights=WEIGHTS)


QUANTIZED = "g (uint8[1,2,4,4] x) => (uint8[a,b,c,d] y)"
Q: Arrays = {
    "z": np.uint8(7),
    "w": np.arange(16, dtype=np.uint8).reshape(2, 2, 2, 2),
    "u": np.uint8(3),
    "s": np.float32(0.02),
    "o": np.uint8(100),
    "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
}


def test_quantized() -> None:
    conv = "QLinearConv{}({}, s, z, s, s, u, s, o)".replace("s, s, u", "w, s, u")
    consts = "<float[1] s = {0}, float[1] z = {0}, float[1] w = {0}, float[1] u = {0}, float[1] o = {0}>"
    before = f"{QUANTIZED} {{ t = Pad(x, p, z) y = {conv.format('', 't')} }}"
    after = f"{QUANTIZED} {consts} {{ y = {conv.format('<pads=[1,1,1,1]>', 'x')} }}"
    becomes(before, after, FOLD_PAD_INTO_CONV, weights=Q)


@cases(
    ("pad", "zero"),
    {"zero point": ("x, p, z", ", z"), "no zero point": ("x, p", "")},
)
def test_integers(pad: str, zero: str) -> None:
    head = QUANTIZED.replace("(uint8[a", "(int32[a")
    before = f"{head} {{ t = Pad({pad}) y = ConvInteger(t, w{zero}) }}"
    after = f"{head} <float[1] z = {{0}}, float[1] w = {{0}}> {{ y = ConvInteger<pads=[1,1,1,1]>(x, w{zero}) }}"
    becomes(before, after, FOLD_PAD_INTO_CONV, weights=Q)


@cases(
    "body",
    {
        "zero, not the zero point": ("t = Pad(x, p) y = QLinearConv(t, s, z, w, s, u, s, o)"),
        "zero, not the zero point, integers": (
            "t = Pad(x, p) c = ConvInteger(t, w, z) f = Cast<to=2>(c) y = Identity(f)"
        ),
        "no zero point, and another fill": ("t = Pad(x, p, z) c = ConvInteger(t, w) f = Cast<to=2>(c) y = Identity(f)"),
    },
)
def test_stays_if_quantized(body: str) -> None:
    stays(f"{QUANTIZED} {{ {body} }}", FOLD_PAD_INTO_CONV, weights=Q)


@cases(
    "text",
    {
        "another value": (f"<{P}, float z = {{1}}> {{ t = Pad(x, p, z) y = Conv(t, w) }}"),
        "edge": (f'<{P}> {{ t = Pad<mode="edge">(x, p) y = Conv(t, w) }}'),
        "reflection": (f'<{P}> {{ t = Pad<mode="reflect">(x, p) y = Conv(t, w) }}'),
        "the batch": ("<int64[8] p = {1,0,0,0,0,0,0,0}> { t = Pad(x, p) y = Conv(t, w) }"),
        "the channels": ("<int64[8] p = {0,0,0,0,0,1,0,0}> { t = Pad(x, p) y = Conv(t, v) }"),
        "cuts off": ("<int64[8] p = {0,0,-1,0,0,0,1,0}> { t = Pad(x, p) y = Conv(t, w) }"),
        "cuts the batch": ("<int64[8] p = {-1,0,0,0,0,0,1,0}> { t = Pad(x, p) y = Conv(t, w) }"),
        "apart": (f"<{P}> {{ t = Pad(x, p) r = Relu(t) y = Conv(r, w) }}"),
        "shared": (f"<{P}> {{ t = Pad(x, p) a = Conv(t, w) b = Conv(t, w) y = Add(a, b) }}"),
        "computed value": (f"<{P}> {{ z = ReduceMin<keepdims=0>(x) t = Pad(x, p, z) y = Conv(t, w) }}"),
        "computed pads": (f"<{P}> {{ q = Abs(p) t = Pad(x, q) y = Conv(t, w) }}"),
        "transposed": (f"<{P}> {{ t = Pad(x, p) y = ConvTranspose(t, u) }}"),
        "the weights are padded": ("<int64[8] p = {0,0,0,1,0,0,0,0}> { t = Pad(w, p) y = Conv(x, t) }"),
    },
)
def test_stays(text: str) -> None:
    rng = np.random.default_rng(1)
    more = {"v": rng.standard_normal((4, 4, 3, 2), np.float32), "u": rng.standard_normal((3, 2, 2, 2), np.float32)}
    stays(f"{G} {text}", FOLD_PAD_INTO_CONV, weights={**WEIGHTS, **more})


@cases(
    ("text", "opset"),
    {
        "inner value is a graph output": (
            f"g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] t) <{P}> {{ t = Pad(x, p) y = Conv(t, w) }}",
            17,
        ),
        "overridable pads": (
            (
                "g (float[2,3,6,5] x, int64[8] p = {0,0,1,2,0,0,0,3}) => (float[a,b,c,d] y)"
                " { t = Pad(x, p) y = Conv(t, w) }"
            ),
            17,
        ),
        "overridable value": (
            f"g (float[2,3,6,5] x, float z = {{0}}) => (float[a,b,c,d] y) <{P}> {{ t = Pad(x, p, z) y = Conv(t, w) }}",
            17,
        ),
        "same, with strides and an unknown extent": (
            (
                f"g (float[2,3,H,5] x) => (float[a,b,c,d] y) <{P}>"
                ' { t = Pad(x, p) y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(t, w) }'
            ),
            17,
        ),
        "another value, as attribute": (
            (
                "g (float[2,3,6,5] x) => (float[a,b,c,d] y)"
                " { t = Pad<value=1.0, pads=[0,0,1,2,0,0,0,3]>(x) y = Conv(t, w) }"
            ),
            10,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, FOLD_PAD_INTO_CONV, opset=opset, weights=WEIGHTS)


@given(
    more=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    auto=st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
    strides=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    extents=st.lists(st.integers(2, 7), min_size=2, max_size=2),
)
def test_any_padding(more: list[int], auto: str, strides: list[int], extents: list[int]) -> None:
    dims = ",".join(map(str, extents))
    text = f"g (float[1,3,{dims}] x) => (float[a,b,c,d] y) {{ t = Pad(x, p) y = Conv<auto_pad={auto!r}, strides="
    text = f"{text}{strides}>(t, w) }}".replace("'", '"')
    weights = {"w": WEIGHTS["w"][:, :, :2], "p": np.array([0, 0, *more[:2], 0, 0, *more[2:]])}
    model = load(text, weights=weights)
    result, _ = apply_passes(model, FOLD_PAD_INTO_CONV)
    out = to_onnx(result)
    assert op_types(out) == ["Conv"]
    require_equivalent(model, out)
