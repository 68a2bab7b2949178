"""Support code that knows nothing of ONNX."""
