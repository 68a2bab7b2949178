"""Sources of elements taken from shapes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import gathers
from passwright.passes.shapes import fold_shapes
from rewriting import becomes, cases, stays

RESHAPE_INDICES = rule_pass(gathers, "reshape-indices")
SIMPLIFY_SHAPE_READS = rule_pass(fold_shapes, "simplify-shape-reads")

I64 = "int64 i = {1}, int64[1] v = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}"
G = f"g (float[N,M,K] x, float[P,Q] z) => (int64[a] y) <{I64}>"


@cases(
    ("before", "after", "opset"),
    {
        "the first": ("s = Shape(x) y = Gather(s, zero)", "y = Shape<end=1>(x)", 15),
        "two dims": (
            "s = Shape(x) a = Gather(s, zero) b = Gather(s, v) c = Mul(a, b) y = Neg(c)",
            "a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) c = Mul(a, b) y = Neg(c)",
            15,
        ),
        "a run of dims": (
            "a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) t = Concat<axis=0>(a, b) y = Neg(t)",
            "t = Shape<end=2>(x) y = Neg(t)",
            17,
        ),
        "a run with a number behind it": (
            "s = Shape(x) a = Gather(s, zero) b = Gather(s, v) t = Concat<axis=0>(a, b, three) y = Neg(t)",
            "a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) t = Concat<axis=0>(a, b, three) y = Neg(t)",
            17,
        ),
        "of ops that keep the shape": ("r = Relu(x) e = Exp(r) y = Shape(e)", "y = Shape(x)", 17),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", SIMPLIFY_SHAPE_READS, opset=opset)


@cases(
    ("after", "opset"),
    {
        "before opset 15": ("s = Shape(x) y = Gather<axis=0>(s, v)", 13),
        "in one op": ("y = Shape<start=1,end=2>(x)", 17),
    },
)
def test_a_dim_as_a_vector(after: str, opset: int) -> None:
    before = "s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, zero)"
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", RESHAPE_INDICES, SIMPLIFY_SHAPE_READS, opset=opset)


@cases(
    ("text", "opset"),
    {
        "before opset 15": (f"{G} {{ s = Shape(x) y = Gather(s, v) }}", 14),
        "a computed index": (
            f"g (float[N,M] x, int64[1] j) => (int64[a] y) <{I64}> {{ s = Shape(x) y = Gather(s, j) }}",
            17,
        ),
        "unknown rank": (f"g (float[] x) => (int64[a] y) <{I64}> {{ s = Shape(x) y = Gather(s, v) }}", 17),
        "dims of two values": (f"{G} {{ a = Shape<end=1>(x) b = Shape<end=1>(z) y = Concat<axis=0>(a, b) }}", 17),
        "in another order": (f"{G} {{ a = Shape<end=1>(x) b = Shape<start=1,end=2>(x) y = Concat<axis=0>(b, a) }}", 17),
        "a vector of indices": (
            f"g (int64[K] x) => (int64[1,1] y) <{I64}> {{ g = Gather(x, v) y = Unsqueeze(g, zero) }}",
            17,
        ),
        "of a matrix": (
            f"g (int64[K,L] x) => (int64[1,L] y) <{I64}> {{ g = Gather(x, i) y = Unsqueeze(g, zero) }}",
            17,
        ),
        "of another shape": ("g (float[N,M] x) => (int64[2] y) { t = Transpose(x) y = Shape(t) }", 17),
        "of an input": ("g (float[N,M] x) => (int64[2] y) { y = Shape(x) }", 17),
    },
)
def test_stays(text: str, opset: int) -> None:
    stays(text, SIMPLIFY_SHAPE_READS, opset=opset)


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
