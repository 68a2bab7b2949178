"""Identity and Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import to_onnx
from passwright.passes.cleanup.no_ops import drop_dropout, drop_identity
from rewriting import apply_passes, becomes, cases, load, op_types, run, stays

IF = "y = If (c) <then_branch = a () => (float[n] r) {{ {} }}, else_branch = b () => (float[n] s) {{ s = Neg(x) }}>"


@cases(
    ("before", "after"),
    {
        "between ops": ("t = Neg(x) u = Identity(t) y = Relu(u)", "t = Neg(x) y = Relu(t)"),
        "after a graph input": ("t = Identity(x) y = Relu(t)", "y = Relu(x)"),
        "before a graph output": ("t = Relu(x) y = Identity(t)", "y = Relu(x)"),
        "a chain from end to end": ("a = Identity(x) b = Identity(a) y = Identity(b)", "y = Identity(x)"),
        "the same value twice": ("t = Identity(x) y = Add(t, t)", "y = Add(x, x)"),
        "beside its own source": ("t = Identity(x) y = Add(t, x)", "y = Add(x, x)"),
        "source used elsewhere": (
            "n = Neg(x) t = Identity(n) a = Relu(t) b = Abs(n) y = Add(a, b)",
            "n = Neg(x) a = Relu(n) b = Abs(n) y = Add(a, b)",
        ),
    },
)
def test_identity_becomes(before: str, after: str) -> None:
    g = "g (float[n] x) => (float[n] y)"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", drop_identity)


@cases(
    ("before", "after"),
    {
        "two outputs of one value": (
            "g (float[n] x) => (float[n] y, float[n] z) { t = Relu(x) y = Identity(t) z = Identity(t) }",
            "g (float[n] x) => (float[n] y, float[n] z) { y = Relu(x) z = Identity(y) }",
        ),
        "of a constant": (
            "g (float[n] x) => (float[n] y) <float[2] w = {1,2}> { t = Identity(w) y = Add(x, t) }",
            "g (float[n] x) => (float[n] y) <float[2] w = {1,2}> { y = Add(x, w) }",
        ),
        "of a constant, to a graph output": (
            "g (float[n] x) => (float[n] y, float[2] z) <float[2] w = {1,2}> { y = Add(x, w) z = Identity(w) }",
            "g (float[n] x) => (float[n] y, float[2] z) <float[2] z = {1,2}> { y = Add(x, z) }",
        ),
        "of an overridable initializer": (
            "g (float[n] x, float[2] w = {1,2}) => (float[n] y) { t = Identity(w) y = Add(x, t) }",
            "g (float[n] x, float[2] w = {1,2}) => (float[n] y) { y = Add(x, w) }",
        ),
        "of a sequence": (
            "g (seq(float[n]) x, int64 i) => (float[n] y) { t = Identity(x) y = SequenceAt(t, i) }",
            "g (seq(float[n]) x, int64 i) => (float[n] y) { y = SequenceAt(x, i) }",
        ),
        "of a sequence made on the way": (
            (
                "g (float[n] x) => (seq(float[n]) y) { s = SequenceConstruct(x, x) t = Identity(s)"
                " u = Neg(x) y = SequenceInsert(t, u) }"
            ),
            "g (float[n] x) => (seq(float[n]) y) { s = SequenceConstruct(x, x) u = Neg(x) y = SequenceInsert(s, u) }",
        ),
        "of strings": (
            "g (string[n] x) => (string[n] y) { s = Identity(x) y = Concat<axis=0>(s, x) }",
            "g (string[n] x) => (string[n] y) { y = Concat<axis=0>(x, x) }",
        ),
        "inside an If body, of a captured value": (
            f"g (bool c, float[n] x) => (float[n] y) {{ {IF.format('t = Identity(x) r = Relu(t)')} }}",
            f"g (bool c, float[n] x) => (float[n] y) {{ {IF.format('r = Relu(x)')} }}",
        ),
        "before the output of an If body": (
            f"g (bool c, float[n] x) => (float[n] y) {{ {IF.format('t = Relu(x) r = Identity(t)')} }}",
            f"g (bool c, float[n] x) => (float[n] y) {{ {IF.format('r = Relu(x)')} }}",
        ),
        "captured by an If body": (
            "g (bool c, float[n] z) => (float[n] y) { x = Identity(z) " + IF.format("r = Relu(x)") + " }",
            "g (bool c, float[n] z) => (float[n] y) { " + IF.format("r = Relu(x)").replace("(x)", "(z)") + " }",
        ),
        "inside a Loop body, from its input to its output it stays": (
            (
                "g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> { y = Loop (n, t, x) <body = b"
                " (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c) q = Identity(s) r = Neg(q)"
                " }> }"
            ),
            (
                "g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> { y = Loop (n, t, x) <body = b"
                " (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c) r = Neg(s) }> }"
            ),
        ),
    },
)
def test_identity_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, drop_identity)


@pytest.mark.parametrize("opset", [1, 7, 13, 14, 16, 25])
def test_identity_of_every_opset(opset: int) -> None:
    g = "g (float[n] x) => (float[n] y)"
    becomes(
        f"{g} {{ t = Identity(x) y = Abs(t) }}", f"{g} {{ y = Abs(x) }}", drop_identity, opset=opset, runs=opset >= 7
    )


@cases(
    "text",
    {
        "graph input to graph output": ("g (float[n] x) => (float[n] y) { y = Identity(x) }"),
        "output to output": ("g (float[n] x) => (float[n] t, float[n] y) { t = Relu(x) y = Identity(t) }"),
        "overridable initializer to graph output": ("g (float[2] w = {1,2}) => (float[n] y) { y = Identity(w) }"),
        "sequence, input to output": ("g (seq(float[n]) x) => (seq(float[n]) y) { y = Identity(x) }"),
        "a Cast that casts nothing": ("g (float[n] x) => (float[n] y) { y = Cast<to=1>(x) }"),
        "captured value to output of an If body": (
            f"g (bool c, float[n] x) => (float[n] y) {{ {IF.format('r = Identity(x)')} }}"
        ),
        "graph input to several outputs": (
            "g (float[n] x) => (float[n] y, float[n] z, float[n] u) { y = Identity(x) z = Identity(x) u = Relu(x) }"
        ),
    },
)
def test_identity_stays(text: str) -> None:
    stays(text, drop_identity)


D = "g (float[2,3] x) => (float[2,3] y)"


OFF, ON = {"m": np.bool_(False)}, {"m": np.bool_(True)}
SOME, NOTHING = {"r": np.float32(0.7)}, {"r": np.float32(0)}


@cases(
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


@cases(
    ("before", "after"),
    {
        "graph input to graph output": ("y = Dropout(x)", "y = Identity(x)"),
        "before a graph output": ("t = Relu(x) y = Dropout(t)", "y = Relu(x)"),
        "mask not used": ("t, m = Dropout(x) y = Neg(t)", "y = Neg(x)"),
        "a chain": ("t = Dropout(x) u = Dropout(t) y = Neg(u)", "y = Neg(x)"),
        "the same value twice": ("t = Dropout(x) y = Add(t, t)", "y = Add(x, x)"),
    },
)
def test_dropout_is_bypassed(before: str, after: str) -> None:
    becomes(f"{D} {{ {before} }}", f"{D} {{ {after} }}", drop_dropout)


@pytest.mark.parametrize(("opset", "mask"), [(10, "bool"), (12, "bool"), (13, "bool"), (22, "bool"), (9, "float")])
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


def test_dropout_of_a_scalar_with_mask() -> None:
    text = "g (float x) => (float y, bool m)"
    becomes(
        f"{text} {{ t, m = Dropout(x) y = Neg(t) }}",
        f"{text} <int64[0] s = {{}}> {{ m = ConstantOfShape<value: tensor = bool[1] {{1}}>(s) y = Neg(x) }}",
        drop_dropout,
    )


@cases(
    ("text", "opset", "runs"),
    {
        "mode decided at run time": (
            "g (float[2] x, float r, bool m) => (float[2] y) { y = Dropout(x, r, m) }",
            13,
            False,
        ),
        "mode true": (
            "g (float[2] x) => (float[2] y) <float r = {0.5}, bool m = {1}> { y = Dropout(x, r, m) }",
            13,
            False,
        ),
        "mode true, default ratio": (
            "g (float[2] x) => (float[2] y) <bool m = {1}> { y = Dropout(x, , m) }",
            13,
            False,
        ),
        "mode is an overridable initializer": (
            "g (float[2] x, bool m = {0}) => (float[2] y) <float r = {0.5}> { y = Dropout(x, r, m) }",
            13,
            False,
        ),
        "ratio is an overridable initializer": (
            "g (float[2] x, float r = {0}) => (float[2] y) <bool m = {1}> { y = Dropout(x, r, m) }",
            13,
            False,
        ),
        "mode is computed": (
            "g (float[2] x, bool c) => (float[2] y) <float r = {0.5}> { m = Not(c) y = Dropout(x, r, m) }",
            22,
            False,
        ),
        "opset 6, training": ("g (float[2] x) => (float[2] y) { y = Dropout(x) }", 6, False),
        "opset 6, spelled": ("g (float[2] x) => (float[2] y) { y = Dropout<is_test=0, ratio=0.5>(x) }", 6, False),
        "mask of a shape not known, which would take two ops": (
            "g (float[N,3] x) => (float[N,3] y, bool[N,3] m) { y, m = Dropout(x) }",
            13,
            True,
        ),
        "mask read, of a shape not known": (
            "g (float[N,3] x) => (float[N,3] y) { t, m = Dropout(x) u = Cast<to=1>(m) y = Add(t, u) }",
            22,
            True,
        ),
        "mask used at opset 7": ("g (float[2] x) => (float[2] y, float[2] m) { y, m = Dropout(x) }", 7, True),
        "mask used at opset 8": ("g (float[2] x) => (float[2] y, float[2] m) { y, m = Dropout(x) }", 8, True),
        "training inside an If body": (
            "g (bool c, float[2] x) => (float[n] y) <bool m = {1}> { "
            + IF.format("t = Dropout(x, , m) r = Relu(t)")
            + " }",
            13,
            False,
        ),
    },
)
def test_dropout_stays(text: str, opset: int, runs: bool) -> None:
    stays(text, drop_dropout, opset=opset, runs=runs)


@pytest.mark.parametrize(
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


def test_dropout_inside_an_if_body() -> None:
    text = "g (bool c, float[n] x) => (float[n] y) {{ {} }}"
    before = IF.format("t = Dropout(x) r = Relu(t)")
    becomes(text.format(before), text.format(IF.format("r = Relu(x)")), drop_dropout)


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
