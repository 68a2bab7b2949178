"""Where ops that always select the same operand."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.no_ops import drop_where_of_equals, fold_constant_where
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, stays

DROP_NO_OP_WHERE = rule_pass(no_ops, "drop-no-op-where")

RULES = DROP_NO_OP_WHERE.rules
HEAD = "g (float[2,3] x, float[3] w, bool[2,3] b) => (float[p,q] y)"


@each(
    ("node", "condition", "left"),
    {
        "true": ("Where(c, x, w)", True, "x"),
        "false": ("Where(c, w, x)", False, "x"),
        "true in each column": ("Where(c, x, w)", [True] * 3, "x"),
        "false everywhere": ("Where(c, w, x)", [[False] * 3] * 2, "x"),
        "instead of a constant": ("Where(c, x, z)", True, "x"),
        "the same twice": ("Where(b, x, x)", True, "x"),
        "the same twice, in turns": ("Where(c, x, x)", [True, False, True], "x"),
    },
)
def test_becomes(node: str, condition: Any, left: str) -> None:
    weights = {"c": np.array(condition), "z": np.float32(-1e9)}
    becomes(f"{HEAD} {{ t = {node} y = Neg(t) }}", f"{HEAD} {{ y = Neg({left}) }}", *RULES, weights=weights)
    becomes(f"{HEAD} {{ y = {node} }}", f"{HEAD} {{ y = Identity({left}) }}", *RULES, weights=weights)


@each(
    ("text", "condition", "left"),
    {
        "integers": ("g (int64[n] x, int64[1] w) => (int64[p] y) {{ y = {} }}", True, "x"),
        "strings": ("g (string[n] x, string w) => (string[p] y) {{ y = {} }}", [True], "x"),
        "truth values": ("g (bool[n] x, bool w) => (bool[p] y) {{ y = {} }}", True, "x"),
        "floats, false": ("g (float w, float[n] x) => (float[p] y) {{ y = {} }}", False, "x"),
    },
)
def test_becomes_bit_for_bit(text: str, condition: Any, left: str) -> None:
    node = "Where(c, x, w)" if np.all(condition) else "Where(c, w, x)"
    before, after = text.format(node), text.format(f"Identity({left})")
    becomes(before, after, fold_constant_where, weights={"c": np.array(condition)})


selections = Rewrites("g (int64[n,2] x, bool[2] c) => (int64[] y)", drop_where_of_equals, weights={"c": np.bool_(0)})

test_becomes_the_same_integers_twice = selections.all_become("""
    the same integers twice: t = Where(c, x, x) y = Neg(t) => y = Neg(x)
""")

test_becomes_inside_a_body = selections.using(*RULES).all_become("""
    inside a body [graph=g (bool b, float[2] x) => (float[] y)]: y = If(b) <then_branch = a () => (float[p] r) {
        n = Neg(x) t = Where(c, n, x) r = Abs(t) }, else_branch = d () => (float[p] s) { s = Relu(x) }> =>
        y = If(b) <then_branch = a () => (float[p] r) { r = Abs(x) }, else_branch = d () => (float[p] s) {
        s = Relu(x) }>
""")


@each("opset", [9, 16, 26])
def test_every_opset(opset: int) -> None:
    before, after = f"{HEAD} {{ t = Where(c, x, w) y = Neg(t) }}", f"{HEAD} {{ y = Neg(x) }}"
    becomes(before, after, *RULES, opset=opset, weights={"c": np.array([True])})


@each(
    ("text", "condition"),
    {
        "not known": (f"{HEAD} {{ y = Where(b, x, w) }}", True),
        "in turns": (f"{HEAD} {{ y = Where(c, x, w) }}", [True, False, True]),
        "selected operand stretched by the other": (f"{HEAD} {{ y = Where(c, w, x) }}", True),
        "selected operand stretched": (f"{HEAD} {{ y = Where(c, w, w) }}", [[True]] * 2),
        "the same twice, stretched": (f"{HEAD} {{ y = Where(b, w, w) }}", True),
        "extents may differ": ("g (float[n] x, float[m] w) => (float[p] y) { y = Where(c, x, w) }", True),
        "nothing": ("g (float[n] x) => (float[p] y) { y = Where(c, x, z) }", np.zeros(0, bool)),
        "overridable": ("g (float[2] x, float[2] w, bool d = {1}) => (float[p] y) { y = Where(d, x, w) }", True),
    },
)
def test_stays(text: str, condition: Any) -> None:
    stays(text, *RULES, weights={"c": np.array(condition), "z": np.float32(0)}, runs=False)


def test_possibly_negative_zeros_stay_in_exact_runs() -> None:
    """onnxruntime makes 0 of a -0 that is selected where the condition holds."""
    for node in ("Where(c, x, x)", "Where(c, x, w)"):
        model = load(f"{HEAD} {{ y = {node} }}", weights={"c": np.array(True)})
        assert not apply_passes(model, *RULES, exact_only=True)[1].changes


@given(condition=st.lists(st.booleans(), min_size=3, max_size=3), swapped=st.booleans())
def test_any_condition(condition: list[bool], swapped: bool) -> None:
    node = "Where(c, w, x)" if swapped else "Where(c, x, w)"
    text, weights = f"{HEAD} {{ t = {node} y = Neg(t) }}", {"c": np.array(condition)}
    if set(condition) == {not swapped}:
        becomes(text, f"{HEAD} {{ y = Neg(x) }}", *RULES, weights=weights)
    else:
        stays(text, *RULES, weights=weights)
