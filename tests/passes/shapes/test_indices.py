"""Indices computed from ranges."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.shapes import range_indices
from rewrite_tables import Rewrites
from rewriting import becomes

DROP_RANGE_GATHERS = rule_pass(range_indices, "drop-range-gathers")

CONST = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[2] a12 = {1,2}"
DIMS = "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=2>(x)"
COUNT = "r = Range(zero, n, one) c = Range(zero, m, one)"

indices = Rewrites(
    "g ({x}) => (float[] y)", DROP_RANGE_GATHERS, weights={"zero": 0, "one": 1, "last": [-1]}, x="float[N,M] x"
)

test_becomes = indices.all_become(f"""
    all elements in order: {DIMS} {COUNT} u = Unsqueeze(r, [1]) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)
        => y = Unsqueeze(x, a2)
    the other way round: {DIMS} {COUNT} u = Unsqueeze(r, [1]) p = Mul(m, u) i = Add(p, c) y = Gather<axis=0>(f, i)
        => y = Unsqueeze(x, a2)
    with a dim between: {DIMS} {COUNT} u = Unsqueeze(r, [1,2]) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)
        => y = Unsqueeze(x, a13)
    matrix indexed by row and column [opset=18]: s = Shape(x) n = Gather(s, zero) m = Gather(s, one) {COUNT}
        u = Unsqueeze(r, [1,2,3]) w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t) p = Unsqueeze(e, last)
        q = Unsqueeze(f, last) i = Concat<axis=-1>(p, q) y = GatherND(x, i) => y = Unsqueeze(x, a12)
""")

test_stays = indices.using(runs=False).all_stay(f"""
    other step: {DIMS} {COUNT} u = Unsqueeze(r, [1]) p = Mul(u, n) i = Add(c, p) y = Gather(f, i)
    not as many columns: {DIMS} r = Range(zero, n, one) c = Range(zero, n, one) u = Unsqueeze(r, [1]) p = Mul(u, m)
        i = Add(c, p) y = Gather(f, i)
    every other row: {DIMS} r = Range(zero, n, 2) c = Range(zero, m, one) u = Unsqueeze(r, [1]) p = Mul(u, m)
        i = Add(c, p) y = Gather(f, i)
    a diagonal: {DIMS} {COUNT} u = Unsqueeze(r, [0]) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)
    one row: s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=0>(x) {COUNT} u = Unsqueeze(r, [1])
        p = Mul(u, m) i = Add(c, p) y = Gather(f, i)
""")

ND = "g (float[N,M] x) => (float[a,b,c,d] y) <int64 zero = {0}, int64 one = {1}, int64[3] a123 = {1,2,3},"
ND += " int64[1] last = {-1}, int64[2] a12 = {1,2}>"

test_other_indices_stay = indices.using(runs=False, opset=18).all_stay(f"""
    by column and row: s = Shape(x) n = Gather(s, zero) m = Gather(s, one) {COUNT} u = Unsqueeze(r, [1,2,3])
        w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t) p = Unsqueeze(e, last) q = Unsqueeze(f, last)
        i = Concat<axis=-1>(q, p) y = GatherND(x, i)
    backwards: s = Shape(x) n = Gather(s, zero) m = Gather(s, one) {COUNT} k = Neg(c) u = Unsqueeze(r, [1,2,3])
        w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(k, t) p = Unsqueeze(e, last) q = Unsqueeze(f, last)
        i = Concat<axis=-1>(p, q) y = GatherND(x, i)
    not all rows: s = Shape(x) n = Gather(s, zero) m = Gather(s, one) r = Range(one, n, one) c = Range(zero, m, one)
        u = Unsqueeze(r, [1,2,3]) w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t) p = Unsqueeze(e, last)
        q = Unsqueeze(f, last) i = Concat<axis=-1>(p, q) y = GatherND(x, i)
""")


@given(m=st.integers(1, 4), n=st.integers(1, 4))
def test_any_matrix(m: int, n: int) -> None:
    head = f"g (float[{m},{n}] x) => (float[a,b,c] y) <{CONST}, int64 m = {{{m}}}, int64 n = {{{n}}}>"
    body = "f = Flatten<axis=2>(x) r = Range(zero, m, one) c = Range(zero, n, one) u = Unsqueeze(r, a1)"
    after = f"{head[:-1]}, int64[1] a2 = {{2}}> {{ y = Unsqueeze(x, a2) }}"
    becomes(f"{head} {{ {body} p = Mul(u, n) i = Add(c, p) y = Gather(f, i) }}", after, DROP_RANGE_GATHERS)


DIM = "s = Shape(x) n = Gather(s, zero) m = Gather(s, one)"

test_gather_of_all_becomes_nothing = indices.using(DROP_RANGE_GATHERS, RemoveUnused()).all_become(f"""
    rows [opset=11]: {DIM} r = Range(zero, n, one) y = Gather(x, r) => y = Identity(x)
    columns: {DIM} r = Range(zero, m, one) y = Gather<axis=-1>(x, r) => y = Identity(x)
    expanded by nothing: {DIM} r = Range(zero, m, one) e = Expand(r, [1]) v = Gather<axis=1>(x, e) y = Neg(v)
        => y = Neg(x)
    scatter of all cells becomes the updates [opset=18; x=float[N,M,K] x, float[N,M,K] z]: {DIM} {COUNT}
        u = Unsqueeze(r, [1]) v = Unsqueeze(c, [0]) w = Max(u, v) t = Shape(w) e = Expand(u, t) f = Expand(v, t)
        p = Unsqueeze(e, last) q = Unsqueeze(f, last) i = Concat<axis=-1>(p, q) y = ScatterND(x, i, z)
        => y = Identity(z)
