"""BatchNormalization before and behind products with constant weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewriting import becomes, cases, initializers, stays
from weights import weights_used_in

FOLD_BATCHNORM_INTO_GEMM = rule_pass(weight_scale, "fold-batchnorm-into-gemm")

KINDS = {"float": np.float32, "double": np.float64}
WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "wt": np.linspace(-2, 1, 12, dtype=np.float32).reshape(4, 3),
    "w3": np.linspace(-2, 1, 60, dtype=np.float32).reshape(5, 3, 4),
    "row": np.array([1, -2, 3, 0.5], np.float32),
    "col": np.array([[1], [2]], np.float32),
    "num": np.array(0.5, np.float32),
    **{f"s{n}": np.linspace(0.5, 2, n, dtype=np.float32) for n in (2, 3, 4)},
    **{f"b{n}": np.linspace(-1, 2, n, dtype=np.float32) for n in (2, 3, 4)},
    **{f"m{n}": np.linspace(2, -1, n, dtype=np.float32) for n in (2, 3, 4)},
    **{f"v{n}": np.linspace(0.1, 3, n, dtype=np.float32) for n in (2, 3, 4)},
}
CONST = "<float k = {1}>"
used = partial(weights_used_in, weights=WEIGHTS)


def bn(channels: int, x: str, attrs: str = "") -> str:
    return f"BatchNormalization{attrs}({x}, s{channels}, b{channels}, m{channels}, v{channels})"


def model(x: str, body: str, constants: str = "", result: str = "n,m", dtype: str = "float") -> str:
    return f"g ({dtype}[{x}] x) => ({dtype}[{result}] y) {constants} {{ {body} }}"


@cases(
    ("x", "before", "after"),
    {
        "behind a product": ("2,3", f"p = MatMul(x, w) y = {bn(4, 'p')}", "y = Gemm(x, k, k)"),
        "symbolic batch": ("N,3", f"p = MatMul(x, w) y = {bn(4, 'p')}", "y = Gemm(x, k, k)"),
        "no rows": ("0,3", f"p = MatMul(x, w) y = {bn(4, 'p')}", "y = Gemm(x, k, k)"),
        "behind a Gemm without bias": ("2,3", f"p = Gemm(x, w) y = {bn(4, 'p')}", "y = Gemm(x, k, k)"),
        "its bias one number": ("2,3", f"p = Gemm(x, w, num) y = {bn(4, 'p')}", "y = Gemm(x, k, k)"),
        "behind a Gemm with attributes": (
            "3,2",
            f"p = Gemm<alpha=0.5,beta=2.0,transA=1,transB=1>(x, wt, row) y = {bn(4, 'p', '<epsilon=0.5>')}",
            "y = Gemm<transA=1,transB=1>(x, k, k)",
        ),
        "before a product": ("2,3", f"p = {bn(3, 'x')} y = MatMul(p, w)", "y = Gemm(x, k, k)"),
        "before a Gemm without bias": ("2,3", f"p = {bn(3, 'x')} y = Gemm(p, w)", "y = Gemm(x, k, k)"),
        "before a Gemm with attributes": (
            "2,3",
            f"p = {bn(3, 'x')} y = Gemm<alpha=0.5,beta=2.0,transB=1>(p, wt, row)",
            "y = Gemm<transB=1>(x, k, k)",
        ),
        "before and behind": ("2,3", f"p = {bn(3, 'x')} q = MatMul(p, w) y = {bn(4, 'q')}", "y = Gemm(x, k, k)"),
    },
)
def test_becomes(x: str, before: str, after: str) -> None:
    becomes(model(x, before), model(x, after, CONST), FOLD_BATCHNORM_INTO_GEMM, weights=used(before))


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 9, 11, 14, 15, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    before = f"p = MatMul(x, w) y = {bn(4, 'p')}"
    weights = {name: a.astype(KINDS[dtype]) for name, a in used(before).items()}
    out = becomes(
        model("2,3", before, dtype=dtype),
        model("2,3", "y = Gemm(x, k, k)", CONST, dtype=dtype),
        FOLD_BATCHNORM_INTO_GEMM,
        opset=opset,
        weights=weights,
    )
    assert {a.dtype.type for a in initializers(out).values()} == {KINDS[dtype]}


@cases(
    ("x", "body", "result"),
    {
        "the channels are the rows": ("2,4,3", f"p = MatMul(x, w) y = {bn(4, 'p')}", "k,n,m"),
        "the channels are the rows, before": ("2,4,3", f"p = {bn(4, 'x')} y = MatMul(p, w)", "k,n,m"),
        "weights in batches": ("2,3", f"p = MatMul(x, w3) y = {bn(2, 'p')}", "k,n,m"),
        "before transA": ("3,2", f"p = {bn(2, 'x')} y = Gemm<transA=1>(p, w)", "n,m"),
        "a bias for each row": ("2,3", f"p = Gemm(x, w, col) y = {bn(4, 'p')}", "n,m"),
        "apart": ("2,3", f"p = MatMul(x, w) r = Relu(p) y = {bn(4, 'r')}", "n,m"),
        "shared product": ("2,3", f"p = MatMul(x, w) r = {bn(4, 'p')} y = Add(p, r)", "n,m"),
        "shared": ("2,3", f"p = {bn(3, 'x')} r = MatMul(p, w) s = ReduceSum(p) y = Add(r, s)", "n,m"),
        "weights": ("2,3", f"p = MatMul(x, w) q = MatMul(x, w) r = {bn(4, 'p')} y = Add(q, r)", "n,m"),
        "computed weights": ("4,4", f"p = MatMul(x, x) y = {bn(4, 'p')}", "n,m"),
        "alone": ("2,3", f"y = {bn(3, 'x')}", "n,m"),
    },
)
def test_stays(x: str, body: str, result: str) -> None:
    stays(model(x, body, result=result), FOLD_BATCHNORM_INTO_GEMM, weights=used(body))


@cases(
    ("text", "opset"),
    {
        "computed bias": (
            f"g (float[2,3] x, float[4] c) => (float[n,m] y) {{ p = Gemm(x, w, c) y = {bn(4, 'p')} }}",
            17,
        ),
        "product is a graph output": (
            f"g (float[2,3] x) => (float[n,m] y, float[n,m] p) {{ p = MatMul(x, w) y = {bn(4, 'p')} }}",
            17,
        ),
        "computed statistics": (
            (
                "g (float[2,3] x, float[4] s) => (float[n,m] y)"
                " { p = MatMul(x, w) y = BatchNormalization(p, s, b4, m4, v4) }"
            ),
            17,
        ),
        "overridable statistics": (
            (
                "g (float[2,3] x, float[4] s = {1,2,3,4}) => (float[n,m] y)"
                " { p = MatMul(x, w) y = BatchNormalization(p, s, b4, m4, v4) }"
            ),
            17,
        ),
        "in training mode": (
            (
                "g (float[2,3] x) => (float[n,m] y, float[4] a, float[4] b)"
                " { p = MatMul(x, w) y, a, b = BatchNormalization<training_mode=1>(p, s4, b4, m4, v4) }"
            ),
            15,
        ),
        "across the border of an If body": (
            (
                f"g (bool k, float[2,3] x) => (float[n,m] y) {{ p = MatMul(x, w) y = If (k) <"
                f"then_branch = t () => (float[n,m] r) {{ r = {bn(4, 'p')} }}, "
                "else_branch = e () => (float[n,m] s) { s = MatMul(x, wx) }> }"
            ),
            17,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    weights = used(text)
    if "wx" in text:
        weights["wx"] = WEIGHTS["w"]
    stays(text, FOLD_BATCHNORM_INTO_GEMM, opset=opset, weights=weights)


NUMBERS = st.sampled_from([-2.0, 0.5, 1.0, 3.0])


@given(alpha=NUMBERS, beta=NUMBERS, scale=NUMBERS, shift=NUMBERS, trans=st.booleans(), behind=st.booleans())
def test_any_numbers(alpha: float, beta: float, scale: float, shift: float, trans: bool, behind: bool) -> None:
    product = f"Gemm<alpha={alpha},beta={beta},transB={int(trans)}>"
    weights = "wt" if trans else "w"
    if behind:
        before = f"p = {product}(x, {weights}, row) y = {bn(4, 'p')}"
    else:
        before = f"p = {bn(3, 'x')} y = {product}(p, {weights}, row)"
    values = used(before)
    for name in ("s4", "s3", "b4", "b3"):
        if name in values:
            values[name] = values[name] * np.float32(scale if name[0] == "s" else shift)
    after = f"y = Gemm{'<transB=1>' if trans else ''}(x, k, k)"
    becomes(model("2,3", before), model("2,3", after, CONST), FOLD_BATCHNORM_INTO_GEMM, weights=values)
