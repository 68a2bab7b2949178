"""Conversion between ONNX messages and graphs.

`importer` converts a GraphProto to a graph, `exporter` writes it back, and unchanged nodes as they were.
`proto_queries` reads messages without a graph. Whole models are converted by `core.io.convert`.
"""
