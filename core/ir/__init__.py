"""The graph: values, ops, tensors, and what ONNX says of operators. Knows no rules and no files."""
