"""Matrix products between reshapes of batch dims."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.movement import reshapes
from passwright.passes.movement.reshapes import multiply_without_batch_reshapes
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

MULTIPLY_WITHOUT_RESHAPES = rule_pass(reshapes, "multiply-without-reshapes")

G = "g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y)"
C = "<int64[3] m = {6, -1, 5}, int64[3] n = {6, 5, 4}, int64[4] o = {2, 3, -1, 4}>"
MERGED = "p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, o)"

batch_products = Rewrites(
    "g ({x}) => (float[] y)",
    MULTIPLY_WITHOUT_RESHAPES,
    RemoveUnused(),
    weights={"m": [6, -1, 5], "n": [6, 5, 4], "o": [2, 3, -1, 4]},
    x="float[2,3,S,5] x, float[2,3,5,4] w",
)

test_becomes = batch_products.all_become(f"""
    merged and split: {MERGED} => y = MatMul(x, w)
    split and merged [x=float[6,S,5] x, float[6,5,4] w]:
        p = Reshape(x, [2,3,-1,5]) q = Reshape(w, [2,3,5,4]) t = MatMul(p, q) y = Reshape(t, [6,-1,4])
        => y = MatMul(x, w)
    a leading one squeezed [x=float[1,3,S,5] x, float[1,3,5,4] w]:
        p = Squeeze(x, [0]) q = Squeeze(w, [0]) t = MatMul(p, q) y = Unsqueeze(t, [0]) => y = MatMul(x, w)
    a leading one on one side [x=float[1,6,S,5] x, float[6,5,4] w]:
        p = Reshape(x, [2,3,-1,5]) q = Reshape(w, [2,3,5,4]) t = MatMul(p, q) y = Reshape(t, [1,6,-1,4])
        => y = MatMul(x, w)
    transposed keys [x=float[2,3,S,5] x, float[2,3,7,5] w]: p = Reshape(x, m) q = Reshape(w, m)
        k = Transpose<perm=[0,2,1]>(q) t = MatMul(p, k) y = Reshape(t, [2,3,-1,7])
        => k = Transpose<perm=[0,1,3,2]>(w) y = MatMul(x, k)
    behind Softmax: p = Reshape(x, m) e = Softmax<axis=2>(p) q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o)
        => e = Softmax<axis=3>(x) y = MatMul(e, w)
    a merged factor is read elsewhere [graph=g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y, float[e,f,g]
        u)]: {MERGED} u = Neg(p) => p = Reshape(x, m) y = MatMul(x, w) u = Neg(p)
    no rows [x=float[2,3,0,5] x, float[2,3,5,4] w]: {MERGED} => y = MatMul(x, w)
    inside an If body [x=bool b, float[2,3,S,5] x, float[2,3,5,4] w]:
        y = If(b) <then_branch = t () => (float[a,b,c,d] z) {{ p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q)
        z = Reshape(t, o) }}, else_branch = f () => (float[a,b,c,d] v) {{ v = MatMul(x, w) }}> =>
        y = If(b) <then_branch = t () => (float[a,b,c,d] z) {{ z = MatMul(x, w) }},
        else_branch = f () => (float[a,b,c,d] v) {{ v = MatMul(x, w) }}>
""")


@each("opset", [5, 9, 13, 21])
def test_every_opset(opset: int) -> None:
    becomes(f"{G} {C} {{ {MERGED} }}", f"{G} {{ y = MatMul(x, w) }}", MULTIPLY_WITHOUT_RESHAPES, opset=opset)


@each("opset", [11, 12])
def test_softmax_before_opset_13(opset: int) -> None:
    text = "p = Reshape(x, m) e = Softmax<axis=-1>(p) q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o)"
    after = f"{G} {{ e = Softmax<axis=3>(x) y = MatMul(e, w) }}"
    becomes(f"{G} {C} {{ {text} }}", after, MULTIPLY_WITHOUT_RESHAPES, opset=opset)
    stays(f"{G} {C} {{ {text.replace('<axis=-1>', '')} }}", MULTIPLY_WITHOUT_RESHAPES, opset=opset)


@each("kind", ["float16", "double", "int32"])
def test_other_types(kind: str) -> None:
    text = G.replace("float[", f"{kind}[")
    becomes(f"{text} {C} {{ {MERGED} }}", f"{text} {{ y = MatMul(x, w) }}", MULTIPLY_WITHOUT_RESHAPES)


test_stays = batch_products.using(MULTIPLY_WITHOUT_RESHAPES, runs=False).all_stay(f"""
    split otherwise: p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, [3,2,-1,4])
    other batch [x=float[2,3,4,5] x, float[3,2,5,4] w]:
        p = Reshape(x, [6,4,5]) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, [2,3,4,4])
    rows as columns [x=float[2,3,4,5] x, float[2,3,4,5] w]:
        p = Reshape(x, [6,4,5]) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, [2,3,4,4])
    columns merged [x=float[2,3,4,5] x, float[2,3,5,4] w]:
        p = Reshape(x, [6,4,5]) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, [2,3,16])
    broadcast [x=float[2,3,4,5] x, float[1,5,4] w]: p = Reshape(x, [6,4,5]) t = MatMul(p, w) y = Reshape(t, [2,3,4,4])
    the product is an output [graph=g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y, float[e,f,g] t)]:
        {MERGED}
    read elsewhere [graph=g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y, float[e,f,g] u)]:
        {MERGED} u = Neg(t)
    Softmax read elsewhere [graph=g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y, float[e,f,g] u)]:
        p = Reshape(x, m) e = Softmax(p) q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o) u = Neg(e)
    Softmax along the batch:
        p = Reshape(x, m) e = Softmax<axis=0>(p) q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o)
    computed shape [x=float[2,3,S,5] x, float[2,3,5,4] w, int64[4] o]: {MERGED}
    overridable shape [x=float[2,3,S,5] x, float[2,3,5,4] w, int64[4] o = {{2,3,-1,4}}]: {MERGED}
    a vector [x=float[5] x, float[5,4] w]:
        p = Reshape(x, [1,5]) q = Reshape(w, [1,5,4]) t = MatMul(p, q) y = Reshape(t, [1,4])
""")


@given(
    batch=st.lists(st.integers(1, 3), max_size=3),
    inner=st.lists(st.integers(1, 3), max_size=3),
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
)
def test_any_batch(batch: list[int], inner: list[int], rows: int, columns: int) -> None:
    if prod(batch) != prod(inner):
        inner = [prod(batch)]
    shapes = {"m": [*inner, rows, 2], "n": [*inner, 2, columns], "o": [*batch, rows, columns]}
    dims = ",".join("abcde"[: len(batch) + 2])
    text = f"g (float{[*batch, rows, 2]} x, float{[*batch, 2, columns]} w) => (float[{dims}] y)"
    weights = {name: np.array(shape) for name, shape in shapes.items()}
    after = f"{text} <int64[1] m = {{1}}, int64[1] n = {{1}}, int64[1] o = {{1}}> {{ y = MatMul(x, w) }}"
    becomes(f"{text} {{ {MERGED} }}", after, multiply_without_batch_reshapes, weights=weights)
