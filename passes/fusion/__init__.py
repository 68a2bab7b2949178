"""Several ops that ONNX has one name for."""
