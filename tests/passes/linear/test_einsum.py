"""Einsum written as another operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.core.errors import MatchFailure
from passwright.passes.linear import einsum
from passwright.passes.linear.einsum import Equation, parse_equation
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

SIMPLIFY_EINSUM = rule_pass(einsum, "simplify-einsum")


def model(types: str, equation: str, dtype: str = "float", weights: tuple[int, ...] = ()) -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`; `weights` are the dims of an input w."""
    operands = [t.split() for t in types.split(", ")]
    ranks = [dims.count(",") + 1 for dims, _ in operands] + [len(weights)] * bool(weights)
    names = [name for _, name in operands] + ["w"] * bool(weights)
    body = f'r = Einsum<equation="{equation}">({", ".join(names)})'
    return around(types, body, dtype, result_of(equation, ranks))


def around(types: str, body: str, dtype: str, result: str, constants: str = "") -> str:
    return f"g ({types.replace('[', f'{dtype}[')}) => ({dtype}{result} y) {constants} {{ {body} y = Identity(r) }}"


def result_of(equation: str, ranks: list[int]) -> str:
    """The shape of the result, written as symbols."""
    try:
        rank = len(parse_equation(equation, ranks).result)
    except MatchFailure:
        return "[]"
    return f"[{','.join(f'd{i}' for i in range(rank))}]" if rank else ""


@pytest.mark.parametrize(
    ("types", "equation", "body"),
    [
        pytest.param("[5,2,3] a, [5,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)", id="batches"),
        pytest.param("[2,3] a, [3,4] b", "ij,jk->ik", "r = MatMul(a, b)", id="matrices"),
        pytest.param("[2,3] a, [3,4] b", "ij,jk", "r = MatMul(a, b)", id="implicit result"),
        pytest.param("[2,3] a, [3,4] b", "iJ,Jk", "r = MatMul(a, b)", id="upper and lower case"),
        pytest.param("[2,3] a, [3,4] b", " i j , j k -> i k ", "r = MatMul(a, b)", id="spaces"),
        pytest.param("[3,4] a, [2,3] b", "jk,ij->ik", "r = MatMul(b, a)", id="the other way round"),
        pytest.param("[7,5,2,3] a, [7,5,3,4] b", "...ij,...jk->...ik", "r = MatMul(a, b)", id="ellipsis"),
        pytest.param("[7,5,2,3] a, [7,5,3,4] b", "...ij,...jk", "r = MatMul(a, b)", id="ellipsis, implicit"),
        pytest.param("[2,3] a, [3,4] b", "...ij,...jk->...ik", "r = MatMul(a, b)", id="ellipsis of nothing"),
        pytest.param("[B,T,3] a, [B,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)", id="symbolic"),
        pytest.param("[B,T,3] a, [3,4] b", "bij,jk->bik", "r = MatMul(a, b)", id="the same for a batch"),
        pytest.param("[2,3] a, [5,3,4] b", "ij,bjk->bik", "r = MatMul(a, b)", id="the same for a batch, left"),
        pytest.param("[1,2,3] a, [5,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)", id="stretched"),
        pytest.param("[5,2,3] a, [3] b", "bij,j->bi", "r = MatMul(a, b)", id="times a vector"),
        pytest.param("[3] a, [5,3,4] b", "j,bjk->bk", "r = MatMul(a, b)", id="a vector times"),
        pytest.param("[3] a, [3] b", "i,i->", "r = MatMul(a, b)", id="two vectors"),
        pytest.param("[3] a, [3] b", "i,i", "r = MatMul(a, b)", id="two vectors, implicit"),
        pytest.param("[2,3] a, [4,3] b", "ij,kj->ik", "r = Gemm<transB=1>(a, b)", id="right transposed"),
        pytest.param("[3,2] a, [3,4] b", "ji,jk->ik", "r = Gemm<transA=1>(a, b)", id="left transposed"),
        pytest.param("[3,2] a, [4,3] b", "ji,kj", "r = Gemm<transA=1,transB=1>(a, b)", id="implicit result sorts"),
        pytest.param("[3,2] a, [4,3] b", "ji,kj->ik", "r = Gemm<transA=1,transB=1>(a, b)", id="both transposed"),
        pytest.param("[4,3] a, [2,3] b", "kj,ij->ik", "r = Gemm<transB=1>(b, a)", id="exchanged, transposed"),
        pytest.param("[2,3] a", "ij->ji", "r = Transpose<perm=[1,0]>(a)", id="transpose"),
        pytest.param("[2,3] a", "ba", "r = Transpose<perm=[1,0]>(a)", id="implicit transpose"),
        pytest.param("[2,3,4] a", "...ij->...ji", "r = Transpose<perm=[0,2,1]>(a)", id="transpose of batches"),
        pytest.param("[2,3] a, [2,3] b", "ij,ij->ij", "r = Mul(a, b)", id="elementwise"),
        pytest.param("[2,3] a, [3] b", "ij,j->ij", "r = Mul(a, b)", id="elementwise, a row"),
        pytest.param("[3] a, [2,3] b", "j,ij->ij", "r = Mul(a, b)", id="elementwise, a row first"),
        pytest.param("[2,3] a, [1,3] b", "ij,ij->ij", "r = Mul(a, b)", id="elementwise, stretched"),
        pytest.param("[5,2,3] a, [2,3] b", "...i,...i->...i", "", id="ellipses of unequal length do not run"),
    ],
)
def test_becomes(types: str, equation: str, body: str) -> None:
    if not body:
        stays(model(types, equation), SIMPLIFY_EINSUM, runs=False)
        return
    before = model(types, equation)
    becomes(before, after(before, body), SIMPLIFY_EINSUM)


