"""Indices computed from ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.shapes import range_indices
from rewriting import becomes, cases, stays

DROP_RANGE_GATHERS = rule_pass(range_indices, "drop-range-gathers")

CONST = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[2] a12 = {1,2}"
G = f"g (float[N,M] x) => (float[a,b,c] y) <{CONST}>"
F = f"g (float[N,M] x) => (float[a,b,c,d] y) <{CONST}>"
DIMS = "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=2>(x)"
COUNT = "r = Range(zero, n, one) c = Range(zero, m, one)"


@cases(
    ("head", "before", "after"),
    {
        "all elements in order": (
            G,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)",
            "y = Unsqueeze(x, a2)",
        ),
        "the other way round": (
            G,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(m, u) i = Add(p, c) y = Gather<axis=0>(f, i)",
            "y = Unsqueeze(x, a2)",
        ),
        "with a dim between": (
            F,
            f"{DIMS} {COUNT} u = Unsqueeze(r, a12) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)",
            "y = Unsqueeze(x, a13)",
        ),
    },
)
def test_becomes(head: str, before: str, after: str) -> None:
    more = f"{head[:-1]}, int64[1] a2 = {{2}}, int64[2] a13 = {{1,3}}>"
    becomes(f"{head} {{ {before} }}", f"{more} {{ {after} }}", DROP_RANGE_GATHERS)


@cases(
    "body",
    {
        "other step": (f"{DIMS} {COUNT} u = Unsqueeze(r, a1) p = Mul(u, n) i = Add(c, p) y = Gather(f, i)"),
        "not as many columns": (
            f"{DIMS} r = Range(zero, n, one) c = Range(zero, n, one) u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p)"
            " y = Gather(f, i)"
        ),
        "every other row": (
            f"{DIMS} r = Range(zero, n, two) c = Range(zero, m, one) u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p)"
            " y = Gather(f, i)"
        ),
        "a diagonal": (f"{DIMS} {COUNT} u = Unsqueeze(r, a0) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)"),
        "one row": (
            f"s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=0>(x) {COUNT} u = Unsqueeze(r, a1)"
            " p = Mul(u, m) i = Add(c, p) y = Gather(f, i)"
        ),
    },
)
def test_stays(body: str) -> None:
    stays(f"{G} {{ {body} }}", DROP_RANGE_GATHERS, runs=False)


ND = "g (float[N,M] x) => (float[a,b,c,d] y) <int64 zero = {0}, int64 one = {1}, int64[3] a123 = {1,2,3},"
ND += " int64[1] last = {-1}, int64[2] a12 = {1,2}>"
STEPS = (
    "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) r = Range(zero, n, one) c = Range(zero, m, one)"
    " u = Unsqueeze(r, a123) w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t)"
    " p = Unsqueeze(e, last) q = Unsqueeze(f, last) i = Concat<axis=-1>({}) y = GatherND({}x, i)"
)


def test_matrix_indexed_by_row_and_column() -> None:
    becomes(f"{ND} {{ {STEPS.format('p, q', '')} }}", f"{ND} {{ y = Unsqueeze(x, a12) }}", DROP_RANGE_GATHERS, opset=18)


@cases(
    "body",
    {
        "by column and row": (STEPS.format("q, p", "")),
        "backwards": (STEPS.format("p, q", "").replace("Range(zero, m, one)", "Range(zero, m, one) k = Neg(c)")
                     .replace("f = Expand(c", "f = Expand(k")),
        "not all rows": (STEPS.format("p, q", "").replace("Range(zero, n, one)", "Range(one, n, one)")),
    },
)  # fmt: skip
def test_other_indices_stay(body: str) -> None:
    stays(f"{ND} {{ {body} }}", DROP_RANGE_GATHERS, opset=18, runs=False)


@given(m=st.integers(1, 4), n=st.integers(1, 4))
def test_any_matrix(m: int, n: int) -> None:
    head = f"g (float[{m},{n}] x) => (float[a,b,c] y) <{CONST}, int64 m = {{{m}}}, int64 n = {{{n}}}>"
    body = "f = Flatten<axis=2>(x) r = Range(zero, m, one) c = Range(zero, n, one) u = Unsqueeze(r, a1)"
    after = f"{head[:-1]}, int64[1] a2 = {{2}}> {{ y = Unsqueeze(x, a2) }}"
    becomes(f"{head} {{ {body} p = Mul(u, n) i = Add(c, p) y = Gather(f, i) }}", after, DROP_RANGE_GATHERS)


V = f"g (float[N,M] x) => (float[a,b] y) <{CONST}>"
DIM = "s = Shape(x) n = Gather(s, zero) m = Gather(s, one)"


@cases(
    ("before", "after", "opset"),
    {
        "rows": (f"{DIM} r = Range(zero, n, one) y = Gather(x, r)", "y = Identity(x)", 11),
        "columns": (f"{DIM} r = Range(zero, m, one) y = Gather<axis=-1>(x, r)", "y = Identity(x)", 17),
        "expanded by nothing": (
            f"{DIM} r = Range(zero, m, one) e = Expand(r, a1) v = Gather<axis=1>(x, e) y = Neg(v)",
            "y = Neg(x)",
            17,
        ),
    },
)
def test_gather_of_all_becomes_nothing(before: str, after: str, opset: int) -> None:
    becomes(f"{V} {{ {before} }}", f"{V} {{ {after} }}", DROP_RANGE_GATHERS, RemoveUnused(), opset=opset)


@cases(
    "text",
    {
        "not the first": (f"{V} {{ {DIM} r = Range(one, n, one) y = Gather(x, r) }}"),
        "every other": (f"{V} {{ {DIM} r = Range(zero, n, two) y = Gather(x, r) }}"),
        "any n": (f"{V.replace('x)', 'x, int64 n)')} {{ r = Range(zero, n, one) y = Gather(x, r) }}"),
        "any start": (f"{V.replace('x)', 'x, int64 zero)').replace('int64 zero = {0}, ', '')}"
                     " { s = Shape<end=1>(x) n = Squeeze(s) r = Range(zero, n, one) y = Gather(x, r) }"),
        "a matrix": (f"{G} {{ {DIM} r = Range(zero, n, one) i = Unsqueeze(r, a1) y = Gather(x, i) }}"),
    },
)  # fmt: skip
def test_other_gathers_stay(text: str) -> None:
    stays(text, DROP_RANGE_GATHERS, runs=False)


ROWS = "g (float[N,M] x, float[N,M] u) => (float[a,b] y) <int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}>"
INDEX = "s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one) i = Unsqueeze(r, last)"


@cases(
    ("before", "after", "opset"),
    {
        "each row": (
            f"{ROWS} {{ {INDEX} y = ScatterND(x, i, u) }}",
            "g (float[N,M] x, float[N,M] u) => (float[a,b] y) { y = Identity(u) }",
            13,
        ),
        "reshaped to a column": (
            (
                f"{ROWS[:-1]}, int64[2] column = {{-1, 1}}> {{"
                f" {INDEX.replace('Unsqueeze(r, last)', 'Reshape(r, column)')} y = ScatterND(x, i, u) }}"
            ),
            "g (float[N,M] x, float[N,M] u) => (float[a,b] y) { y = Identity(u) }",
            17,
        ),
        "between other ops": (
            f"{ROWS} {{ {INDEX} v = Neg(u) w = ScatterND(x, i, v) y = Relu(w) }}",
            "g (float[N,M] x, float[N,M] u) => (float[a,b] y) { v = Neg(u) y = Relu(v) }",
            18,
        ),
        "halves": (
            ROWS.replace("float[", "float16[") + f" {{ {INDEX} y = ScatterND(x, i, u) }}",
            "g (float16[N,M] x, float16[N,M] u) => (float16[a,b] y) { y = Identity(u) }",
            16,
        ),
        "opset 11": (
            (
                f"{ROWS.replace('int64[1] last = {-1}', '')[:-3]}> {{"
                f" {INDEX.replace('Unsqueeze(r, last)', 'Unsqueeze<axes=[1]>(r)')} y = ScatterND(x, i, u) }}"
            ),
            "g (float[N,M] x, float[N,M] u) => (float[a,b] y) { y = Identity(u) }",
            11,
        ),
        "inside an If body": (
            (
                "g (bool b, float[N] x, float[N] u) => (float[n] y) <int64 zero = {0}, int64 one = {1},"
                f" int64[1] last = {{-1}}> {{ y = If (b) <then_branch = t () => (float[n] p) {{ {INDEX}"
                " p = ScatterND(x, i, u) }, else_branch = f () => (float[n] q) { q = Neg(x) }> }"
            ),
            (
                "g (bool b, float[N] x, float[N] u) => (float[n] y) { y = If (b) <then_branch = t () => (float[n] p)"
                " { p = Identity(u) }, else_branch = f () => (float[n] q) { q = Neg(x) }> }"
            ),
            17,
        ),
    },
)
def test_scatter_of_all_rows_becomes_the_updates(before: str, after: str, opset: int) -> None:
    becomes(before, after, DROP_RANGE_GATHERS, RemoveUnused(), opset=opset)


GRID = "g (float[N,M,K] x, float[N,M,K] z) => (float[a,b,c] y) <int64 zero = {0}, int64 one = {1}, int64[1] a0 = {0},"
GRID += " int64[1] a1 = {1}, int64[1] last = {-1}>"
CELLS = (
    "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) r = Range(zero, n, one) c = Range(zero, m, one)"
    " u = Unsqueeze(r, a1) v = Unsqueeze(c, a0) w = Max(u, v) t = Shape(w) e = Expand(u, t) f = Expand(v, t)"
    " p = Unsqueeze(e, last) q = Unsqueeze(f, last) i = Concat<axis=-1>({}) y = ScatterND(x, i, z)"
)


def test_scatter_of_all_cells_becomes_the_updates() -> None:
    after = "g (float[N,M,K] x, float[N,M,K] z) => (float[a,b,c] y) { y = Identity(z) }"
    becomes(f"{GRID} {{ {CELLS.format('p, q')} }}", after, DROP_RANGE_GATHERS, RemoveUnused(), opset=18)


@cases(
    ("text", "opset"),
    {
        "not the first row": ((f"{ROWS} {{ {INDEX.replace('(zero, n, one)', '(one, n, one)')} v = Gather(u, r)"
                     " y = ScatterND(x, i, v) }"), 13),
        "backwards": (f"{ROWS} {{ {INDEX} b = Neg(i) y = ScatterND(x, b, u) }}", 13),
        "added": (f'{ROWS} {{ {INDEX} y = ScatterND<reduction="add">(x, i, u) }}', 16),
        "reshaped to a square": (
                    ("g (float[4,M] x, float[2,2,M] u) => (float[a,b] y) <int64 zero = {0}, int64 one = {1},"
                     " int64[3] square = {2, 2, 1}> { s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one)"
                     " i = Reshape(r, square) y = ScatterND(x, i, u) }"), 17),
        "any number of rows": (ROWS.replace("u)", "u, int64 n)") + " { r = Range(zero, n, one) i = Unsqueeze(r, last)"
                     " y = ScatterND(x, i, u) }", 13),
        "a diagonal": (("g (float[N,N] x, float[N] u) => (float[a,b] y) <int64 zero = {0}, int64 one = {1},"
                     f" int64[1] last = {{-1}}> {{ {INDEX} j = Concat<axis=-1>(i, i) y = ScatterND(x, j, u) }}"), 13),
        "transposed": ("g (float[N,N,K] x, float[N,N,K] z) => (float[a,b,c] y)" + GRID[GRID.index(" <") :]
                     + f" {{ {CELLS.format('q, p')} }}", 18),
    },
)  # fmt: skip
def test_other_scatters_stay(text: str, opset: int) -> None:
    stays(text, DROP_RANGE_GATHERS, opset=opset)
