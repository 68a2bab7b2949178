"""A rule without a condition, of several patterns."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule


@rule(lambda g, x: g.Not(g.Not(x)), lambda g, x: g.Identity(g.Identity(x)), contract=EXACT)
def drop_double_negation(g: RewriteBuilder, x: Value) -> Value:
    """Not(Not(x)) => x"""
    return x
