"""Fusion of several ops into one ONNX operator."""
