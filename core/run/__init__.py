"""Pipelines of passes, runs that are repeated without wrong changes, their verification, and their reports.

`pipeline` composes passes. A run consists of three objects: PipelineRun rewrites and finds wrong changes by bisection
(`pipeline_run`), Verifier compares the result with the original (`verifier`), and ModelWriter writes it
(`model_writer`). `model_interface` compares names, types and metadata of the whole model before and after;
`core.io.graph_interface` compares models returned by other tools.
"""
