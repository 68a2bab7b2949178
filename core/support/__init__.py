"""Support code that is independent of ONNX: files and folders, texts, intervals, garbage collection."""
