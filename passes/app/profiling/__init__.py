"""Where the time of a model goes in onnxruntime, op by op, before and after optimization."""
