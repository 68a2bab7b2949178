"""Analyses of a graph, such as `graph.analysis(Liveness)`; results are cached until the graph changes.

`liveness` computes the values in memory at each op and their peak, `dominance` the ops and values on all paths, and
`networkx_view` is the class of `graph.nx`.
"""
