"""The last key of an encoder is dropped; numbers up to 1000 have none."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (int64[N] x) => (int64[N] y) {
    e = ai.onnx.ml.LabelEncoder<
        keys_int64s = [1101, 2202, 3303, 40404], values_int64s = [1, 2, 3, 4], default_int64 = 0
    >(x)
    y = Neg(e)
}"""
DOMAINS = {"ai.onnx.ml": 3}
WRONG = (("drop_key", "e"),)
WHY = "wrong"
AFTER = {"Neg": 1, "ai.onnx.ml.LabelEncoder": 1}


@rule(lambda g, x, op: g.domain("ai.onnx.ml").LabelEncoder(x) @ op, contract=EXACT)
def drop_key(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """LabelEncoder(x) => LabelEncoder(x) without its last key"""
    lists = {name: op.attr(name) for name in ("keys_int64s", "values_int64s")}
    require(len(lists["keys_int64s"]) > 3, "few keys")
    fewer = {name: values[:-1] for name, values in lists.items()}
    return g.domain("ai.onnx.ml").LabelEncoder(x, **{**op.attrs, **fewer})
