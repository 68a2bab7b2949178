"""Support code that is independent of ONNX: files and folders, texts, time limits, garbage collection."""
