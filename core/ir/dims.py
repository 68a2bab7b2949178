"""Dims of shapes, and the merging of two facts about a dim."""

from __future__ import annotations

from collections.abc import Iterable

from .expressions import SymInt, atoms, is_simple, is_tentative

Dim = SymInt | None
"""An extent: a number, a symbol, an expression of them, or nothing known."""
Shape = tuple[Dim, ...]
Elements = tuple[SymInt, ...]
"""The elements of a few integers."""


MAX_EXTENT = (1 << 63) - 1


def possible_dim(dim: Dim) -> Dim:
    """A dim that was computed; None if no tensor has such an extent, or the expression is too large to track."""
    if isinstance(dim, int):
        return dim if 0 <= dim <= MAX_EXTENT else None
    return dim if dim is not None and is_simple(dim) else None


def as_integers(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Dims, or elements, as integers; None if one is symbolic or unknown."""
    given = tuple(dims)
    found = tuple(d for d in given if isinstance(d, int))
    return found if len(found) == len(given) else None


def is_unresolved(dim: Dim) -> bool:
    """Whether inference may still refine a dim."""
    return dim is None or is_tentative(dim)


def contradict(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes of the same rank have different numbers for a dim."""
    if a is None or b is None or len(a) != len(b):
        return False
    return any(m != n for m, n in zip(a, b, strict=True) if isinstance(m, int) and isinstance(n, int))


def merge_dim(a: Dim, b: Dim) -> Dim:
    """The more precise of two facts about a dim: a number, a symbol, a declared one, a tentative unknown; else `a`."""
    return b if _precision(b) > _precision(a) else a


def _precision(dim: Dim) -> int:
    if dim is None or isinstance(dim, int):
        return 0 if dim is None else 4
    if not is_tentative(dim):
        return 3
    return 2 if all(isinstance(a, str) for a in atoms(dim)) else 1


def merge_inferred_dim(a: Dim, b: Dim) -> Dim:
    """The declared dim `a` merged with the inferred `b`: as `merge_dim`, but a symbol or another number wins in `b`."""
    return merge_dim(a, b) if isinstance(a, int) and not isinstance(b, int) else merge_dim(b, a)
