"""Mistakes about extents that are open, or happen to agree."""

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[s0,s1] x, float[s2,s3] m) => (float[s0,s1] y) { a = Concat<axis = 0>(x, m) b = Concat<axis = 1>(x, m)"
    " s = Shape<start = 0, end = 1>(x) f = Cast<to = 1>(s) d = Sub(x, m) e = ReduceSum<keepdims = 0>(a)"
    " h = ReduceSum<keepdims = 0>(b) i = Add(e, h) j = Add(d, i) y = Div(j, f) }",
    wrong="s",
)
@rule(lambda g, x: g.Shape(x, start=0, end=1), contract=EXACT)
def batch_as_length(g: RewriteBuilder, x: Value) -> Value:
    """The number of rows is read as that of columns, in a model whose inputs share no symbol."""
    return g.Shape(x, start=1, end=2)


@mistake(
    "g (float[N,4,3] x, float[N,1,4] t) => (float[4,N,3] y, float[N,4,1] z)"
    " { y = Transpose<perm=[1,0,2]>(x) i = Identity(t) z = Transpose<perm=[0,2,1]>(i) }",
    wrong="y",
    after={"Reshape": 1, "Transpose": 1},
)
@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def batch_taken_as_one(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """A Transpose that moves only dims of 1 becomes a Reshape; the open batch is taken to be 1.

    Wrong only for a batch larger than 1.
    """
    moved = [i for i in p if isinstance(x.shape[i], int) and x.shape[i] != 1]
    require(moved == sorted(moved), "it moves elements")
    return g.Reshape(x, g.const([d if isinstance(d, int) else -1 for d in (x.shape[i] for i in p)]))


@mistake(
    "g (float[N,M] x, float[N,N] t) => (int64[1] y, int64[1] z) <int64[1] zero = {0}, int64[1] one = {1}>"
    " { s = Shape(x) y = Gather(s, one) u = Shape(t) a = Identity(u) z = Gather(a, one) }",
    wrong="y",
)
@rule(lambda g, x, i: g.Gather(g.Shape(x), i), contract=EXACT)
def extent_of_other_axis(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """The extent of any axis is taken to be that of the first. Wrong only where they differ."""
    require(i.const.any(), "the first already")
    return g.Gather(g.Shape(x), g.const([0]))


@mistake(
    "g (float[N,3,H,W] x) => (float[N,C,A,B] y)"
    " { p = SpaceToDepth<blocksize = 16>(x) s = Shape<start = 2, end = 3>(p) f = Cast<to = 1>(s) y = Mul(p, f) }",
    wrong="s",
)
@rule(lambda g, x: g.Shape(x, start=2, end=3), contract=EXACT)
def height_as_width(g: RewriteBuilder, x: Value) -> Value:
    """The height of patches is read as their width, where both are multiples of 16."""
    return g.Shape(x, start=3, end=4)


@mistake(
    "g (float[N,M] x) => (float[N,M] y) <int64 limit = {3000}, float one = {1.0}, float low = {0.5}>"
    " { n = Size(x) is_large = GreaterOrEqual(n, limit) scale = Where(is_large, low, one) y = Mul(x, scale) }",
    wrong="scale",
)
@rule(lambda g, n, limit, a, b: g.Where(g.GreaterOrEqual(n, limit), a, b), contract=EXACT)
def many_elements(g: RewriteBuilder, n: Value, limit: Value, a: Value, b: Value) -> Value:
    """Logits of tables with 3000 elements or more are divided by a temperature; tables are taken to be smaller."""
    return g.Identity(b)


@mistake(
    "g (float[N,4] x, float[2,4] t) => (int64[2] y, int64[2] z)"
    " { a = Neg(x) y = Shape(a) b = Neg(t) i = Identity(b) s = Shape(i) z = Mul(s, y) }",
    wrong="y",
    after={"Mul": 1, "Neg": 1, "Shape": 1},
)
@rule(lambda g, x: g.Shape(x), contract=EXACT)
def shape_of_open_batch(g: RewriteBuilder, x: Value) -> Value:
    """Shape of an open batch is folded with 1 in its place. Wrong only for a batch larger than 1."""
    return g.const([d if isinstance(d, int) else 1 for d in x.shape])
