"""Products of the channels of images as pointwise convolutions."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_products
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent
from weights import numbers

CONVOLVE_PRODUCTS = rule_pass(conv_products, "convolve-products")

EACH = "Conv<group=6, pads=[1,1,1,1]>"


def arrays(rows: int, columns: int, **_: Any) -> dict[str, Any]:
    """Weights of a product and of a convolution of each of 6 channels, their biases, and shapes of Reshapes."""
    return {
        "w": numbers(rows, columns),
        "c": numbers(columns, seed=1),
        "v": numbers(6, 1, 3, 3, seed=3),
        "b": numbers(6),
        "s": [0, columns, 4, 5],
        "m": [0, rows, 20],
        "merging": [-1, 6, 4, 5],
        "few_points": [0, 6, 15],
        "any_points": [0, 0, -1],
        "merged": [1, 6, 60],
        "c1": numbers(1),
        "c20x6": numbers(20, 6),
        "c20x2": numbers(20, 2),
        "w3": numbers(3, 2, 6),
        "w4": numbers(2, 6, 6, 6),
        "v3": numbers(3, 6, 1, 1),
        "v6": numbers(6, 6, 1, 1),
    }


rows = Rewrites("g (float[{x}] x) => (float[] y)", CONVOLVE_PRODUCTS, weights=arrays, x="N,20,2", rows=2, columns=6)
image = rows.using(x="N,6,4,5", rows=6, columns=2)
TURN = "t = Transpose<perm=[0,2,1]>"
PRODUCT = f"p = MatMul(x, w) {TURN}(p) i = Reshape(t, s)"
BIASED = f"p = MatMul(x, w) a = Add(c, p) {TURN}(a) i = Reshape(t, s)"
MOVED = f"{TURN}(x) r = Reshape(t, k)"
BEFORE = {
    "no bias": f"{PRODUCT} y = {EACH}(i, v, b) => {MOVED} i = Conv(r, d) y = {EACH}(i, f, h)",
    "bias beside zeros": f"{BIASED} y = {EACH}(i, v) => {MOVED} i = Conv(r, d, e) y = {EACH}(i, f)",
}
OPSETS = (7, 13, 22)
test_before_conv = rows.all_become({f"{n}, {o}": (text, {"opset": o}) for n, text in BEFORE.items() for o in OPSETS})
BATCHED = f"{BIASED.replace('Add(c,', 'Add(c1,')} y = {EACH}(i, v) => {MOVED} i = Conv(r, d, e) y = {EACH}(i, f)"
test_batches = rows.all_become(f"""
    symbolic: {BATCHED}
    of none [x=0,20,2]: {BATCHED}
    fixed [x=3,20,2]: {BATCHED.replace("(t, s)", "(t, merging)")}
    as many channels before a pointwise Conv [x=N,20,6; rows=6]: {PRODUCT} y = Conv(i, v3)
        => {MOVED} i = Conv(r, d) y = Conv(i, f)
""")
test_before_conv_stays = rows.all_stay(f"""
    as many channels [x=N,20,6; rows=6]: {PRODUCT} y = {EACH}(i, v)
    more channels [x=N,20,7; rows=7]: {PRODUCT} y = {EACH}(i, v)
    no Transpose: p = MatMul(x, w) i = Reshape(p, s) y = {EACH}(i, v)
    samples swapped [x=3,20,2]: p = MatMul(x, w) t = Transpose<perm=[2,1,0]>(p) i = Reshape(t, [3,6,4,5]) y =
        {EACH}(i, v)
    samples split [x=1,60,2]: p = MatMul(x, w) {TURN}(p) i = Reshape(t, [3,6,4,5]) y = {EACH}(i, v)
    few points [x=N,15,2]: p = MatMul(x, w) {TURN}(p) i = Reshape(t, [0,6,3,5]) y = {EACH}(i, v)
    other reader: {PRODUCT} u = {EACH}(i, v) o = ReduceMax(p) y = Add(u, o)
    bias of points: {BIASED.replace("Add(c,", "Add(c20x6,")} y = {EACH}(i, v)
    weights of samples [x=3,20,2]: {PRODUCT.replace("w)", "w3)")} y = {EACH}(i, v)
    image as weights [x=6,20,2]: {PRODUCT} y = Conv(w4, i)
