"""Constant affine ops behind a convolution."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv, convolution
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, initializers, load, op_types, require_equivalent, stays
from weights import numbers

FOLD_AFFINE_INTO_CONV = rule_pass(affine_into_conv, "fold-affine-into-conv")

PER = numbers(4, 1, 1, seed=1)
WEIGHTS = {
    "w": numbers(4, 3, 3, 2),
    "c": PER,
    "b": numbers(4),
    "c6": numbers(6, 1, 1),
    "one_channel": numbers(1, 3, 3, 2),
    "three_channels": numbers(3, 3, 3, 2),
    "transposed": numbers(3, 4, 2, 2),
    "transposed_groups": numbers(3, 2, 2, 2),
    "groups": numbers(6, 1, 2, 2),
    "columns": numbers(1, seed=2).repeat(3),
    "last": numbers(3, seed=2),
    "rows": numbers(3, 1),
    "batch": numbers(2, 1, 1, 1),
    "elements": numbers(4, 3, 3),
    "deep": numbers(1, 1, 4, 1, 1),
    "zero": [[[1.0]], [[0.0]], [[2.0]], [[3.0]]],
    "large": PER * np.float32(1e38),
    "inf": np.inf,
    "nan": np.nan,
}
affine = Rewrites("g (float[{x}] x) => (float[] y)", FOLD_AFFINE_INTO_CONV, weights=WEIGHTS, x="2,3,5,4")
BIASED = "y = Conv(x, k, l)"
ONE = "y = Conv(x, k)"
CONSTANTS = {
    "per channel": PER,
    "per channel, rank 4": PER[None],
    "scalar": 0.7,
    "one element": [1.5],
    "one element, rank 4": [[[[1.5]]]],
}
OPS = {
    "sum": f"y = Add(t, c) => {BIASED}",
    "sum, the constant first": f"y = Add(c, t) => {BIASED}",
    "difference": f"y = Sub(t, c) => {BIASED}",
    "difference from a constant": f"y = Sub(c, t) => {BIASED}",
    "product": f"y = Mul(t, c) => {ONE}",
    "product, the constant first": f"y = Mul(c, t) => {ONE}",
    "quotient": f"y = Div(t, c) => {ONE}",
    "chain": f"u = Div(t, c) v = Mul(u, c) r = Sub(c, v) y = Add(r, c) => {BIASED}",
}
test_becomes = affine.all_become(
    {
        f"{kind}, {op}": (f"t = Conv(x, w) {text}", {"weights": {"c": c}})
        for kind, c in CONSTANTS.items()
        for op, text in OPS.items()
    }
)
test_becomes_with_other_convolutions = affine.all_become(f"""
    product with bias: t = Conv(x, w, b) y = Mul(t, c) => {BIASED}
    negated bias: t = Conv(x, w, b) y = Sub(c, t) => {BIASED}
    negation: t = Conv(x, w) y = Neg(t) => {ONE}
    negation with bias: t = Conv(x, w, b) y = Neg(t) => {BIASED}
    transposed: t = ConvTranspose(x, transposed) y = Mul(t, c) => y = ConvTranspose(x, k)
    transposed, grouped: t = ConvTranspose<group=3, strides=[2,1]>(x, transposed_groups) u = Div(t, c6) y = Add(u, c6)
        => y = ConvTranspose<group=3, strides=[2,1]>(x, k, l)
    grouped: u = Mul(x, x) t = Conv<group=3, auto_pad="SAME_UPPER">(u, groups) y = Mul(t, c6)
        => u = Mul(x, x) y = Conv<group=3, auto_pad="SAME_UPPER">(u, k)
    inside an If body [in_if]: t = Conv(x, w) y = Mul(t, c) => {ONE}
""")
BOTH = f"t = Conv(x, w) u = Mul(t, c) y = Add(u, c) => {BIASED}"
test_every_opset_since_7 = affine.all_become({str(opset): (BOTH, {"opset": opset}) for opset in (7, 11, 13, 18, 22)})


def test_a_shift_alone_keeps_the_weights() -> None:
    assert "w" in initializers(affine.becomes("t = Conv(x, w) y = Add(t, c)", BIASED))


@each("dtype", ["float16", "double"])
def test_other_types(dtype: str) -> None:
    out = affine.becomes(*BOTH.split(" => "), dtype=dtype)
    assert {a.dtype for a in initializers(out).values()} == {np.dtype(dtype)}


UNLIKE = ("Sin", "Cos", "Tanh")


@pytest.fixture
def little_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower limit, so that small weights suffice."""
    monkeypatch.setattr(convolution, "MAX_COPIED_BYTES", 1 << 20)


@pytest.mark.usefixtures("little_copied")
def test_large_weights_used_elsewhere_are_not_copied() -> None:
    weights = {"w": numbers(600, 600, 1), "c": numbers(1)}
    text = "g (float[1,600,2] x) => (float[a,b,c] y, float[d,e,f] z) {{ t = Conv(x, w) y = {}(t, c) z = Conv(x, w) }}"
    stays(text.format("Mul"), FOLD_AFFINE_INTO_CONV, weights=weights)
    result, _ = apply_passes(load(text.format("Add"), weights=weights), FOLD_AFFINE_INTO_CONV)
    assert op_types(to_onnx(result)) == ["Conv", "Conv"]


