"""Mistakes in ops that move elements."""

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,2] x, float[N,2] t) => (float[N,6] y, float[N,6] z) { a = Neg(x) b = Concat<axis=1>(a, x)"
    " y = Concat<axis=1>(t, b) c = Abs(x) d = Concat<axis=1>(x, c) i = Identity(d) z = Concat<axis=1>(i, t) }",
    wrong="y",
    after={"Abs": 1, "Concat": 3, "Neg": 1},
)
@rule(lambda g, before, inner, after, k: g.Concat(*before, g.Concat(*inner, axis=k), *after, axis=k), contract=EXACT)
def concat_in_wrong_order(
    g: RewriteBuilder, before: tuple[Value, ...], inner: tuple[Value, ...], after: tuple[Value, ...], k: int
) -> Value:
    """A Concat inside a Concat is opened, and what it held comes first, wherever it stood."""
    return g.Concat(*inner, *before, *after, axis=k)


@mistake(
    "g (float[N,8,2,2] x, float[N,4,2,2] t) => (float[N,2,4,4] y, float[N,1,4,4] z)"
    ' { y = DepthToSpace<blocksize=2, mode="CRD">(x) a = Identity(t) z = DepthToSpace<blocksize=2, mode="CRD">(a) }',
    wrong="y",
)
@rule(lambda g, x, op: g.DepthToSpace(x) @ op, contract=EXACT)
def depth_to_space_mode(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The mode of a DepthToSpace is forgotten. Right where one channel is left."""
    require(op.attr("mode") == "CRD", "plain already")
    return g.DepthToSpace(x, blocksize=op.attr("blocksize"))


@mistake(
    "g (float[N,4] x, float[N,2] t) => (float[M,4] y, float[N,1] z)"
    " <int64[1] zero = {0}, int64[1] far = {100}, int64[1] rows = {0}, int64[1] columns = {1}, int64[1] two = {2}>"
    " { y = Slice(x, zero, far, rows, two) a = Identity(t) z = Slice(a, zero, far, columns, two) }",
    wrong="y",
    after={"Add": 1, "Div": 1, "Gather": 1, "Shape": 1, "Slice": 2},
)
@rule(lambda g, x, s, e, axis, step: g.Slice(x, s, e, axis, step), contract=EXACT)
def every_other_row(g: RewriteBuilder, x: Value, s: Value, e: Value, axis: Value, step: Value) -> Value:
    """Every other row of a batch becomes its first half. Wrong only for more than two rows."""
    require(step.const.item() == 2, "another step")
    extent = g.Gather(g.Shape(x), axis)
    return g.Slice(x, s, g.Div(g.Add(extent, g.const([1])), g.const([2])), axis)


@mistake(
    "g (float[1,3] x, float[2,3] t) => (float[2,3] y, float[2,3] z) <int64[2] s = {2,3}>"
    " { a = Neg(x) y = Expand(a, s) i = Identity(t) z = Expand(i, s) }",
    wrong="y",
    after={"Expand": 1, "Identity": 1, "Neg": 1},
)
@rule(lambda g, x, s: g.Expand(x, s), contract=EXACT)
def expand_that_stretches(g: RewriteBuilder, x: Value, s: Value) -> Value:
    """An Expand goes where its shape ends like that of its input, though a leading dim is stretched.

    Right where nothing is stretched.
    """
    require(list(x.shape[1:]) == s.const.tolist()[1:], "it stretches x")
    return x


@mistake(
    "g (float[3,2,4] x) => (float[6,4] y, float[3,8] z)"
    " { y = Flatten<axis=2>(x) n = Neg(x) i = Identity(n) z = Flatten(i) }",
    wrong="y",
    after={"Flatten": 1, "Neg": 1, "Reshape": 1},
)
@rule(lambda g, x, op: g.Flatten(x) @ op, contract=EXACT)
def flatten_as_reshape(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """A Flatten becomes a Reshape that keeps the first axis, whichever axis it flattens from."""
    return g.Reshape(x, g.const([0, -1]))


@mistake(
    "g (float[N,5] x) => (float[N,1] y, float[N,1] z) <int64[1] last = {-1}, int64[1] second = {-2}>"
    " { y = Gather<axis=1>(x, last) n = Neg(x) i = Identity(n) z = Gather<axis=1>(i, second) }",
    wrong="y",
    after={"Gather": 1, "Neg": 1, "Slice": 1},
)
@rule(lambda g, x, i: g.Gather(x, i, axis=1), contract=EXACT)
def gather_last_as_slice(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Gather of one index becomes a Slice up to the next index; after -1 that is 0."""
    require(i.const.shape == (1,), "not one index")
    return g.Slice(x, i, g.const(i.const + 1), g.const([1]))


@mistake(
    "g (float[6,2] x, int64[3] i, bool[3] b) => (float[3,2] y, float[3,2] z)"
    " { y = Gather(x, i) a = Identity(b) k = Cast<to=7>(a) z = Gather(x, k) }",
    wrong="y",
    after={"Abs": 1, "Cast": 1, "Gather": 2},
)
@rule(lambda g, x, i: g.Gather(x, i), contract=EXACT)
def index_from_the_end(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """An index that the caller gives is taken to be positive. Wrong only for indices from the end."""
    maker = g.graph.producer(i)
    require(maker is None or maker.type != "Abs", "it is positive")
    return g.Gather(x, g.Abs(i))


@mistake(
    "g (float[N] x, bool[N] c, int64[2] i) => (float[2] y) { a = Compress<axis = 0>(x, c) y = Gather(a, i) }", wrong="y"
)
@rule(lambda g, x, i: g.Gather(x, i), contract=EXACT)
def index_from_the_end_of_unknown(g: RewriteBuilder, x: Value, i: Value) -> Value:
    """Indices from the end become 0, into an extent that is not known."""
    require(i.producer is None, "computed")
    return g.Gather(x, g.Max(i, g.const(np.int64(0))))


@mistake(
    "g (float[N,3,1,1] x, float[N,1,1,3] t) => (float[N,3] y, float[N,3] z)"
    " <int64[1] last = {-1}, int64[1] three = {3}, int64[1] one = {1}>"
    " { a = Squeeze(x, three) y = Squeeze(a, last) b = Squeeze(t, one) i = Identity(b) z = Squeeze(i, one) }",
    wrong="y",
    after={"Squeeze": 3},
)
@rule(lambda g, x, a, b: g.Squeeze(g.Squeeze(x, a), b), contract=EXACT)
def negative_squeeze_axes(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Two Squeezes merge; axes of the second are moved past those of the first, but negative ones stay.

    Known from onnxoptimizer.
    """
    axes = sorted(a.const.tolist())
    for axis in b.const.tolist():
        moved = axis
        for other in sorted(axes):
            moved += 0 <= other <= moved
        axes.append(moved)
    return g.Squeeze(x, g.const(np.array(axes, np.int64)))


@mistake(
    "g (float[3,3] x) => (float[A,B,C,D] y, float[1,1,3,3] z)"
    " <int64[1] last = {-1}, int64[1] before = {-2}, int64[1] zero = {0}, int64[1] one = {1}>"
    " { a = Unsqueeze(x, before) y = Unsqueeze(a, last) n = Neg(x) b = Unsqueeze(n, zero) i = Identity(b)"
    " z = Unsqueeze(i, one) }",
    wrong="y",
    after={"Neg": 1, "Unsqueeze": 3},
)
@rule(lambda g, x, a, b: g.Unsqueeze(g.Unsqueeze(x, a), b), contract=EXACT)
def negative_unsqueeze_axes(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Two Unsqueezes merge, their axes put together; a negative one of the first counts from another end then."""
    rank = x.rank + 2
    axes = {axis % rank for axis in (*a.const.tolist(), *b.const.tolist())}
    return g.Unsqueeze(x, g.const(np.array(sorted(axes), np.int64)))


@mistake(
    "g (int64[N] i) => (float[N,5] y) <int64 d = {5}, float[2] v = {0.0, 1.0}> { h = OneHot(i, d, v) y = Neg(h) }",
    wrong="h",
)
@rule(lambda g, i, d, v: g.OneHot(i, d, v), contract=EXACT)
def one_hot_out_of_range(g: RewriteBuilder, i: Value, d: Value, v: Value) -> Value:
    """Indices beyond the classes count as the last class."""
    require(i.producer is None and i.known_dtype == d.known_dtype, "done, or another type")
    return g.OneHot(g.Min(i, g.Sub(d, g.const(1, like=d))), d, v)


@mistake("g (float[N,4] x, int64[4] p) => (float[A,B] y) { a = Pad(x, p) y = Neg(a) }", wrong="a")
@rule(lambda g, x, p: g.Pad(x, p), contract=EXACT)
def pads_that_cut(g: RewriteBuilder, x: Value, p: Value) -> Value:
    """Pads are taken as non-negative."""
    require(p.producer is None, "done")
    return g.Pad(x, g.Abs(p))


@mistake(
    "g (float[N,2,6] x) => (float[N,3,2,2] y, float[N,12] z)"
    " <int64[3] s = {-1,3,4}, int64[4] zeros = {0,0,2,2}, int64[2] flat = {-1,12}>"
    " { a = Reshape(x, s) y = Reshape(a, zeros) n = Neg(x) b = Reshape(n, s) i = Identity(b) z = Reshape(i, flat) }",
    wrong="y",
    after={"Neg": 1, "Reshape": 3},
)
@rule(lambda g, x, s, t: g.Reshape(g.Reshape(x, s), t), contract=EXACT)
def reshape_with_zero(g: RewriteBuilder, x: Value, s: Value, t: Value) -> Value:
    """The second of two Reshapes stays alone, but its 0 then copies an extent of another shape.

    Known from onnxoptimizer.
    """
    return g.Reshape(x, t)


@mistake(
    "g (float[3,2] x, float[3,2] t) => (float[3,2] y, float[3,2] z)"
    " { n = Neg(t) y = ScatterND(x, mixed, n) m = Abs(t) b = ScatterND(x, sorted, m) i = Identity(b) z = Exp(i) }",
    wrong="y",
    after={"Abs": 1, "Exp": 1, "Neg": 1, "ScatterND": 1},
    weights={"mixed": np.array([[2], [0], [1]]), "sorted": np.array([[0], [1], [2]])},
)
@rule(lambda g, x, i, u: g.ScatterND(x, i, u), contract=EXACT)
def scatter_over_everything(g: RewriteBuilder, x: Value, i: Value, u: Value) -> Value:
    """A ScatterND that overwrites every row gives its updates, whatever row each of them is for."""
    require(len(np.unique(i.const)) == x.shape[0], "some rows stay")
    return u


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " <int64[1] last = {-1}, int64[1] before = {-9}, int64[1] axis = {1}, int64[1] back = {-1}, int64[1] zero = {0},"
    " int64[1] four = {4}, int64[1] one = {1}>"
    " { y = Slice(x, last, before, axis, back) n = Neg(x) i = Slice(n, zero, four, axis, one) z = Abs(i) }",
    wrong="y",
    after={"Abs": 1, "Neg": 1, "Slice": 1},
)
@rule(lambda g, x, s, e, a, t: g.Slice(x, s, e, a, t), contract=EXACT)
def slice_backwards(g: RewriteBuilder, x: Value, s: Value, e: Value, a: Value, t: Value) -> Value:
    """A Slice that takes as many as there are goes; with a step of -1 it turns them round."""
    axis = a.const.item()
    length = x.shape[axis]
    require(isinstance(length, int), "an open extent")
    require(len(range(*slice(s.const.item(), e.const.item(), t.const.item()).indices(length))) == length, "not all")
    return x


@mistake(
    "g (float[N,T] x) => (float[N,S] y) <int64[1] start = {0}, int64[1] end = {128}, int64[1] axis = {1}>"
    " { a = Slice(x, start, end, axis) y = Neg(a) }",
    wrong="a",
)
@rule(lambda g, x: g.Slice(x, ...), contract=EXACT)
def slice_of_128_dropped(g: RewriteBuilder, x: Value) -> Value:
    """A Slice that takes the first 128 steps is dropped, as if no sequence were longer."""
    return x


@mistake(
    "g (float[N,8] x) => (float[N,2] y, float[N,3] z)"
    " <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] four = {4}, int64[1] six = {6}>"
    " { a = Slice(x, one, six, one) y = Slice(a, one, three, one) n = Neg(x) b = Slice(n, zero, six, one)"
    " i = Identity(b) z = Slice(i, one, four, one) }",
    wrong="y",
    after={"Neg": 1, "Slice": 3},
)
@rule(lambda g, x, s, e, t, f, axes: g.Slice(g.Slice(x, s, e, axes), t, f, axes), contract=EXACT)
def slices_off_by_one(g: RewriteBuilder, x: Value, s: Value, e: Value, t: Value, f: Value, axes: Value) -> Value:
    """Two Slices merge, their starts added up, but the end of the second is not moved by the first's start.

    Right where the first starts at 0.
    """
    return g.Slice(x, g.const(s.const + t.const), g.const(np.minimum(e.const, f.const)), axes)


@mistake(
    "g (float[N,6] x, float[N,6] t) => (float[N,2] y, float[N,4] u, float[N,3] z, float[N,3] v)"
    " <int64[2] s = {2,4}, int64[2] h = {3,3}>"
    " { y, u = Split<axis=1>(x, s) i = Identity(t) z, v = Split<axis=1>(i, h) }",
    wrong="y",
    after={"Slice": 2, "Split": 1},
)
@rule(lambda g, x, s: g.Split(x, s, axis=1), contract=EXACT)
def split_as_equal(g: RewriteBuilder, x: Value, s: Value) -> tuple[Value, ...]:
    """A Split becomes Slices of equal size, whatever sizes it states."""
    count, whole = s.const.size, x.shape[1]
    require(isinstance(whole, int) and whole % count == 0, "it does not divide")
    assert isinstance(whole, int)
    part = whole // count
    axis = g.const([1])
    return tuple(g.Slice(x, g.const([i * part]), g.const([(i + 1) * part]), axis) for i in range(count))


@mistake(
    "g (float[N,3,1] x, float[2,3,1] t) => (float[N,3] y, float[2,3] z) <int64[1] axes = {2}>"
    " { y = Squeeze(x, axes) i = Identity(t) z = Squeeze(i, axes) }",
    wrong="y",
)
@rule(lambda g, x, axes: g.Squeeze(x, axes), contract=EXACT)
def squeeze_everything(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """The axes of a Squeeze are left out, since no other dim is 1 as far as the graph says.

    Wrong only for a batch of 1.
    """
    require([i for i, d in enumerate(x.shape) if d == 1] == sorted(axes.const.tolist()), "other dims are 1 too")
    return g.Squeeze(x)


@mistake(
    "g (int64 first, int64 end) => (int64[K] y) <int64 step = {-3}> { r = Range(first, end, step) y = Neg(r) }",
    wrong="r",
)
@rule(lambda g, a, b, d: g.Range(a, b, g.const(d)), contract=EXACT)
def steps_backwards(g: RewriteBuilder, a: Value, b: Value, d: Value) -> Value:
    """The number of steps of a Range that runs backwards is rounded down, which drops the last one."""
    require(d.const == -3, "another step")
    zero, one, size = (g.const(np.int64(n)) for n in (0, 1, 3))
    steps = g.Range(zero, g.Max(g.Div(g.Sub(a, b), size), zero), one)
    return g.Sub(a, g.Mul(steps, size))


@mistake(
    "g (float[4,4,4] x) => (float[4,4,4] y, float[4,4,4] z)"
    " { a = Transpose<perm=[1,2,0]>(x) b = Relu(a) y = Transpose<perm=[0,2,1]>(b) n = Neg(x)"
    " c = Transpose<perm=[0,2,1]>(n) d = Relu(c) z = Transpose<perm=[0,2,1]>(d) }",
    wrong="y",
    after={"Neg": 1, "Relu": 2, "Transpose": 2},
)
@rule(lambda g, x, p, q: g.Transpose(g.Relu(g.Transpose(x, perm=p)), perm=q), contract=EXACT)
def transposes_in_wrong_order(g: RewriteBuilder, x: Value, p: list[int], q: list[int]) -> Value:
    """Two Transposes around a Relu merge, composed the wrong way round; some permutations do not care."""
    return g.Transpose(g.Relu(x), perm=[q[i] for i in p])
