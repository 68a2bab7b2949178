"""BatchNormalization behind a convolution."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import affine_into_conv
from passwright.passes.linear.affine_into_conv import fold_batchnorm_into_conv
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, initializers, load

FOLD_BATCHNORM = rule_pass(affine_into_conv, "fold-batchnorm")


def statistics(channels: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Scale, bias, mean and variance; some scales negative."""
    rng = np.random.default_rng(1)
    s, b, m = (rng.standard_normal(channels).astype(dtype) for _ in range(3))
    return {"s": s, "b": b, "m": m, "v": rng.uniform(0.5, 2, channels).astype(dtype)}


def weights(w: str, channels: str = "4", **_: Any) -> dict[str, np.ndarray]:
    """Weights of these dims, a bias, and statistics."""
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal(tuple(map(int, w.split(",")))).astype(np.float32)
    return {"w": kernel, "c": rng.standard_normal(int(channels)).astype(np.float32), **statistics(int(channels))}


G = "g (float[{x}] x) => (float[] y)"
norms = Rewrites(G, fold_batchnorm_into_conv, weights=weights, x="2,3,5,5", w="4,3,3,3", channels=4)
NORMAL = "BatchNormalization(t, s, b, m, v)"
PAIR = f"t = Conv(x, w) y = {NORMAL}"
IMAGE = ("2,3,5,5", "3,4,3,3", 4)
SHAPES = {
    "1-D": ("Conv", "2,3,9", "4,3,3", 4),
    "2-D": ("Conv", "2,3,6,7", "4,3,3,2", 4),
    "3-D": ("Conv", "1,2,4,5,4", "3,2,2,3,2", 3),
    "grouped": ("Conv<group=2>", "2,4,5,5", "6,2,3,3", 6),
    "depthwise": ("Conv<group=3>", "2,3,5,5", "3,1,3,3", 3),
    "depthwise, two filters a channel": ("Conv<group=3>", "2,3,5,5", "6,1,3,3", 6),
    "attributes": ("Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2]>", "2,3,9,9", "4,3,3,2", 4),
    "auto_pad": ('Conv<auto_pad="SAME_UPPER">', "2,3,5,5", "4,3,3,3", 4),
    "symbolic batch": ("Conv", "N,3,8,8", "4,3,3,3", 4),
    "one number": ("Conv", "2,1,5", "1,1,1", 1),
    "transposed 1-D": ("ConvTranspose", "2,3,9", "3,4,3", 4),
    "transposed 2-D": ("ConvTranspose", "2,3,4,5", "3,4,3,2", 4),
    "transposed 3-D": ("ConvTranspose", "1,2,3,4,3", "2,3,2,3,2", 3),
    "transposed, grouped": ("ConvTranspose<group=2>", "2,4,5,5", "4,3,3,3", 6),
    "transposed, depthwise": ("ConvTranspose<group=3>", "2,3,5,5", "3,1,3,3", 3),
    "transposed, attributes": ("ConvTranspose<output_padding=[1,0], pads=[1,0,1,0], strides=[2,2]>", *IMAGE),
}
test_becomes = norms.all_become(
    {
        f"{name}{', bias' if bias else ''}": (
            f"t = {conv}(x, w{bias}) y = {NORMAL} => y = {conv}(x, k, l)",
            {"x": x, "w": w, "channels": channels},
        )
        for name, (conv, x, w, channels) in SHAPES.items()
        for bias in ("", ", c")
    }
)
CONVS = ("Conv", "ConvTranspose")
square = norms.using(w="3,3,2,2", channels=3)
test_every_opset_since_7 = square.all_become(
    {
        f"{conv} {opset}": (f"t = {conv}(x, w) y = {NORMAL} => y = {conv}(x, k, l)", {"opset": opset})
        for conv in CONVS
        for opset in (7, 8, 9, 13, 14, 15, 22)
    }
)
# onnxruntime's CPU provider has no such kernels: the oracle is onnx.reference.
test_other_types = square.all_become(
    {
        f"{conv} {dtype}": (f"t = {conv}(x, w, c) y = {NORMAL} => y = {conv}(x, k, l)", {"dtype": dtype})
        for conv in CONVS
        for dtype in ("float16", "double")
    }
)
test_attributes_of_the_normalization = norms.all_become(
    {
        attribute: (
            f"{PAIR.replace('(t,', f'<{attribute}>(t,')} => y = Conv(x, k, l)",
            {"opset": 7 if "spatial" in attribute else 17},
        )
        for attribute in ("epsilon=0.5", "epsilon=0.0", "momentum=0.1", "training_mode=0", "spatial=1")
    }
)
TWO = "g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[a,b,c,d] z)"
W = weights("4,3,3,3")


def test_shared_weights_are_scaled_in_a_copy() -> None:
    out = norms.becomes(f"{PAIR} z = Conv(x, w)", "y = Conv(x, k, l) z = Conv(x, w)", graph=TWO)
    np.testing.assert_array_equal(initializers(out)["w"], W["w"])


def test_statistics_shared_by_two_convolutions() -> None:
    before = f"{PAIR} n = Neg(x) u = Conv(n, w) z = BatchNormalization(u, s, b, m, v)"
    out = norms.becomes(before, "y = Conv(x, k, l) n = Neg(x) z = Conv(n, i, j)", graph=TWO)
    assert not W.keys() & initializers(out).keys()


