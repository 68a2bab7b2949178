"""A model on which a usual rewrite is wrong: zeros are padded before a MaxPool of numbers that may be negative."""

import numpy as np
import onnx

TEXT = """<ir_version: 8, opset_import: ["": 17]>
stem (float[N,3,32,32] x) => (float[N,8,17,17] y) <int64[8] pads = {0,0,1,1,0,0,1,1}> {
    [conv] c = Conv <pads = [1,1,1,1]> (x, w)
    [drop] d = Dropout(c)
    [pad] p = Pad(d, pads)
    [pool] y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (p)
}"""

if __name__ == "__main__":
    model = onnx.parser.parse_model(TEXT)
    weights = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, "stem.onnx")