@pytest.mark.usefixtures("little_copied")
def test_weights_with_many_consumers_are_not_copied_for_each() -> None:
    weights = {"w": numbers(400, 400, 1), "c": numbers(1)}
    branches = " ".join(f"t{i} = Conv(x, w) u{i} = Mul(t{i}, c) v{i} = {op}(u{i})" for i, op in enumerate(UNLIKE))
    text = f"g (float[1,400,2] x) => (float[a,b,c] y) {{ {branches} y = Sum(v0, v1, v2) }}"
    stays(text, FOLD_AFFINE_INTO_CONV, weights=weights)


test_stays = affine.all_stay("""
    along the last axis: t = Conv(x, w) y = Mul(t, columns)
    along rows: t = Conv(x, w) y = Add(t, rows)
    along the batch: t = Conv(x, w) y = Add(t, batch)
    per element: t = Conv(x, w) y = Mul(t, elements)
    a constant of higher rank: t = Conv(x, w) y = Mul(t, deep)
    stretches one channel: t = Conv(x, one_channel) y = Mul(t, c)
    along the last axis, as many as channels: t = Conv(x, three_channels) y = Mul(t, last)
    quotient of a constant: t = Conv(x, w) y = Div(c, t)
    division by zero: t = Conv(x, w) y = Div(t, zero)
    overflow: t = Conv(x, w) y = Mul(t, large)
    infinite: t = Conv(x, w) y = Mul(t, inf)
    not a number: t = Conv(x, w) y = Add(t, nan)
    apart: t = Conv(x, w) r = Relu(t) y = Mul(r, c)
    shared inner value: t = Conv(x, w) n = Mul(t, c) y = Add(n, t)
    computed factor: t = Conv(x, w) k = ReduceMean<axes=[0,2,3]>(t) y = Mul(t, k)
    computed weights: k = Neg(w) t = Conv(x, k) y = Mul(t, c)
    computed bias: k = Neg(b) t = Conv(x, w, k) y = Add(t, c)
    another op: t = Conv(x, w) y = Max(t, c)
    inner value is a graph output [graph=g (float[2,3,5,4] x) => (float[a,b,c,d] y, float[a,b,c,d] t)]:
        t = Conv(x, w) y = Mul(t, c)
    overridable factor [graph=g (float[2,3,5,4] x, float[1] k = {2}) => (float[] y)]: t = Conv(x, w) y = Mul(t, k)
    broadcast by attribute [opset=6; runs=False]: t = Conv(x, w) y = Add<axis=1, broadcast=1>(t, c)
    across the border of an If body [graph=g (bool k, float[2,3,5,4] x) => (float[a,b,c,d] y)]: t = Conv(x, w)
        y = If (k) <then_branch = p () => (float[a,b,c,d] r) { r = Mul(t, c) },
        else_branch = q () => (float[a,b,c,d] u) { z = Neg(x) u = Conv(z, w) }>
""")
test_stays_for_other_weights = affine.all_stay(
    {
        "no input channels": (
            "t = Conv(x, w) y = Mul(t, c)",
            {"x": "2,0,5,4", "weights": {"w": numbers(4, 0, 3, 2)}, "runs": False},
        ),
        "half precision underflows": (
            "t = Conv(x, w) y = Mul(t, c)",
            {"dtype": "float16", "weights": {"w": WEIGHTS["w"] / 1000, "c": np.array(1e-6, np.float32)}},
        ),
    }
)


def _cancels(ops: list[str], c: Any) -> bool:
    """Whether a chain subtracts what it added: tiny numbers are lost in between, but not in the folded model."""
    shift, largest = np.zeros_like(c), np.zeros_like(c)
    for op in ops:
        if op == "Sub(c, %s)":
            shift = c - shift
        elif op == "Mul(%s, c)":
            shift, largest = shift * c, largest * abs(c)
        elif op == "Div(%s, c)":
            shift, largest = shift / c, largest / abs(c)
        else:
            shift = shift + c if op == "Add(%s, c)" else shift - c
        largest = np.maximum(largest, abs(shift))
    return bool((abs(shift) < largest / 100).any())


@given(
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    outputs=st.integers(1, 3),
    spatial=st.integers(1, 3),
    bias=st.booleans(),
    ops=st.lists(st.sampled_from(["Add(%s, c)", "Sub(%s, c)", "Sub(c, %s)", "Mul(%s, c)", "Div(%s, c)"]), min_size=1),
    uniform=st.booleans(),
)
def test_any_chain_behind_any_convolution(
    *, transposed: bool, groups: int, outputs: int, spatial: int, bias: bool, ops: list[str], uniform: bool
) -> None:
    shape = (groups * 2, outputs) if transposed else (groups * outputs, 2)
    dims = ",".join(map(str, (2, groups * 2, *[3] * spatial)))
    head = f"g (float[{dims}] x) => (float[{','.join('abcde'[: spatial + 2])}] y)"
    conv = f"{'ConvTranspose' if transposed else 'Conv'}<group={groups}>"
    lines = [f"v0 = {conv}(x, w{', b' if bias else ''})"]
    lines += [f"v{i + 1} = {op % f'v{i}'}" for i, op in enumerate(ops[:4])]
    channels = groups * outputs
    assume(not _cancels(ops[:4], numbers(1 if uniform else channels, seed=2)))
    model = load(
        f"{head} {{ {' '.join(lines)} y = Relu(v{len(lines) - 1}) }}",
        weights={
            "w": numbers(*shape, *[2] * spatial),
            "b": numbers(channels, seed=1),
            "c": numbers(1 if uniform else channels, *[1] * spatial, seed=2),
        },
    )
    result, _ = apply_passes(model, FOLD_AFFINE_INTO_CONV)
    out = to_onnx(result)
    assert op_types(out) == [conv.partition("<")[0], "Relu"]
    require_equivalent(model, out)
