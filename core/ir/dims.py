"""Dims of shapes, and the merging of two statements on one dim."""

from __future__ import annotations

from collections.abc import Iterable

from .expressions import Expr, SymInt, is_tentative

Dim = SymInt | None
"""An extent: a number, a symbol, an expression of them, or nothing known."""
Shape = tuple[Dim, ...]
Elements = tuple[SymInt, ...]
"""The elements of a few integers."""


def as_integers(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Dims, or elements, as integers; None if one is symbolic or unknown."""
    asked = tuple(dims)
    found = tuple(d for d in asked if isinstance(d, int))
    return found if len(found) == len(asked) else None


def is_unresolved(dim: Dim) -> bool:
    """Whether inference may still refine a dim."""
    return dim is None or (isinstance(dim, Expr) and is_tentative(dim))


def merge_dim(a: Dim, b: Dim) -> Dim:
    """Of two statements on one extent, the first, unless only the second is a number or says anything for good."""
    if b is None or isinstance(a, int):
        return a
    return b if isinstance(b, int) or (is_unresolved(a) and not is_unresolved(b)) else a if a is not None else b


def merge_inferred_dim(a: Dim, b: Dim) -> Dim:
    """Of what was stated and what was inferred, the one that says more; the inferred one if both do."""
    return a if b is None or isinstance(a, int) or (is_unresolved(b) and not is_unresolved(a)) else b
