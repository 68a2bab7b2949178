"""Scales and shifts behind sums, joins and pools of convolutions."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent
from weights import numbers

HOIST_AFFINE = rule_pass(affine_into_conv, "hoist-affine")

STATS = "s, m, n, v"
TWO = "p = Conv(x, w) q = Conv<pads=[1,0,1,1]>(x, u)"
NORMAL = f"y = BatchNormalization(t, {STATS})"
AVERAGE = "AveragePool<count_include_pad=1, kernel_shape=[2,2], pads=[1,0,0,1]>"


def arrays(channels: int, **_: Any) -> dict[str, Any]:
    """Kernels of the same extent of output, a constant, and statistics for so many channels."""
    stats = {name: numbers(channels, seed=i) for i, name in enumerate("smn")}
    kernels = {"w": (4, 3, 1, 1), "u": (4, 3, 3, 2), "w3": (3, 3, 1, 1), "w8": (8, 3, 1, 1), "z": (3, 4, 2, 2)}
    kernels |= {"one": (1, 3, 1, 1), "b": (4,), "columns": (5,), "elements": (4, 6, 5), "tall": (4, 3, 6, 1)}
    kernels |= {"d": (4, 1), "rows": (6, 1)}
    fixed = {name: numbers(*dims) for name, dims in kernels.items()} | {"c": numbers(channels, 1, 1, seed=7)}
    return {**fixed, **stats, "v": abs(numbers(channels, seed=4))}


G = "g (float[2,3,6,5] x) => (float[] y)"
trees = Rewrites(G, HOIST_AFFINE, weights=arrays, channels=4)
test_becomes = trees.all_become(f"""
    normalized sum: {TWO} t = Add(p, q) {NORMAL} => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g) y = Add(p, q)
    normalized difference: {TWO} t = Sub(p, q) {NORMAL}
        => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g) y = Sub(p, q)
    normalized channels [channels=8]: {TWO} t = Concat<axis=1>(p, q) {NORMAL}
        => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g, e) y = Concat<axis=1>(p, q)
    scaled channels [channels=8]: {TWO} t = Concat<axis=-3>(p, q) y = Mul(t, c)
        => p = Conv(x, f) q = Conv<pads=[1,0,1,1]>(x, g) y = Concat<axis=-3>(p, q)
    shifted rows: {TWO} t = Concat<axis=2>(p, q) y = Sub(t, c)
        => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g, e) y = Concat<axis=2>(p, q)
    scaled batches [channels=1]: {TWO} t = Concat<axis=0>(p, q) y = Div(t, c)
        => p = Conv(x, f) q = Conv<pads=[1,0,1,1]>(x, g) y = Concat<axis=0>(p, q)
    shifted sum with something else [channels=3]: p = Conv(x, w3) t = Add(x, p) u1 = Add(t, c) y = Add(c, u1)
        => p = Conv(x, f, b) y = Add(x, p)
    shifted difference from something else [channels=3]: p = Conv(x, w3) t = Sub(x, p) y = Add(t, c)
        => p = Conv(x, f, b) y = Sub(x, p)
    average of all: p = Conv(x, w) t = GlobalAveragePool(p) {NORMAL} => p = Conv(x, f, b) y = GlobalAveragePool(p)
    shifted average: p = Conv(x, w) t = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(p) y = Add(c, t)
        => p = Conv(x, f, b) y = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(p)
    scaled average that counts padding: p = Conv(x, w) t = {AVERAGE}(p) y = Mul(c, t) => p = Conv(x, f) y = {AVERAGE}(p)
    greatest: p = Conv(x, w) t = MaxPool<kernel_shape=[2,2], strides=[2,2]>(p) r = Add(t, c) y = Mul(r, 2.0)
        => p = Conv(x, f, b) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(p)
    through all of them [channels=8]: {TWO} r = Concat<axis=1>(p, q) a = Conv(x, w8) j = Add(r, a)
        t = GlobalAveragePool(j) {NORMAL}
        => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g, e) r = Concat<axis=1>(p, q) a = Conv(x, h) j = Add(r, a)
        y = GlobalAveragePool(j)
    an axis of one is taken away: p = Conv(x, tall) t = Squeeze(p, [2]) r = Mul(t, d) y = Add(d, r)
        => p = Conv(x, f, b) y = Squeeze(p, axis)
    so it is behind a pool: p = Conv(x, w) q = MaxPool<kernel_shape=[6,1]>(p) t = Squeeze(q, [-2]) y = Sub(t, d)
        => p = Conv(x, f, b) q = MaxPool<kernel_shape=[6,1]>(p) y = Squeeze(q, axis)
    all that is left: p = Conv(x, tall) q = GlobalAveragePool(p) t = Squeeze(q, [3]) {NORMAL}
        => p = Conv(x, f, b) q = GlobalAveragePool(p) y = Squeeze(q, axis)
    transposed: p = ConvTranspose(x, z) q = ConvTranspose(x, z) t = Add(p, q) y = Mul(t, c)
        => p = ConvTranspose(x, f) q = ConvTranspose(x, g) y = Add(p, q)
