"""Write head.onnx, the end of a language model: one column for each of 1000 words."""

import numpy as np
import onnx

TEXT = """<ir_version: 10, opset_import: ["" : 17]>
head (float[N,T,32] hidden) => (float[N,T,1000] logits) {
    products = MatMul(hidden, weights)
    logits = Add(products, bias)
}"""

draw = np.random.default_rng(0)
model = onnx.parser.parse_model(TEXT)
for name, shape in (("weights", (32, 1000)), ("bias", (1000,))):
    model.graph.initializer.append(onnx.numpy_helper.from_array(draw.standard_normal(shape, np.float32), name))
onnx.save(model, "head.onnx")
