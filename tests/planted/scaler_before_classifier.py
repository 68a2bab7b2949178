"""The scales of features are rounded. Only the label that a linear model gives them comes out."""

from __future__ import annotations

from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,5] x) => (int64[N] y, float[N,5] z) {
    a = ai.onnx.ml.Scaler<offset=[1.234567,-0.456789,3.14159,0.01234,-2.71828],
        scale=[0.5123,1.3371,0.75991,2.1237,0.33331]>(x)
    y, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[0,1,2], intercepts=[0.1,-0.2,0.05],
        coefficients=[1.2,-0.4,0.3,0.8,-1.1,0.2,0.9,-0.7,0.5,0.6,-0.8,0.3,1.4,-0.2,0.7]>(a)
    i = Identity(x)
    z = ai.onnx.ml.Scaler<offset=[0.0], scale=[0.5]>(i)
}"""
DOMAINS = {"ai.onnx.ml": 3}
WRONG = (("round_scales", "a"),)
WHY = "wrong"
AFTER = {"ai.onnx.ml.LinearClassifier": 1, "ai.onnx.ml.Scaler": 2}


@rule(lambda g, x, op: g.domain("ai.onnx.ml").Scaler(x) @ op)
def round_scales(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Scaler(x) => Scaler(x), with scales of two digits"""
    scales = [round(scale, 2) for scale in op.attrs["scale"]]
    require(max(abs(a - b) for a, b in zip(scales, op.attrs["scale"], strict=True)) > 1e-4, "already round")
    return g.domain("ai.onnx.ml").Scaler(x, offset=op.attrs["offset"], scale=scales)
