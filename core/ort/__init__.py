"""onnxruntime: sessions, values, backends, and worker processes that isolate it."""
