"""Which of onnxruntime's own optimizers breaks a model."""