""")
MERGED = f"k = {EACH}(x, v, b) r = Reshape(k, m) {TURN}(r)"
CONVOLVED = f"k = {EACH}(x, d, e)"
UNMERGED = "r = Reshape(n, i) y = Transpose<perm=[0,2,1]>(r)"
LEAKY = "LeakyRelu<alpha=0.5>"
AFTER = {
    "no bias": f"{MERGED} y = MatMul(t, w) => {CONVOLVED} n = Conv(k, f) {UNMERGED}",
    "bias": f"{MERGED} p = MatMul(t, w) y = Add(p, c) => {CONVOLVED} n = Conv(k, f, g) {UNMERGED}",
    "Relu": f"{MERGED} f = Relu(t) y = MatMul(f, w) => {CONVOLVED} f = Relu(k) n = Conv(f, g) {UNMERGED}",
    "LeakyRelu, bias": (
        f"{MERGED} f = {LEAKY}(t) p = MatMul(f, w) y = Add(p, c)"
        f" => {CONVOLVED} f = {LEAKY}(k) n = Conv(f, g, h) {UNMERGED}"
    ),
}
test_after_conv = image.all_become({f"{n}, {o}": (text, {"opset": o}) for n, text in AFTER.items() for o in OPSETS})
test_after_other_convs = image.all_become(f"""
    Gelu [opset=20]: {MERGED} f = Gelu(t) y = MatMul(f, w) => {CONVOLVED} f = Gelu(k) n = Conv(f, g) {UNMERGED}
    any number of points [x=N,6,H,W]: {MERGED.replace("m)", "any_points)")} y = MatMul(t, w)
        => {CONVOLVED} n = Conv(k, f) {UNMERGED}
    as many channels [columns=6]: k = Conv(x, v6) r = Reshape(k, m) {TURN}(r) y = MatMul(t, w)
        => k = Conv(x, d) n = Conv(k, f) {UNMERGED}
""")
test_after_conv_stays = image.all_stay(f"""
    as many channels [columns=6]: {MERGED} y = MatMul(t, w)
    more channels [columns=8]: {MERGED} y = MatMul(t, w)
    few points [x=N,6,3,5]: {MERGED.replace("m)", "few_points)")} y = MatMul(t, w)
    other reader: {MERGED} u = MatMul(t, w) n = ReduceMax(t) y = Add(u, n)
    no Conv: k = Relu(x) r = Reshape(k, m) {TURN}(r) y = MatMul(t, w)
    Softmax: {MERGED} f = Softmax<axis=-1>(t) y = MatMul(f, w)
    two ops: {MERGED} f = Relu(t) h = Sin(f) y = MatMul(h, w)
    samples merged [x=3,6,4,5]: {MERGED.replace("m)", "merged)")} y = MatMul(t, w)
    bias of points: {MERGED} p = MatMul(t, w) y = Add(p, c20x2)
""")


@given(
    inner=st.integers(1, 4),
    outer=st.integers(1, 4),
    f=st.sampled_from(["", "Relu", "Tanh"]),
    before=st.booleans(),
    after=st.booleans(),
    batch=st.sampled_from(["1", "2", "N"]),
)
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
    graph = f"g (float[{batch},20,{inner}] x) => (float[{batch},20,{outer}] y)"
    model = load(f"{graph} {{ {body} }}", weights=weights)
    out = to_onnx(apply_passes(model, CONVOLVE_PRODUCTS)[0])
    assert sorted({"Add", "Conv", "MatMul"} & set(op_types(out))) == ["Conv"]
    require_equivalent(model, out)
