"""Products of the channels of images as pointwise convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_products
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

CONVOLVE_PRODUCTS = rule_pass(conv_products, "convolve-products")

DECLARED = (
    "<float[1] w = {0}, float[1] v = {0}, float[1] c = {0}, float[1] b = {0}, int64[1] s = {0}, int64[1] m = {0}>"
)
EACH = "Conv<group=6, pads=[1,1,1,1]>"
ROWS = {"x": "N,20,2", "y": "N,6,4,5"}
IMAGE = {"x": "N,6,4,5", "y": "N,20,2"}


def numbers(*shape: int, seed: int = 0) -> Any:
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def arrays(rows: int, columns: int, **changes: Any) -> dict[str, Any]:
    """Weights of a product and of a convolution of each of 6 channels, their biases, and shapes of Reshapes."""
    return {
        "w": numbers(rows, columns), "c": numbers(columns, seed=1), "v": numbers(6, 1, 3, 3, seed=3), "b": numbers(6),
        "s": np.array([0, columns, 4, 5]), "m": np.array([0, rows, 20]),
    } | changes  # fmt: skip


def graph(body: str, declared: str = "", x: str = "N,20,2", y: str = "N,6,4,5") -> str:
    return f"g (float[{x}] x) => (float[{y}] y) {declared} {{ {body} }}"


def moves(body: str, after: str, weights: dict[str, Any], shapes: Mapping[str, str], opset: int = 17) -> None:
    becomes(graph(body, **shapes), graph(after, DECLARED, **shapes), CONVOLVE_PRODUCTS, weights=weights, opset=opset)


def remains(body: str, weights: dict[str, Any], **shapes: str) -> None:
    stays(graph(body, **shapes), CONVOLVE_PRODUCTS, weights=weights)


TURN = "t = Transpose<perm=[0,2,1]>"
PRODUCT = f"p = MatMul(x, w) {TURN}(p) i = Reshape(t, s)"
BIASED = f"p = MatMul(x, w) a = Add(c, p) {TURN}(a) i = Reshape(t, s)"


@pytest.mark.parametrize("opset", [7, 13, 22])
@cases(
    ("body", "after"),
    {
        "no bias": (f"{PRODUCT} y = {EACH}(i, v, b)", f"i = Conv(r, w) y = {EACH}(i, v, b)"),
        "bias beside zeros": (f"{BIASED} y = {EACH}(i, v)", f"i = Conv(r, w, c) y = {EACH}(i, v)"),
    },
)
def test_before_conv(body: str, after: str, opset: int) -> None:
    moves(body, f"{TURN}(x) r = Reshape(t, s) {after}", arrays(2, 6), ROWS, opset)


@pytest.mark.parametrize("x", ["3,20,2", "N,20,2", "0,20,2"])
def test_batches(x: str) -> None:
    weights = arrays(2, 6, c=numbers(1), s=np.array([-1 if x[0] == "3" else 0, 6, 4, 5]))
    after = f"{TURN}(x) r = Reshape(t, s) i = Conv(r, w, c) y = {EACH}(i, v)"
    moves(f"{BIASED} y = {EACH}(i, v)", after, weights, {"x": x, "y": f"{x[0]},6,4,5"})


def test_as_many_channels_before_a_pointwise_conv() -> None:
    weights = arrays(6, 6, v=numbers(3, 6, 1, 1))
    after = f"{TURN}(x) r = Reshape(t, s) i = Conv(r, w) y = Conv(i, v)"
    moves(f"{PRODUCT} y = Conv(i, v)", after, weights, {"x": "N,20,6", "y": "N,3,4,5"})


@cases(
    ("body", "changes"),
    {
        "as many channels": (f"{PRODUCT} y = {EACH}(i, v)", {"rows": 6}),
        "more channels": (f"{PRODUCT} y = {EACH}(i, v)", {"rows": 7}),
        "no Transpose": (f"p = MatMul(x, w) i = Reshape(p, s) y = {EACH}(i, v)", {}),
        "samples swapped": (
            f"p = MatMul(x, w) t = Transpose<perm=[2,1,0]>(p) i = Reshape(t, s) y = {EACH}(i, v)",
            {"s": np.array([3, 6, 4, 5]), "x": "3,20,2"}),
        "samples split": (f"{PRODUCT} y = {EACH}(i, v)", {"s": np.array([3, 6, 4, 5]), "x": "1,60,2"}),
        "few points": (f"{PRODUCT} y = {EACH}(i, v)", {"s": np.array([0, 6, 3, 5]), "x": "N,15,2"}),
        "other reader": (f"{PRODUCT} u = {EACH}(i, v) o = ReduceMax(p) y = Add(u, o)", {}),
        "bias of points": (f"{BIASED} y = {EACH}(i, v)", {"c": numbers(20, 6)}),
        "weights of samples": (f"{PRODUCT} y = {EACH}(i, v)", {"w": numbers(3, 2, 6), "x": "3,20,2"}),
        "image as weights": (f"{PRODUCT} y = Conv(w4, i)", {"w4": numbers(2, 6, 6, 6), "x": "6,20,2"}),
    },
)  # fmt: skip
def test_before_conv_stays(body: str, changes: dict[str, Any]) -> None:
    rows = changes.pop("rows", 2)
    x = changes.pop("x", f"N,20,{rows}")
    remains(body, arrays(rows, 6, **changes), x=x, y="a,b,d,e")


MERGED = f"k = {EACH}(x, v, b) r = Reshape(k, m) {TURN}(r)"
UNMERGED = "r = Reshape(n, m) y = Transpose<perm=[0,2,1]>(r)"


@pytest.mark.parametrize("opset", [7, 13, 22])
@cases(
    ("body", "after"),
    {
        "no bias": ("y = MatMul(t, w)", "n = Conv(k, w)"),
        "bias": ("p = MatMul(t, w) y = Add(p, c)", "n = Conv(k, w, c)"),
        "Relu": ("f = Relu(t) y = MatMul(f, w)", "f = Relu(k) n = Conv(f, w)"),
        "LeakyRelu, bias": (
            "f = LeakyRelu<alpha=0.5>(t) p = MatMul(f, w) y = Add(p, c)",
            "f = LeakyRelu<alpha=0.5>(k) n = Conv(f, w, c)"),
    },
)  # fmt: skip
def test_after_conv(body: str, after: str, opset: int) -> None:
    moves(f"{MERGED} {body}", f"k = {EACH}(x, v, b) {after} {UNMERGED}", arrays(6, 2), IMAGE, opset)


def test_gelu() -> None:
    after = f"k = {EACH}(x, v, b) f = Gelu(k) n = Conv(f, w) {UNMERGED}"
    moves(f"{MERGED} f = Gelu(t) y = MatMul(f, w)", after, arrays(6, 2), IMAGE, 20)


def test_any_number_of_points() -> None:
    shapes = {"x": "N,6,H,W", "y": "N,P,2"}
    weights = arrays(6, 2, m=np.array([0, 0, -1]))
    moves(f"{MERGED} y = MatMul(t, w)", f"k = {EACH}(x, v, b) n = Conv(k, w) {UNMERGED}", weights, shapes)


def test_as_many_channels_after_a_conv() -> None:
    weights = arrays(6, 6, v=numbers(6, 6, 1, 1))
    body = f"k = Conv(x, v) r = Reshape(k, m) {TURN}(r) y = MatMul(t, w)"
    moves(body, f"k = Conv(x, v) n = Conv(k, w) {UNMERGED}", weights, {"x": "N,6,4,5", "y": "N,20,6"})


@cases(
    ("body", "changes"),
    {
        "as many channels": (f"{MERGED} y = MatMul(t, w)", {"columns": 6}),
        "more channels": (f"{MERGED} y = MatMul(t, w)", {"columns": 8}),
        "few points": (f"{MERGED} y = MatMul(t, w)", {"x": "N,6,3,5", "m": np.array([0, 6, 15])}),
        "other reader": (f"{MERGED} u = MatMul(t, w) n = ReduceMax(t) y = Add(u, n)", {}),
        "no Conv": (f"k = Relu(x) r = Reshape(k, m) {TURN}(r) y = MatMul(t, w)", {}),
        "Softmax": (f"{MERGED} f = Softmax<axis=-1>(t) y = MatMul(f, w)", {}),
        "two ops": (f"{MERGED} f = Relu(t) h = Sin(f) y = MatMul(h, w)", {}),
        "samples merged": (f"{MERGED} y = MatMul(t, w)", {"m": np.array([1, 6, 60]), "x": "3,6,4,5"}),
        "bias of points": (f"{MERGED} p = MatMul(t, w) y = Add(p, c)", {"c": numbers(20, 2)}),
    },
)
def test_after_conv_stays(body: str, changes: dict[str, Any]) -> None:
    columns, x = changes.pop("columns", 2), changes.pop("x", "N,6,4,5")
    remains(body, arrays(6, columns, **changes), x=x, y="a,b,d")


@given(
    st.integers(1, 4), st.integers(1, 4), st.sampled_from(["", "Relu", "Tanh"]), st.booleans(), st.booleans(),
    st.sampled_from(["1", "2", "N"]),
)  # fmt: skip
def test_equivalent(inner: int, outer: int, f: str, before: bool, after: bool, batch: str) -> None:
    """No product is left where a Conv moves fewer channels, and each keeps its bias."""
    weights = arrays(inner, 6) | {
        "u": numbers(6, outer, seed=4),
        "d": numbers(outer, seed=5),
        "m": np.array([0, 6, 20]),
    }
    body = f"{BIASED if before else PRODUCT} k = {EACH}(i, v, b) r = Reshape(k, m) q = Transpose<perm=[0,2,1]>(r) "
    body += f"f = {f}(q) " if f else "f = Identity(q) "
    body += "z = MatMul(f, u) y = Add(z, d)" if after else "y = MatMul(f, u)"
    model = load(graph(body, x=f"{batch},20,{inner}", y=f"{batch},20,{outer}"), weights=weights)
    out = to_onnx(apply_passes(model, CONVOLVE_PRODUCTS)[0])
    assert sorted({"Add", "Conv", "MatMul"} & set(op_types(out))) == ["Conv"]
    require_equivalent(model, out)
