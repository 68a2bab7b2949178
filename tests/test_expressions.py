"""Arithmetic on dims: canonical forms that are correct for all values of the symbols."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.ir.expressions import (
    DeclaredSymbol,
    Expr,
    SymInt,
    add,
    atoms,
    divide,
    expr_size,
    floor_divide,
    is_known_le,
    is_symbolic_only,
    is_tentative,
    least_of,
    lower_bound,
    maximum,
    minimum,
    multiply,
    prod,
    substitute,
    subtract,
)
from passwright.core.ir.graph import GraphContext
from rewriting import each

SYMBOLS = ("n", "m", "k")
PLAIN: dict[Callable[[SymInt, SymInt], SymInt], Callable[[int, int], int]] = {
    add: int.__add__, subtract: int.__sub__, multiply: int.__mul__, minimum: min, maximum: max,
}  # fmt: skip
numbers = st.fixed_dictionaries(dict.fromkeys(SYMBOLS, st.integers(0, 9)))


def at(x: SymInt, values: Mapping[str, int]) -> int:
    found = substitute(x, lambda a: values.get(a) if isinstance(a, str) else None)
    assert isinstance(found, int)
    return found


@st.composite
def pairs(draw: Any) -> tuple[SymInt, Callable[[Mapping[str, int]], int]]:
    """An expression, and its evaluation by plain arithmetic."""
    stack: list[tuple[SymInt, Callable[[Mapping[str, int]], int]]] = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(SYMBOLS))
        number = draw(st.integers(-6, 6))
        leaf: SymInt = name if draw(st.booleans()) else number
        stack.append((leaf, lambda v, leaf=leaf: v[leaf] if isinstance(leaf, str) else leaf))
    while len(stack) > 1:
        (a, f), (b, h) = stack.pop(), stack.pop()
        ours = draw(st.sampled_from([*PLAIN]))
        stack.append((ours(a, b), lambda v, f=f, h=h, plain=PLAIN[ours]: plain(f(v), h(v))))
        if draw(st.integers(0, 3)) == 0:
            (a, f), by = stack.pop(), draw(st.integers(1, 4))
            quotient = floor_divide(a, by)
            assert quotient is not None
            stack.append((quotient, lambda v, f=f, by=by: f(v) // by))
    return stack[0]


@given(pair=pairs(), values=numbers)
def test_values_match_plain_arithmetic(
    pair: tuple[SymInt, Callable[[Mapping[str, int]], int]], values: dict[str, int]
) -> None:
    x, plain = pair
    assert at(x, values) == plain(values)
    low = lower_bound(x)
    assert low is None or low <= plain(values)


@given(one=pairs(), other=pairs(), values=numbers)
def test_comparisons_hold_for_all_values(one: Any, other: Any, values: dict[str, int]) -> None:
    if is_known_le(one[0], other[0]):
        assert one[1](values) <= other[1](values)
    if one[0] == other[0]:
        assert one[1](values) == other[1](values)


@given(one=pairs(), other=pairs())
def test_sums_and_products_are_canonical(one: Any, other: Any) -> None:
    a, b = one[0], other[0]
    assert add(a, b) == add(b, a)
    assert multiply(a, b) == multiply(b, a)
    assert hash(add(a, b)) == hash(add(b, a))
    assert subtract(add(a, b), b) == a
    assert minimum(a, b) == minimum(b, a)
    assert multiply(add(a, b), 3) == add(multiply(a, 3), multiply(3, b))


@each(
    ("x", "text"),
    [
        (add("n", 0), "n"),
        (subtract("n", "n"), "0"),
        (add("n", 1), "n + 1"),
        (subtract(1, "n"), "-n + 1"),
        (multiply(add("n", 1), add("n", -1)), "n*n - 1"),
        (prod(["n", 3, "m"]), "3*m*n"),
        (floor_divide(add(multiply("n", 4), 6), 4), "n + 1"),
        (floor_divide(multiply(2, "n"), 6), "(n)//(3)"),
        (floor_divide(add("n", -1), 2), "(n + 1)//(2) - 1"),
        (floor_divide(multiply("n", 768), "n"), "768"),
        (floor_divide("n", "m"), "None"),
        (floor_divide("n", 0), "None"),
        (floor_divide("n", add("m", 1)), "(n)//(m + 1)"),
        (divide(multiply("n", 6), multiply(2, "n")), "3"),
        (divide("n", 2), "None"),
        (divide(add("n", "m"), add("n", "m")), "1"),
        (minimum("n", 3), "min(3, n)"),
        (minimum(minimum("n", 3), 5), "min(3, n)"),
        (minimum("n", add("n", 1)), "n"),
        (maximum("n", 0), "n"),
        (maximum(subtract("n", 1), 0), "max(0, n - 1)"),
    ],
)
def test_canonical_forms(x: SymInt | None, text: str) -> None:
    assert str(x) == text


@pytest.mark.parametrize(
    ("x", "low"),
    [
        (add("n", -3), -3),
        (subtract("n", "m"), None),
        (subtract("n", minimum("n", 3)), 0),
        (subtract("n", maximum(subtract("n", 3), 0)), 0),
        (subtract(add("n", 2), maximum("n", "m")), None),
        (subtract(maximum("n", "m"), minimum("n", "m")), 0),
        (subtract(maximum("n", 5), minimum("m", 3)), 2),
        (multiply("m", add("n", -1)), None),
        (floor_divide(maximum(subtract("n", 3), 4), 2), 2),
        (floor_divide(add("n", -1), 2), -1),
    ],
    ids=str,
)
def test_lower_bounds(x: SymInt, low: int | None) -> None:
    assert lower_bound(x) == low


def test_bounds_of_many_minima_take_linear_time() -> None:
    """Nested 60 deep, two cases each."""
    x: SymInt = "n"
    for i in range(60):
        x = maximum(subtract(f"a{i}", x), 0)
    assert lower_bound(x) == 0


@given(pair=pairs(), values=numbers)
def test_least_case(pair: Any, values: dict[str, int]) -> None:
    assert min(at(case, values) for case in least_of(pair[0])) == at(pair[0], values)


def test_unknowns_equal_only_themselves() -> None:
    shared = GraphContext({}, 10)
    a, b = shared.new_unknown(), shared.new_unknown(lower_bound=None, tentative=True)
    assert a != b
    assert subtract(a, a) == 0
    assert (lower_bound(a), lower_bound(b)) == (0, None)
    assert (is_tentative(a), is_tentative(add(b, 1)), is_tentative("n")) == (False, True, False)
    declared = DeclaredSymbol("n")
    assert (is_tentative(declared), is_tentative(add(declared, 1)), is_tentative(add("n", 1))) == (True, True, False)
    assert [is_tentative(minimum(x, "m")) for x in (declared, b, a, "n")] == [True, True, False, False]
    assert (is_symbolic_only("n"), is_symbolic_only(add("n", 1)), is_symbolic_only(add("n", a))) == (True, True, False)
    assert not is_known_le(0, b)


def test_atoms_and_size() -> None:
    x = minimum(add("n", "m"), floor_divide("k", 2) or 0)
    assert atoms(x) == {"n", "m", "k"}
    assert isinstance(x, Expr)
    assert expr_size(x) > expr_size(add("n", "m")) > expr_size("n") == 1