test_becomes_elsewhere = norms.all_become(f"""
    two normalizations in a row: t = Conv(x, w) u = BatchNormalization(t, s, b, m, v)
        y = BatchNormalization(u, m, s, b, v) => y = Conv(x, k, l)
    inside an If body [in_if]: {PAIR} => y = Conv(x, k, l)
""")


def test_mixed_types() -> None:
    """Since opset 15 scale and statistics may be wider than the data; the new weights are of the data's type."""
    graph = "g (float16[2,3,5,5] x) => (float16[] y)"
    out = norms.becomes(PAIR, "y = Conv(x, k, l)", graph=graph, opset=15, weights={"w": W["w"].astype(np.float16)})
    assert {a.dtype for a in initializers(out).values()} == {np.dtype(np.float16)}


BORDER = "g (bool k, float[2,3,5,5] x) => (float[a,b,c,d] y)"
FIVE = "g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[e] p, float[f] q, float[g] r, float[h] u)"
test_stays = norms.all_stay(f"""
    no convolution [channels=3]: y = BatchNormalization(x, s, b, m, v)
    apart: t = Conv(x, w) r = Relu(t) y = BatchNormalization(r, s, b, m, v)
    no normalization: y = Conv(x, w)
    shared inner value: {PAIR.replace("y =", "n =")} r = Relu(t) y = Add(n, r)
    the same value twice: t = Conv(x, w) n = {NORMAL} y = Sub(t, n)
    weights are computed: k = Neg(w) t = Conv(x, k) y = {NORMAL}
    scale is computed: k = Neg(s) t = Conv(x, w) y = BatchNormalization(t, k, b, m, v)
    variance is computed: k = Exp(v) t = Conv(x, w) y = BatchNormalization(t, s, b, m, k)
    bias is computed: k = Neg(b) t = Conv(x, w, k) y = {NORMAL}
    inner value is a graph output [graph={TWO.replace("z", "t")}]: {PAIR}
    training mode [graph=g (float[2,3,5,5] x) => (float[a,b,c,d] y, float[e] p, float[f] q); opset=15]: t = Conv(x, w)
        y, p, q = BatchNormalization<training_mode=1>(t, s, b, m, v)
    training mode, one output [opset=15; runs=False]: t = Conv(x, w)
        y = BatchNormalization<training_mode=1>(t, s, b, m, v)
    five outputs before opset 14 [graph={FIVE}; opset=9; runs=False]: t = Conv(x, w) y, p, q, r, u = {NORMAL}
    five outputs before opset 14, four unused [opset=9; runs=False]: t = Conv(x, w) y, p, q, r, u = {NORMAL}
    statistics per element [opset=7; runs=False]: t = Conv(x, w) y = BatchNormalization<spatial=0>(t, s, b, m, v)
    opset 6 [opset=6; runs=False]: t = Conv(x, w) y = BatchNormalization<is_test=1>(t, s, b, m, v)
    across the border of an If body [graph={BORDER}]: t = Conv(x, w)
        y = If (k) <then_branch = p () => (float[a,b,c,d] r) {{ r = {NORMAL} }},
        else_branch = q () => (float[a,b,c,d] u) {{ z = Neg(x) u = Conv(z, w) }}>
""")
SPECIAL = {
    "a variance that cancels epsilon": {"v": np.full(4, -1e-5, np.float32)},
    "a negative variance": {"v": np.full(4, -1, np.float32)},
    "statistics not a number": {"m": np.full(4, np.nan, np.float32)},
    "scaled weights overflow": {"w": W["w"] * np.float32(1e30), "s": np.full(4, 1e20, np.float32)},
}
HALF = {"dtype": "float16", "weights": {"s": np.full(4, 60000, np.float32), "v": np.full(4, 1e-3, np.float32)}}
test_stays_with_special_numbers = norms.all_stay(
    {name: (PAIR, {"weights": changed}) for name, changed in SPECIAL.items()} | {"half that overflows": (PAIR, HALF)}
)


@each("name", ["w", "c", "s", "b", "m", "v"])
def test_stays_if_it_may_change(name: str) -> None:
    body = f"t = Conv(x, w, c) y = {NORMAL}"
    value = f"float{list(W[name].shape)} {name}"
    numbers = ", ".join(f"{f:.6f}" for f in W[name].reshape(-1))
    norms.stays(body, graph=f"g (float[2,3,5,5] x, {value} = {{{numbers}}}) => (float[] y)")
    norms.stays(body, graph=f"g (float[2,3,5,5] x, {value}) => (float[] y)")


def test_stays_in_exact_runs() -> None:
    model = load(f"g (float[2,3,5,5] x) => (float[a,b,c,d] y) {{ {PAIR} }}", weights={**W})
    assert not apply_passes(model, FOLD_BATCHNORM, exact_only=True)[1].changes


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
    norms.becomes(
        f"t = {conv}(x, w{', c' if bias else ''}) y = BatchNormalization<epsilon: float = {epsilon}>(t, s, b, m, v)",
        f"y = {conv}(x, k, l)",
        x=x,
        w=",".join(map(str, shape)),
        channels=groups * outputs,
    )
