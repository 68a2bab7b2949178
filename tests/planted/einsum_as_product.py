"""An Einsum of two letters each becomes a MatMul, whichever letter is summed over; the matrices are square."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (float[3,3] x, float[3,3] t) => (float[3,3] y, float[3,3] z) {
    y = Einsum<equation="ij,kj->ik">(x, t)
    n = Neg(x)
    i = Identity(n)
    z = Einsum<equation="ij,jk->ik">(i, t)
}"""
WRONG = (("einsum_to_product", "y"),)
WHY = "wrong"
AFTER = {"Einsum": 1, "MatMul": 1, "Neg": 1}


@rule(lambda g, a, b, e: g.Einsum(a, b, equation=e))
def einsum_to_product(g: RewriteBuilder, a: Value, b: Value, e: str) -> Value:
    """Einsum(a, b) => MatMul(a, b)"""
    require(e.endswith("->ik"), "not a product of matrices")
    return g.MatMul(a, b)
