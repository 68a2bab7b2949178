"""Computed shape operands of Reshape, Expand, Slice and Resize."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.shapes import fold_shapes
from passwright.passes.shapes.fold_shapes import FoldDynamicShapeOperands
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

FOLD_SHAPE_OPERANDS = rule_pass(fold_shapes, "fold-shape-operands")

I64 = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] most = {-1}"
DIMS = "s = Shape(x) n = Slice(s, zero, one) m = Slice(s, one, two)"
G = f"g (float[N,M,8] x) => (float[a,b,c] y) <{I64}>"
H = f"g (float[N,M,8] x) => (float[a,b,c,d] y) <{I64}>"
F = f"g (float[N,M,8] x) => (float[a,b] y) <{I64}>"

targets = Rewrites(
    "g (float[{x}] x) => (float[] y)",
    FOLD_SHAPE_OPERANDS,
    weights={"zero": [0], "one": [1], "two": [2], "four": [4]},
    x="N,M",
)
expand = targets.using(graph="g (float[N,1,8] x, float[K] z) => (float[] y)")

test_reshape = targets.using(x="N,M,8").all_become(f"""
    heads are split off: {DIMS} t = Concat<axis=0>(n, m, two, four) y = Reshape(x, t) => y = Reshape(x, k)
    a -1 that is known: {DIMS} t = Concat<axis=0>(n, m, [-1], four) y = Reshape(x, t) => y = Reshape(x, k)
    a -1 that is known, with allowzero: {DIMS} t = Concat<axis=0>(n, m, [-1], four) y = Reshape<allowzero=1>(x, t)
        => y = Reshape(x, k)
    rows, the open extent: {DIMS} p = Mul(n, m) e = Mul(two, four) t = Concat<axis=0>(p, e) y = Reshape(x, t)
        => y = Reshape(x, k)
""")

OPEN = "e = Mul(m, two) f = Mul(e, four) t = Concat<axis=0>(n, f) r = Reshape({}, t)"


def test_open_extent_beside_a_possible_zero() -> None:
    """Reshape rejects a -1 beside a 0, and LSTM rejects an empty input; Relu does not."""
    lstm = "z = LSTM<hidden_size=8>(x, w, v) q = Squeeze(z, one) "
    head = F.replace("float[N,M,8] x", "float[N,M,8] x, float[1,32,8] w, float[1,32,8] v")
    before, after = f"{lstm}{DIMS} {OPEN.format('q')} y = Neg(r)", f"{lstm}r = Reshape(q, k) y = Neg(r)"
    becomes(f"{head} {{ {before} }}", f"{head[:-1]}, int64[2] k = {{0,-1}}> {{ {after} }}", FoldDynamicShapeOperands())
    stays(f"{F} {{ {DIMS} {OPEN.format('x')} y = Relu(r) }}", FoldDynamicShapeOperands(), FOLD_SHAPE_OPERANDS)


test_stays = targets.using(FoldDynamicShapeOperands(), runs=False).all_stay(f"""
    open extent beside a zero [graph=g (float[N,0,8] x, float[1,32,8] w, float[1,32,8] v) => (float[a,b,c] z, float[]
        y)]: z = Identity(x) h, j, l = LSTM<hidden_size=8>(x, w, v) {DIMS} e = Mul(n, two) t = Concat<axis=0>(zero, e)
        y = Reshape<allowzero=1>(x, t)
""")


@each(
    "text",
    {
        "two extents are open": (
            f"{F} {{ {DIMS} e = Mul(n, two) f = Mul(m, four) t = Concat<axis=0>(e, f) y = Reshape(x, t) }}"
        ),
        "the shape is an input": (
            f"g (float[N,M,8] x, int64[3] t) => (float[a,b,c] y) <{I64}> {{ y = Reshape(x, t) }}"
        ),
        "a constant": (f"{G} <int64[3] t = {{0,0,8}}> {{ y = Reshape(x, t) }}".replace("> <", ", ")),
        "a -1 that stands elsewhere": (
            f"{F} {{ {DIMS} e = Mul(two, four) p = Mul(m, e) t = Concat<axis=0>(most, p) y = Reshape(x, t) }}"
        ),
        "unknown rank": (
            "g (float[] x) => (float[] y) <int64[1] m = {-1}> { s = Shape(x) t = Concat<axis=0>(s, m)"
            " y = Reshape(x, t) }"
        ),
        "overridable initializer": (
            f"g (float[N,M,8] x, int64[3] t = {{1,1,8}}) => (float[a,b,c] y) <{I64}> {{ z = Reshape(x, t) y = Neg(z) }}"
        ),
    },
)
def test_reshape_stays(text: str) -> None:
    stays(text, FOLD_SHAPE_OPERANDS)


test_expand = expand.all_become("""
    one dim is stretched: s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, four, one) y = Expand(x, t)
        => y = Expand(x, k)
    to itself: s = Shape(x) y = Expand(x, s) => y = Expand(x, k)
""")
test_expand_stays = expand.all_stay("""
    a dim of another extent: s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, two, n) y = Expand(x, t)
    another's extent: s = Shape(z) t = Concat<axis=0>(s, one, one) y = Expand(x, t)
    an open extent: s = Shape(z) t = Concat<axis=0>(one, s, one) y = Expand(x, t)
""")


test_slice = targets.all_become("""
    to the end: s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one) => y = Slice(x, b, e, a)
    every second to the end: s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one, two)
        => y = Slice(x, b, e, a, t)
""")
test_slice_stays = targets.all_stay("""
    another's extent: s = Shape(x) n = Slice(s, zero, one) y = Slice(x, one, n, one)
    a computed start: s = Shape(x) m = Slice(s, one, two) y = Slice(x, m, m, one)
    backwards: s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one, [-1])
    constants: y = Slice(x, one, two, one)
""")

SIZES = "s = Shape(x) c = Slice(s, zero, two) hw = Slice(s, two, four)"

test_resize = targets.all_become(f"""
    twice as large [x=N,3,H,W]: {SIZES} d = Mul(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)
        => y = Resize<mode="nearest">(x, , k)
""")
test_resize_stays = targets.using(x="N,3,H,W").all_stay(f"""
    no multiple: {SIZES} d = Add(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)
    half: {SIZES} d = Div(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)
""")


@given(parts=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3))
def test_any_split_of_the_last_dim(parts: list[int]) -> None:
    rest = 8
    for p in parts:
        if rest % p:
            return
        rest //= p
    ends = [*parts, rest]
    names = ", ".join(f"p{i}" for i in range(len(ends)))
    held = ", ".join(f"int64[1] p{i} = {{{n}}}" for i, n in enumerate(ends))
    head = f"g (float[N,M,8] x) => (float[{','.join('abcdef'[: 2 + len(ends)])}] y) <{I64}, {held}>"
    target = ",".join(map(str, [0, 0, *ends]))
    after = f"{head[:-1]}, int64[{2 + len(ends)}] k = {{{target}}}> {{ y = Reshape(x, k) }}"
    becomes(f"{head} {{ {DIMS} t = Concat<axis=0>(n, m, {names}) y = Reshape(x, t) }}", after, FOLD_SHAPE_OPERANDS)
