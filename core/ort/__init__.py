"""onnxruntime: sessions, values and backends, in this process and in workers that isolate it.

`sessions` loads models, `backends` runs them for verification, `evaluation` runs the ops that constant folding cannot
compute by their declaration. `kernels` and `empty_tensors` describe what onnxruntime can run.
"""
