"""Constant affine ops behind a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv, convolution
from rewriting import apply_passes, becomes, cases, initializers, load, op_types, require_equivalent, stays

FOLD_AFFINE_INTO_CONV = rule_pass(affine_into_conv, "fold-affine-into-conv")

Arrays = dict[str, Any]
G = "g (float[2,3,5,4] x) => (float[a,b,c,d] y)"
W = "<float[1] w = {0}>"
WB = "<float[1] w = {0}, float[1] b = {0}>"
ONE, BIASED = f"{G} {W} {{ y = Conv(x, w) }}", f"{G} {WB} {{ y = Conv(x, w, b) }}"


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Numbers away from zero, of either sign."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(dtype)


KERNEL = numbers(4, 3, 3, 2)
PER, LAST = numbers(4, 1, 1, seed=1), numbers(3, seed=2)


def arrays(c: Any, **others: Any) -> Arrays:
    """The weights of a Conv from three to four channels, and the constant behind it."""
    return {"w": KERNEL, "c": np.asarray(c, np.float32), **others}


@cases(
    ("body", "after"),
    {
        "sum": ("y = Add(t, c)", BIASED),
        "sum, the constant first": ("y = Add(c, t)", BIASED),
        "difference": ("y = Sub(t, c)", BIASED),
        "difference from a constant": ("y = Sub(c, t)", BIASED),
        "product": ("y = Mul(t, c)", ONE),
        "product, the constant first": ("y = Mul(c, t)", ONE),
        "quotient": ("y = Div(t, c)", ONE),
        "chain": ("u = Div(t, c) v = Mul(u, c) r = Sub(c, v) y = Add(r, c)", BIASED),
    },
)
@cases(
    "c",
    {
        "per channel": (PER),
        "per channel, rank 4": (PER[None]),
        "scalar": (np.float32(0.7)),
        "one element": (np.full((1,), 1.5)),
        "one element, rank 4": (np.full((1, 1, 1, 1), 1.5)),
    },
)
def test_becomes(body: str, after: str, c: Any) -> None:
    becomes(f"{G} {{ t = Conv(x, w) {body} }}", after, FOLD_AFFINE_INTO_CONV, weights=arrays(c))


@cases(
    ("text", "after", "weights"),
    {
        "product with bias": ("t = Conv(x, w, b) y = Mul(t, c)", BIASED, arrays(PER, b=numbers(4))),
        "negated bias": ("t = Conv(x, w, b) y = Sub(c, t)", BIASED, arrays(PER, b=numbers(4))),
        "negation": ("t = Conv(x, w) y = Neg(t)", ONE, arrays(0)),
        "negation with bias": ("t = Conv(x, w, b) y = Neg(t)", BIASED, arrays(0, b=numbers(4))),
        "transposed": (
            "t = ConvTranspose(x, w) y = Mul(t, c)",
            f"{G} {W} {{ y = ConvTranspose(x, w) }}",
            {"w": numbers(3, 4, 2, 2), "c": PER},
        ),
        "transposed, grouped": (
            "t = ConvTranspose<group=3, strides=[2,1]>(x, w) u = Div(t, c) y = Add(u, c)",
            f"{G} {WB} {{ y = ConvTranspose<group=3, strides=[2,1]>(x, w, b) }}",
            {"w": numbers(3, 2, 2, 2), "c": numbers(6, 1, 1)},
        ),
        "grouped": (
            'u = Mul(x, x) t = Conv<group=3, auto_pad="SAME_UPPER">(u, w) y = Mul(t, c)',
            f'{G} {W} {{ u = Mul(x, x) y = Conv<group=3, auto_pad="SAME_UPPER">(u, w) }}',
            {"w": numbers(6, 1, 2, 2), "c": numbers(6, 1, 1)},
        ),
    },
)
def test_becomes_with_other_convolutions(text: str, after: str, weights: Arrays) -> None:
    becomes(f"{G} {{ {text} }}", after, FOLD_AFFINE_INTO_CONV, weights=weights)


@pytest.mark.parametrize("opset", [7, 11, 13, 18, 22])
def test_every_opset_since_7(opset: int) -> None:
    becomes(
        f"{G} {{ t = Conv(x, w) u = Mul(t, c) y = Add(u, c) }}",
        BIASED,
        FOLD_AFFINE_INTO_CONV,
        opset=opset,
        weights=arrays(PER),
    )


def test_a_shift_alone_keeps_the_weights() -> None:
    out = becomes(f"{G} {{ t = Conv(x, w) y = Add(t, c) }}", BIASED, FOLD_AFFINE_INTO_CONV, weights=arrays(PER))
    assert "w" in initializers(out)


@pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("double", np.float64)])
def test_other_types(kind: str, dtype: Any) -> None:
    out = becomes(
        f"{G} {{ t = Conv(x, w) u = Mul(t, c) y = Add(u, c) }}".replace("float[", f"{kind}["),
        BIASED.replace("float[", f"{kind}["),
        FOLD_AFFINE_INTO_CONV,
        weights={"w": KERNEL.astype(dtype), "c": PER.astype(dtype)},
    )
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


def test_inside_an_if_body() -> None:
    text = (
        "g (bool k, float[2,3,5,4] x) => (float[a,b,c,d] y) { y = If (k) <"
        "then_branch = p () => (float[a,b,c,d] r) { t = Conv(x, w) r = Mul(t, c) }, "
        "else_branch = q () => (float[a,b,c,d] u) { u = Conv(x, w) }> }"
    )
    model = load(text, weights=arrays(PER))
    result, change_log = apply_passes(model, FOLD_AFFINE_INTO_CONV)
    assert change_log.change_count == 1
    require_equivalent(model, to_onnx(result))


@cases(
    ("body", "weights"),
    {
        "along the last axis": ("t = Conv(x, w) y = Mul(t, c)", arrays(LAST[:1].repeat(3))),
        "along rows": ("t = Conv(x, w) y = Add(t, c)", arrays(numbers(3, 1))),
        "along the batch": ("t = Conv(x, w) y = Add(t, c)", arrays(numbers(2, 1, 1, 1))),
        "per element": ("t = Conv(x, w) y = Mul(t, c)", arrays(numbers(4, 3, 3))),
        "a constant of higher rank": ("t = Conv(x, w) y = Mul(t, c)", arrays(numbers(1, 1, 4, 1, 1))),
        "stretches one channel": ("t = Conv(x, w) y = Mul(t, c)", {"w": numbers(1, 3, 3, 2), "c": PER}),
        "along the last axis, as many as channels": (
            "t = Conv(x, w) y = Mul(t, c)",
            {"w": numbers(3, 3, 3, 2), "c": LAST},
        ),
        "quotient of a constant": ("t = Conv(x, w) y = Div(c, t)", arrays(PER)),
        "division by zero": ("t = Conv(x, w) y = Div(t, c)", arrays([[[1]], [[0]], [[2]], [[3]]])),
        "overflow": ("t = Conv(x, w) y = Mul(t, c)", arrays(PER * np.float32(1e38))),
        "infinite": ("t = Conv(x, w) y = Mul(t, c)", arrays(np.inf)),
        "not a number": ("t = Conv(x, w) y = Add(t, c)", arrays(np.nan)),
        "apart": ("t = Conv(x, w) r = Relu(t) y = Mul(r, c)", arrays(PER)),
        "shared inner value": ("t = Conv(x, w) n = Mul(t, c) y = Add(n, t)", arrays(PER)),
        "computed factor": ("t = Conv(x, w) k = ReduceMean<axes=[0,2,3]>(t) y = Mul(t, k)", arrays(1)),
        "computed weights": ("k = Neg(w) t = Conv(x, k) y = Mul(t, c)", arrays(PER)),
        "computed bias": ("k = Neg(b) t = Conv(x, w, k) y = Add(t, c)", arrays(PER, b=numbers(4))),
        "another op": ("t = Conv(x, w) y = Max(t, c)", arrays(PER)),
    },
)
def test_stays(body: str, weights: Arrays) -> None:
    stays(f"{G} {{ {body} }}", FOLD_AFFINE_INTO_CONV, weights=weights)


def test_stays_without_input_channels() -> None:
    text = "g (float[2,0,5,4] x) => (float[a,b,c,d] y) { t = Conv(x, w) y = Mul(t, c) }"
    stays(text, FOLD_AFFINE_INTO_CONV, weights=arrays(PER, w=numbers(4, 0, 3, 2)), runs=False)


@cases(
    ("text", "opset", "runs"),
    {
        "inner value is a graph output": (
            "g (float[2,3,5,4] x) => (float[a,b,c,d] y, float[a,b,c,d] t) { t = Conv(x, w) y = Mul(t, c) }",
            17,
            True,
        ),
        "overridable factor": (
            "g (float[2,3,5,4] x, float[1] k = {2}) => (float[a,b,c,d] y) { t = Conv(x, w) y = Mul(t, k) }",
            17,
            True,
        ),
        "broadcast by attribute": (
            "g (float[2,3,5,4] x) => (float[a,b,c,d] y) { t = Conv(x, w) y = Add<axis=1, broadcast=1>(t, c) }",
            6,
            False,
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3,5,4] x) => (float[a,b,c,d] y) { t = Conv(x, w) y = If (k) <"
                "then_branch = p () => (float[a,b,c,d] r) { r = Mul(t, c) }, "
                "else_branch = q () => (float[a,b,c,d] u) { z = Neg(x) u = Conv(z, w) }> }"
            ),
            17,
            True,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    stays(text, FOLD_AFFINE_INTO_CONV, opset=opset, weights=arrays(PER), runs=runs)


def test_half_precision_underflow_stays() -> None:
    weights = {"w": KERNEL.astype(np.float16) / 1000, "c": np.array(1e-6, np.float16)}
    text = f"{G} {{ t = Conv(x, w) y = Mul(t, c) }}".replace("float[", "float16[")
    stays(text, FOLD_AFFINE_INTO_CONV, weights=weights)


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
