"""A target: the operators that an engine takes, a condition in code, and a decomposition of its own."""

from __future__ import annotations

from math import sqrt

from passwright.core import NEVER, Op, RewriteBuilder, Support, Target, Value, require, rule


def has_few_dims(op: Op) -> None:
    """Decline what the engine has no loops for."""
    x = op.input(0)
    require(x is not None and x.rank < 5, "5 dims or more")


@rule(lambda g, x: g.Gelu(x))
def gelu_of_engine(g: RewriteBuilder, x: Value) -> Value:
    """Gelu(x) => x / 2 * (1 + Erf(x / sqrt(2)))"""
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Erf(g.Mul(x, sqrt(0.5))), 1.0))


ENGINE = Target(
    "engine",
    "an accelerator of opset 20",
    opset=20,
    operators={
        "LayerNormalization": NEVER,
        "Gelu": NEVER,
        "MatMul": Support(dtypes=("float", "float16"), condition=has_few_dims),
    },
    others="standard",
    decompositions=(gelu_of_engine,),
)
