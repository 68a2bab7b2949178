"""Models in files and messages: reading, writing, and merging of other tools' results.

`files` reads a file but leaves weights on disk, and `convert` makes a Model. To write a Model, `model` serializes it,
`writer` arranges it in one or two files, and `publishing` stages these and moves them to their destination.
`foreign_models` merges a result of another tool into a graph.
"""
