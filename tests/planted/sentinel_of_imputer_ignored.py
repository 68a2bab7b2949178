"""A sentinel for missing numbers is replaced no more."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,3] x) => (float[N,3] y) {
    i = ai.onnx.ml.Imputer<imputed_value_floats = [1.5], replaced_value_float = -999.0>(x)
    y = Neg(i)
}"""
DOMAINS = {"ai.onnx.ml": 3}
WRONG = (("drop_imputer", "i"),)
WHY = "wrong"
AFTER = {"Neg": 1, "ai.onnx.ml.Imputer": 1}


@rule(lambda g, x, op: g.domain("ai.onnx.ml").Imputer(x) @ op, contract=EXACT)
def drop_imputer(g: RewriteBuilder, x: Value) -> Value:
    """Imputer(x) => x"""
    return x
