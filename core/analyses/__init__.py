"""Analyses of a graph, `graph.analysis(Liveness)`, whose results are kept until the graph changes.

`liveness` has the values in memory at each op and their peak, `dominance` the ops and values that all paths pass, and
`networkx_view` is what `graph.nx` is.
"""
