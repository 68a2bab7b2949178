"""Transpose merging."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.transpose import drop_transpose_of_nothing, merge_transposes
from rewriting import becomes, stays

G = "g (float[2,3,4] x) => (float[n,m,k] y)"
RULES = (merge_transposes, drop_transpose_of_nothing)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "t = Transpose<perm=[1,2,0]>(x) y = Transpose<perm=[1,2,0]>(t)",
            "y = Transpose<perm=[2,0,1]>(x)",
            id="merges",
        ),
        pytest.param("t = Transpose<perm=[0,2,1]>(x) y = Transpose<perm=[0,2,1]>(t)", "y = Identity(x)", id="cancels"),
        pytest.param("t = Transpose(x) y = Transpose(t)", "y = Identity(x)", id="default perms cancel"),
    ],
)
def test_becomes(before: str, after: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", *RULES)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("y = Transpose<perm=[1,2,0]>(x)", id="alone"),
        pytest.param("t = Transpose<perm=[1,2,0]>(x) r = Relu(t) y = Transpose<perm=[1,2,0]>(r)", id="apart"),
    ],
)
def test_stays(body: str) -> None:
    stays(f"{G} {{ {body} }}", *RULES)


@given(p=st.permutations(range(3)), q=st.permutations(range(3)))
def test_any_two_perms(p: list[int], q: list[int]) -> None:
    r = [p[i] for i in q]
    after = "y = Identity(x)" if r == [0, 1, 2] else f"y = Transpose<perm={r}>(x)"
    becomes(f"{G} {{ t = Transpose<perm={p}>(x) y = Transpose<perm={q}>(t) }}", f"{G} {{ {after} }}", *RULES)
