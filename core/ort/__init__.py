"""onnxruntime: sessions, values, backends, and worker processes that isolate it.

`sessions` loads models, `backends` runs them for verification, `evaluation` for constant folding. `kernels` and
`empty_tensors` say what onnxruntime can run. All processes of this project that serve requests are started by
`worker_process`, also those that run no onnxruntime; their memory is limited by `process_limits`.
"""
