"""Support code that is independent of ONNX."""
