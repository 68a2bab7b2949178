"""Einsum written as another operator."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.core.errors import MatchFailure
from passwright.passes.linear import einsum
from passwright.passes.linear.einsum import Equation, parse_equation
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, require_equivalent
from weights import matrix

SIMPLIFY_EINSUM = rule_pass(einsum, "simplify-einsum")

EXTENTS = ((4, 3), (3, 4), (5, 4, 3), (3, 4, 5), (4, 3, 5), (5, 3, 4))
WEIGHTS = {f"w{'x'.join(map(str, d))}": matrix(*d) for d in EXTENTS}
products = Rewrites("g (float[{a}] a, float[{b}] b) => (float[] y)", SIMPLIFY_EINSUM, weights=WEIGHTS, a="2,3", b="3,4")


def einsum_of(equation: str, operands: str = "a, b") -> str:
    return f'r = Einsum<equation="{equation}">({operands}) y = Neg(r)'


E = einsum_of
PRODUCT = "r = MatMul(a, b) y = Neg(r)"
SWAPPED = "r = MatMul(b, a) y = Neg(r)"
TURNED = "y = Neg(r)"
test_becomes = products.all_become(f"""
    batches [a=5,2,3; b=5,3,4]: {E("bij,bjk->bik")} => {PRODUCT}
    matrices: {E("ij,jk->ik")} => {PRODUCT}
    implicit result: {E("ij,jk")} => {PRODUCT}
    upper and lower case: {E("iJ,Jk")} => {PRODUCT}
    spaces: {E(" i j , j k -> i k ")} => {PRODUCT}
    the other way round [a=3,4; b=2,3]: {E("jk,ij->ik")} => {SWAPPED}
    ellipsis [a=7,5,2,3; b=7,5,3,4]: {E("...ij,...jk->...ik")} => {PRODUCT}
    ellipsis, implicit [a=7,5,2,3; b=7,5,3,4]: {E("...ij,...jk")} => {PRODUCT}
    ellipsis of nothing: {E("...ij,...jk->...ik")} => {PRODUCT}
    symbolic [a=B,T,3; b=B,3,4]: {E("bij,bjk->bik")} => {PRODUCT}
    the same for a batch [a=B,T,3]: {E("bij,jk->bik")} => {PRODUCT}
    the same for a batch, left [b=5,3,4]: {E("ij,bjk->bik")} => {PRODUCT}
    stretched [a=1,2,3; b=5,3,4]: {E("bij,bjk->bik")} => {PRODUCT}
    times a vector [a=5,2,3; b=3]: {E("bij,j->bi")} => {PRODUCT}
    a vector times [a=3; b=5,3,4]: {E("j,bjk->bk")} => {PRODUCT}
    right transposed [b=4,3]: {E("ij,kj->ik")} => r = Gemm<transB=1>(a, b) {TURNED}
    left transposed [a=3,2]: {E("ji,jk->ik")} => r = Gemm<transA=1>(a, b) {TURNED}
    implicit result sorts [a=3,2; b=4,3]: {E("ji,kj")} => r = Gemm<transA=1,transB=1>(a, b) {TURNED}
    both transposed [a=3,2; b=4,3]: {E("ji,kj->ik")} => r = Gemm<transA=1,transB=1>(a, b) {TURNED}
    exchanged, transposed [a=4,3; b=2,3]: {E("kj,ij->ik")} => r = Gemm<transB=1>(b, a) {TURNED}
    transpose: {E("ij->ji", "a")} => r = Transpose<perm=[1,0]>(a) {TURNED}
    implicit transpose: {E("ba", "a")} => r = Transpose<perm=[1,0]>(a) {TURNED}
    transpose of batches [a=2,3,4]: {E("...ij->...ji", "a")} => r = Transpose<perm=[0,2,1]>(a) {TURNED}
    elementwise [b=2,3]: {E("ij,ij->ij")} => r = Mul(a, b) {TURNED}
    elementwise, a row [b=3]: {E("ij,j->ij")} => r = Mul(a, b) {TURNED}
    elementwise, a row first [a=3; b=2,3]: {E("j,ij->ij")} => r = Mul(a, b) {TURNED}
    elementwise, stretched [b=1,3]: {E("ij,ij->ij")} => r = Mul(a, b) {TURNED}
    identity: {E("ij->ij", "a")} => y = Neg(a)
