"""Models in files and messages: reading, writing, and merging results of other tools.

A file is read by `files`, which leaves weights on disk, and becomes a Model by `convert`. To be written, a Model is
serialized by `model`, laid out in a file or two by `writer`, and staged and moved to its place by `publishing`. A
result of another tool is merged into a graph by `foreign_models`.
"""
