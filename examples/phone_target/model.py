"""Write encoder.onnx, a block with a softmax and a layer normalization, both of elementwise ops, at opset 13."""

import numpy as np
import onnx

TEXT = """<ir_version: 8, opset_import: ["" : 13]>
encoder (float[N,T,8] x) => (float[N,T,8] y)
<int64[1] last = {-1}, float two = {2}, float epsilon = {0.00001}> {
    highest = ReduceMax<axes = [-1]>(x)
    below = Sub(x, highest)
    powers = Exp(below)
    total = ReduceSum(powers, last)
    shares = Div(powers, total)
    mean = ReduceMean<axes = [-1]>(shares)
    centred = Sub(shares, mean)
    squares = Pow(centred, two)
    variance = ReduceMean<axes = [-1]>(squares)
    padded = Add(variance, epsilon)
    deviation = Sqrt(padded)
    normal = Div(centred, deviation)
    scaled = Mul(normal, scale)
    y = Add(scaled, bias)
}"""

draw = np.random.default_rng(0)
model = onnx.parser.parse_model(TEXT)
for name in ("scale", "bias"):
    model.graph.initializer.append(onnx.numpy_helper.from_array(draw.standard_normal(8, np.float32), name))
onnx.save(model, "encoder.onnx")
