"""Identity and Dropout."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import to_onnx
from passwright.passes.cleanup.no_ops import drop_dropout, drop_identity
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, op_types, run, stays

identity = Rewrites(
    "g ({x}) => (float[] y)", drop_dropout, weights={"t": np.bool_(1), "m": np.bool_(1)}, x="float[n] x"
)

test_identity_becomes = identity.using(drop_identity).all_become("""
    between ops: t = Neg(x) u = Identity(t) y = Relu(u) => t = Neg(x) y = Relu(t)
    after a graph input: t = Identity(x) y = Relu(t) => y = Relu(x)
    before a graph output: t = Relu(x) y = Identity(t) => y = Relu(x)
    a chain from end to end: a = Identity(x) b = Identity(a) y = Identity(b) => y = Identity(x)
    the same value twice: t = Identity(x) y = Add(t, t) => y = Add(x, x)
    beside its own source: t = Identity(x) y = Add(t, x) => y = Add(x, x)
    source used elsewhere: n = Neg(x) t = Identity(n) a = Relu(t) b = Abs(n) y = Add(a, b)
        => n = Neg(x) a = Relu(n) b = Abs(n) y = Add(a, b)
""")

test_identity_becomes_elsewhere = identity.using(drop_identity).all_become("""
    two outputs of one value [graph=g (float[n] x) => (float[n] y, float[n] z)]:
        t = Relu(x) y = Identity(t) z = Identity(t) => y = Relu(x) z = Identity(y)
    of a constant: t = Identity([1.0,2.0]) y = Add(x, t) => y = Add(x, w)
    of a constant, to a graph output [graph=g (float[n] x) => (float[n] y, float[2] z)]:
        y = Add(x, [1.0,2.0]) z = Identity([1.0,2.0]) => y = Add(x, z)
    of an overridable initializer [x=float[n] x, float[2] w = {1,2}]: t = Identity(w) y = Add(x, t) => y = Add(x, w)
    of a sequence [x=seq(float[n]) x, int64 i]: t = Identity(x) y = SequenceAt(t, i) => y = SequenceAt(x, i)
    of a sequence made on the way [graph=g (float[n] x) => (seq(float[n]) y)]:
        s = SequenceConstruct(x, x) t = Identity(s) u = Neg(x) y = SequenceInsert(t, u)
        => s = SequenceConstruct(x, x) u = Neg(x) y = SequenceInsert(s, u)
    of strings [graph=g (string[n] x) => (string[] y)]: s = Identity(x) y = Concat<axis=0>(s, x)
        => y = Concat<axis=0>(x, x)
    inside an If body, of a captured value [x=bool c, float[n] x]: y = If(c) <then_branch = a () => (float[n] r) {
        t = Identity(x) r = Relu(t) }, else_branch = b () => (float[n] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = a () => (float[n] r) { r = Relu(x) }, else_branch = b () => (float[n] s) {
        s = Neg(x) }>
    before the output of an If body [x=bool c, float[n] x]: y = If(c) <then_branch = a () => (float[n] r) { t = Relu(x)
        r = Identity(t) }, else_branch = b () => (float[n] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = a () => (float[n] r) { r = Relu(x) }, else_branch = b () => (float[n] s) {
        s = Neg(x) }>
    captured by an If body [x=bool c, float[n] z]: x = Identity(z) y = If(c) <then_branch = a () => (float[n] r) {
        r = Relu(x) }, else_branch = b () => (float[n] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = a () => (float[n] r) { r = Relu(z) }, else_branch = b () => (float[n] s) {
        s = Neg(z) }>
    inside a Loop body, from its input to its output it stays [graph=g (int64 n, float[2] x) => (float[2] y)]:
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c)
        q = Identity(s) r = Neg(q) }> =>
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c)
        r = Neg(s) }>
