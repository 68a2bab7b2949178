"""Products with the repeated heads of grouped-query attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import grouped_heads
from rewriting import becomes, stays

GROUP_HEADS = rule_pass(grouped_heads, "group-heads")

WEIGHTS = {
    "two": np.array([2]),
    "one": np.array([1]),
    "times": np.array([1, 1, 2, 1, 1]),
    "before": np.array([1, 2, 1, 1, 1]),
    "heads": np.array([0, 4, -1, 3]),
    "three": np.array([3]),
    "last": np.array([1, 1, 1, 2, 1]),
    "rows": np.array([0, 0, 4, 3]),
}
REPEAT = "u = Unsqueeze(k, two) e = Expand(u, times) r = Reshape(e, heads)"
GROUPED = "<int64[4] a = {0,2,2,0}, int64[4] b = {0,4,1,0}>"


def model(body: str, q: str = "B,4,1,3", k: str = "B,2,T,3", constants: str = "") -> str:
    return f"g (float[{q}] q, float[{k}] k) => (float[h,i,j,l] y) {constants} {{ {body} }}"


def used(body: str) -> dict[str, np.ndarray]:
    words = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return {name: array for name, array in WEIGHTS.items() if name in words}


KEYS = f"{REPEAT} t = Transpose<perm=[0,1,3,2]>(r) y = MatMul(q, t)"
LAST_KEYS = (
    "u = Unsqueeze(k, three) e = Expand(u, last) r = Reshape(e, rows) t = Transpose<perm=[0,2,3,1]>(r) y = MatMul(q, t)"
)
VALUES = f"{REPEAT} y = MatMul(q, r)"


@pytest.mark.parametrize(
    ("before", "q", "k", "after"),
    [
        pytest.param(
            KEYS,
            "B,4,1,3",
            "B,2,T,3",
            "t = Transpose<perm=[0,1,3,2]>(k) x = Reshape(q, a) m = MatMul(x, t) y = Reshape(m, b)",
            id="keys",
        ),
        pytest.param(VALUES, "B,4,1,T", "B,2,T,3", "x = Reshape(q, a) m = MatMul(x, k) y = Reshape(m, b)", id="values"),
        pytest.param(
            LAST_KEYS,
            "B,4,1,3",
            "B,T,2,3",
            "t = Transpose<perm=[0,2,3,1]>(k) x = Reshape(q, a) m = MatMul(x, t) y = Reshape(m, b)",
            id="keys whose heads move after they are repeated",
        ),
        pytest.param(
            VALUES, "1,4,5,7", "1,2,7,3", "x = Reshape(q, a) m = MatMul(x, k) y = Reshape(m, b)", id="several rows"
        ),
    ],
)
@pytest.mark.parametrize("opset", [13, 17, 22])
def test_becomes(before: str, q: str, k: str, after: str, opset: int) -> None:
    becomes(model(before, q, k), model(after, q, k, GROUPED), GROUP_HEADS, opset=opset, weights=used(before))


@pytest.mark.parametrize(
    ("body", "q", "k", "opset"),
    [
        pytest.param(KEYS, "B,4,1,3", "B,2,T,3", 23, id="Attention does it"),
        pytest.param(KEYS, "B,4,S,3", "B,2,T,3", 17, id="rows are unknown"),
        pytest.param(KEYS, "1,4,600,3", "1,2,600,3", 17, id="many rows"),
        pytest.param(KEYS, "1,4,1,3", "B,2,T,3", 17, id="queries are broadcast"),
        pytest.param(KEYS, "B,1,1,3", "B,2,T,3", 17, id="one head of queries"),
        pytest.param(KEYS, "4,1,3", "B,2,T,3", 17, id="no batch"),
        pytest.param(KEYS.replace("u, times", "u, before").replace("(k, two)", "(k, one)"), "B,4,1,3", "B,2,T,3", 17,
                     id="all heads are repeated in turn"),
        pytest.param(LAST_KEYS.replace("0,2,3,1", "0,1,3,2"), "B,5,1,3", "B,5,2,3", 17, id="heads stay on axis 2"),
        pytest.param(f"{REPEAT} y = MatMul(r, q)", "B,4,3,1", "B,2,T,3", 17, id="the first factor"),
        pytest.param(f"{VALUES.replace('y =', 'z =')} y = Add(z, r)", "B,4,1,1", "B,2,1,3", 17, id="read elsewhere"),
    ],
)  # fmt: skip
def test_stays(body: str, q: str, k: str, opset: int) -> None:
    stays(model(body, q, k), GROUP_HEADS, opset=opset, weights=used(body))


@given(groups=st.integers(1, 3), repeats=st.integers(1, 3), rows=st.integers(1, 3), width=st.integers(1, 4))
def test_any_heads(groups: int, repeats: int, rows: int, width: int) -> None:
    heads = groups * repeats
    weights = {
        "two": np.array([2]),
        "times": np.array([1, 1, repeats, 1, 1]),
        "heads": np.array([0, heads, -1, width]),
    }
    q, k = f"2,{heads},{rows},{width}", f"2,{groups},5,{width}"
    after = "t = Transpose<perm=[0,1,3,2]>(k) x = Reshape(q, a) m = MatMul(x, t) y = Reshape(m, b)"
    becomes(model(KEYS, q, k), model(after, q, k, GROUPED), GROUP_HEADS, weights=weights)
