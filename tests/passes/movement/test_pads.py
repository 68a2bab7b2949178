"""Merging of Pads."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import pads
from passwright.passes.movement.pads import merge_pads
from rewrite_tables import Rewrites
from rewriting import becomes, each, initializers, stays

MERGE_PADS = rule_pass(pads, "merge-pads")


def text(body: str, x: str = "float[N,4] x", kind: str = "float", **constants: object) -> str:
    lines = []
    for n, v in constants.items():
        if isinstance(v, list):
            lines.append(f"int64[{len(v)}] {n} = {{{','.join(map(str, v))}}}")
        else:
            lines.append(f"{kind} {n} = {{{v}}}")
    return f"g ({x}) => ({kind}[p,q] y) <{', '.join(lines)}> {{ {body} }}"


@each(
    ("first", "second", "after"),
    [
        ([0, 1, 0, 2], [0, 1, 0, 0], [0, 2, 0, 2]),
        ([1, 0, 0, 0], [0, 1, 0, 3], [1, 1, 0, 3]),
        ([0, -1, 0, 0], [0, -1, 0, -1], [0, -2, 0, -1]),
        ([0, 2, 0, 2], [0, -1, 0, -2], [0, 1, 0, 0]),
        ([0, -1, 0, 0], [1, 0, 0, 2], [1, -1, 0, 2]),
    ],
)
@each("fill", ["", ", c", ", z"])
def test_constant(first: list[int], second: list[int], after: list[int], fill: str) -> None:
    given_ = {"c": 2.5, "z": 0.0}
    other = "" if fill == ", z" else fill
    before = text(f"u = Pad(x, a{fill}) y = Pad(u, b{other})", a=first, b=second, **given_)
    new = text(f"y = Pad(x, a{other})", a=first, **given_)
    out = becomes(before, new, merge_pads)
    assert after in [a.tolist() for a in initializers(out).values()]


@each(
    ("mode", "first", "second"),
    [
        ("edge", [0, 1, 0, 2], [0, 1, 0, 0]),
        ("edge", [0, 1, 0, 2], [1, 0, 2, 0]),
        ("reflect", [0, 1, 0, 2], [1, 0, 0, 0]),
        ("wrap", [0, 1, 0, 2], [1, 0, 1, 0]),
    ],
)
def test_modes(mode: str, first: list[int], second: list[int]) -> None:
    x, m = "float[3,4] x", f'<mode="{mode}">'
    before = text(f"u = Pad{m}(x, a) y = Pad{m}(u, b)", x, a=first, b=second)
    becomes(before, text(f"y = Pad{m}(x, a)", x, a=first), merge_pads, opset=19)


rewrites = Rewrites("g (float[3,4] x) => (float[] y)", merge_pads, weights={"a": [0, 1, 0, 0], "b": [0, 1, 0, 0]})

test_stays = rewrites.all_stay("""
    cut off and put on: u = Pad(x, [0,-1,0,0]) y = Pad(u, [0,2,0,0])
    cut more than was put on: u = Pad(x, [0,1,0,4]) y = Pad(u, [0,-2,0,0])
    another value: u = Pad(x, a, 1.0) y = Pad(u, b)
    minus zero: u = Pad(x, a, -0.0) y = Pad(u, b)
    another mode: u = Pad<mode="edge">(x, a) y = Pad(u, b)
    reflected twice: u = Pad<mode="reflect">(x, a) y = Pad<mode="reflect">(u, b)
    an edge cut off: u = Pad<mode="edge">(x, a) y = Pad<mode="edge">(u, [0,-1,0,0])
    apart: u = Pad(x, a) v = Relu(u) y = Pad(v, b)
    computed pads [graph=g (float[3,4] x, int64[4] k) => (float[] y); runs=False]: u = Pad(x, a) y = Pad(u, k)
    alone: y = Pad(x, a)
    different pad values stay [graph=g (int64[N,4] x) => (int64[] y)]: u = Pad(x, a, 1) y = Pad(u, a, 256)
""")


def test_axes() -> None:
    before = text("u = Pad(x, a,, i) y = Pad(u, b,, j)", a=[1, 2], i=[-1], b=[1, 0, 0, 3], j=[1, 0])
    out = becomes(before, text("y = Pad(x, a)", a=[0]), merge_pads, opset=18)
    assert [a.tolist() for a in initializers(out).values()] == [[0, 2, 3, 2]]


def test_attributes_before_opset_11() -> None:
    before = "u = Pad<pads=[0,1,0,0], value=1.5>(x) y = Pad<pads=[0,1,1,0], value=1.5>(u)"
    g = "g (float[N,4] x) => (float[p,q] y)"
    becomes(f"{g} {{ {before} }}", f"{g} {{ y = Pad<pads=[0,2,1,0], value=1.5>(x) }}", merge_pads, opset=10)
    stays(f"{g} {{ {before.replace('=1.5>(u)', '=2.5>(u)')} }}", merge_pads, opset=10)


def test_integers_with_a_pad_value_from_an_input() -> None:
    x = "int64[N,4] x, int64 k"
    before = text("u = Pad(x, a, k) y = Pad(u, b, k)", x, "int64", a=[0, 1, 0, 0], b=[0, 1, 0, 0])
    becomes(before, text("y = Pad(x, a, k)", x, "int64", a=[0, 2, 0, 0]), merge_pads)
    stays(before.replace("int64 k", "int64 k, int64 l").replace("(u, b, k)", "(u, b, l)"), merge_pads)


def test_the_pass_has_the_rule() -> None:
    assert MERGE_PADS.rules == (merge_pads,)


PADS = st.lists(st.integers(-1, 2), min_size=4, max_size=4)


@given(first=PADS, second=PADS, value=st.sampled_from(["", ", c"]))
def test_any_pads(first: list[int], second: list[int], value: str) -> None:
    import numpy as np
    from rewriting import apply_passes, load, run, to_onnx

    model = load(text(f"u = Pad(x, a{value}) y = Pad(u, b{value})", "float[4,5] x", a=first, b=second, c=7.0))
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    out = to_onnx(apply_passes(model, merge_pads)[0])
    np.testing.assert_array_equal(run(out, {"x": x})[0], run(model, {"x": x})[0])
