"""Scales and shifts behind sums, joins and pools of convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

HOIST_AFFINE = rule_pass(affine_into_conv, "hoist-affine")

Arrays = dict[str, Any]
G = "g (float[2,3,6,5] x) => (float[a,b,c,d] y)"
STATS = "s, m, n, v"
TWO = "p = Conv(x, w) q = Conv<pads=[1,0,1,1]>(x, u)"
NORMAL = f"y = BatchNormalization(t, {STATS})"

NEW = f"<{', '.join(f'float[1] {name} = {{0}}' for name in 'wbuef')}>"


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Numbers away from zero, of either sign."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(dtype)


def arrays(channels: int = 4, **others: Any) -> Arrays:
    """Two kernels of four channels and the same extent of output, a constant, and statistics for so many channels."""
    stats = {name: numbers(channels, seed=i) for i, name in enumerate("smn")}
    fixed = {"w": numbers(4, 3, 1, 1), "u": numbers(4, 3, 3, 2), "c": numbers(channels, 1, 1, seed=7), "b": numbers(4)}
    return {**fixed, **stats, "v": abs(numbers(channels, seed=4)), **others}


@cases(
    ("body", "after", "channels"),
    {
        "normalized sum": (
            f"{TWO} t = Add(p, q) {NORMAL}",
            "p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u) y = Add(p, q)",
            4,
        ),
        "normalized difference": (
            f"{TWO} t = Sub(p, q) {NORMAL}",
            "p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u) y = Sub(p, q)",
            4,
        ),
        "normalized channels": (
            f"{TWO} t = Concat<axis=1>(p, q) {NORMAL}",
            "p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u, e) y = Concat<axis=1>(p, q)",
            8,
        ),
        "scaled channels": (
            f"{TWO} t = Concat<axis=-3>(p, q) y = Mul(t, c)",
            "p = Conv(x, w) q = Conv<pads=[1,0,1,1]>(x, u) y = Concat<axis=-3>(p, q)",
            8,
        ),
        "shifted rows": (
            f"{TWO} t = Concat<axis=2>(p, q) y = Sub(t, c)",
            "p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u, e) y = Concat<axis=2>(p, q)",
            4,
        ),
        "scaled batches": (
            f"{TWO} t = Concat<axis=0>(p, q) y = Div(t, c)",
            "p = Conv(x, w) q = Conv<pads=[1,0,1,1]>(x, u) y = Concat<axis=0>(p, q)",
            1,
        ),
        "shifted sum with something else": (
            "p = Conv(x, w) t = Add(x, p) u1 = Add(t, c) y = Add(c, u1)",
            "p = Conv(x, w, b) y = Add(x, p)",
            3,
        ),
        "shifted difference from something else": (
            "p = Conv(x, w) t = Sub(x, p) y = Add(t, c)",
            "p = Conv(x, w, b) y = Sub(x, p)",
            3,
        ),
        "average of all": (
            f"p = Conv(x, w) t = GlobalAveragePool(p) {NORMAL}",
            "p = Conv(x, w, b) y = GlobalAveragePool(p)",
            4,
        ),
        "shifted average": (
            "p = Conv(x, w) t = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(p) y = Add(c, t)",
            "p = Conv(x, w, b) y = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(p)",
            4,
        ),
        "scaled average that counts padding": (
            "p = Conv(x, w) t = AveragePool<count_include_pad=1, kernel_shape=[2,2], pads=[1,0,0,1]>(p) y = Mul(c, t)",
            "p = Conv(x, w) y = AveragePool<count_include_pad=1, kernel_shape=[2,2], pads=[1,0,0,1]>(p)",
            4,
        ),
        "greatest": (
            "p = Conv(x, w) t = MaxPool<kernel_shape=[2,2], strides=[2,2]>(p) r = Add(t, c) y = Mul(r, two)",
            "p = Conv(x, w, b) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(p)",
            4,
        ),
        "through all of them": (
            f"{TWO} r = Concat<axis=1>(p, q) a = Conv(x, w8) j = Add(r, a) t = GlobalAveragePool(j) {NORMAL}",
            (
                "p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u, e) r = Concat<axis=1>(p, q) a = Conv(x, f)"
                " j = Add(r, a) y = GlobalAveragePool(j)"
            ),
            8,
        ),
        "transposed": (
            "p = ConvTranspose(x, z) q = ConvTranspose(x, z) t = Add(p, q) y = Mul(t, c)",
            "p = ConvTranspose(x, w) q = ConvTranspose(x, u) y = Add(p, q)",
            4,
        ),
    },
)
def test_becomes(body: str, after: str, channels: int) -> None:
    more = {"two": np.float32(2), "w8": numbers(8, 3, 1, 1), "z": numbers(3, 4, 2, 2)}
    weights = arrays(channels, **more, **({"w": numbers(3, 3, 1, 1)} if channels == 3 else {}))
    becomes(f"{G} {{ {body} }}", f"{G} {NEW} {{ {after} }}", HOIST_AFFINE, weights=weights)


@pytest.mark.parametrize("opset", [7, 9, 11, 14, 22])
def test_every_opset_since_7(opset: int) -> None:
    after = f"{G} {NEW} {{ p = Conv(x, w, b) q = Conv<pads=[1,0,1,1]>(x, u) y = Add(p, q) }}"
    becomes(f"{G} {{ {TWO} t = Add(p, q) {NORMAL} }}", after, HOIST_AFFINE, opset=opset, weights=arrays())


@cases(
    ("body", "weights"),
    {
        "one is something else": (f"p = Conv(x, w) r = Relu(p) t = Add(p, r) {NORMAL}", arrays()),
        "another op": (f"p = Conv(x, w) r = Relu(x) q = Conv(r, w) t = Max(p, q) {NORMAL}", arrays()),
        "the same value twice": (f"p = Conv(x, w) t = Add(p, p) {NORMAL}", arrays()),
        "the same channels twice": (f"p = Conv(x, w) t = Concat<axis=1>(p, p) {NORMAL}", arrays(8)),
        "not a number": (f"{TWO} t = Add(p, q) {NORMAL} z = Relu(p)", arrays(s=np.full(4, np.nan, "f"))),
        "shared part": (f"{TWO} t = Add(p, q) r = Relu(q) k = {NORMAL[4:]} y = Add(k, r)", arrays()),
        "shared sum": (f"{TWO} t = Add(p, q) r = Relu(t) k = {NORMAL[4:]} y = Add(k, r)", arrays()),
        "along the last axis": (f"{TWO} t = Add(p, q) y = Mul(t, e)", arrays(e=numbers(5))),
        "per element": (f"{TWO} t = Add(p, q) y = Mul(t, e)", arrays(e=numbers(4, 6, 5))),
        "quotient of a constant": (f"{TWO} t = Add(p, q) y = Div(c, t)", arrays()),
        "one only": ("p = Conv(x, w) t = Add(x, p) y = Mul(t, c)", arrays(3, w=numbers(3, 3, 1, 1))),
        "one channel": ("p = Conv(x, o) t = Add(x, p) y = Add(t, c)", arrays(3, o=numbers(1, 3, 1, 1))),
        "greatest, negated": ("p = Conv(x, w) t = MaxPool<kernel_shape=[2,2]>(p) y = Mul(t, c)", arrays()),
        "greatest of all, negated": ("p = Conv(x, w) t = GlobalMaxPool(p) y = Mul(t, c)", arrays()),
        "shifted average that counts padding": (
            "p = Conv(x, w) t = AveragePool<count_include_pad=1, kernel_shape=[2,2], pads=[1,0,0,1]>(p) y = Add(c, t)",
            arrays(),
        ),
        "shifted average that hangs over": (
            "p = Conv(x, w) t = AveragePool<ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(p) y = Add(c, t)",
            arrays(),
        ),
        "indices are used": (
            "p = Conv(x, w) t, i = MaxPool<kernel_shape=[2,2]>(p) r = Mul(t, two) f = Cast<to=1>(i) y = Add(r, f)",
            arrays(two=np.float32(2)),
        ),
        "another pool": ("p = Conv(x, w) t = LpPool<kernel_shape=[2,2]>(p) y = Mul(t, c)", arrays()),
        "computed": ("k = Neg(w) p = Conv(x, k) q = Conv(x, w) t = Add(p, q) y = Mul(t, c)", arrays()),
        "apart": ("p = Conv(x, w) r = Relu(p) t = GlobalAveragePool(r) y = Mul(t, c)", arrays()),
    },
)
def test_stays(body: str, weights: Arrays) -> None:
    stays(f"{G} {{ {body} }}", HOIST_AFFINE, weights=weights)


@cases(
    "text",
    {
        "scalars have no channels": (
            "g (float x) => (float y) <float two = {2}> { p = Mul(x, two) t = Add(x, p) y = Mul(t, two) }"
        ),
        "a part is a graph output": (
            f"g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] p) {{ {TWO} t = Add(p, q) {NORMAL} }}"
        ),
        "factor is a graph input": (
            f"g (float[2,3,6,5] x, float[4,1,1] k) => (float[a,b,c,d] y) {{ {TWO} t = Add(p, q) y = Mul(t, k) }}"
        ),
        "overridable factor": (
            f"g (float[2,3,6,5] x, float[1] k = {{2}}) => (float[a,b,c,d] y) {{ {TWO} t = Add(p, q) y = Mul(t, k) }}"
        ),
        "the convolutions are outside the If body": (
            f"g (bool k, float[2,3,6,5] x) => (float[a,b,c,d] y) {{ {TWO} y = If (k) <"
            f"then_branch = f () => (float[a,b,c,d] r) {{ t = Add(p, q) r = Mul(t, c) }}, "
            f"else_branch = e () => (float[a,b,c,d] o) {{ o = Conv(x, w) }}> }}"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, HOIST_AFFINE, weights=arrays())


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
    model = load(f"{G} {{ {' '.join(lines)} }}", weights={**weights, **{name: fixed[name] for name in "csmnv"}})
    result, change_log = apply_passes(model, HOIST_AFFINE)
    out = to_onnx(result)
    assert change_log.change_count == 1
    assert len(op_types(out)) == len(op_types(model)) - 1
    require_equivalent(model, out)