""")


@each("opset", [1, 7, 13, 14, 16, 25])
def test_identity_of_every_opset(opset: int) -> None:
    g = "g (float[n] x) => (float[n] y)"
    becomes(
        f"{g} {{ t = Identity(x) y = Abs(t) }}", f"{g} {{ y = Abs(x) }}", drop_identity, opset=opset, runs=opset >= 7
    )


test_identity_stays = identity.using(drop_identity).all_stay("""
    graph input to graph output: y = Identity(x)
    output to output [graph=g (float[n] x) => (float[n] t, float[] y)]: t = Relu(x) y = Identity(t)
    overridable initializer to graph output [x=float[2] w = {1,2}]: y = Identity(w)
    sequence, input to output [graph=g (seq(float[n]) x) => (seq(float[n]) y)]: y = Identity(x)
    a Cast that casts nothing: y = Cast<to=1>(x)
    captured value to output of an If body [x=bool c, float[n] x]: y = If(c) <then_branch = a () => (float[n] r) {
        r = Identity(x) }, else_branch = b () => (float[n] s) { s = Neg(x) }>
    graph input to several outputs [graph=g (float[n] x) => (float[n] y, float[n] z, float[n] u)]:
        y = Identity(x) z = Identity(x) u = Relu(x)
""")

D = "g (float[2,3] x) => (float[2,3] y)"


OFF, ON = {"m": np.bool_(False)}, {"m": np.bool_(True)}
SOME, NOTHING = {"r": np.float32(0.7)}, {"r": np.float32(0)}


@each(
    ("opset", "node", "weights"),
    {
        "7": (7, "Dropout<ratio=0.7>(x)", {}),
        "10": (10, "Dropout<ratio=0.7>(x)", {}),
        "10, default ratio": (10, "Dropout(x)", {}),
        "12": (12, "Dropout(x)", {}),
        "12, seeded": (12, "Dropout<seed=3>(x)", {}),
        "13, ratio alone": (13, "Dropout(x, r)", SOME),
        "13, mode false, no ratio": (13, "Dropout(x, , m)", OFF),
        "22, mode false": (22, "Dropout(x, r, m)", SOME | OFF),
        "13, ratio 0 in training": (13, "Dropout(x, r, m)", NOTHING | ON),
        "22, ratio 0": (22, "Dropout(x, r)", NOTHING),
    },
)
def test_dropout_becomes(opset: int, node: str, weights: dict[str, Any]) -> None:
    becomes(f"{D} {{ t = {node} y = Neg(t) }}", f"{D} {{ y = Neg(x) }}", drop_dropout, opset=opset, weights=weights)


test_dropout_is_bypassed = identity.using(x="float[2,3] x").all_become("""
    graph input to graph output: y = Dropout(x) => y = Identity(x)
    before a graph output: t = Relu(x) y = Dropout(t) => y = Relu(x)
    mask not used: t, m = Dropout(x) y = Neg(t) => y = Neg(x)
    a chain: t = Dropout(x) u = Dropout(t) y = Neg(u) => y = Neg(x)
    the same value twice: t = Dropout(x) y = Add(t, t) => y = Add(x, x)
    dropout of a scalar with mask [graph=g (float x) => (float y, bool m)]: t, m = Dropout(x) y = Neg(t)
        => m = ConstantOfShape<value: tensor = bool[1] {1}>(s) y = Neg(x)
    dropout inside an if body [graph=g (bool c, float[n] x) => (float[] y)]:
        y = If(c) <then_branch = a () => (float[n] r) { t = Dropout(x) r = Relu(t) },
        else_branch = b () => (float[n] s) { s = Neg(x) }> => y = If(c) <then_branch = a () => (float[n] r) {
        r = Relu(x) }, else_branch = b () => (float[n] s) { s = Neg(x) }>