""")
test_scalars_become = products.using(graph="g (float[3] a, float[3] b) => (float y)").all_become(f"""
    two vectors: {E("i,i->")} => {PRODUCT}
    two vectors, implicit: {E("i,i")} => {PRODUCT}
""")
test_sums = products.all_become(
    {
        f"{equation} {opset}": (
            E(equation, "a"),
            f"r = {'ReduceSum<keepdims=0>(a, k)' if opset >= 13 else f'ReduceSum<axes={axes},keepdims=0>(a)'} {TURNED}",
            {"opset": opset, **({"graph": "g (float[2,3] a) => (float y)"} if len(axes) == 2 else {})},
        )
        for equation, axes in (("ij->i", [1]), ("ij->", [0, 1]), ("ij->j", [0]))
        for opset in (12, 13, 18, 22)
    }
)
test_every_type = products.using(a="5,2,3", b="5,3,4").all_become(
    {
        dtype: (f"{E('bij,bjk->bik')} => {PRODUCT}", {"dtype": dtype})
        for dtype in ("float", "double", "float16", "int32", "int64")
    }
)
test_constants_are_transposed = products.using(a="5,2,3").all_become(f"""
    right: {E("bij,kj->bik", "a, w4x3")} => r = MatMul(a, k) {TURNED}
    left as it is [a=5,3,2]: {E("bji,kj->bki", "a, w4x3")} => r = MatMul(k, a) {TURNED}
    left [a=5,3,2]: {E("bji,jk->bki", "a, w3x4")} => r = MatMul(k, a) {TURNED}
    batches: {E("bij,bkj->bik", "a, w5x4x3")} => r = MatMul(a, k) {TURNED}
    batches, all axes moved: {E("bij,jkb->bik", "a, w3x4x5")} => r = MatMul(a, k) {TURNED}
""")
MERGED = "p = MatMul(a, c0) r = Reshape(p, c1) y = Neg(r)"
OF_MERGED = "m = Reshape(a, c0) r = MatMul(m, c1) y = Neg(r)"
test_axes_of_constants_are_merged = products.using(a="B,T,3").all_become(f"""
    heads of a projection: {E("btd,dhk->bthk", "a, w3x4x5")} => {MERGED}
    axes in another order: {E("btd,kdh->bthk", "a, w4x3x5")} => {MERGED}
    weights first: {E("dhk,btd->bthk", "w3x4x5, a")} => {MERGED}
    heads summed [a=B,T,3,4]: {E("bthk,hkd->btd", "a, w3x4x5")} => {OF_MERGED}
    heads summed, in another order [a=B,T,3,4]: {E("bthk,dhk->btd", "a, w5x3x4")} => {OF_MERGED}
    all axes summed [a=3,4]: {E("hk,dhk->d", "a, w5x3x4")} => {OF_MERGED}
    a vector [a=3]: {E("d,dhk->hk", "a, w3x4x5")} => {MERGED}
    ellipsis: {E("...d,dhk->...hk", "a, w3x4x5")} => {MERGED}
""")
test_axes_of_constants_stay = products.all_stay(f"""
    heads are not the last axes [a=B,3,T,4]: {E("bhtk,hkd->btd", "a, w3x4x5")}
    heads in front of the result [a=B,T,3]: {E("btd,dhk->bhtk", "a, w3x4x5")}
    an axis in both and the result [a=B,3,4]: {E("bhk,hkd->bhd", "a, w3x4x5")}
    perhaps stretched where it sums [a=B,T,N]: {E("btd,dhk->bthk", "a, w3x4x5")}
    stretched where it sums [a=B,T,1]: {E("btd,dhk->bthk", "a, w3x4x5")}
    used elsewhere [graph=g (float[B,T,3] a) => (float[] y, float[] z)]: {E("btd,dhk->bthk", "a, w3x4x5")}
        s = ReduceSum(w3x4x5) z = Mul(s, a)
