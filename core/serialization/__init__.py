"""ONNX messages: graphs read from them and written to them."""
