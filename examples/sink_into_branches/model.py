"""Write routed.onnx: a model that answers with one of two heads, and computes both."""

import numpy as np
import onnx

TEXT = """<ir_version: 10, opset_import: ["" : 17]>
routed (float[N,64] x) => (float[N,8] y) {
    shared = Relu(x)
    score = ReduceMax<keepdims=0>(shared)
    is_hard = Greater(score, threshold)
    wide = MatMul(shared, up)
    active = Relu(wide)
    careful = MatMul(active, down)
    quick = MatMul(shared, direct)
    y = If(is_hard) <
        then_branch = hard () => (float[N,8] a) { a = Softmax(careful) },
        else_branch = easy () => (float[N,8] b) { b = Softmax(quick) }
    >
}"""

draw = np.random.default_rng(0)
model = onnx.parser.parse_model(TEXT)
model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2.5), "threshold"))
for name, shape in (("up", (64, 256)), ("down", (256, 8)), ("direct", (64, 8))):
    model.graph.initializer.append(onnx.numpy_helper.from_array(draw.standard_normal(shape, np.float32), name))
onnx.save(model, "routed.onnx")