""")

test_other_gathers_stay = indices.using(runs=False).all_stay(f"""
    not the first: {DIM} r = Range(one, n, one) y = Gather(x, r)
    every other: {DIM} r = Range(zero, n, 2) y = Gather(x, r)
    any n [x=float[N,M] x, int64 n]: r = Range(zero, n, one) y = Gather(x, r)
    any start [x=float[N,M] x, int64 zero]: s = Shape<end=1>(x) n = Squeeze(s) r = Range(zero, n, one) y = Gather(x, r)
    a matrix: {DIM} r = Range(zero, n, one) i = Unsqueeze(r, [1]) y = Gather(x, i)
""")

INDEX = "s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one) i = Unsqueeze(r, last)"

test_scatter_of_all_rows_becomes_the_updates = indices.using(
    DROP_RANGE_GATHERS, RemoveUnused(), opset=17, x="float[N,M] x, float[N,M] u"
).all_become(f"""
    each row [opset=13]: {INDEX} y = ScatterND(x, i, u) => y = Identity(u)
    reshaped to a column:
        s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one) i = Reshape(r, [-1,1]) y = ScatterND(x, i, u)
        => y = Identity(u)
    between other ops [opset=18]: {INDEX} v = Neg(u) w = ScatterND(x, i, v) y = Relu(w) => v = Neg(u) y = Relu(v)
    halves [opset=16; graph=g (float16[N,M] x, float16[N,M] u) => (float16[] y)]: {INDEX} y = ScatterND(x, i, u)
        => y = Identity(u)
    opset 11 [opset=11]: s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one) i = Unsqueeze<axes=[1]>(r)
        y = ScatterND(x, i, u) => y = Identity(u)
    inside an If body [x=bool b, float[N] x, float[N] u]: y = If(b) <then_branch = t () => (float[n] p) {{ {INDEX}
        p = ScatterND(x, i, u) }}, else_branch = f () => (float[n] q) {{ q = Neg(x) }}> =>
        y = If(b) <then_branch = t () => (float[n] p) {{ p = Identity(u) }}, else_branch = f () => (float[n] q) {{
        q = Neg(x) }}>
""")

GRID = "g (float[N,M,K] x, float[N,M,K] z) => (float[a,b,c] y) <int64 zero = {0}, int64 one = {1}, int64[1] a0 = {0},"
GRID += " int64[1] a1 = {1}, int64[1] last = {-1}>"

test_other_scatters_stay = indices.using(opset=13).all_stay(f"""
    not the first row [x=float[N,M] x, float[N,M] u]: s = Shape(x) n = Gather(s, zero) r = Range(one, n, one)
        i = Unsqueeze(r, last) v = Gather(u, r) y = ScatterND(x, i, v)
    backwards [x=float[N,M] x, float[N,M] u]: {INDEX} b = Neg(i) y = ScatterND(x, b, u)
    added [opset=16; x=float[N,M] x, float[N,M] u]: {INDEX} y = ScatterND<reduction="add">(x, i, u)
    reshaped to a square [opset=17; x=float[4,M] x, float[2,2,M] u]:
        s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one) i = Reshape(r, [2,2,1]) y = ScatterND(x, i, u)
    any number of rows [x=float[N,M] x, float[N,M] u, int64 n]:
        r = Range(zero, n, one) i = Unsqueeze(r, last) y = ScatterND(x, i, u)
    a diagonal [x=float[N,N] x, float[N] u]: {INDEX} j = Concat<axis=-1>(i, i) y = ScatterND(x, j, u)
    transposed [opset=18; x=float[N,N,K] x, float[N,N,K] z]: {DIM} {COUNT} u = Unsqueeze(r, [1]) v = Unsqueeze(c, [0])
        w = Max(u, v) t = Shape(w) e = Expand(u, t) f = Expand(v, t) p = Unsqueeze(e, last) q = Unsqueeze(f, last)
        i = Concat<axis=-1>(q, p) y = ScatterND(x, i, z)
""")
