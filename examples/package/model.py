"""Write upscaler.onnx, with operators that small runtimes lack."""

import onnx

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
upscaler (float[N,8,6,6] image) => (float[N,2,12,6] out) <int64[6] columns = {0,3,4,7,8,11}> {
    bent = HardSwish(image)
    smooth = Gelu(bent)
    large = DepthToSpace <blocksize = 2> (smooth)
    out = Gather <axis = 3> (large, columns)
}"""

onnx.save(onnx.parser.parse_model(TEXT), "upscaler.onnx")
