"""`passes bisect`: the changes that break a model, and the optimizers of onnxruntime that do."""
