"""MatMul and Add of integers become a Gemm, for which onnxruntime has no kernel.

Known from OnnxSlim and onnxoptimizer.
"""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, require, rule

MODEL = """g (int32[N,3] x, float[N,3] t) => (int32[N,2] y, float[N,2] z)
    <int32[3,2] w = {1,2,3,4,5,6}, int32[2] c = {7,8},
     float[3,2] v = {1.0,2.0,3.0,4.0,5.0,6.0}, float[2] d = {1.0,2.0}> {
    a = MatMul(x, w)
    y = Add(a, c)
    b = MatMul(t, v)
    z = Add(b, d)
}"""
WRONG = (("multiply_and_add", "y"),)
WHY = "refused"
AFTER = {"Add": 1, "Gemm": 1, "MatMul": 1}


@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c))
def multiply_and_add(g: RewriteBuilder, a: Value, b: Value, c: Value) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    require(a.rank == b.rank == 2 and c.rank < 2, "not matrices")
    return g.Gemm(a, b, c)
