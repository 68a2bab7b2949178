"""Processes: workers that other processes call, limits of memory and time, and watchdogs.

`worker_process` starts all processes of this project that serve requests, with or without onnxruntime. `onnx_calls`
runs onnx's native code in such a process: schema inference, version conversion and the checker.
"""
