"""`passes bisect`: the changes that break a model, or the optimizers of onnxruntime or ops of an engine that do."""
