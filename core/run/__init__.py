"""Pipelines of passes, runs that are repeated without wrong changes, their verification, and their reports.

`pipeline` composes passes. A run is three objects: PipelineRun rewrites and finds wrong changes by bisection
(`pipeline_run`), Verifier compares the result with the original (`verifier`), ModelWriter writes it (`model_writer`).
`model_interface` compares names, types and metadata of the whole model before and after; what other tools return is
compared by `core.io.graph_interface`.
"""
