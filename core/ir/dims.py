"""What is known of an extent, and which of two statements on it says more."""

from __future__ import annotations

from collections.abc import Iterable

from .expressions import Expr, Known, is_tentative

Dim = Known | None
"""An extent: a number, a symbol, an expression of them, or nothing known."""
Shape = tuple[Dim, ...]
Elements = tuple[Known, ...]
"""The elements of a few integers."""


def in_numbers(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Dims, or elements, that are all numbers; None where one is not."""
    asked = tuple(dims)
    found = tuple(d for d in asked if isinstance(d, int))
    return found if len(found) == len(asked) else None


def is_open(dim: Dim) -> bool:
    """Whether a dim may yet become better known."""
    return dim is None or (isinstance(dim, Expr) and is_tentative(dim))


def completed(a: Dim, b: Dim) -> Dim:
    """Of two statements on one extent, the first, unless only the second is a number or says anything for good."""
    if b is None or isinstance(a, int):
        return a
    return b if isinstance(b, int) or (is_open(a) and not is_open(b)) else a if a is not None else b


def concluded(a: Dim, b: Dim) -> Dim:
    """Of what was stated and what was inferred, the one that says more; the inferred one if both do."""
    return a if b is None or isinstance(a, int) or (is_open(b) and not is_open(a)) else b
