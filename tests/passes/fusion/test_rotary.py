"""Fusion of rotary position embeddings."""

from __future__ import annotations

import pytest
from passwright.core import rule_pass
from passwright.passes.fusion import rotary
from passwright.passes.movement import reshapes
from passwright.passes.movement.layout_propagation import move_transposes
from rewriting import becomes, stays

FUSE_ROTARY = rule_pass(rotary, "fuse-rotary")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")
MERGE_RESHAPES = rule_pass(reshapes, "merge-reshapes")

G = "g (float[b,2,5,8] x, float[b,5,4] a, float[1,5,4] f) => (float[b,2,5,8] y)"
C = "<int64[1] one = {1}, int64[2] parts = {4, 4}, int64[2] uneven = {3, 5}>"
ANGLES = "e = Concat<axis=-1>(a, a) n = Cos(e) m = Sin(e) c = Unsqueeze(n, one) s = Unsqueeze(m, one)"
TURN = "lo, hi = Split<axis=3>(x, parts) j = Neg(hi) r = Concat<axis=-1>(j, lo)"
SUM = "p = Mul(x, c) q = Mul(r, s) y = Add(p, q)"
TABLES = "n = Cos(a) c = Unsqueeze(n, one) t = Squeeze(c, one) m = Sin(a) s = Unsqueeze(m, one) u = Squeeze(s, one)"


@pytest.mark.parametrize("total", [SUM, "p = Mul(c, x) q = Mul(s, r) y = Add(q, p)"])
@pytest.mark.parametrize("opset", [23, 24])
def test_becomes(total: str, opset: int) -> None:
    after = f"{TABLES} y = RotaryEmbedding(x, t, u)"
    becomes(f"{G} {C} {{ {ANGLES} {TURN} {total} }}", f"{G} {C} {{ {after} }}", FUSE_ROTARY, opset=opset)


def test_scaled_angles_become() -> None:
    one = "<int64[1] one = {1}, float k = {1.5}, int64[2] parts = {4, 4}>"
    angles = ANGLES.replace("n = Cos(e)", "o = Cos(e) n = Mul(o, k)")
    after = TABLES.replace("n = Cos(a)", "o = Cos(a) n = Mul(o, k)")
    becomes(
        f"{G} {one} {{ {angles} {TURN} {SUM} }}", f"{G} {one} {{ {after} y = RotaryEmbedding(x, t, u) }}", FUSE_ROTARY,
        opset=23,
    )  # fmt: skip


def test_angles_of_all_batches_are_expanded() -> None:
    before = f"e = Concat<axis=-1>(f, f) c = Cos(e) s = Sin(e) {TURN} {SUM}"
    after = (
        "c = Cos(f) d = Shape<start=0, end=1>(x) h = Concat<axis=0>(d, one, one) t = Expand(c, h) s = Sin(f)"
        " v = Shape<start=0, end=1>(x) i = Concat<axis=0>(v, one, one) u = Expand(s, i) y = RotaryEmbedding(x, t, u)"
    )
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_ROTARY, opset=23)


def test_constant_angles_become() -> None:
    tables = "<float[1,1,2] c = {0.5, 0.5}, float[1,1,2] s = {0.25, 0.25}, int64[2] parts = {1, 1}>"
    after = "<float[1,1,1] c = {0.5}, float[1,1,1] s = {0.25}>"
    text = "g (float[1,3,1,2] x) => (float[1,3,1,2] y)"
    becomes(
        f"{text} {tables} {{ {TURN} {SUM} }}",
        f"{text} {after} {{ y = RotaryEmbedding(x, c, s) }}",
        FUSE_ROTARY,
        opset=23,
    )


SLICES = (
    "x = Slice(z, zero, eight, last) w = Slice(z, eight, end, last)",
    "lo = Slice(z, zero, four, last) hi = Slice(z, four, eight, last) j = Neg(hi) r = Concat<axis=-1>(j, lo)",
)


@pytest.mark.parametrize("parts", [("x, w = Split<axis=-1>(z, sizes)", TURN), SLICES], ids=["splits", "slices"])
def test_part_of_the_last_dim_becomes(parts: tuple[str, str]) -> None:
    g = "g (float[b,2,5,12] z, float[b,5,4] a) => (float[b,2,5,12] y)"
    bounds = "int64[1] zero = {0}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] end = {99}, int64[1] last = {3}"
    sizes = C.replace(">", f", int64[2] sizes = {{8, 4}}, {bounds}>")
    before = f"{parts[0]} {ANGLES} {parts[1]} {SUM.replace('y =', 'k =')} y = Concat<axis=-1>(k, w)"
    after = f"{TABLES} y = RotaryEmbedding<rotary_embedding_dim=8>(z, t, u)"
    becomes(f"{g} {sizes} {{ {before} }}", f"{g} {sizes} {{ {after} }}", FUSE_ROTARY, opset=23)


def test_heads_become_an_attribute() -> None:
    g = "g (float[b,5,16] w, float[b,5,4] c, float[b,5,4] s) => (float[b,5,16] y)"
    shapes = "<int64[4] split = {0, 0, 2, 8}, int64[3] join = {0, 0, 16}>"
    before = (
        "r = Reshape(w, split) x = Transpose<perm=[0,2,1,3]>(r) z = RotaryEmbedding(x, c, s)"
        " u = Transpose<perm=[0,2,1,3]>(z) y = Reshape(u, join)"
    )
    passes = (FUSE_ROTARY, MERGE_TRANSPOSES, MERGE_RESHAPES)
    becomes(f"{g} {shapes} {{ {before} }}", f"{g} {{ y = RotaryEmbedding<num_heads=2>(w, c, s) }}", *passes, opset=23)


def test_empty_batch_has_heads() -> None:
    """Reshape finds no extent for -1 where another is 0."""
    g = "g (float[0,5,16] w, float[0,5,4] c, float[0,5,4] s) => (float[0,2,5,8] y) <int64[4] split = {0, 0, 2, 8}>"
    before = "r = Reshape(w, split) x = Transpose<perm=[0,2,1,3]>(r) y = RotaryEmbedding(x, c, s)"
    after = "x = RotaryEmbedding<num_heads=2>(w, c, s) r = Reshape(x, split) y = Transpose<perm=[0,2,1,3]>(r)"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", FUSE_ROTARY, opset=23)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        pytest.param(f"{ANGLES} {TURN} {SUM}", 22, id="older opset"),
        pytest.param(f"{ANGLES.replace('(a, a)', '(a, b)')} b = Neg(a) {TURN} {SUM}", 23, id="halves that differ"),
        pytest.param(f"{ANGLES} {TURN.replace('(j, lo)', '(lo, j)')} {SUM}", 23, id="the other half is negated"),
        pytest.param(f"{ANGLES} {TURN.replace('Neg(hi)', 'Neg(lo)').replace('(j, lo)', '(j, hi)')} {SUM}", 23),
        pytest.param(f"{ANGLES} lo, hi = Split<axis=3>(x, uneven) j = Neg(hi) r = Concat<axis=-1>(j, lo) {SUM}", 23),
        pytest.param(
            f"{ANGLES} {TURN.replace('(x, parts)', '(w, parts)')} {SUM} w = Tanh(x)", 23, id="of another value"
        ),
    ],
)
def test_stays(body: str, opset: int) -> None:
    ordered = body
    for late in (" b = Neg(a)", " w = Tanh(x)"):
        if late in body:
            ordered = f"{late.strip()} {body.replace(late, '')}"
    stays(f"{G} {C} {{ {ordered} }}", FUSE_ROTARY, opset=opset)