""")
test_stays = products.all_stay(f"""
    constants, a product for each of another axis [a=2,5,3]: {E("ibj,bkj->ibk", "a, w5x4x3")}
    ellipses of unequal length do not run [a=5,2,3; b=2,3; runs=False]: {E("...i,...i->...i")}
    diagonal [a=3,3]: {E("ii->i", "a")}
    sums and transposes [a=2,3,4]: {E("ijk->ki", "a")}
    diagonal of a factor [a=3,3]: {E("ii,ik->ik")}
    needs a Transpose [a=5,2,3; b=5,4,3]: {E("bij,bkj->bik")}
    needs a Transpose behind [a=5,2,3; b=5,3,4]: {E("bij,bjk->bki")}
    needs a Transpose before [a=2,5,3; b=5,3,4]: {E("ibj,bjk->bik")}
    outer product [a=2; b=3]: {E("i,j->ij")}
    broadcasts from the left [b=2]: {E("ij,i->ij")}
    elementwise, transposed [b=2,3]: {E("ij,ij->ji")}
    a product for each row [b=2,3]: {E("ij,ij->i")}
    sums an axis of the second factor alone [b=2,4]: {E("ij,ik->ij")}
    sums an axis of the second factor alone, transposed [b=2,4]: {E("ij,ik->ji")}
    sums an axis of the second factor alone, of equal sizes [a=2,2; b=2,2]: {E("ij,ik->ji")}
    sums an axis of one: {E("ij,jk->i")}
    a vector for each of a batch [a=5,2,3; b=5,3]: {E("bij,bj->bi")}
    a vector for each of a batch, left [a=5,3; b=5,3,4]: {E("bj,bjk->bk")}
    stretched where it sums [a=2,1]: {E("ij,jk->ik")}
    stretched where it sums, transposed [a=2,1; b=4,3]: {E("ij,kj->ik")}
    perhaps stretched where it sums [a=2,N; b=M,4]: {E("ij,jk->ik")}
    perhaps a sum of nothing [a=2,N; b=N]: {E("ij,j->i")}
    a sum of nothing [a=2,0; b=0]: {E("ij,j->i")}
    perhaps for a batch of none [b=B,3,4]: {E("ij,bjk->bik")}
    three [graph=g (float[2,3] a, float[3,4] b, float[4,5] c) => (float[] y)]: {E("ij,jk,kl->il", "a, b, c")}
    sums over two axes [a=5,2,3,4; b=4,3,6]: {E("bijk,kjl->bil")}
    two axes of the right factor [a=5,2,3; b=3,4,6]: {E("btd,dhk->bthk")}
    trace [graph=g (float[3,3] a) => (float y)]: {E("ii", "a")}
    sums two axes [graph=g (float[2,3] a, float[2,3] b) => (float y)]: {E("ij,ij->")}
    shared constants [graph=g (float[5,2,3] a) => (float[a1,b,c] y, float[d,e,f] z)]: {E("bij,kj->bik", "a, w4x3")}
        s = ReduceSum(w4x3) z = Mul(s, a)
    rank [graph=g (float[] a, float[] b) => (float[] y); runs=False]: {E("ij,jk")}
    type [graph=g (uint8[2,3] a) => (uint8[] y); runs=False]: {E("ij->i", "a").replace("Neg", "Identity")}
    new label [runs=False]: {E("ij->k", "a")}
    digits [runs=False]: {E("i1->i", "a")}
    operands [runs=False]: {E("ij,jk->ik", "a")}
    too few labels [runs=False]: {E("i->i", "a")}
""")


@each(
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


@each(("text", "ranks"), [("...i->i", [2]), ("i.j", [2]), ("...i...", [3]), ("...ijk", [2])])
def test_bad_equations(text: str, ranks: list[int]) -> None:
    with pytest.raises(MatchFailure):
        parse_equation(text, ranks)


LABELS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
EXTENTS = {"a": 2, "b": 3, "c": 4, "d": 5}


@given(a=LABELS, b=LABELS, result=st.lists(st.sampled_from("abcd"), max_size=4, unique=True))
def test_any_two_terms(a: list[str], b: list[str], result: list[str]) -> None:
    """Any result is equivalent."""
    assume({*a, *b} >= {*result})
    inputs = ", ".join(f"float{[EXTENTS[x] for x in term]} {name}" for term, name in ((a, "a"), (b, "b")))
    output = f"float[{','.join(result)}]" if result else "float"
    equation = f"{''.join(a)},{''.join(b)}->{''.join(result)}"
    before = load(f"g ({inputs}) => ({output} y) {{ {einsum_of(equation)} }}")
    changed, change_log = apply_passes(before, SIMPLIFY_EINSUM)
    if change_log.changes:
        out = to_onnx(changed)
        require_equivalent(before, out, exact=change_log.is_exact)
        assert op_types(out)[0] in {"MatMul", "Gemm", "Mul"}
        assert len(op_types(out)) == 2