""")
SUM = f"{TWO} t = Add(p, q) {NORMAL} => p = Conv(x, f, b) q = Conv<pads=[1,0,1,1]>(x, g) y = Add(p, q)"
test_every_opset_since_7 = trees.all_become({str(opset): (SUM, {"opset": opset}) for opset in (7, 9, 11, 14, 22)})
test_stays = trees.all_stay(f"""
    one is something else: p = Conv(x, w) r = Relu(p) t = Add(p, r) {NORMAL}
    another op: p = Conv(x, w) r = Relu(x) q = Conv(r, w) t = Max(p, q) {NORMAL}
    the same value twice: p = Conv(x, w) t = Add(p, p) {NORMAL}
    the same channels twice [channels=8]: p = Conv(x, w) t = Concat<axis=1>(p, p) {NORMAL}
    shared part: {TWO} t = Add(p, q) r = Relu(q) k = {NORMAL[4:]} y = Add(k, r)
    shared sum: {TWO} t = Add(p, q) r = Relu(t) k = {NORMAL[4:]} y = Add(k, r)
    along the last axis: {TWO} t = Add(p, q) y = Mul(t, columns)
    the channels are taken away: p = Conv(x, one) t = Squeeze(p, [1]) y = Mul(t, rows)
    the batch is taken away: i = ReduceMean<axes=[0]>(x) p = Conv(i, w) t = Squeeze(p, [0]) y = Mul(t, rows)
    it is along the other axis: p = Conv(x, tall) t = Squeeze(p, [2]) y = Mul(t, columns)
    the squeezed value is read twice: p = Conv(x, tall) t = Squeeze(p, [2]) r = Mul(t, d) y = Add(r, t)
    it adds dims: p = Conv(x, tall) t = Squeeze(p, [2]) y = Mul(t, [[[[2.0]]]])
    per element: {TWO} t = Add(p, q) y = Mul(t, elements)
    quotient of a constant: {TWO} t = Add(p, q) y = Div(c, t)
    one only [channels=3]: p = Conv(x, w3) t = Add(x, p) y = Mul(t, c)
    one channel [channels=3]: p = Conv(x, one) t = Add(x, p) y = Add(t, c)
    greatest, negated: p = Conv(x, w) t = MaxPool<kernel_shape=[2,2]>(p) y = Mul(t, c)
    greatest of all, negated: p = Conv(x, w) t = GlobalMaxPool(p) y = Mul(t, c)
    shifted average that counts padding: p = Conv(x, w) t = {AVERAGE}(p) y = Add(c, t)
    shifted average that hangs over: p = Conv(x, w) t = AveragePool<ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(p)
        y = Add(c, t)
    indices are used: p = Conv(x, w) t, i = MaxPool<kernel_shape=[2,2]>(p) r = Mul(t, 2.0) f = Cast<to=1>(i)
        y = Add(r, f)
    another pool: p = Conv(x, w) t = LpPool<kernel_shape=[2,2]>(p) y = Mul(t, c)
    computed: k = Neg(w) p = Conv(x, k) q = Conv(x, w) t = Add(p, q) y = Mul(t, c)
    apart: p = Conv(x, w) r = Relu(p) t = GlobalAveragePool(r) y = Mul(t, c)
    scalars have no channels [graph=g (float x) => (float y)]: p = Mul(x, 2.0) t = Add(x, p) y = Mul(t, 2.0)
    a part is a graph output [graph=g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] p)]: {TWO}
        t = Add(p, q) {NORMAL}
    factor is a graph input [graph=g (float[2,3,6,5] x, float[4,1,1] k) => (float[] y)]: {TWO} t = Add(p, q)
        y = Mul(t, k)
    overridable factor [graph=g (float[2,3,6,5] x, float[1] k = {{2}}) => (float[] y)]: {TWO} t = Add(p, q)
        y = Mul(t, k)
    the convolutions are outside the If body [graph=g (bool k, float[2,3,6,5] x) => (float[a,b,c,d] y)]: {TWO}
        y = If (k) <then_branch = f () => (float[a,b,c,d] r) {{ t = Add(p, q) r = Mul(t, c) }},
        else_branch = e () => (float[a,b,c,d] o) {{ o = Conv(x, w) }}>
""")


def test_stays_for_numbers_that_are_none() -> None:
    trees.stays(f"{TWO} t = Add(p, q) {NORMAL} z = Relu(p)", weights={"s": np.full(4, np.nan, np.float32)})


@given(
    joins=st.lists(st.sampled_from(["Add", "Sub", "Concat<axis=1>"]), min_size=1, max_size=4),
    op=st.sampled_from(["Add(t, c)", "Sub(t, c)", "Mul(c, t)", "Div(t, c)", f"BatchNormalization(t, {STATS})"]),
    pool=st.sampled_from(["", "GlobalAveragePool", "AveragePool<kernel_shape=[2,2]>"]),
)
def test_any_tree(joins: list[str], op: str, pool: str) -> None:
    lines, weights, channels = ["j = Conv(x, w0)"], {"w0": numbers(2, 3, 2, 2)}, 2
    for i, join in enumerate(joins, 1):
        width = 2 if "Concat" in join else channels
        weights[f"w{i}"] = numbers(width, 3, 2, 2, seed=i)
        left = "j" if i == 1 else f"j{i - 1}"
        lines.append(f"p{i} = Conv(x, w{i}, b{i}) j{i} = {join}({left}, p{i})")
        weights[f"b{i}"] = numbers(width, seed=i)
        channels += width if "Concat" in join else 0
    top = f"j{len(joins)}"
    lines.append(
        f"t = {pool}({top}) y = {op}" if pool else f"y = {op}".replace("t,", f"{top},").replace("t)", f"{top})")
    )
    fixed = arrays(channels)
    model = load(
        f"g (float[2,3,6,5] x) => (float[a,b,c,d] y) {{ {' '.join(lines)} }}",
        weights={**weights, **{name: fixed[name] for name in "csmnv"}},
    )
    result, change_log = apply_passes(model, HOIST_AFFINE)
    out = to_onnx(result)
    assert change_log.change_count == 1
    assert len(op_types(out)) == len(op_types(model)) - 1
    require_equivalent(model, out)
