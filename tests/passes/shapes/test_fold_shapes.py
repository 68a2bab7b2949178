"""Shape arithmetic folded into constants or earlier values."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.shapes.fold_shapes import FoldShapes, MergeShapes
from rewrite_tables import Rewrites
from rewriting import becomes, each, table

I64 = "int64 i = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] most = {-1}"
G = f"g (float[N,3,4] x, float[N,M] z) => (int64[a] y) <{I64}>"


@each(
    ("before", "constant"),
    table("""
    a known dim: s = Shape(x) y = Slice(s, one, most) => int64[1] y = {3}
    known dims: s = Shape<start=1>(x) y = Neg(s) => int64[2] y = {-3,-4}
    a product: s = Shape(x) g = Gather(s, i) u = Unsqueeze(g, zero) y = Mul(u, two) => int64[1] y = {6}
    one symbol in two inputs: s = Shape(x) t = Shape(z) a = Slice(s, zero, one) b = Slice(t, zero, one) y = Sub(a, b)
        => int64[1] y = {0}
    a difference of unknowns: s = Shape(x) a = Slice(s, zero, one) b = Add(a, one) y = Sub(b, a) => int64[1] y = {1}
    no extent is -1: s = Shape(x) e = Equal(s, most) w = Where(e, one, two) y = Neg(w) => int64[3] y = {-2,-2,-2}
    all elements: s = Size(x) a = Shape(x) p = ReduceProd<keepdims=0>(a) d = Sub(s, p) y = Unsqueeze(d, zero)
        => int64[1] y = {0}
    """),
)
def test_becomes_a_constant(before: str, constant: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G[:-1]}, {constant}> {{}}", FoldShapes())


rewrites = Rewrites("g (float[N,M] x, float[N,K] z) => (int64[a] y, int64[b] w)", FoldShapes())

test_no_constant = rewrites.all_stay("""
    a symbol [graph=g (float[N,3,4] x, float[N,M] z) => (int64[] y)]: s = Shape(x) y = Slice(s, [0], [1])
    symbols among numbers [graph=g (float[N,3,4] x, float[N,M] z) => (int64[] y)]:
        s = Shape(x) t = Shape(z) y = Concat<axis=0>(s, t)
    two symbols [graph=g (float[N,3,4] x, float[N,M] z) => (int64[] y)]:
        s = Shape(z) a = Slice(s, [0], [1]) b = Slice(s, [1], [2]) y = Sub(a, b)
    two dims that nobody named [graph=g (float[?,?] x) => (int64[] y)]:
        s = Shape(x) a = Slice(s, [0], [1]) b = Slice(s, [1], [2]) y = Sub(a, b)
    floats [graph=g (float[N,3] x) => (float[] y)]: s = Shape(x) y = Cast<to=1>(s)
    no shape at all [graph=g (int64[2] x, int64[2] w = {1,1}) => (int64[] y)]: y = Sub(w, w)
    unknown rank [graph=g (float[] x) => (int64[] y)]: y = Shape(x)
""")

M = f"g (float[N,M] x, float[N,K] z) => (int64[a] y, int64[b] w) <{I64}>"

test_merges = rewrites.using(MergeShapes()).all_become("""
    twice: s = Shape(x) t = Shape(x) y = Neg(s) w = Abs(t) => s = Shape(x) y = Neg(s) w = Abs(s)
    one symbol in two inputs:
        s = Shape(x) a = Slice(s, [0], [1]) t = Shape(z) b = Slice(t, [0], [1]) y = Neg(a) w = Abs(b)
        => s = Shape(x) a = Slice(s, zero, one) y = Neg(a) w = Abs(a)
    equal sums, and then equal negations:
        s = Shape(x) a = Add(s, [2]) c = Add(s, [1]) d = Add(c, [1]) y = Neg(d) w = Neg(a)
        => s = Shape(x) a = Add(s, two) y = Neg(a) w = Neg(a)
    another type in between: s = Shape(x) i32 = Cast<to=6>(s) t = Cast<to=7>(i32) y = Neg(t) w = Neg(s)
        => s = Shape(x) y = Neg(s) w = Neg(s)
""")
test_merges_stays = rewrites.using(MergeShapes()).all_stay("""
    other sums: s = Shape(x) a = Add(s, [1]) b = Add(s, [2]) y = Neg(a) w = Neg(b)
    another symbol: s = Shape(x) t = Shape(z) y = Neg(s) w = Neg(t)
    both are outputs: y = Shape(x) w = Shape(x)
""")


@given(start=st.integers(-4, 4), end=st.integers(-4, 4))
def test_any_run_of_known_dims(start: int, end: int) -> None:
    dims = [2, 3, 4][start:end]
    head = f"g (float[2,3,4] x) => (int64[a] y) <int64[1] b = {{{start}}}, int64[1] e = {{{end}}}>"
    text = f"{head} {{ s = Shape(x) t = Slice(s, b, e) y = Neg(t) }}"
    numbers = ",".join(str(-d) for d in dims)
    becomes(text, f"g (float[2,3,4] x) => (int64[a] y) <int64[{len(dims)}] y = {{{numbers}}}> {{}}", FoldShapes())
