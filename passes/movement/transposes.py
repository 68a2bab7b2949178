"""Merging of Transposes, and removal of those that move nothing."""

from __future__ import annotations

from ...core import EXACT, Build, RulePass, Value, require, rule

Perm = list[int] | None  # None reverses all axes


@rule(lambda g, x, p, q: g.Transpose(g.Transpose(x, perm=p), perm=q), shared=True, contract=EXACT)
def merge_transposes(g: Build, x: Value, p: Perm, q: Perm) -> Value:
    """Transpose(Transpose(x, p), q) => Transpose(x, p[q]), or x where that moves nothing"""
    if p is None and q is None:
        return x
    rank = len(p or q or ())
    first, second = p or default_perm(rank), q or default_perm(rank)
    both = [first[i] for i in second]
    return x if both == list(range(rank)) else g.Transpose(x, perm=both)


@rule(lambda g, x, p: g.Transpose(x, perm=p), contract=EXACT)
def drop_no_op_transpose(g: Build, x: Value, p: Perm) -> Value:
    """Transpose(x, 0 1 2 ...) => x"""
    order = default_perm(x.rank) if p is None else p
    require(order == list(range(len(order))), "the permutation is not the identity")
    return x


def default_perm(rank: int) -> list[int]:
    """The default permutation of a Transpose."""
    return list(range(rank))[::-1]


MERGE_TRANSPOSES = RulePass("merge-transposes", (merge_transposes, drop_no_op_transpose))
