"""Processes: workers that other processes call, limits of memory and time, and watchdogs.

All processes of this project that serve requests are started by `worker_process`, whether they run onnxruntime or not.
`onnx_calls` has the native code of onnx in one: schema inference, version conversion and the checker.
"""
