"""onnxruntime: sessions, values and backends, in this process and in workers that isolate it.

`sessions` loads models, `backends` runs them for verification, `evaluation` for the ops that constant folding does not
compute by their declaration. `kernels` and `empty_tensors` say what onnxruntime can run.
"""
