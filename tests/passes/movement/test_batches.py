"""Transposes between Reshapes that merge batch dims and split them again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import reshapes
from rewrite_tables import Rewrites
from rewriting import becomes, stays

TRANSPOSE_WITHOUT_RESHAPES = rule_pass(reshapes, "transpose-without-reshapes")

CONST = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] minus = {-1}"
G = f"g (float[N,2,S,3] x) => (float[a,b,c,d] y) <{CONST}>"
DIMS = "s = Shape(x) n = Slice(s, zero, one) l = Slice(s, two, three)"
MERGE = "m = Concat<axis=0>(minus, l, three) r = Reshape(x, m)"
SPLIT = "p = Concat<axis=0>(n, two, three, l) y = Reshape(t, p)"

batches = Rewrites(
    "g (float[N,2,S,3] x) => (float[] y)",
    TRANSPOSE_WITHOUT_RESHAPES,
    weights={"zero": [0], "one": [1], "two": [2], "three": [3], "minus": [-1], "none": np.array([], np.int64)},
)

test_becomes = batches.all_become(f"""
    symbolic: {DIMS} {MERGE} t = Transpose<perm=[0,2,1]>(r) p = Concat<axis=0>(n, two, three, l) y = Reshape(t, p)
        => y = Transpose<perm=[0,1,3,2]>(x)
    the merged one is read elsewhere: {DIMS} {MERGE} t = Transpose<perm=[0,2,1]>(r) f = ReduceSum<keepdims=0>(r)
        p = Concat<axis=0>(n, two, three, l) q = Reshape(t, p) y = Add(q, f) => s = Shape(x) l = Slice(s, two, three)
        {MERGE} f = ReduceSum<keepdims=0>(r) q = Transpose<perm=[0,1,3,2]>(x) y = Add(q, f)
""")


def split(*pieces: str) -> str:
    return f"p = Concat<axis=0>({', '.join(pieces)}) y = Reshape(t, p)"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{MERGE} t = Transpose<perm=[1,0,2]>(r) {split('n', 'two', 'l', 'three')}", id="the batch moves"),
        pytest.param(f"{MERGE} t = Transpose<perm=[0,2,1]>(r) {split('two', 'n', 'three', 'l')}", id="another order"),
        pytest.param(f"{MERGE} t = Transpose<perm=[0,2,1]>(r) {split('n', 'two', 'l', 'three')}", id="other extents"),
        pytest.param(
            f"q = Concat<axis=0>(n, minus, three) r = Reshape(x, q) t = Transpose<perm=[0,2,1]>(r) {SPLIT}",
            id="other dims are merged",
        ),
    ],
)
def test_stays(body: str) -> None:
    stays(f"{G} {{ {DIMS} {body} }}", TRANSPOSE_WITHOUT_RESHAPES, runs=False)


@given(perm=st.permutations([1, 2, 3]))
def test_any_perm_behind_the_batch(perm: list[int]) -> None:
    dims = [2, 3, 4, 5, 6]
    result = [2, 3, *(dims[1 + p] for p in perm)]
    head = "g (float[2,3,4,5,6] x) => (float[a,b,c,d,e] y)"
    weights = f"<int64[4] m = {{6,4,5,6}}, int64[5] p = {{{','.join(map(str, result))}}}>"
    after = f"y = Transpose<perm={[0, 1, *(1 + p for p in perm)]}>(x)"
    becomes(f"{head} {weights} {{ r = Reshape(x, m) t = Transpose<perm={[0, *perm]}>(r) y = Reshape(t, p) }}",
            f"{head} {{ {after} }}", TRANSPOSE_WITHOUT_RESHAPES)  # fmt: skip


test_stays_stays_for_scalars = batches.all_stay("""
    stays for scalars [graph=g (float[1] x) => (float[] y)]: r = Reshape(x, none) t = Transpose(r) y = Reshape(t, none)
""")
