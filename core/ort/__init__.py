"""onnxruntime: sessions, values, backends, and worker processes that isolate it.

`sessions` loads models, `backends` runs them for verification, `evaluation` for the ops that constant folding does not
compute by their declaration. `kernels` and
`empty_tensors` say what onnxruntime can run. All processes of this project that serve requests are started by
`worker_process`, also those that run no onnxruntime; `process_limits` limits the memory of a process.
"""
