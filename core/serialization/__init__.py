"""Conversion between ONNX messages and graphs."""