def after(before: str, body: str) -> str:
    """The model with another body, constants named k."""
    return f"{before[: before.index('{')]} <float k = {{1}}> {{ {body} y = Identity(r) }}"


def test_identity_equation_becomes_identity() -> None:
    before = model("[2,3] a", "ij->ij")
    becomes(before, before[: before.index("{")] + "{ y = Identity(a) }", SIMPLIFY_EINSUM)


@pytest.mark.parametrize("opset", [12, 13, 18, 22])
@pytest.mark.parametrize(("equation", "axes"), [("ij->i", [1]), ("ij->", [0, 1]), ("ij->j", [0])])
def test_sums(equation: str, axes: list[int], opset: int) -> None:
    old = f"r = ReduceSum<axes={axes},keepdims=0>(a)"
    body = "r = ReduceSum<keepdims=0>(a, k)" if opset >= 13 else old
    before = model("[2,3] a", equation)
    becomes(before, after(before, body), SIMPLIFY_EINSUM, opset=opset)


@pytest.mark.parametrize("dtype", ["float", "double", "float16", "int32", "int64"])
def test_every_type(dtype: str) -> None:
    before = model("[5,2,3] a, [5,3,4] b", "bij,bjk->bik", dtype)
    becomes(before, after(before, "r = MatMul(a, b)"), SIMPLIFY_EINSUM)


@pytest.mark.parametrize(
    ("types", "equation", "dims", "body"),
    [
        pytest.param("[5,2,3] a", "bij,kj->bik", (4, 3), "r = MatMul(a, k)", id="right"),
        pytest.param("[5,3,2] a", "bji,kj->bki", (4, 3), "r = MatMul(k, a)", id="left as it is"),
        pytest.param("[5,3,2] a", "bji,jk->bki", (3, 4), "r = MatMul(k, a)", id="left"),
        pytest.param("[2,5,3] a", "ibj,bkj->ibk", (5, 4, 3), "", id="a product for each of another axis"),
        pytest.param("[5,2,3] a", "bij,bkj->bik", (5, 4, 3), "r = MatMul(a, k)", id="batches"),
        pytest.param("[5,2,3] a", "bij,jkb->bik", (3, 4, 5), "r = MatMul(a, k)", id="batches, all axes moved"),
    ],
)
def test_constants_are_transposed(types: str, equation: str, dims: tuple[int, ...], body: str) -> None:
    weights = {"w": np.linspace(-1, 1, int(np.prod(dims)), dtype=np.float32).reshape(dims)}
    before = model(types, equation, weights=dims)
    if body:
        becomes(before, after(before, body), SIMPLIFY_EINSUM, weights=weights)
    else:
        stays(before, SIMPLIFY_EINSUM, weights=weights)


def test_shared_constants_are_not_transposed() -> None:
    weights = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)}
    text = (
        "g (float[5,2,3] a) => (float[] y, float[] z)"
        ' { y = Einsum<equation="bij,kj->bik">(a, w) s = ReduceSum(w) z = Mul(s, a) }'
    )
    stays(text, SIMPLIFY_EINSUM, weights=weights)


