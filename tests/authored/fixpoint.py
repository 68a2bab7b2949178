"""A pipeline of two passes that repeat until neither changes anything."""

from __future__ import annotations

from passwright.core import EXACT, Fixpoint, Plugin, RewriteBuilder, RulePass, Value, rule


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_two_negations(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, x, p: g.Neg(g.Transpose(x, perm=p)), contract=EXACT)
def negate_first(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """Neg(Transpose(x)) => Transpose(Neg(x))"""
    return g.Transpose(g.Neg(x), perm=p)


CANCEL = RulePass("cancel-two-negations", (cancel_two_negations,))
HOIST = RulePass("hoist-negations", (negate_first,))
PLUGIN = Plugin(
    passes=(cancel_two_negations,),
    pipelines={"no-negations": Fixpoint("no-negations", (CANCEL, HOIST), fallback="basic")},
)
