"""Where ops that always select the same operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.no_ops import drop_where_of_equals, fold_constant_where
from rewriting import apply_passes, becomes, load, stays

DROP_NO_OP_WHERE = rule_pass(no_ops, "drop-no-op-where")

RULES = DROP_NO_OP_WHERE.rules
HEAD = "g (float[2,3] x, float[3] w, bool[2,3] b) => (float[p,q] y)"


@pytest.mark.parametrize(
    ("node", "condition", "left"),
    [
        pytest.param("Where(c, x, w)", True, "x", id="true"),
        pytest.param("Where(c, w, x)", False, "x", id="false"),
        pytest.param("Where(c, x, w)", [True] * 3, "x", id="true in each column"),
        pytest.param("Where(c, w, x)", [[False] * 3] * 2, "x", id="false everywhere"),
        pytest.param("Where(c, x, z)", True, "x", id="instead of a constant"),
        pytest.param("Where(b, x, x)", True, "x", id="the same twice"),
        pytest.param("Where(c, x, x)", [True, False, True], "x", id="the same twice, in turns"),
    ],
)
def test_becomes(node: str, condition: Any, left: str) -> None:
    weights = {"c": np.array(condition), "z": np.float32(-1e9)}
    becomes(f"{HEAD} {{ t = {node} y = Neg(t) }}", f"{HEAD} {{ y = Neg({left}) }}", *RULES, weights=weights)
    becomes(f"{HEAD} {{ y = {node} }}", f"{HEAD} {{ y = Identity({left}) }}", *RULES, weights=weights)


@pytest.mark.parametrize(
    ("text", "condition", "left"),
    [
        pytest.param("g (int64[n] x, int64[1] w) => (int64[p] y) {{ y = {} }}", True, "x", id="integers"),
        pytest.param("g (string[n] x, string w) => (string[p] y) {{ y = {} }}", [True], "x", id="strings"),
        pytest.param("g (bool[n] x, bool w) => (bool[p] y) {{ y = {} }}", True, "x", id="truth values"),
        pytest.param("g (float w, float[n] x) => (float[p] y) {{ y = {} }}", False, "x", id="floats, false"),
    ],
)
def test_becomes_bit_for_bit(text: str, condition: Any, left: str) -> None:
    node = "Where(c, x, w)" if np.all(condition) else "Where(c, w, x)"
    before, after = text.format(node), text.format(f"Identity({left})")
    becomes(before, after, fold_constant_where, weights={"c": np.array(condition)})


def test_the_same_integers_twice() -> None:
    text = "g (int64[n,2] x, bool[2] c) => (int64[p,q] y) {{ t = {} y = Neg(t) }}"
    becomes(text.format("Where(c, x, x)"), text.format("Identity(x)").replace("t = Identity(x) ", "").replace(
        "Neg(t)", "Neg(x)"
    ), drop_where_of_equals)  # fmt: skip


def test_inside_a_body() -> None:
    text = (
        "g (bool b, float[2] x) => (float[p] y) <bool c = {{0}}> {{ y = If (b) <then_branch = a () => (float[p] r)"
        " {{ {} }}, else_branch = d () => (float[p] s) {{ s = Relu(x) }}> }}"
    )
    becomes(text.format("n = Neg(x) t = Where(c, n, x) r = Abs(t)"), text.format("r = Abs(x)"), *RULES)


@pytest.mark.parametrize("opset", [9, 16, 26])
def test_every_opset(opset: int) -> None:
    before, after = f"{HEAD} {{ t = Where(c, x, w) y = Neg(t) }}", f"{HEAD} {{ y = Neg(x) }}"
    becomes(before, after, *RULES, opset=opset, weights={"c": np.array([True])})


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        pytest.param(f"{HEAD} {{ y = Where(b, x, w) }}", True, id="not known"),
        pytest.param(f"{HEAD} {{ y = Where(c, x, w) }}", [True, False, True], id="in turns"),
        pytest.param(f"{HEAD} {{ y = Where(c, w, x) }}", True, id="selected operand stretched by the other"),
        pytest.param(f"{HEAD} {{ y = Where(c, w, w) }}", [[True]] * 2, id="selected operand stretched"),
        pytest.param(f"{HEAD} {{ y = Where(b, w, w) }}", True, id="the same twice, stretched"),
        pytest.param(
            "g (float[n] x, float[m] w) => (float[p] y) { y = Where(c, x, w) }", True, id="extents may differ"
        ),
        pytest.param("g (float[n] x) => (float[p] y) { y = Where(c, x, z) }", np.zeros(0, bool), id="nothing"),
        pytest.param(
            "g (float[2] x, float[2] w, bool d = {1}) => (float[p] y) { y = Where(d, x, w) }", True, id="overridable"
        ),
    ],
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