@pytest.mark.parametrize(
    ("types", "equation"),
    [
        pytest.param("[3,3] a", "ii->i", id="diagonal"),
        pytest.param("[3,3] a", "ii", id="trace"),
        pytest.param("[2,3,4] a", "ijk->ki", id="sums and transposes"),
        pytest.param("[3,3] a, [3,4] b", "ii,ik->ik", id="diagonal of a factor"),
        pytest.param("[5,2,3] a, [5,4,3] b", "bij,bkj->bik", id="needs a Transpose"),
        pytest.param("[5,2,3] a, [5,3,4] b", "bij,bjk->bki", id="needs a Transpose behind"),
        pytest.param("[2,5,3] a, [5,3,4] b", "ibj,bjk->bik", id="needs a Transpose before"),
        pytest.param("[2] a, [3] b", "i,j->ij", id="outer product"),
        pytest.param("[2,3] a, [2] b", "ij,i->ij", id="broadcasts from the left"),
        pytest.param("[2,3] a, [2,3] b", "ij,ij->ji", id="elementwise, transposed"),
        pytest.param("[2,3] a, [2,3] b", "ij,ij->i", id="a product for each row"),
        pytest.param("[2,3] a, [2,3] b", "ij,ij->", id="sums two axes"),
        pytest.param("[2,3] a, [2,4] b", "ij,ik->ij", id="sums an axis of the second factor alone"),
        pytest.param("[2,3] a, [2,4] b", "ij,ik->ji", id="sums an axis of the second factor alone, transposed"),
        pytest.param("[2,2] a, [2,2] b", "ij,ik->ji", id="sums an axis of the second factor alone, of equal sizes"),
        pytest.param("[2,3] a, [3,4] b", "ij,jk->i", id="sums an axis of one"),
        pytest.param("[5,2,3] a, [5,3] b", "bij,bj->bi", id="a vector for each of a batch"),
        pytest.param("[5,3] a, [5,3,4] b", "bj,bjk->bk", id="a vector for each of a batch, left"),
        pytest.param("[2,1] a, [3,4] b", "ij,jk->ik", id="stretched where it sums"),
        pytest.param("[2,1] a, [4,3] b", "ij,kj->ik", id="stretched where it sums, transposed"),
        pytest.param("[2,N] a, [M,4] b", "ij,jk->ik", id="perhaps stretched where it sums"),
        pytest.param("[2,N] a, [N] b", "ij,j->i", id="perhaps a sum of nothing"),
        pytest.param("[2,0] a, [0] b", "ij,j->i", id="a sum of nothing"),
        pytest.param("[2,3] a, [B,3,4] b", "ij,bjk->bik", id="perhaps for a batch of none"),
        pytest.param("[2,3] a, [3,4] b, [4,5] c", "ij,jk,kl->il", id="three"),
        pytest.param("[5,2,3,4] a, [4,3,6] b", "bijk,kjl->bil", id="sums over two axes"),
        pytest.param("[5,2,3] a, [3,4,6] b", "btd,dhk->bthk", id="two axes of the right factor"),
    ],
)
def test_stays(types: str, equation: str) -> None:
    stays(model(types, equation), SIMPLIFY_EINSUM)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        pytest.param(
            'g (float[] a, float[] b) => (float[] y) { y = Einsum<equation="ij,jk">(a, b) }', False, id="rank"
        ),
        pytest.param('g (uint8[2,3] a) => (uint8[] y) { y = Einsum<equation="ij->i">(a) }', False, id="type"),
        pytest.param('g (float[2,3] a) => (float[] y) { y = Einsum<equation="ij->k">(a) }', False, id="new label"),
        pytest.param('g (float[2,3] a) => (float[] y) { y = Einsum<equation="i1->i">(a) }', False, id="digits"),
        pytest.param('g (float[2,3] a) => (float[] y) { y = Einsum<equation="ij,jk->ik">(a) }', False, id="operands"),
        pytest.param('g (float[2,3] a) => (float[] y) { y = Einsum<equation="i->i">(a) }', False, id="too few labels"),
    ],
)
def test_stays_elsewhere(text: str, runs: bool) -> None:
    stays(text, SIMPLIFY_EINSUM, runs=runs)


@pytest.mark.parametrize(
    ("text", "ranks", "want"),
    [
        ("ij,jk", [2, 2], Equation((("i", "j"), ("j", "k")), ("i", "k"))),
        ("b...a", [4], Equation((("b", "0", "1", "a"),), ("0", "1", "a", "b"))),
        ("...->...", [0], Equation(((),), ())),
        ("Zb,aZ", [2, 2], Equation((("Z", "b"), ("a", "Z")), ("a", "b"))),
    ],
)
def test_equations(text: str, ranks: list[int], want: Equation) -> None:
    assert parse_equation(text, ranks) == want


@pytest.mark.parametrize(("text", "ranks"), [("...i->i", [2]), ("i.j", [2]), ("...i...", [3]), ("...ijk", [2])])
def test_bad_equations(text: str, ranks: list[int]) -> None:
    with pytest.raises(MatchFailure):
        parse_equation(text, ranks)


LABELS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
EXTENTS = {"a": 2, "b": 3, "c": 4, "d": 5}


@given(a=LABELS, b=LABELS, result=st.lists(st.sampled_from("abcd"), max_size=4, unique=True))
def test_any_two_terms(a: list[str], b: list[str], result: list[str]) -> None:
    """Any result is equivalent."""
    assume({*a, *b} >= {*result})
    types = ", ".join(f"[{','.join(str(EXTENTS[x]) for x in t)}] {name}" for t, name in ((a, "x"), (b, "z")))
    before = load(model(types, f"{''.join(a)},{''.join(b)}->{''.join(result)}"))
    changed, change_log = apply_passes(before, SIMPLIFY_EINSUM)
    if change_log.changes:
        out = to_onnx(changed)
        require_equivalent(before, out, exact=change_log.is_exact)
        assert op_types(out)[0] in {"MatMul", "Gemm", "Mul"}
        assert len(op_types(out)) == 2
