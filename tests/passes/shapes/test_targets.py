"""Computed shape operands of Reshape, Expand, Slice and Resize."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.shapes import fold_shapes
from passwright.passes.shapes.fold_shapes import FoldDynamicShapeOperands
from rewriting import becomes, stays

FOLD_SHAPE_OPERANDS = rule_pass(fold_shapes, "fold-shape-operands")

I64 = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] most = {-1}"
DIMS = "s = Shape(x) n = Slice(s, zero, one) m = Slice(s, one, two)"
G = f"g (float[N,M,8] x) => (float[a,b,c] y) <{I64}>"
H = f"g (float[N,M,8] x) => (float[a,b,c,d] y) <{I64}>"
F = f"g (float[N,M,8] x) => (float[a,b] y) <{I64}>"


@pytest.mark.parametrize(
    ("head", "before", "after", "constants"),
    [
        pytest.param(
            H,
            f"{DIMS} t = Concat<axis=0>(n, m, two, four) y = Reshape(x, t)",
            "y = Reshape(x, k)",
            "int64[4] k = {0,0,2,4}",
            id="heads are split off",
        ),
        pytest.param(
            H,
            f"{DIMS} t = Concat<axis=0>(n, m, most, four) y = Reshape(x, t)",
            "y = Reshape(x, k)",
            "int64[4] k = {0,0,2,4}",
            id="a -1 that is known",
        ),
        pytest.param(
            H,
            f"{DIMS} t = Concat<axis=0>(n, m, most, four) y = Reshape<allowzero=1>(x, t)",
            "y = Reshape(x, k)",
            "int64[4] k = {0,0,2,4}",
            id="a -1 that is known, with allowzero",
        ),
        pytest.param(
            F,
            f"{DIMS} p = Mul(n, m) e = Mul(two, four) t = Concat<axis=0>(p, e) y = Reshape(x, t)",
            "y = Reshape(x, k)",
            "int64[2] k = {-1,8}",
            id="rows, the open extent",
        ),
    ],
)
def test_reshape(head: str, before: str, after: str, constants: str) -> None:
    becomes(f"{head} {{ {before} }}", f"{head[:-1]}, {constants}> {{ {after} }}", FOLD_SHAPE_OPERANDS)


OPEN = "e = Mul(m, two) f = Mul(e, four) t = Concat<axis=0>(n, f) r = Reshape({}, t)"


def test_open_extent_beside_a_possible_zero() -> None:
    """Reshape rejects a -1 beside a 0, and LSTM rejects an empty input; Relu does not."""
    lstm = "z = LSTM<hidden_size=8>(x, w, v) q = Squeeze(z, one) "
    head = F.replace("float[N,M,8] x", "float[N,M,8] x, float[1,32,8] w, float[1,32,8] v")
    before, after = f"{lstm}{DIMS} {OPEN.format('q')} y = Neg(r)", f"{lstm}r = Reshape(q, k) y = Neg(r)"
    becomes(f"{head} {{ {before} }}", f"{head[:-1]}, int64[2] k = {{0,-1}}> {{ {after} }}", FoldDynamicShapeOperands())
    stays(f"{F} {{ {DIMS} {OPEN.format('x')} y = Relu(r) }}", FoldDynamicShapeOperands(), FOLD_SHAPE_OPERANDS)


def test_open_extent_beside_a_zero() -> None:
    head = "g (float[N,0,8] x, float[1,32,8] w, float[1,32,8] v) => (float[a,b,c] z, float[d,e] y)"
    stays(
        f"{head} <{I64}> {{ z = Identity(x) h, j, l = LSTM<hidden_size=8>(x, w, v) {DIMS} e = Mul(n, two)"
        " t = Concat<axis=0>(zero, e) y = Reshape<allowzero=1>(x, t) }",
        FoldDynamicShapeOperands(),
        runs=False,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"{F} {{ {DIMS} e = Mul(n, two) f = Mul(m, four) t = Concat<axis=0>(e, f) y = Reshape(x, t) }}",
            id="two extents are open",
        ),
        pytest.param(
            f"g (float[N,M,8] x, int64[3] t) => (float[a,b,c] y) <{I64}> {{ y = Reshape(x, t) }}",
            id="the shape is an input",
        ),
        pytest.param(f"{G} <int64[3] t = {{0,0,8}}> {{ y = Reshape(x, t) }}".replace("> <", ", "), id="a constant"),
        pytest.param(
            f"{F} {{ {DIMS} e = Mul(two, four) p = Mul(m, e) t = Concat<axis=0>(most, p) y = Reshape(x, t) }}",
            id="a -1 that stands elsewhere",
        ),
        pytest.param(
            "g (float[] x) => (float[] y) <int64[1] m = {-1}> { s = Shape(x) t = Concat<axis=0>(s, m)"
            " y = Reshape(x, t) }",
            id="unknown rank",
        ),
        pytest.param(
            f"g (float[N,M,8] x, int64[3] t = {{1,1,8}}) => (float[a,b,c] y) <{I64}>"
            " { z = Reshape(x, t) y = Neg(z) }",
            id="overridable initializer",
        ),
    ],
)
def test_reshape_stays(text: str) -> None:
    stays(text, FOLD_SHAPE_OPERANDS)


E = f"g (float[N,1,8] x, float[K] z) => (float[a,b,c] y) <{I64}>"


@pytest.mark.parametrize(
    ("before", "after", "constants"),
    [
        pytest.param(
            "s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, four, one) y = Expand(x, t)",
            "y = Expand(x, k)",
            "int64[3] k = {1,4,1}",
            id="one dim is stretched",
        ),
        pytest.param("s = Shape(x) y = Expand(x, s)", "y = Expand(x, k)", "int64[3] k = {1,1,1}", id="to itself"),
        pytest.param(
            "s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, two, n) y = Expand(x, t)",
            None,
            "",
            id="a dim of another extent",
        ),
        pytest.param("s = Shape(z) t = Concat<axis=0>(s, one, one) y = Expand(x, t)", None, "", id="another's extent"),
        pytest.param("s = Shape(z) t = Concat<axis=0>(one, s, one) y = Expand(x, t)", None, "", id="an open extent"),
    ],
)
def test_expand(before: str, after: str | None, constants: str) -> None:
    if after is None:
        stays(f"{E} {{ {before} }}", FOLD_SHAPE_OPERANDS)
    else:
        becomes(f"{E} {{ {before} }}", f"{E[:-1]}, {constants}> {{ {after} }}", FOLD_SHAPE_OPERANDS)


S = f"g (float[N,M] x) => (float[a,b] y) <{I64}>"
FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("before", "after", "constants"),
    [
        pytest.param(
            "s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one)",
            "y = Slice(x, b, e, a)",
            f"int64[1] b = {{1}}, int64[1] e = {{{FAR}}}, int64[1] a = {{1}}",
            id="to the end",
        ),
        pytest.param(
            "s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one, two)",
            "y = Slice(x, b, e, a, t)",
            f"int64[1] b = {{1}}, int64[1] e = {{{FAR}}}, int64[1] a = {{1}}, int64[1] t = {{2}}",
            id="every second to the end",
        ),
        pytest.param("s = Shape(x) n = Slice(s, zero, one) y = Slice(x, one, n, one)", None, "", id="another's extent"),
        pytest.param("s = Shape(x) m = Slice(s, one, two) y = Slice(x, m, m, one)", None, "", id="a computed start"),
        pytest.param("s = Shape(x) m = Slice(s, one, two) y = Slice(x, one, m, one, most)", None, "", id="backwards"),
        pytest.param("y = Slice(x, one, two, one)", None, "", id="constants"),
    ],
)
def test_slice(before: str, after: str | None, constants: str) -> None:
    if after is None:
        stays(f"{S} {{ {before} }}", FOLD_SHAPE_OPERANDS)
    else:
        becomes(f"{S} {{ {before} }}", f"{S[:-1]}, {constants}> {{ {after} }}", FOLD_SHAPE_OPERANDS)


R = f"g (float[N,3,H,W] x) => (float[a,b,c,d] y) <{I64}, float[4] k = {{1.0, 1.0, 2.0, 2.0}}>"
SIZES = "s = Shape(x) c = Slice(s, zero, two) hw = Slice(s, two, four)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f'{SIZES} d = Mul(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)',
            'y = Resize<mode="nearest">(x, , k)',
            id="twice as large",
        ),
        pytest.param(
            f'{SIZES} d = Add(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)',
            None,
            id="no multiple",
        ),
        pytest.param(
            f'{SIZES} d = Div(hw, two) t = Concat<axis=0>(c, d) y = Resize<mode="nearest">(x, , , t)', None, id="half"
        ),
    ],
)
def test_resize(before: str, after: str | None) -> None:
    if after is None:
        stays(f"{R} {{ {before} }}", FOLD_SHAPE_OPERANDS)
    else:
        becomes(f"{R} {{ {before} }}", f"{R} {{ {after} }}", FOLD_SHAPE_OPERANDS)


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
