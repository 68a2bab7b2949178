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
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

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


@cases(
    ("types", "equation", "body"),
    {
        "batches": ("[5,2,3] a, [5,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)"),
        "matrices": ("[2,3] a, [3,4] b", "ij,jk->ik", "r = MatMul(a, b)"),
        "implicit result": ("[2,3] a, [3,4] b", "ij,jk", "r = MatMul(a, b)"),
        "upper and lower case": ("[2,3] a, [3,4] b", "iJ,Jk", "r = MatMul(a, b)"),
        "spaces": ("[2,3] a, [3,4] b", " i j , j k -> i k ", "r = MatMul(a, b)"),
        "the other way round": ("[3,4] a, [2,3] b", "jk,ij->ik", "r = MatMul(b, a)"),
        "ellipsis": ("[7,5,2,3] a, [7,5,3,4] b", "...ij,...jk->...ik", "r = MatMul(a, b)"),
        "ellipsis, implicit": ("[7,5,2,3] a, [7,5,3,4] b", "...ij,...jk", "r = MatMul(a, b)"),
        "ellipsis of nothing": ("[2,3] a, [3,4] b", "...ij,...jk->...ik", "r = MatMul(a, b)"),
        "symbolic": ("[B,T,3] a, [B,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)"),
        "the same for a batch": ("[B,T,3] a, [3,4] b", "bij,jk->bik", "r = MatMul(a, b)"),
        "the same for a batch, left": ("[2,3] a, [5,3,4] b", "ij,bjk->bik", "r = MatMul(a, b)"),
        "stretched": ("[1,2,3] a, [5,3,4] b", "bij,bjk->bik", "r = MatMul(a, b)"),
        "times a vector": ("[5,2,3] a, [3] b", "bij,j->bi", "r = MatMul(a, b)"),
        "a vector times": ("[3] a, [5,3,4] b", "j,bjk->bk", "r = MatMul(a, b)"),
        "two vectors": ("[3] a, [3] b", "i,i->", "r = MatMul(a, b)"),
        "two vectors, implicit": ("[3] a, [3] b", "i,i", "r = MatMul(a, b)"),
        "right transposed": ("[2,3] a, [4,3] b", "ij,kj->ik", "r = Gemm<transB=1>(a, b)"),
        "left transposed": ("[3,2] a, [3,4] b", "ji,jk->ik", "r = Gemm<transA=1>(a, b)"),
        "implicit result sorts": ("[3,2] a, [4,3] b", "ji,kj", "r = Gemm<transA=1,transB=1>(a, b)"),
        "both transposed": ("[3,2] a, [4,3] b", "ji,kj->ik", "r = Gemm<transA=1,transB=1>(a, b)"),
        "exchanged, transposed": ("[4,3] a, [2,3] b", "kj,ij->ik", "r = Gemm<transB=1>(b, a)"),
        "transpose": ("[2,3] a", "ij->ji", "r = Transpose<perm=[1,0]>(a)"),
        "implicit transpose": ("[2,3] a", "ba", "r = Transpose<perm=[1,0]>(a)"),
        "transpose of batches": ("[2,3,4] a", "...ij->...ji", "r = Transpose<perm=[0,2,1]>(a)"),
        "elementwise": ("[2,3] a, [2,3] b", "ij,ij->ij", "r = Mul(a, b)"),
        "elementwise, a row": ("[2,3] a, [3] b", "ij,j->ij", "r = Mul(a, b)"),
        "elementwise, a row first": ("[3] a, [2,3] b", "j,ij->ij", "r = Mul(a, b)"),
        "elementwise, stretched": ("[2,3] a, [1,3] b", "ij,ij->ij", "r = Mul(a, b)"),
        "ellipses of unequal length do not run": ("[5,2,3] a, [2,3] b", "...i,...i->...i", ""),
    },
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


@cases(
    ("types", "equation", "dims", "body"),
    {
        "right": ("[5,2,3] a", "bij,kj->bik", (4, 3), "r = MatMul(a, k)"),
        "left as it is": ("[5,3,2] a", "bji,kj->bki", (4, 3), "r = MatMul(k, a)"),
        "left": ("[5,3,2] a", "bji,jk->bki", (3, 4), "r = MatMul(k, a)"),
        "a product for each of another axis": ("[2,5,3] a", "ibj,bkj->ibk", (5, 4, 3), ""),
        "batches": ("[5,2,3] a", "bij,bkj->bik", (5, 4, 3), "r = MatMul(a, k)"),
        "batches, all axes moved": ("[5,2,3] a", "bij,jkb->bik", (3, 4, 5), "r = MatMul(a, k)"),
    },
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


@cases(
    ("types", "equation"),
    {
        "diagonal": ("[3,3] a", "ii->i"),
        "trace": ("[3,3] a", "ii"),
        "sums and transposes": ("[2,3,4] a", "ijk->ki"),
        "diagonal of a factor": ("[3,3] a, [3,4] b", "ii,ik->ik"),
        "needs a Transpose": ("[5,2,3] a, [5,4,3] b", "bij,bkj->bik"),
        "needs a Transpose behind": ("[5,2,3] a, [5,3,4] b", "bij,bjk->bki"),
        "needs a Transpose before": ("[2,5,3] a, [5,3,4] b", "ibj,bjk->bik"),
        "outer product": ("[2] a, [3] b", "i,j->ij"),
        "broadcasts from the left": ("[2,3] a, [2] b", "ij,i->ij"),
        "elementwise, transposed": ("[2,3] a, [2,3] b", "ij,ij->ji"),
        "a product for each row": ("[2,3] a, [2,3] b", "ij,ij->i"),
        "sums two axes": ("[2,3] a, [2,3] b", "ij,ij->"),
        "sums an axis of the second factor alone": ("[2,3] a, [2,4] b", "ij,ik->ij"),
        "sums an axis of the second factor alone, transposed": ("[2,3] a, [2,4] b", "ij,ik->ji"),
        "sums an axis of the second factor alone, of equal sizes": ("[2,2] a, [2,2] b", "ij,ik->ji"),
        "sums an axis of one": ("[2,3] a, [3,4] b", "ij,jk->i"),
        "a vector for each of a batch": ("[5,2,3] a, [5,3] b", "bij,bj->bi"),
        "a vector for each of a batch, left": ("[5,3] a, [5,3,4] b", "bj,bjk->bk"),
        "stretched where it sums": ("[2,1] a, [3,4] b", "ij,jk->ik"),
        "stretched where it sums, transposed": ("[2,1] a, [4,3] b", "ij,kj->ik"),
        "perhaps stretched where it sums": ("[2,N] a, [M,4] b", "ij,jk->ik"),
        "perhaps a sum of nothing": ("[2,N] a, [N] b", "ij,j->i"),
        "a sum of nothing": ("[2,0] a, [0] b", "ij,j->i"),
        "perhaps for a batch of none": ("[2,3] a, [B,3,4] b", "ij,bjk->bik"),
        "three": ("[2,3] a, [3,4] b, [4,5] c", "ij,jk,kl->il"),
        "sums over two axes": ("[5,2,3,4] a, [4,3,6] b", "bijk,kjl->bil"),
        "two axes of the right factor": ("[5,2,3] a, [3,4,6] b", "btd,dhk->bthk"),
    },
)
def test_stays(types: str, equation: str) -> None:
    stays(model(types, equation), SIMPLIFY_EINSUM)


@cases(
    ("text", "runs"),
    {
        "rank": ('g (float[] a, float[] b) => (float[] y) { y = Einsum<equation="ij,jk">(a, b) }', False),
        "type": ('g (uint8[2,3] a) => (uint8[] y) { y = Einsum<equation="ij->i">(a) }', False),
        "new label": ('g (float[2,3] a) => (float[] y) { y = Einsum<equation="ij->k">(a) }', False),
        "digits": ('g (float[2,3] a) => (float[] y) { y = Einsum<equation="i1->i">(a) }', False),
        "operands": ('g (float[2,3] a) => (float[] y) { y = Einsum<equation="ij,jk->ik">(a) }', False),
        "too few labels": ('g (float[2,3] a) => (float[] y) { y = Einsum<equation="i->i">(a) }', False),
    },
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
