"""How fast and how large models are in onnxruntime, measured so that the figures can be trusted."""
