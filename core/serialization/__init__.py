"""Conversion between ONNX messages and graphs.

`importer` makes a graph of a GraphProto, `exporter` writes it back, node by node as it was where nothing changed.
`proto_queries` reads messages without a graph. Whole models are converted by `core.io.convert`.
"""
