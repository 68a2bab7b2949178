"""Write detector.onnx, which detects and classifies an object, and photos.npz, realistic inputs of the model."""

import numpy as np
import onnx

TEXT = """<ir_version: 10, opset_import: ["" : 17]>
detector (float[N,16] features) => (bool[N,1] found, int64[N] kind) <float threshold = {0.3}> {
    presence = MatMul(features, presence_weights)
    share = Sigmoid(presence)
    found = Greater(share, threshold)
    logits = MatMul(features, kind_weights)
    shares = Softmax(logits)
    kind = ArgMax <axis = -1, keepdims = 0> (shares)
}"""

draw = np.random.default_rng(0)
model = onnx.parser.parse_model(TEXT)
for name, columns in (("presence_weights", 1), ("kind_weights", 10)):
    weights = draw.standard_normal((16, columns), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
onnx.save(model, "detector.onnx")
np.savez("photos.npz", features=draw.standard_normal((64, 16), np.float32))
