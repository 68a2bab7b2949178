"""Sources of elements taken from shapes."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import gathers
from passwright.passes.shapes import fold_shapes
from rewrite_tables import Rewrites
from rewriting import becomes

RESHAPE_INDICES = rule_pass(gathers, "reshape-indices")
SIMPLIFY_SHAPE_READS = rule_pass(fold_shapes, "simplify-shape-reads")


sources = Rewrites("g ({x}) => (int64[] y)", SIMPLIFY_SHAPE_READS, x="float[N,M,K] x, float[P,Q] z")

test_becomes = sources.all_become("""
    the first [opset=15]: s = Shape(x) y = Gather(s, [0]) => y = Shape<end=1>(x)
    two dims [opset=15]: s = Shape(x) a = Gather(s, [0]) b = Gather(s, [1]) c = Mul(a, b) y = Neg(c)
        => a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) c = Mul(a, b) y = Neg(c)
    a run of dims: a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) t = Concat<axis=0>(a, b) y = Neg(t)
        => t = Shape<end=2>(x) y = Neg(t)
    a run with a number behind it:
        s = Shape(x) a = Gather(s, [0]) b = Gather(s, [1]) t = Concat<axis=0>(a, b, [3]) y = Neg(t)
        => a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) t = Concat<axis=0>(a, b, three) y = Neg(t)
    of ops that keep the shape: r = Relu(x) e = Exp(r) y = Shape(e) => y = Shape(x)
""")

test_a_dim_as_a_vector = sources.using(RESHAPE_INDICES, SIMPLIFY_SHAPE_READS).all_become("""
    before opset 15 [opset=13]: s = Shape(x) g = Gather(s, 1) y = Unsqueeze(g, [0])
        => s = Shape(x) y = Gather<axis=0>(s, v)
    in one op: s = Shape(x) g = Gather(s, 1) y = Unsqueeze(g, [0]) => y = Shape<start=1,end=2>(x)
""")

test_stays = sources.all_stay("""
    before opset 15 [opset=14]: s = Shape(x) y = Gather(s, [1])
    a computed index [x=float[N,M] x, int64[1] j]: s = Shape(x) y = Gather(s, j)
    unknown rank [x=float[] x]: s = Shape(x) y = Gather(s, [1])
    dims of two values: a = Shape<end=1>(x) b = Shape<end=1>(z) y = Concat<axis=0>(a, b)
    in another order: a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) y = Concat<axis=0>(b, a)
    a vector of indices [x=int64[K] x]: g = Gather(x, [1]) y = Unsqueeze(g, [0])
    of a matrix [x=int64[K,L] x]: g = Gather(x, 1) y = Unsqueeze(g, [0])
    of another shape [x=float[N,M] x]: t = Transpose(x) y = Shape(t)
    of an input [x=float[N,M] x]: y = Shape(x)
""")


@given(first=st.integers(-4, 3), count=st.integers(1, 3))
def test_any_run(first: int, count: int) -> None:
    run = [first + n for n in range(count)]
    if any(not -4 <= n < 4 for n in run) or (first < 0 <= run[-1]):
        return
    numbers = ",".join(map(str, run))
    head = f"g (float[A,B,C,D] x) => (int64[n] y) <int64[{count}] i = {{{numbers}}}>"
    start = f"start={first % 4}," if first % 4 else ""
    becomes(
        f"{head} {{ s = Shape(x) y = Gather(s, i) }}",
        f"{head} {{ y = Shape<{start}end={first % 4 + count}>(x) }}",
        SIMPLIFY_SHAPE_READS,
    )