""")


@each(("opset", "mask"), [(10, "bool"), (12, "bool"), (13, "bool"), (22, "bool"), (9, "float")])
def test_dropout_mask(opset: int, mask: str) -> None:
    """As onnxruntime computes it, the mask holds ones since opset 12."""
    fill = f"{mask}[1] {{{int(opset >= 12)}}}"
    made = f"m = ConstantOfShape<value: tensor = {fill}>(s)"
    shape = "<int64[2] s = {2,3}>"
    text = f"g (float[2,3] x) => (float[2,3] y, {mask}[2,3] m)"
    becomes(
        f"{text} {{ t, m = Dropout<{'ratio=0.7' if opset < 12 else 'seed=1'}>(x) y = Neg(t) }}",
        f"{text} {shape} {{ {made} y = Neg(x) }}",
        drop_dropout,
        opset=opset,
    )
    text = "g (float[2,3] x) => (float[2,3] y)"
    use = "u = Cast<to=1>(m) y = Add(t, u)"
    becomes(
        f"{text} {{ t, m = Dropout(x) {use} }}",
        f"{text} {shape} {{ {made} {use.replace('(t', '(x')} }}",
        drop_dropout,
        opset=opset,
    )


def test_dropout_mask_of_a_half() -> None:
    """Before opset 10 the mask has the type of the data."""
    text = "g (float16[2,3] x) => (float16[2,3] y, float16[2,3] m)"
    model = load(f"{text} {{ t, m = Dropout(x) y = Neg(t) }}", 9)
    after, _ = apply_passes(model, drop_dropout)
    assert op_types(to_onnx(after)) == ["ConstantOfShape", "Neg"]
    feeds = {"x": np.ones((2, 3), np.float16)}
    for want, got in zip(run(model, feeds), run(to_onnx(after), feeds), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(want, got)


test_dropout_stays = identity.using(runs=False, opset=13).all_stay("""
    mode decided at run time [x=float[2] x, float r, bool m]: y = Dropout(x, r, m)
    mode true [x=float[2] x]: y = Dropout(x, 0.5, m)
    mode true, default ratio [x=float[2] x]: y = Dropout(x, , m)
    mode is an overridable initializer [x=float[2] x, bool m = {0}]: y = Dropout(x, 0.5, m)
    ratio is an overridable initializer [x=float[2] x, float r = {0}]: y = Dropout(x, r, m)
    mode is computed [opset=22; x=float[2] x, bool c]: m = Not(c) y = Dropout(x, 0.5, m)
    opset 6, training [opset=6; x=float[2] x]: y = Dropout(x)
    opset 6, spelled [opset=6; x=float[2] x]: y = Dropout<is_test=0, ratio=0.5>(x)
    mask of a shape not known, which would take two ops [graph=g (float[N,3] x) => (float[N,3] y, bool[N,3] m); runs]:
        y, m = Dropout(x)
    mask read, of a shape not known [opset=22; x=float[N,3] x; runs]: t, m = Dropout(x) u = Cast<to=1>(m) y = Add(t, u)
    mask used at opset 7 [opset=7; graph=g (float[2] x) => (float[2] y, float[2] m); runs]: y, m = Dropout(x)
    mask used at opset 8 [opset=8; graph=g (float[2] x) => (float[2] y, float[2] m); runs]: y, m = Dropout(x)
    training inside an If body [x=bool c, float[2] x]: y = If(c) <then_branch = a () => (float[n] r) {
        t = Dropout(x, , m) r = Relu(t) }, else_branch = b () => (float[n] s) { s = Neg(x) }>
""")


@each(
    ("attributes", "becomes_nothing"),
    [
        ("is_test=1", True),
        ("is_test=1, ratio=0.9", True),
        ("ratio=0.0", True),
        ("ratio=0.5", False),
        ("is_test=0", False),
    ],
)
def test_dropout_before_opset_7(attributes: str, becomes_nothing: bool) -> None:
    g = "g (float[2] x) => (float[2] y)"
    before = f"{g} {{ t = Dropout<{attributes}>(x) y = Neg(t) }}"
    if becomes_nothing:
        becomes(before, f"{g} {{ y = Neg(x) }}", drop_dropout, opset=6, runs=False)
    else:
        stays(before, drop_dropout, opset=6, runs=False)


@given(
    opset=st.sampled_from([7, 10, 12, 13, 22]),
    ratio=st.none() | st.sampled_from([0.0, 0.25, 0.999]),
    mode=st.sampled_from([None, False, True]),
    shape=st.lists(st.integers(0, 3), max_size=3),
)
def test_dropout_of_any_parameters(opset: int, ratio: float | None, mode: bool | None, shape: list[int]) -> None:
    kind = f"float{shape}" if shape else "float"
    text = f"g ({kind} x) => ({kind} y)"
    weights = {"r": np.float32(ratio)} if ratio is not None and opset >= 12 else {}
    if opset < 12:
        node = "Dropout(x)" if ratio is None else f"Dropout<ratio={ratio}>(x)"
    else:
        node = f"Dropout(x, {'' if ratio is None else 'r'}, {'' if mode is None else 'm'})".replace(", , )", ")")
        weights |= {} if mode is None else {"m": np.bool_(mode)}
    before = f"{text} {{ t = {node.replace(', )', ')')} y = Neg(t) }}"
    if opset >= 12 and mode and ratio != 0.0:
        stays(before, drop_dropout, opset=opset, weights=weights, runs=False)
    else:
        becomes(before, f"{text} {{ y = Neg(x) }}", drop_dropout, opset=opset, weights=weights)
