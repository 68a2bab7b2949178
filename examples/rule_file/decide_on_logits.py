"""Decisions on logits: a model that only returns a class, or yes or no, needs no probabilities."""

import numpy as np
from passwright.core import Op, RewriteBuilder, Value, conditional, require, rule

COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


@rule(
    lambda g, x, c, compare: g.one_of(*COMPARISONS)(g.Sigmoid(x), g.const(c)) @ compare,
    contract=conditional("no share rounds to the threshold or across it"),
)
def compare_logits(g: RewriteBuilder, x: Value, c: Value, compare: Op) -> Value:
    """Sigmoid(x) > c => x > log(c / (1 - c)), and so for <, <= and >="""
    share = c.const.astype(np.float64)
    require(((share > 0) & (share < 1)).all(), "no logit has that share")
    return getattr(g, compare.type)(x, g.const(np.log(share / (1 - share)), like=x))


@rule(
    lambda g, x, shares, best: g.ArgMax(g.one_of("Softmax", "LogSoftmax")(x) @ shares) @ best,
    contract=conditional("no two classes have logits so close that their shares are equal"),
)
def choose_by_logits(g: RewriteBuilder, x: Value, shares: Op, best: Op) -> Value:
    """ArgMax(Softmax(x)) => ArgMax(x), along the same axis"""
    require(g.opset >= 13, "earlier a Softmax was over several axes")
    require(shares.attr("axis") % x.rank == best.attr("axis") % x.rank, "the shares are along another axis")
    return g.ArgMax(x, **best.attrs)
